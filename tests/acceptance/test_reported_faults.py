"""Faults that other memory servers were reported to have, tried on this one over its real wire."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pypdf import PdfReader, PdfWriter

from pegas_memory import errors
from tests.homes import processes_of, temporary_home
from tests.support.embedding_server import Fault, HashedEmbeddingServer, hashed_embedding_server
from tests.support.engines import eventually
from tests.support.mcp_client import HANDSHAKE, WHOLE, RawClient, raw_client, text_of
from tests.support.pdf_files import Text, pdf, saved

CODES = {value.code for value in vars(errors).values() if isinstance(value, type) and hasattr(value, "code")}
UNCLEAR = {"internal_error", "database_unavailable"}
POOL_PATIENCE = 10.0
"""Seconds after which no connection may be left idle in a transaction; a pool that leaks never gets there."""


@pytest.fixture
def embeddings() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=64) as server:
        yield server


@pytest.fixture
def whole(migrated_url: str, embeddings: HashedEmbeddingServer, tmp_path: Path) -> Iterator[Callable[..., RawClient]]:
    """``whole(NAME=value)``: the product in one process, with two connections to its database."""
    clients = []
    with temporary_home() as home:

        def start(**settings: str) -> RawClient:
            opened = raw_client(
                WHOLE,
                PEGAS_HOME=str(home),
                PEGAS_DATABASE_URL=migrated_url,
                PEGAS_EMBEDDER=f"openai:hashed@{embeddings.openai_url}",
                PEGAS_INGEST_ROOTS=str(tmp_path),
                PEGAS_TEST_POOL="2",
                **settings,
            )
            client = opened.__enter__()
            clients.append(opened)
            client.handshake()
            return client

        yield start
        for opened in clients:
            opened.__exit__(None, None, None)


# --- the wire ------------------------------------------------------------------------------------


class _Page(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        body = b"<html><title>Light</title><body><p>The tower was lit on 14 October 1871.</p></body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def page_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/light"
    server.shutdown()
    server.server_close()


@pytest.mark.fault(2)
def test_libraries_that_log_everything_do_not_reach_the_wire(
    whole: Callable[..., RawClient], page_url: str, tmp_path: Path
) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4\n1 0 obj << /Type /Catalog >> endobj\ntrailer << /Root 9 0 R >>")
    client = whole(PEGAS_TEST_LOUD="1", PEGAS_ALLOW_PRIVATE_URLS="1")
    fetched = client.call("memory_ingest", source=page_url)
    assert not fetched.get("isError"), text_of(fetched)
    assert fetched["structuredContent"]["atoms"]["created"] == 1
    assert client.call("memory_ingest", source=str(tmp_path / "broken.pdf"))["isError"]
    assert client.close() == 0, "which also checks that each line of stdout was JSON-RPC"
    assert "connect_tcp" in client.stderr, "the libraries did log"


@pytest.mark.fault(4)
def test_the_first_call_on_an_empty_home_may_come_with_the_handshake(embeddings: HashedEmbeddingServer) -> None:
    with (
        temporary_home() as home,
        raw_client(PEGAS_HOME=str(home), PEGAS_EMBEDDER=f"openai:hashed@{embeddings.openai_url}") as client,
    ):
        greeting = client.ask("initialize", HANDSHAKE)
        client.send({"method": "notifications/initialized"})
        stored = client.start_call("memory_store", claim="The first words of an empty memory.")
        assert client.reply(greeting)["result"]["serverInfo"]["name"] == "pegas-memory"
        result = client.reply(stored, 100)["result"]
        assert not result.get("isError"), text_of(result)
        assert result["structuredContent"]["created"] is True
        found = client.call("memory_search", query="first words")["structuredContent"]
        assert [hit["atom_id"] for hit in found["results"]] == [result["structuredContent"]["atom_id"]]
        assert client.close() == 0


@pytest.mark.fault(7)
def test_a_code_page_of_the_locale_changes_no_letter(whole: Callable[..., RawClient]) -> None:
    client = whole(LANG="C", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="cp1251", PYTHONCOERCECLOCALE="0")
    claim = "Привет, ёжик 🦔"
    stored = _call_in_utf8(client, 101, "memory_store", {"claim": claim, "tags": ["ёж"]})
    found = _call_in_utf8(client, 102, "memory_search", {"ids": [stored["atom_id"]]})["results"][0]
    assert (found["claim"], found["tags"]) == (claim, ["ёж"])
    by_words = _call_in_utf8(client, 103, "memory_search", {"query": "ёжик", "mode": "lexical"})["results"]
    assert [hit["claim"] for hit in by_words] == [claim]
    assert client.close() == 0


def _call_in_utf8(client: RawClient, number: int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call whose letters go over the wire as UTF-8, where ``RawClient`` itself writes escapes."""
    request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    assert client.process.stdin is not None
    client.process.stdin.write(json.dumps(request, ensure_ascii=False).encode() + b"\n")
    client.process.stdin.flush()
    result = client.reply(number)["result"]
    assert not result.get("isError"), text_of(result)
    answer: dict[str, Any] = result["structuredContent"]
    return answer


