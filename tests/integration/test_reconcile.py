"""Differences between PostgreSQL and the vector index, planted, found and mended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid5

import numpy as np
import pytest
from sqlalchemy import text

from pegas_memory.db import outbox
from pegas_memory.db.ids import new_id
from pegas_memory.errors import VectorsUnavailable
from pegas_memory.model import StoreRequest
from pegas_memory.qdrant_store import ScannedPoint
from pegas_memory.rebuilding.reconcile import Reconciled, reconcile_vectors
from tests.support.embedding_server import hashed_embedding_server
from tests.support.engines import eventually
from tests.support.indexed import differences, seed
from tests.support.local_memory import LocalMemory, local_memory


@pytest.fixture
def memory(migrated_url: str, home: Path) -> Iterator[LocalMemory]:
    with (
        hashed_embedding_server(dimension=64) as server,
        local_memory(migrated_url, home, f"openai:hashed@{server.openai_url}") as memory,
    ):
        yield memory


class Direct:
    """The shard of this process as a target that serves."""

    consumer = ""

    def __init__(self, memory: LocalMemory) -> None:
        self.scan = memory.searcher.index.scan


def reconciled(memory: LocalMemory, *, mend: bool = True, tenant: str = "") -> Reconciled:
    rooms = memory.rooms
    return reconcile_vectors(
        rooms.db,
        rooms.vectors,
        Direct(memory),
        rooms.consumers(),
        tenant=tenant,
        mend=mend,  # type: ignore[arg-type]
    )


def settled(memory: LocalMemory) -> None:
    def done() -> bool:
        with memory.rooms.db.everything() as conn:
            return outbox.progress(conn, memory.rooms.consumers()) == (0, True)

    eventually(done, "all is projected")


def counts(answer: Reconciled) -> dict[str, tuple[int, int]]:
    return {kind.kind: (kind.found, kind.mended) for kind in answer.kinds if kind.found}


def test_planted_differences_are_found_and_mended(memory: LocalMemory) -> None:
    db, index = memory.rooms.db, memory.searcher.index
    ids = seed(db, memory.rooms.embedder.model, 1200)
    settled(memory)
    assert counts(reconciled(memory)) == {}
    by_entity = {point.entity_id: point for point in _points(memory)}
    index.delete_entities("default", ids[:3])
    with db.tenant("default") as conn:  # behind, without a word in the outbox
        conn.execute(text("UPDATE pm_atom SET revision = revision + 4 WHERE id = ANY(:ids)"), {"ids": ids[3:7]})
        points = _rebuilt(memory, ids[7:10])
    stray = replace(points[0], id=uuid5(ids[7], "somewhere else"))
    bare = replace(points[1], dense=None)
    foreign = replace(points[2], id=new_id(), payload=replace(points[2].payload, tenant="nobody", entity_id=new_id()))
    index.upsert([stray, bare, foreign])
    dry = reconciled(memory, mend=False)
    assert counts(dry) == {"missing": (3, 0), "behind": (4, 0), "doubled": (1, 0), "bare": (1, 0), "orphaned": (1, 0)}
    assert dry.left == 10
    assert set(_kind(dry, "missing")) == set(ids[:3])
    assert _kind(dry, "orphaned") == (foreign.payload.entity_id,)
    mended = reconciled(memory)
    assert mended.left == 0
    assert counts(mended) == {kind: (found, found) for kind, (found, _) in counts(dry).items()}
    assert differences(db, index.scan) == []
    assert counts(reconciled(memory)) == {}
    assert len(by_entity) == 1200


def test_a_tenant_s_differences_alone(memory: LocalMemory) -> None:
    model = memory.rooms.embedder.model
    mine, other = seed(memory.rooms.db, model, 20), seed(memory.rooms.db, model, 20, "other")
    settled(memory)
    memory.searcher.index.delete_entities("default", mine[:2])
    memory.searcher.index.delete_entities("other", other[:2])
    assert counts(reconciled(memory, tenant="other")) == {"missing": (2, 2)}
    assert counts(reconciled(memory)) == {"missing": (2, 2)}


def test_what_is_being_written_is_no_difference(memory: LocalMemory) -> None:
    seed(memory.rooms.db, memory.rooms.embedder.model, 600)
    settled(memory)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            memory.store(StoreRequest(claim=f"Written meanwhile, number {number}, about topic {number * 7}."))
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [counts(reconciled(memory, mend=False)) for _ in range(5)]
    finally:
        stop.set()
        writer.join()
    assert found == [{}] * 5
    settled(memory)
    assert differences(memory.rooms.db, memory.searcher.index.scan) == []


def test_what_cannot_be_mended_stays_and_is_said(memory: LocalMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = seed(memory.rooms.db, memory.rooms.embedder.model, 10)
    settled(memory)
    index = memory.searcher.index
    index.delete_entities("default", ids[:1])
    monkeypatch.setattr("pegas_memory.rebuilding.reconcile.SETTLE_SECONDS", 1.0)
    replaced = index.replace

    def down(tenant: str, entity_ids: list[UUID], points: list[object]) -> None:
        raise VectorsUnavailable("The disk of the shard is gone.")

    monkeypatch.setattr(index, "replace", down)
    with pytest.raises(VectorsUnavailable, match="do not catch up"):
        reconciled(memory)
    monkeypatch.setattr(index, "replace", replaced)
    eventually(lambda: counts(reconciled(memory, mend=False)) == {}, "it is mended when the shard is back")


def _points(memory: LocalMemory) -> list[ScannedPoint]:
    return memory.searcher.index.scan(None, 5000)


def _rebuilt(memory: LocalMemory, ids: list[UUID]) -> list:  # type: ignore[type-arg]
    from pegas_memory.db import atoms
    from pegas_memory.outbox_sync import points_of

    with memory.rooms.db.tenant("default") as conn:
        rows = atoms.fetch(conn, "default", ids)
    vector = np.ones(64, dtype=np.float32) / 8
    return [points_of(rows[i], (), [rows[i].claim], {rows[i].claim: vector})[0] for i in ids]


def _kind(answer: Reconciled, name: str) -> tuple[UUID, ...]:
    return next(kind.ids for kind in answer.kinds if kind.kind == name)
