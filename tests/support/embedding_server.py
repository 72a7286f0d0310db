"""A TEST server for embeddings: deterministic hashed n-gram vectors behind the two real protocols,
OpenAI's ``POST /v1/embeddings`` and Ollama's ``/api/embed`` (+ ``/api/show``, ``/api/version``, ``/api/tags``).

No model is in it: texts that share words and letter trigrams get similar vectors, Cyrillic included
(ё is е), and nothing more is promised. Vectors have length 2, so that a client must normalise.

    with hashed_embedding_server(dimension=64) as server:
        server.openai_url, server.url, server.fault = Fault.SLOW, server.requests

    python -m tests.support.embedding_server --port 0      # prints its port on the first line
    curl -d '{"fault": "http_429", "times": 2}' http://127.0.0.1:PORT/test/fault
"""

from __future__ import annotations

import argparse
import json
import math
import re
import socket
import sys
import threading
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_WORD = re.compile(r"\w+")
VECTOR_LENGTH = 2.0


class Fault(StrEnum):
    NONE = "none"
    DOWN = "down"
    """The connection is closed without a word; ``server.stop()`` refuses connections as well."""
    SLOW = "slow"
    WRONG_DIMENSION = "wrong_dimension"
    CHANGED_DIMENSION = "changed_dimension"
    """Right for the first half of the texts of a request, one more from there on."""
    FEWER = "fewer"
    MORE = "more"
    NAN = "nan"
    ZERO = "zero"
    STRINGS = "strings"
    SHUFFLED = "shuffled"
    """OpenAI only: ``data`` in reverse, each with its right index. No fault: a client must sort."""
    HTTP_400 = "http_400"
    HTTP_401 = "http_401"
    HTTP_404 = "http_404"
    HTTP_429 = "http_429"
    HTTP_500 = "http_500"
    HTTP_503 = "http_503"
    JUNK = "junk"
    JSON_LIST = "json_list"
    TRUNCATED = "truncated"
    """Content-Length promises more than is sent."""


def hashed_vector(text: str, dimension: int) -> list[float]:
    """Signed feature hashing of the words and the trigrams in them; never zero, length 2."""
    folded = unicodedata.normalize("NFC", text.casefold()).replace("ё", "е")
    words = _WORD.findall(folded)
    features = [f"w:{word}" for word in words]
    for word in words:
        padded = f"<{word}>"
        features += [padded[i : i + 3] for i in range(len(padded) - 2)]
    features = features or [f"c:{character}" for character in folded] or ["nothing"]
    vector = [0.0] * dimension
    for feature in features:
        hashed = zlib.crc32(feature.encode("utf-8", "replace"))
        vector[(hashed >> 1) % dimension] += 1.0 if hashed & 1 else -1.0
    length = math.sqrt(sum(x * x for x in vector))
    if length == 0.0:
        vector[0], length = 1.0, 1.0
    return [VECTOR_LENGTH * x / length for x in vector]


@dataclass(frozen=True)
class Seen:
    """One request for embeddings as it arrived."""

    path: str
    model: str
    texts: tuple[str, ...]
    body: dict[str, Any]
    authorization: str