# --- parts that are down -------------------------------------------------------------------------


@pytest.mark.fault(9)
def test_with_every_part_down_clients_connect_and_the_first_call_says_what_is_wrong() -> None:
    dead = {
        "PEGAS_DATABASE_URL": "postgresql+psycopg://nobody:secret@127.0.0.1:9/none",
        "PEGAS_QDRANT_URL": "http://127.0.0.1:9",
        "PEGAS_EMBEDDER": "openai:hashed@http://127.0.0.1:9/v1",
    }
    with temporary_home() as home, raw_client(PEGAS_HOME=str(home), **dead) as client:
        began = time.monotonic()
        client.handshake()
        assert len(client.request("tools/list")["result"]["tools"]) == 13
        assert time.monotonic() - began < 10, "far more than it takes, far less than any client waits"
        assert processes_of(home) == [client.process.pid]
        assert not list(home.iterdir())
        result = client.call("memory_store", claim="Nobody hears this.")
        assert result["isError"]
        assert text_of(result).startswith("database_unavailable: ")
        assert "secret" not in text_of(result)
        assert client.close() == 0


@pytest.mark.fault(39)
def test_an_embedder_that_was_never_up_delays_vectors_and_says_so(embeddings: HashedEmbeddingServer) -> None:
    embeddings.stop()
    with (
        temporary_home() as home,
        raw_client(PEGAS_HOME=str(home), PEGAS_EMBEDDER=f"openai:hashed@{embeddings.openai_url}") as client,
    ):
        client.handshake()
        claim = "The gauge of the boiler reads 12 bar."
        stored = client.call("memory_store", claim=claim)
        said = client.call("memory_stats")
        for result in (stored, said):
            assert not result.get("isError"), text_of(result)
            assert result["structuredContent"]["pending"] > 0
            assert [part["part"] for part in result["structuredContent"]["degraded"]] == ["embedder"]
            assert "degraded: embedder (" in text_of(result)
            assert "pending: " in text_of(result)
        assert said["structuredContent"]["projections"]["vector"]["pending"] > 0
        embeddings.start()

        def found() -> bool:
            answer = client.call("memory_search", query=claim, mode="dense")["structuredContent"]
            return bool(answer["results"]) and not answer["degraded"] and not answer["pending"]

        eventually(found, "the vector is made once the embedder is there")
        assert embeddings.requests, "and by the embedder, not by something in its place"
        assert client.close() == 0


# --- the pool ------------------------------------------------------------------------------------


@pytest.mark.fault(30)
def test_cancelled_calls_leave_no_transaction_open(
    whole: Callable[..., RawClient], embeddings: HashedEmbeddingServer, migrated_url: str
) -> None:
    client = whole()
    assert not client.call("memory_store", claim="The pool has two connections.").get("isError")
    embeddings.fault, embeddings.slow_seconds = Fault.SLOW, 0.2
    calls = []
    for n in range(10):
        calls.append(client.start_call("memory_store", claim=f"Parallel claim number {n} of ten."))
        calls.append(client.start_call("memory_search", query=f"number {n} of ten"))
    for number in calls[::2][:5] + calls[1::2][:5]:
        client.send({"method": "notifications/cancelled", "params": {"requestId": number, "reason": "enough"}})
    for number in calls[::2][5:] + calls[1::2][5:]:
        result = client.reply(number, 60)["result"]
        assert not result.get("isError"), text_of(result)
    embeddings.fault = Fault.NONE
    with psycopg.connect(migrated_url.replace("+psycopg", ""), autocommit=True) as connection:
        deadline = time.monotonic() + POOL_PATIENCE
        while open_ones := _idle_in_transaction(connection):
            assert time.monotonic() < deadline, open_ones
            time.sleep(0.05)
    for n in range(10):
        result = client.call("memory_search", query=f"number {n} of ten")
        assert not result.get("isError"), text_of(result)
    assert client.close() == 0


