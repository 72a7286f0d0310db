"""Forgetting for good, as an agent and a person ask for it: over the wire, with the embedded engine."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from pegas_memory import PegasMemory
from pegas_memory.config import Settings, load_settings
from pegas_memory.engine_client import EngineClient
from pegas_memory.model import SearchMode
from pegas_memory.qdrant_store import EdgeIndex, edge_folders
from tests.homes import temporary_home
from tests.support.embedding_server import hashed_embedding_server
from tests.support.engines import engines_of, eventually
from tests.support.judging import entities_in, traces
from tests.support.mcp_client import RawClient, raw_client, server_environment, text_of

AUDIT = ("pm_activity", "pm_outbox")


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    with hashed_embedding_server(dimension=64) as server, temporary_home() as home:
        yield load_settings(home=home, embedder=f"openai:hashed@{server.openai_url}", ingest_roots=(home,))


def environment(settings: Settings) -> dict[str, str]:
    return {
        "PEGAS_HOME": str(settings.home),
        "PEGAS_EMBEDDER": settings.embedder,
        "PEGAS_ENGINE_IDLE_SECONDS": "60",
        "PEGAS_TENANT": settings.tenant,
    }


def ask(client: RawClient, tool: str, **arguments: Any) -> dict[str, Any]:
    result = client.call(tool, **arguments)
    assert not result.get("isError"), text_of(result)
    answer: dict[str, Any] = result["structuredContent"]
    return answer


def entities_in_shard(settings: Settings, memory: PegasMemory) -> set[UUID]:
    """What the shard on disk holds, once its engine has left."""
    model = memory.rooms.embedder.model
    memory.close()
    with EngineClient(settings) as engine:
        engine.shutdown()
    eventually(lambda: engines_of(settings.home) == [], "the engine left")
    found: set[UUID] = set()
    for folder in edge_folders(settings.home / "vectors", settings.qdrant_collection, model).values():
        index = EdgeIndex(folder, model, settings.qdrant_collection)
        index.ensure()
        found |= entities_in(index)
        index.close()
    return found


@pytest.mark.fault(25)
def test_what_an_agent_purges_is_in_no_store(settings: Settings) -> None:
    with raw_client(**environment(settings)) as client:
        client.handshake()
        source = {"uri": "https://example.org/kestrel", "title": "Log of the snorvel", "quote": "the snorvel left"}
        stored = ask(client, "memory_store", claim="The snorvel left the harbour at dawn.", source=source)
        kept = ask(client, "memory_store", claim="The heron stayed on the tower.")
        text = "The snorvel was built in 1904.\n\nIts boiler came from Sheffield."
        read = ask(client, "memory_ingest", text=text, title="Snorvel papers")
        cited = ask(client, "memory_search", query="boiler Sheffield", doc_id=read["doc_id"])["results"]
        assert ask(client, "memory_search", query="snorvel")["results"]
        refused = client.call("memory_verify", atom_ids=[stored["atom_id"]], verdict="purge")
        assert text_of(refused).startswith("invalid_parameter: ")
        asked_for = client.call("memory_verify", atom_ids=[stored["atom_id"]])
        assert text_of(asked_for).startswith("not_available_yet: ")

        gone = ask(client, "memory_verify", atom_ids=[stored["atom_id"]], verdict="purge", reason="asked to forget")
        assert [result["status_after"] for result in gone["results"]] == ["purged"]
        more = client.call("memory_verify", doc_id=read["doc_id"], verdict="purge", reason="asked to forget")
        assert f"{cited[0]['atom_id']}: candidate → purged" in text_of(more)
        for mode in SearchMode:
            found = ask(client, "memory_search", query="snorvel harbour boiler", mode=mode, limit=50)["results"]
            assert {result["atom_id"] for result in found} <= {kept["atom_id"]}
        assert "snorvel" not in json.dumps(ask(client, "memory_get_context", question="Where did it go at dawn?"))
        assert ask(client, "memory_search", ids=[stored["atom_id"], cited[0]["atom_id"]])["results"] == []
        assert "snorvel" not in json.dumps(ask(client, "memory_stats", detail=True)).lower()
        assert client.close() == 0

    memory = PegasMemory.open(settings)
    eventually(lambda: memory.stats().pending == 0, "all is projected")
    with memory.rooms.db.everything() as conn:
        assert traces(conn, ["snorvel", "Snorvel", "Sheffield"]) == []
        assert traces(conn, [stored["atom_id"], cited[0]["atom_id"], read["doc_id"]], but=AUDIT) == []
    assert entities_in_shard(settings, memory) == {UUID(kept["atom_id"])}


def run(settings: Settings, *arguments: str, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "pegas_memory.cli", *arguments],
        capture_output=True, env=server_environment(**environment(settings)), timeout=100, text=True,
        **{"stdin": subprocess.DEVNULL, **more},
    )  # fmt: skip
    assert ended.returncode == code, ended
    return ended


def test_a_person_judges_and_deletes_a_tenant(settings: Settings) -> None:
    mine = settings.model_copy(update={"tenant": "../x|%"})
    stored = json.loads(run(mine, "store", "The quay was paved in 1880.", "--json").stdout)["atom_id"]
    verdict = ("--verdict", "contested", "--reason", "two sources differ")
    assert f"{stored}: candidate → contested" in run(mine, "verify", stored, *verdict).stdout
    assert "[invalid_parameter]" in run(mine, "verify", stored, "--verdict", "stale", code=2).stderr
    assert "[not_available_yet]" in run(mine, "verify", code=1).stderr
    listed = json.loads(run(mine, "tenants", "--json").stdout)["tenants"]
    assert {tenant["name"]: tenant["atoms"] for tenant in listed if tenant["name"] == mine.tenant} == {"../x|%": 1}
    assert "'../x|%': 1 atoms" in run(mine, "tenants", "list").stdout
    for wrong in (("tenants", "delete", mine.tenant), ("tenants", "delete"), ("tenants", "burn", mine.tenant)):
        assert "[invalid_parameter]" in run(mine, *wrong, code=2).stderr
    assert "[not_found]" in run(mine, "tenants", "delete", "nobody", "--yes", code=1).stderr
    assert _typed(mine, "another\n")[0] == 2
    assert json.loads(run(mine, "status", "--json").stdout)["atoms"]["total"] == 1
    code, said = _typed(mine, f"{mine.tenant}\n")
    assert (code, "Deleted tenant" in said) == (0, True)
    assert json.loads(run(mine, "status", "--json").stdout)["atoms"]["total"] == 0
    run(mine, "store", "The quay was paved again.")
    deleted = json.loads(run(mine, "tenants", "delete", mine.tenant, "--yes", "--json").stdout)
    assert (deleted["name"], deleted["removed"]["pm_atom"]) == (mine.tenant, 1)


def _typed(settings: Settings, answer: str) -> tuple[int, str]:
    """Exit code and stdout of a deletion that asks on a terminal."""
    terminal, theirs = pty.openpty()
    os.write(terminal, answer.encode())
    ended = subprocess.run(
        [sys.executable, "-m", "pegas_memory.cli", "tenants", "delete", settings.tenant],
        stdin=theirs, capture_output=True, env=server_environment(**environment(settings)), timeout=100, text=True,
    )  # fmt: skip
    os.close(theirs)
    os.close(terminal)
    return ended.returncode, ended.stdout
