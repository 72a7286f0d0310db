"""PostgreSQL and a vector index, id by id and revision by revision, in some 30 bytes of memory a point."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from pegas_memory.db import atoms
from pegas_memory.db.atoms import AtomRow, Revision
from pegas_memory.db.session import Connection, Database
from pegas_memory.embedding import MAX_PARTS
from pegas_memory.model import point_id
from pegas_memory.qdrant_store import ScannedPoint
from pegas_memory.vectors import Vectors, embedded_text

PAGE = 1000
Scan = Callable[[UUID | None, int], Sequence[ScannedPoint]]
Entity = tuple[str, UUID]
"""(tenant, id)."""

_POINT = np.dtype(
    [("key", "u8"), ("tenant", "u4"), ("high", "u8"), ("low", "u8"), ("revision", "i8"), ("part", "i2"), ("dense", "?")]
)
_STRAY = -1


@dataclass(slots=True)
class Drift:
    """Entities of which the index has otherwise than PostgreSQL, each with the revision that PostgreSQL has
    (0 where it has none)."""

    missing: dict[Entity, int] = field(default_factory=dict)
    """No point, or not its first one."""
    behind: dict[Entity, int] = field(default_factory=dict)
    """A point of another revision."""
    bare: dict[Entity, int] = field(default_factory=dict)
    """A part of its text has no vector in the index."""
    doubled: dict[Entity, int] = field(default_factory=dict)
    """A point more than there are parts."""
    orphaned: dict[Entity, int] = field(default_factory=dict)
    """Points of what PostgreSQL does not have."""

    def kinds(self) -> dict[str, dict[Entity, int]]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __bool__(self) -> bool:
        return any(self.kinds().values())

    def lasting(self, later: Drift) -> Drift:
        """What of this still differs ``later``, when all that was written before must have been projected: an
        entity that was changed again meanwhile may be on its way."""
        kept = {
            name: {
                entity: revision
                for entity, revision in found.items()
                if later.kinds()[name].get(entity, revision + 1) == revision
            }
            for name, found in self.kinds().items()
        }
        return Drift(**kept)


def compare(db: Database, scan: Scan, vectors: Vectors | None, tenant: str = "") -> Drift:
    """The differences, of one tenant or of all. Without ``vectors`` (a quick look) nothing is said of parts.

    What is being written meanwhile looks like a difference: see :meth:`Drift.lasting`."""
    held, tenants = _held(scan, tenant, _part if vectors is not None else _any_part)
    seen = np.zeros(len(held), dtype=bool)
    drift = Drift()
    for rows, parts in _texts(db, vectors, tenant) if vectors is not None else _revisions(db, tenant):
        keys = np.array([_key(row.tenant, row.id) for row in rows], dtype="u8")
        left, right = np.searchsorted(held["key"], keys), np.searchsorted(held["key"], keys, side="right")
        for row, first, end in zip(rows, left.tolist(), right.tolist(), strict=True):
            seen[first:end] = True
            _judge(drift, row, held[first:end], parts.get(row.id))
    for point in held[~seen]:
        entity_id = UUID(int=(int(point["high"]) << 64) | int(point["low"]))
        drift.orphaned[tenants[point["tenant"]], entity_id] = 0
    return drift


def _judge(drift: Drift, row: AtomRow | Revision, points: NDArray[Any], embedded: Sequence[bool] | None) -> None:
    """``embedded`` says of each part of the text whether its vector is in the cache."""
    entity = (row.tenant, row.id)
    if (points["revision"] != row.revision).any():
        drift.behind[entity] = row.revision
    if embedded is None:
        if not len(points):
            drift.missing[entity] = row.revision
        return
    there = dict(zip(points["part"].tolist(), points["dense"].tolist(), strict=True))
    if embedded and 0 not in there:
        drift.missing[entity] = row.revision
    elif any(not there.get(part) for part in range(len(embedded))):
        drift.bare[entity] = row.revision
    if len(there) < len(points) or _STRAY in there or max(there, default=-1) >= len(embedded):
        drift.doubled[entity] = row.revision


def _held(scan: Scan, tenant: str, part_of: Callable[[ScannedPoint], int]) -> tuple[NDArray[Any], list[str]]:
    """All points by key, and the tenants by number."""
    numbers: dict[str, int] = {}
    pages: list[NDArray[Any]] = []
    after: UUID | None = None
    while page := scan(after, PAGE):
        after = page[-1].id
        rows = [
            (
                _key(point.tenant, point.entity_id),
                numbers.setdefault(point.tenant, len(numbers)),
                point.entity_id.int >> 64,
                point.entity_id.int & (2**64 - 1),
                point.revision,
                part_of(point),
                point.has_dense,
            )
            for point in page
            if not tenant or point.tenant == tenant
        ]
        pages.append(np.array(rows, dtype=_POINT))
    held = np.concatenate(pages) if pages else np.zeros(0, dtype=_POINT)
    held.sort(order="key")
    return held, list(numbers)


def _part(point: ScannedPoint) -> int:
    for part in range(MAX_PARTS):
        if point_id(point.tenant, point.entity_id, part) == point.id:
            return part
    return _STRAY


def _any_part(_point: ScannedPoint) -> int:
    return 0


def _key(tenant: str, entity_id: UUID) -> int:
    return (entity_id.int & (2**64 - 1)) ^ _salt(tenant)


@lru_cache(maxsize=10_000)
def _salt(tenant: str) -> int:
    return int.from_bytes(hashlib.blake2b(tenant.encode(), digest_size=8).digest(), "big")


Page = tuple[Sequence[AtomRow | Revision], dict[UUID, list[bool]]]
Row = TypeVar("Row", AtomRow, Revision)


def _revisions(db: Database, tenant: str) -> Iterator[Page]:
    for rows in _pages(db, tenant, atoms.revision_page):
        yield rows, {}


def _texts(db: Database, vectors: Vectors, tenant: str) -> Iterator[Page]:
    """With each page, whether the vectors of an atom's parts are cached."""
    for rows in _pages(db, tenant, atoms.indexed_page):
        found: dict[UUID, list[bool]] = {}
        for owner, same in groupby(rows, key=lambda row: row.tenant):
            parts = {row.id: vectors.parts(embedded_text(row.claim, row.content)) for row in same}
            with db.tenant(owner) as conn:
                known = vectors.known_in(conn, owner, [part for listed in parts.values() for part in listed])
            found |= {atom_id: [part in known for part in listed] for atom_id, listed in parts.items()}
        yield rows, found


def _pages(
    db: Database, tenant: str, read: Callable[[Connection, tuple[str, UUID], int], list[Row]]
) -> Iterator[list[Row]]:
    after = (tenant, UUID(int=0))
    while True:
        with db.everything() as conn:
            rows = [row for row in read(conn, after, PAGE) if not tenant or row.tenant == tenant]
        if not rows:
            return
        yield rows
        after = (rows[-1].tenant, rows[-1].id)
