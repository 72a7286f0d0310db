"""What a vector index is filled with, page by page: from PostgreSQL and the vector cache."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from pegas_memory.db import atoms, citations
from pegas_memory.db.atoms import AtomRow
from pegas_memory.db.outbox import Backfill
from pegas_memory.db.session import Database
from pegas_memory.model import Point
from pegas_memory.outbox_sync import points_of
from pegas_memory.vectors import Vectors, embedded_text

PAGE = 500


@dataclass(frozen=True, slots=True)
class Page:
    """The points of ``rows`` atoms; (``tenant``, ``id``) is the last of them."""

    tenant: str
    id: UUID
    rows: int
    points: list[Point]


def pages(db: Database, vectors: Vectors, at: Backfill) -> Generator[Page, None, None]:
    after = (at.tenant, at.after or UUID(int=0))
    while True:
        with db.everything() as conn:
            rows = atoms.indexed_page(conn, after, PAGE)
        if not rows:
            return
        points: list[Point] = []
        for tenant, same in groupby(rows, key=lambda row: row.tenant):
            points += _points(db, vectors, tenant, list(same))
        yield Page(rows[-1].tenant, rows[-1].id, len(rows), points)
        after = (rows[-1].tenant, rows[-1].id)


def _points(db: Database, vectors: Vectors, tenant: str, rows: list[AtomRow]) -> list[Point]:
    parts = {row.id: vectors.parts(embedded_text(row.claim, row.content)) for row in rows}
    with db.tenant(tenant) as conn:
        doc_ids = citations.doc_ids_of(conn, tenant, list(parts))
        known = vectors.cached_in(conn, tenant, [part for listed in parts.values() for part in listed])
    return [point for row in rows for point in points_of(row, doc_ids.get(row.id, ()), parts[row.id], known)]
