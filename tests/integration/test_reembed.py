"""Another model and dimension beside the one in use; and the removal of what it leaves."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegas_memory import PegasMemory
from pegas_memory.config import load_settings
from pegas_memory.db import outbox
from pegas_memory.errors import InvalidParameter
from pegas_memory.model import SearchRequest, StoreRequest
from pegas_memory.service.upkeep import target_of
from tests.support.embedding_server import HashedEmbeddingServer, hashed_embedding_server
from tests.support.engines import engines_of, eventually
from tests.support.indexed import differences

CLAIMS = [f"Shelf {n} of the archive holds the letters of family number {n}." for n in range(40)]


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[HashedEmbeddingServer, HashedEmbeddingServer]]:
    with hashed_embedding_server(dimension=64) as old, hashed_embedding_server(dimension=96) as new:
        yield old, new


def equal(memory: PegasMemory) -> bool:
    with memory.rooms.db.everything() as conn:
        mine = [s for s in outbox.states(conn) if s.consumer in memory.rooms.consumers()]
    done = len(mine) == 2 and all(s.pending == 0 and not s.backfilling for s in mine)
    return done and differences(memory.rooms.db, target_of(memory.rooms).scan) == []


@pytest.mark.fault(35)
def test_another_dimension_is_embedded_beside_and_switched(
    home: Path, servers: tuple[HashedEmbeddingServer, HashedEmbeddingServer]
) -> None:
    old, new = (f"openai:hashed-{n}@{server.openai_url}" for n, server in enumerate(servers))
    (home / "config.toml").write_text(f'# mine\nembedder = "{old}"\ntenant = "default"\n', encoding="utf-8")
    with PegasMemory.open(load_settings()) as memory:
        for claim in CLAIMS:
            memory.store(StoreRequest(claim=claim))
        eventually(lambda: equal(memory), "all is projected")
        asked = len(servers[0].requests)
        answer = memory.reembed(new)
        assert (answer.dimension, answer.embedded, answer.failed, answer.switched) == (96, 40, 0, True)
        assert len(servers[0].requests) == asked
    text = (home / "config.toml").read_text(encoding="utf-8")
    assert text == f'# mine\nembedder = "{new}"\ntenant = "default"\n'
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o600
    eventually(lambda: engines_of(home) == [], "the engine left")
    embedded = len(servers[1].requests)
    with PegasMemory.open(load_settings()) as memory:
        assert memory.rooms.embedder.model.dimension == 96
        question = SearchRequest(query="letters of family number 7")
        assert memory.search(question).results[0].claim == CLAIMS[7]
        eventually(lambda: equal(memory), "the index of the new model follows")
        assert memory.search(question).degraded == ()
        asked_again = {text for request in servers[1].requests[embedded:] for text in request.texts}
        assert not asked_again & set(CLAIMS)
        listed = memory.gc()
        assert (len(listed.indexes), len(listed.consumers), listed.vectors, listed.removed) == (1, 2, 40, False)
        assert memory.gc(remove=True).removed
        after = memory.gc()
        assert (after.indexes, after.consumers, after.vectors) == ((), (), 0)
        assert equal(memory)


def test_a_setting_that_wins_is_named(
    home: Path, servers: tuple[HashedEmbeddingServer, HashedEmbeddingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (f"openai:hashed-{n}@{server.openai_url}" for n, server in enumerate(servers))
    monkeypatch.setenv("PEGAS_EMBEDDER", old)
    with PegasMemory.open(load_settings()) as memory:
        memory.store(StoreRequest(claim=CLAIMS[0]))
        with pytest.raises(InvalidParameter, match="in use"):
            memory.reembed(old)
        answer = memory.reembed(new)
        assert not answer.switched
        assert "the environment sets PEGAS_EMBEDDER" in answer.next_step
        assert not (home / "config.toml").exists()
        assert memory.reembed(new, switch=False).built.rows == 1
