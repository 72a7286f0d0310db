"""Generations of the server's collections, through a peer that is qdrant-client's local mode behind HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pegas_memory import PegasMemory
from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.engine.rooms import Rooms
from pegas_memory.model import SearchRequest
from pegas_memory.service.upkeep import target_of
from tests.support.embedding_server import hashed_embedding_server
from tests.support.engines import eventually, settings_for
from tests.support.indexed import differences, seed
from tests.support.qdrant_peer import Peer, qdrant_peer

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning")


@pytest.fixture(scope="module")
def embedder() -> Iterator[str]:
    with hashed_embedding_server(dimension=64) as server:
        yield f"openai:hashed@{server.openai_url}"


@pytest.fixture
def peer() -> Iterator[Peer]:
    with qdrant_peer() as peer:
        yield peer


@pytest.fixture
def settings(home: Path, embedder: str, migrated_url: str, peer: Peer) -> Settings:
    return settings_for(home, embedder=embedder, database_url=migrated_url, qdrant_url=peer.url)


@contextmanager
def worker(settings: Settings) -> Iterator[Rooms]:
    rooms = Rooms(settings)
    try:
        rooms.open()
        yield rooms
    finally:
        rooms.close()


@contextmanager
def memory_and_worker(settings: Settings) -> Iterator[PegasMemory]:
    with worker(settings), PegasMemory.open(settings) as memory:
        yield memory


def caught_up(memory: PegasMemory) -> bool:
    with memory.rooms.db.everything() as conn:
        states = outbox.states(conn)
    return len(states) > 1 and all(s.pending == 0 and not s.backfilling and s.failed == 0 for s in states)


def collections(peer: Peer) -> list[str]:
    return sorted(collection.name for collection in peer.client.get_collections().collections)


def alias(peer: Peer) -> str:
    [found] = peer.client.get_aliases().aliases
    return found.collection_name


def test_a_rebuild_switches_the_alias_and_the_worker_follows(settings: Settings, peer: Peer) -> None:
    with memory_and_worker(settings) as memory:
        seed(memory.rooms.db, memory.rooms.embedder.model, 300)
        eventually(lambda: caught_up(memory), "all is projected")
        target = target_of(memory.rooms)
        assert differences(memory.rooms.db, target.scan) == []
        assert alias(peer).endswith("__64__1")
        answer = memory.rebuild()
        assert answer.vector is not None
        assert (answer.vector.generation, answer.vector.rows) == (2, 300)
        assert collections(peer) == [alias(peer)]
        assert alias(peer).endswith("__64__2")
        seed(memory.rooms.db, memory.rooms.embedder.model, 30, first=1000)
        eventually(lambda: caught_up(memory), "the worker writes to the new one")
        assert differences(memory.rooms.db, target.scan) == []


KILLED_AT_THE_SWITCH = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pegas_memory.cli import main
from pegas_memory.qdrant_store import ServerIndex
switch = ServerIndex.switch
def killed(index):
    switch(index)
    os.kill(os.getpid(), signal.SIGKILL)
ServerIndex.switch = killed
sys.argv[1:] = ["rebuild"]
main()
"""


def test_killed_between_the_alias_and_the_promotion_the_next_one_goes_on(settings: Settings, peer: Peer) -> None:
    with memory_and_worker(settings) as memory:
        seed(memory.rooms.db, memory.rooms.embedder.model, 300)
        eventually(lambda: caught_up(memory), "all is projected")
        environment = {
            **os.environ, "PEGAS_HOME": str(settings.home), "PEGAS_EMBEDDER": settings.embedder,
            "PEGAS_DATABASE_URL": settings.database_url.get_secret_value(), "PEGAS_QDRANT_URL": settings.qdrant_url,
        }  # fmt: skip
        killed = subprocess.run(
            [sys.executable, "-c", KILLED_AT_THE_SWITCH, str(ROOT)],
            env=environment, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL, killed
        target = target_of(memory.rooms)
        with memory.rooms.db.everything() as conn:
            assert outbox.generation_of(conn, target.consumer) == 1
        assert alias(peer).endswith("__64__2")
        seed(memory.rooms.db, memory.rooms.embedder.model, 30, first=1000)
        answer = memory.rebuild()
        assert answer.vector is not None
        assert (answer.vector.generation, answer.vector.resumed) == (2, True)
        assert collections(peer) == [alias(peer)]
        seed(memory.rooms.db, memory.rooms.embedder.model, 30, first=2000)
        eventually(lambda: caught_up(memory), "the worker writes to the new one")
        assert differences(memory.rooms.db, target.scan) == []


def test_a_deleted_collection_heals_by_itself(settings: Settings, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegas_memory.engine.collection.LOOK_SECONDS", 0.5)
    with memory_and_worker(settings) as memory:
        seed(memory.rooms.db, memory.rooms.embedder.model, 100)
        eventually(lambda: caught_up(memory), "all is projected")
        target = target_of(memory.rooms)
        peer.client.delete_collection(alias(peer))
        answer = memory.search(SearchRequest(query="number 7 says something"))
        assert answer.results
        assert [d.part for d in answer.degraded] == ["vector index"]
        eventually(lambda: bool(peer.client.get_aliases().aliases) and caught_up(memory), "it is filled again")
        assert differences(memory.rooms.db, target.scan) == []
        name = alias(peer)
        peer.client.delete(name, [point.id for point in target.scan(None, 1000)])
        eventually(lambda: peer.client.count(name).count == 100 and caught_up(memory), "an emptied one as well")
        assert differences(memory.rooms.db, target.scan) == []
