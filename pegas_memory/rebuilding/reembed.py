"""Every atom's text embedded by another model, into the cache, while the one in use serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from uuid import UUID

from pegas_memory.db import atoms, outbox
from pegas_memory.db.atoms import AtomRow
from pegas_memory.db.session import Database
from pegas_memory.errors import InputError
from pegas_memory.rebuilding.fill import OnRows
from pegas_memory.vectors import Vectors, embedded_text

PAGE = 64


@dataclass(frozen=True, slots=True)
class Embedded:
    """How many atoms have their vectors now, and how many the model refused."""

    atoms: int
    failed: int


def embed_everything(db: Database, vectors: Vectors, on_rows: OnRows | None = None) -> Embedded:
    """What is cached already is not embedded again, so that a run that was interrupted goes on.

    Raises:
        EmbedderUnavailable, EmbedderMisbehaved, DatabaseUnavailable, DiskFull.
    """
    with db.everything() as conn:
        total = outbox.to_be_filled(conn, ("atom",))
    after, done, failed = ("", UUID(int=0)), 0, 0
    while True:
        with db.everything() as conn:
            rows = atoms.indexed_page(conn, after, PAGE)
        if not rows:
            return Embedded(done - failed, failed)
        for tenant, same in groupby(rows, key=lambda row: row.tenant):
            failed += _embed(vectors, tenant, list(same))
        after, done = (rows[-1].tenant, rows[-1].id), done + len(rows)
        if on_rows is not None:
            on_rows(done, total)


def _embed(vectors: Vectors, tenant: str, rows: Sequence[AtomRow]) -> int:
    """How many of ``rows`` cannot be embedded: one of them must not stop the others."""
    texts = [part for row in rows for part in vectors.parts(embedded_text(row.claim, row.content))]
    try:
        vectors.of(tenant, texts)
    except InputError:
        return sum(_embed(vectors, tenant, [row]) for row in rows) if len(rows) > 1 else 1
    return 0
