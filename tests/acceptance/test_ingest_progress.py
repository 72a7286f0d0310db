"""A client that asks for it hears over the wire how far its ingest has come; one that does not hears nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.homes import temporary_home
from tests.support.embedding_server import Fault, HashedEmbeddingServer, hashed_embedding_server
from tests.support.mcp_client import WHOLE, RawClient, raw_client, sdk_client, text_of


def book(pumps: int) -> str:
    return "\n\n".join(f"Pump number {n} of the plant moves {n * 7} litres a minute." for n in range(pumps))


BOOK = book(600)


@pytest.fixture
def embeddings() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=64) as server:
        server.fault, server.slow_seconds = Fault.SLOW, 0.1
        yield server


@pytest.fixture
def settings(migrated_url: str, embeddings: HashedEmbeddingServer) -> Iterator[dict[str, str]]:
    with temporary_home() as home:
        yield {
            "PEGAS_HOME": str(home),
            "PEGAS_DATABASE_URL": migrated_url,
            "PEGAS_EMBEDDER": f"openai:hashed@{embeddings.openai_url}",
        }


def notes(client: RawClient) -> list[dict[str, Any]]:
    messages = [json.loads(line) for line in client.lines]
    return [message["params"] for message in messages if message.get("method") == "notifications/progress"]


def test_progress_is_told_to_a_token(settings: dict[str, str]) -> None:
    with raw_client(WHOLE, **settings) as client:
        client.handshake()
        text = book(3_000)  # several batches of passages
        asked = {"name": "memory_ingest", "arguments": {"text": text, "title": "Pumps", "distill": "off"}}
        result = client.request("tools/call", {**asked, "_meta": {"progressToken": "p1"}}, 90)["result"]
        assert result["structuredContent"]["state"] == "done"
        told = notes(client)
        assert len(told) >= 2
        assert {note["progressToken"] for note in told} == {"p1"}
        done = [note["progress"] for note in told]
        assert done == sorted(set(done))
        assert all(note["total"] == 100 for note in told)
        assert any("atoms" in note["message"] for note in told)
        silent = client.request("tools/call", {**asked, "arguments": {"text": text + " More.", "distill": "off"}}, 90)
        assert silent["result"]["structuredContent"]["state"] == "done"
        assert len(notes(client)) == len(told)
        assert client.close() == 0


def test_the_state_of_a_job_says_how_far_it_is(settings: dict[str, str]) -> None:
    with raw_client(WHOLE, **settings) as client:
        client.handshake()
        queued = client.call("memory_ingest", text=BOOK, title="Pumps", wait=False)
        job_id = queued["structuredContent"]["job_id"]
        deadline = time.monotonic() + 60
        while "atoms" not in (seen := text_of(client.call("memory_ingest", job_id=job_id))):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert re.search(r"progress: \d+ %, atoms \d+ of 600", seen), seen


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdk_s_client_hears_it_in_both_eras(settings: dict[str, str], mode: str) -> None:
    told: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with sdk_client(WHOLE, mode, **settings) as client:
        await client.call_tool("memory_ingest", {"text": BOOK, "distill": "off"}, progress_callback=hear)
    assert told
    assert told == sorted(set(told))
