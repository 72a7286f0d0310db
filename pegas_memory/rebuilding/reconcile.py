"""Finding where the vector index differs from PostgreSQL, and mending it through the outbox, while both are
written to: what differs is drift only when it still does after the projections have passed all that had been
written by the time it was seen."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from pegas_memory.db import outbox
from pegas_memory.db.session import Database
from pegas_memory.errors import VectorsUnavailable
from pegas_memory.rebuilding.compare import Drift, Entity, compare
from pegas_memory.rebuilding.target import Target
from pegas_memory.vectors import Vectors

SETTLE_SECONDS = 300.0
IDS_SHOWN = 50
_NOTED_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class Found:
    """One kind of difference: how many entities, how many of them are mended, and the ids of some."""

    kind: str
    found: int
    mended: int
    ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """``left`` differences stay: look at `pegas-memory outbox` for why."""

    compared: int
    """Atoms, or nodes and edges, that PostgreSQL has."""
    kinds: tuple[Found, ...]
    left: int
    seconds: float


def reconcile_vectors(
    db: Database, vectors: Vectors, target: Target, consumers: Sequence[str], *, tenant: str = "", mend: bool = True
) -> Reconciled:
    """``consumers``: those that bring atoms into the index.

    Raises:
        VectorsUnavailable: the index cannot be read, or the projections do not move. DatabaseUnavailable.
    """
    started = time.monotonic()
    drift = _drift(db, vectors, target, consumers, tenant)
    left = drift
    if mend and drift:
        for some in _by_tenant(drift):
            _note(db, *some)
        left = _drift(db, vectors, target, consumers, tenant)
    with db.tenant(tenant) if tenant else db.everything() as conn:
        total = outbox.to_be_filled(conn, ("atom",))
    kinds = found_kinds(drift.kinds(), left.kinds(), mend=mend)
    stays = sum(map(len, left.kinds().values()))
    return Reconciled(total, kinds, stays, round(time.monotonic() - started, 3))


def found_kinds(
    drift: Mapping[str, Mapping[Entity, object]], left: Mapping[str, Mapping[Entity, object]], *, mend: bool
) -> tuple[Found, ...]:
    return tuple(
        Found(
            name,
            len(found),
            sum(entity not in left[name] for entity in found) if mend else 0,
            tuple(entity_id for _, entity_id in list(found)[:IDS_SHOWN]),
        )
        for name, found in drift.items()
    )


def _drift(db: Database, vectors: Vectors, target: Target, consumers: Sequence[str], tenant: str) -> Drift:
    settle(db, consumers)
    seen = compare(db, target.scan, vectors, tenant)
    if not seen:
        return seen
    settle(db, consumers)
    return seen.lasting(compare(db, target.scan, vectors, tenant))


def settle(db: Database, consumers: Sequence[str]) -> None:
    """Return when all that is committed now is projected."""
    with db.everything() as conn:
        now = outbox.snapshot_now(conn)
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        with db.everything() as conn:
            if outbox.passed_all(conn, consumers, now):
                return
        if time.monotonic() > deadline:
            raise VectorsUnavailable("The projections do not catch up.", "See `pegas-memory outbox` for the reason.")
        time.sleep(0.05)


def _by_tenant(drift: Drift) -> Iterator[tuple[str, str, list[UUID]]]:
    """(tenant, op, ids), so many at once as a transaction takes well."""
    ops: dict[tuple[str, str], list[UUID]] = {}
    entities: dict[Entity, str] = {}
    for name, found in drift.kinds().items():
        entities |= dict.fromkeys(found, "delete" if name == "orphaned" else "upsert")
    for (tenant, entity_id), op in entities.items():
        ops.setdefault((tenant, op), []).append(entity_id)
    for (tenant, op), ids in ops.items():
        for start in range(0, len(ids), _NOTED_AT_ONCE):
            yield tenant, op, ids[start : start + _NOTED_AT_ONCE]


def _note(db: Database, tenant: str, op: str, ids: list[UUID]) -> None:
    with db.everything() as conn:
        outbox.enqueue(conn, tenant, "atom", ids, op=op)
