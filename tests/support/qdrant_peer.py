"""Qdrant's REST calls that ``ServerIndex`` makes, answered by qdrant-client's own local mode. It is no Qdrant
server: it only lets several processes share one collection over HTTP.

    with qdrant_peer() as peer:
        peer.url, peer.client

    python -m tests.support.qdrant_peer --port 0     # prints its port on the first line
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import TypeAdapter
from qdrant_client import QdrantClient
from qdrant_client import models as m
from qdrant_client.http.models import AliasOperations, PointInsertOperations, PointsSelector

Answer = Callable[["Peer", Any, dict[str, Any]], Any]
LARGEST = 32 * 2**20


class Peer:
    """``client`` is the local mode itself; ``largest`` the bytes of the largest request so far."""

    def __init__(self, port: int = 0) -> None:
        self.client = QdrantClient(":memory:")
        self.largest = 0
        self.requests = 0
        self.turn = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.client.close()

    def answer(self, method: str, path: str, body: Any) -> Any:
        for (wanted, pattern), call in ROUTES.items():
            if wanted == method and (match := re.fullmatch(pattern, path)):
                with self.turn, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return call(self, body, match.groupdict())
        raise KeyError(path)


def _collections(peer: Peer, _body: Any, _names: dict[str, Any]) -> Any:
    return peer.client.get_collections()


def _collection(peer: Peer, _body: Any, names: dict[str, Any]) -> Any:
    return peer.client.get_collection(names["name"])


def _make(peer: Peer, body: Any, names: dict[str, Any]) -> Any:
    given = m.CreateCollection.model_validate(body)
    return peer.client.create_collection(
        names["name"],
        vectors_config=given.vectors,
        sparse_vectors_config=given.sparse_vectors,
        metadata=given.metadata,
    )


def _drop(peer: Peer, _body: Any, names: dict[str, Any]) -> Any:
    return peer.client.delete_collection(names["name"])


def _aliases(peer: Peer, _body: Any, _names: dict[str, Any]) -> Any:
    return peer.client.get_aliases()


def _change_aliases(peer: Peer, body: Any, _names: dict[str, Any]) -> Any:
    actions = TypeAdapter(list[AliasOperations]).validate_python(body["actions"])
    return peer.client.update_collection_aliases(actions)


def _done(_peer: Peer, _body: Any, _names: dict[str, Any]) -> Any:
    return m.UpdateResult(operation_id=1, status=m.UpdateStatus.COMPLETED)


def _upsert(peer: Peer, body: Any, names: dict[str, Any]) -> Any:
    given = TypeAdapter(PointInsertOperations).validate_python(body)
    assert isinstance(given, m.PointsList)
    return peer.client.upsert(names["name"], given.points, update_filter=given.update_filter)


def _delete(peer: Peer, body: Any, names: dict[str, Any]) -> Any:
    return peer.client.delete(names["name"], TypeAdapter(PointsSelector).validate_python(body))


def _count(peer: Peer, body: Any, names: dict[str, Any]) -> Any:
    return peer.client.count(names["name"], count_filter=m.CountRequest.model_validate(body).filter, exact=True)


def _scroll(peer: Peer, body: Any, names: dict[str, Any]) -> Any:
    asked = m.ScrollRequest.model_validate(body)
    points, after = peer.client.scroll(
        names["name"], scroll_filter=asked.filter, limit=asked.limit or 10, offset=asked.offset,
        with_payload=asked.with_payload if asked.with_payload is not None else True,
        with_vectors=asked.with_vector or False,
    )  # fmt: skip
    return m.ScrollResult(points=points, next_page_offset=after)


def _query(peer: Peer, body: Any, names: dict[str, Any]) -> Any:
    return peer.client.query_batch_points(names["name"], m.QueryRequestBatch.model_validate(body).searches)


NAME = "/collections/(?P<name>[^/]+)"
ROUTES: dict[tuple[str, str], Answer] = {
    ("GET", "/collections"): _collections,
    ("GET", "/aliases"): _aliases,
    ("POST", "/collections/aliases"): _change_aliases,
    ("GET", NAME): _collection,
    ("PUT", NAME): _make,
    ("DELETE", NAME): _drop,
    ("PUT", f"{NAME}/index"): _done,
    ("PUT", f"{NAME}/points"): _upsert,
    ("POST", f"{NAME}/points/delete"): _delete,
    ("POST", f"{NAME}/points/count"): _count,
    ("POST", f"{NAME}/points/scroll"): _scroll,
    ("POST", f"{NAME}/points/query/batch"): _query,
}


def _handler(peer: Peer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            peer.largest = max(peer.largest, len(data))
            peer.requests += 1
            status, said = self._said(data)
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _said(self, data: bytes) -> tuple[int, Any]:
            if len(data) > LARGEST:
                return 413, {"status": {"error": "Payload too large"}}
            try:
                result = peer.answer(self.command, self.path.partition("?")[0], json.loads(data) if data else None)
            except (ValueError, KeyError) as error:
                status = 404 if "not found" in str(error) or isinstance(error, KeyError) else 400
                return status, {"status": {"error": str(error)}}
            plain = TypeAdapter(Any).dump_python(result, mode="json", exclude_none=True)
            return 200, {"result": plain, "status": "ok", "time": 0.001}

        do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = answer

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    return Handler


@contextmanager
def qdrant_peer(port: int = 0) -> Iterator[Peer]:
    peer = Peer(port)
    try:
        yield peer
    finally:
        peer.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    with qdrant_peer(parser.parse_args().port) as peer:
        print(peer.port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