def _idle_in_transaction(connection: psycopg.Connection[Any]) -> list[Any]:
    return connection.execute(
        "SELECT pid, state, query FROM pg_stat_activity"
        " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
    ).fetchall()


# --- NUL and other bytes that stores refuse ------------------------------------------------------

NUL = "\0"
ATOMS: dict[str, dict[str, Any]] = {
    "claim": {"claim": f"The valve{NUL} of plant one is open."},
    "content": {"claim": "The valve of plant two is open.", "content": f"def f():{NUL}\n    return 1"},
    "tag": {"claim": "The valve of plant three is open.", "tags": [f"a{NUL}b"]},
    "metadata key": {"claim": "The valve of plant four is open.", "metadata": {f"k{NUL}ey": f"v{NUL}"}},
    "entity name": {
        "claim": "The valve of plant five is open.",
        "links": [{"dst": f"Plant{NUL} five", "kind": "reference"}],
    },
    "source": {
        "claim": "The valve of plant six is open.",
        "source": {"uri": f"https://example.org/{NUL}", "title": f"T{NUL}", "quote": f"q{NUL}", "locator": f"p{NUL}"},
    },
}


def accepted(result: dict[str, Any]) -> bool:
    """Whether it was stored; what was not must have been refused by a code that says why."""
    if not result.get("isError"):
        assert NUL not in json.dumps(result["structuredContent"], ensure_ascii=False)
        return True
    code = text_of(result).partition(":")[0]
    assert code in CODES - UNCLEAR, text_of(result)
    return False


@pytest.fixture
def roots_with_odd_files(tmp_path: Path) -> Path:
    sentence = "The lens of the tower weighs 640 kilograms."
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf([[Text(sentence, 700)]]))))
    writer.add_metadata({"/Producer": f"pro{NUL}ducer", "/Title": f"Ti{NUL}tle", "/Author": f"{NUL}"})
    (tmp_path / "metadata.pdf").write_bytes(saved(writer))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "plain.txt").write_text("The plain file speaks of herons.", encoding="utf-8")
    odd = os.fsencode(folder) + b"/odd\xff\x01\n name.txt"
    Path(os.fsdecode(odd)).write_bytes(b"The odd file speaks of geese.")
    return tmp_path


@pytest.mark.fault(69)
def test_nul_is_stored_without_or_clearly_refused(whole: Callable[..., RawClient], roots_with_odd_files: Path) -> None:
    client = whole()
    for where, given in ATOMS.items():
        result = client.call("memory_store", **given)
        if accepted(result):
            found = client.call("memory_search", ids=[result["structuredContent"]["atom_id"]])
            assert accepted(found), where
            assert len(found["structuredContent"]["results"]) == 1, where
    given_text = f"Title{NUL}\n\nThe dam was closed in 1931.{NUL} It is 40 metres high."
    assert accepted(client.call("memory_ingest", text=given_text, title=f"Dam{NUL}", tags=[f"d{NUL}"]))
    accepted(client.call("memory_ingest", text=f"x = 1{NUL}\n", title=f"code{NUL}.py", metadata={f"a{NUL}": 1}))
    assert accepted(client.call("memory_ingest", source=str(roots_with_odd_files / "metadata.pdf")))
    accepted(client.call("memory_ingest", source=f"{roots_with_odd_files}/meta{NUL}data.pdf"))
    accepted(client.call("memory_ingest", source=str(roots_with_odd_files / "folder")))
    accepted(client.call("memory_add_gap", question=f"Who{NUL} opened the valve?", tags=[f"g{NUL}"]))
    assert any("640 kilograms" in hit["claim"] for hit in _hits(client, "lens of the tower weighs"))
    assert any("herons" in hit["claim"] for hit in _hits(client, "plain file speaks of herons")), "one odd name of two"
    assert client.close() == 0


def _hits(client: RawClient, query: str) -> list[dict[str, Any]]:
    found = client.call("memory_search", query=query, mode="lexical")
    assert accepted(found)
    hits: list[dict[str, Any]] = found["structuredContent"]["results"]
    return hits