class HashedEmbeddingServer:
    """``url`` is Ollama's address, ``openai_url`` the BASE_URL of an OpenAI client. ``dimension``,
    ``fault``, ``fault_times`` (requests that the fault holds; None for all), ``slow_seconds``,
    ``window`` (longest text in characters; above it HTTP 400 as Ollama says it) may change at any time."""

    def __init__(self, dimension: int = 64, port: int = 0) -> None:
        self.dimension = dimension
        self.fault = Fault.NONE
        self.fault_times: int | None = None
        self.slow_seconds = 5.0
        self.window: int | None = None
        self.missing_models: set[str] = set()
        self.api_key = ""
        self.requests: list[Seen] = []
        self._port = port
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._server: _Listener | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def start(self) -> None:
        """Listen; after ``stop`` on the same port as before."""
        handler = type("Handler", (_Handler,), {"face": self})
        self._stopped.clear()
        self._server = _Listener(("127.0.0.1", self._port), handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Connections are refused from here on, standing ones are cut, slow answers end at once."""
        self._stopped.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.cut_connections()
            self._server = None

    def take_fault(self) -> Fault:
        with self._lock:
            fault = self.fault
            if self.fault_times is not None:
                self.fault_times -= 1
                if self.fault_times <= 0:
                    self.fault, self.fault_times = Fault.NONE, None
            return fault

    def wait(self) -> None:
        self._stopped.wait(self.slow_seconds)

    def vectors(self, texts: tuple[str, ...], fault: Fault) -> list[Any]:
        rows: list[Any] = [
            hashed_vector(text, self._dimension_at(i, len(texts), fault)) for i, text in enumerate(texts)
        ]
        if fault is Fault.FEWER:
            rows.pop()
        elif fault is Fault.MORE:
            rows.append(rows[0])
        elif fault is Fault.NAN:
            rows[-1][0] = math.nan
        elif fault is Fault.ZERO:
            rows[-1] = [0.0] * self.dimension
        elif fault is Fault.STRINGS:
            rows[-1] = "AAAA"
        return rows

    def _dimension_at(self, position: int, count: int, fault: Fault) -> int:
        wrong = fault is Fault.WRONG_DIMENSION or (fault is Fault.CHANGED_DIMENSION and position >= count // 2)
        return self.dimension + 1 if wrong else self.dimension


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._standing: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._standing.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._standing.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is part of the tests; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def cut_connections(self) -> None:
        with self._guard:
            standing = list(self._standing)
        for connection in standing:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    face: HashedEmbeddingServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: stdout belongs to whoever started us."""

    def do_GET(self) -> None:
        answers: dict[str, Any] = {
            "/": "test embedding server",
            "/api/version": {"version": "0.0.0-test"},
            "/api/tags": {"models": []},
            "/v1/models": {"object": "list", "data": []},
        }
        self._answer(200, answers[self.path]) if self.path in answers else self._answer(404, {"error": "no route"})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            self._answer(400, {"error": "invalid JSON"})
            return
        if self.path == "/test/fault":
            self.face.fault, self.face.fault_times = Fault(body["fault"]), body.get("times")
            self._answer(200, {"fault": self.face.fault.value})
        elif self.path == "/api/show":
            shown = {"details": {"family": "hashed"}, "model_info": {"hashed.embedding_length": self.face.dimension}}
            self._answer(200, {**shown, "capabilities": ["embedding"]})
        elif self.path in {"/v1/embeddings", "/api/embed"}:
            self._embed(body)
        else:
            self._answer(404, {"error": "no route"})

    def _embed(self, body: dict[str, Any]) -> None:
        given = body["input"]
        texts = (given,) if isinstance(given, str) else tuple(given)
        model = str(body.get("model", ""))
        authorization = self.headers.get("Authorization", "")
        self.face.requests.append(Seen(self.path, model, texts, body, authorization))
        fault = self.face.take_fault()
        if fault in _BREAKS:
            self._break_off(fault)
        elif fault.value.startswith("http_"):
            self._answer(int(fault.value[5:]), {"error": f"{fault.value} for key {authorization or 'none'}"})
        elif self.face.api_key and authorization != f"Bearer {self.face.api_key}":
            self._answer(401, {"error": {"message": f"wrong key {authorization}"}})
        elif model in self.face.missing_models:
            self._answer(404, {"error": f'model "{model}" not found, try pulling it first'})
        elif self.face.window is not None and any(len(text) > self.face.window for text in texts):
            self._answer(400, {"error": "the input length exceeds the context length"})
        else:
            self._answer_vectors(model, texts, fault)

    def _answer_vectors(self, model: str, texts: tuple[str, ...], fault: Fault) -> None:
        if fault is Fault.SLOW:
            self.face.wait()
        rows = self.face.vectors(texts, fault)
        if self.path == "/api/embed":
            self._answer(200, {"model": model, "embeddings": rows, "prompt_eval_count": sum(map(len, texts))})
            return
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        if fault is Fault.SHUFFLED:
            data.reverse()
        self._answer(200, {"object": "list", "model": model, "data": data, "usage": {"total_tokens": 0}})

    def _break_off(self, fault: Fault) -> None:
        if fault is Fault.JUNK:
            self._send(200, b"<html>upstream says hello</html>", "text/html")
        elif fault is Fault.JSON_LIST:
            self._send(200, b"[1, 2]", "application/json")
        elif fault is Fault.TRUNCATED:
            self._send(200, b'{"embeddings": [[0.1, ', "application/json", promised=5000)
        self.close_connection = True

    def _answer(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, data: bytes, content_type: str, promised: int | None = None) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data) if promised is None else promised))
            self.end_headers()
            self.wfile.write(data)
        except ConnectionError:
            self.close_connection = True  # the client gave up waiting, as it should


_BREAKS = frozenset({Fault.DOWN, Fault.JUNK, Fault.JSON_LIST, Fault.TRUNCATED})


@contextmanager
def hashed_embedding_server(dimension: int = 64, port: int = 0) -> Iterator[HashedEmbeddingServer]:
    """A running :class:`HashedEmbeddingServer` in this process, stopped at the end."""
    server = HashedEmbeddingServer(dimension, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Test embedding server (hashed n-grams, no model).")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--fault", type=Fault, choices=list(Fault), default=Fault.NONE)
    parser.add_argument("--stop-with-stdin", action="store_true", help="end when stdin is closed")
    options = parser.parse_args()
    with hashed_embedding_server(options.dimension, options.port) as server:
        server.fault = options.fault
        print(server.port, flush=True)
        if options.stop_with_stdin:
            sys.stdin.read()  # no server outlives the test whose pipe this is
        else:
            threading.Event().wait()


if __name__ == "__main__":
    main()
