"""Near duplicates that were stored while the embedder or the index was down."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pegas_memory.db import atoms, citations, links, outbox, tenants
from pegas_memory.db.session import Database
from pegas_memory.model import SearchFilter
from pegas_memory.pipeline.learn import NEIGHBOURS, STANDING, is_same
from pegas_memory.vectors import Searcher, Vectors, embedded_text


def settle(db: Database, vectors: Vectors, searcher: Searcher, now: datetime, consumer: str, limit: int = 64) -> int:
    """Once the vector index (``consumer``) holds everything: look again at up to ``limit`` waiting atoms; one
    that an older atom already says is superseded by it and gives it what it carried. Returns how many were
    looked at; raises ``Unavailable`` when the look is not possible yet."""
    with db.everything() as conn:
        if outbox.pending(conn, [consumer], at_most=1):
            return 0
        waiting = atoms.dedup_waiting(conn, limit)
    for tenant, atom_id in waiting:
        _settle_one(db, vectors, searcher, tenant, atom_id, now)
    return len(waiting)


def _settle_one(db: Database, vectors: Vectors, searcher: Searcher, tenant: str, atom_id: UUID, now: datetime) -> None:
    with db.tenant(tenant) as conn:
        row = atoms.fetch(conn, tenant, [atom_id]).get(atom_id)
    if row is None:
        return
    older: UUID | None = None
    parts = vectors.parts(embedded_text(row.claim, row.content))
    if len(parts) == 1:
        vector = vectors.of(tenant, parts)[parts[0]]
        where = SearchFilter(tenant=tenant, types=frozenset({row.type}), shown_as=STANDING)
        hits, _ = searcher.search(where, dense=vector, sparse=None, limit=NEIGHBOURS + 1)
        with db.tenant(tenant) as conn:
            found = atoms.matching(conn, where, [hit.entity_id for hit in hits.dense])
        for hit in hits.dense:
            other = found.get(hit.entity_id)
            if other and other.id < row.id and is_same(row, other, hit.score, vectors.model_name):
                older = other.id
                break
    db.retrying(lambda: _merge(db, tenant, atom_id, older, now))


def _merge(db: Database, tenant: str, atom_id: UUID, older: UUID | None, now: datetime) -> None:
    """The older atom takes what the newer one carried. Locked in the order of age, as everywhere."""
    with db.tenant(tenant) as conn:
        if not tenants.joined(conn, tenant):
            return
        target = atoms.lock(conn, tenant, older) if older else None
        locked = atoms.lock(conn, tenant, atom_id)
        if locked and target and locked.shown_as in STANDING and target.shown_as in STANDING:
            citations.move(conn, tenant, locked.id, target.id)
            links.move(conn, tenant, locked.id, target.id)
            carried = {
                "tags": list(dict.fromkeys([*target.tags, *locked.tags])),
                "metadata": {**locked.metadata, **target.metadata},
            }
            atoms.change(conn, target, carried, what="duplicate merged")
            atoms.supersede(conn, locked, target.id, at=now, reason="duplicate")
        atoms.settle_dedup(conn, tenant, [atom_id])
