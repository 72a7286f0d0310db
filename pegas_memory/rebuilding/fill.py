"""Filling a new vector index from PostgreSQL and the vector cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from pegas_memory.db import outbox
from pegas_memory.db.outbox import Backfill
from pegas_memory.db.session import Database
from pegas_memory.qdrant_store import VectorIndex
from pegas_memory.rebuilding.feeder import fed
from pegas_memory.rebuilding.pages import Page, pages
from pegas_memory.vectors import Vectors

FED_FROM = 20_000
"""Rows from which a second process reads; with fewer its start, about a second, is not made up for."""
FLUSH_SECONDS = 3.0
"""Between two flushes, after which the position is noted: what a killed rebuild repeats at most."""

OnRows = Callable[[int, int], None]
"""Called with (rows filled, rows in all)."""


@dataclass(frozen=True, slots=True)
class Filled:
    rows: int
    points: int


def fill(
    db: Database, vectors: Vectors, index: VectorIndex, consumer: str, generation: int, on_rows: OnRows | None
) -> Filled:
    """Put all that stood in the tables into ``index``, from where ``consumer`` stands on."""
    with db.everything() as conn:
        at = outbox.backfill_of(conn, consumer)
        total = outbox.to_be_filled(conn, ("atom",))
    if at is None:
        return Filled(0, 0)
    before, stored, flushed = at.filled, 0, time.monotonic()
    made = fed(db.url, vectors.model, at) if total - at.filled > FED_FROM else _ahead(pages(db, vectors, at))
    with closing(made):
        for page in made:
            index.upsert(page.points)
            stored += len(page.points)
            at = Backfill("atom", page.tenant, page.id, at.filled + page.rows)
            if time.monotonic() - flushed > FLUSH_SECONDS:
                _note(db, index, consumer, generation, at)
                flushed = time.monotonic()
            if on_rows is not None:
                on_rows(at.filled, total)
    _note(db, index, consumer, generation, at)
    with db.everything() as conn:
        outbox.backfill_advance(conn, consumer, generation, None)
    return Filled(at.filled - before, stored)


def _note(db: Database, index: VectorIndex, consumer: str, generation: int, at: Backfill) -> None:
    index.flush()
    with db.everything() as conn:
        outbox.backfill_advance(conn, consumer, generation, at)


def _ahead(made: Generator[Page, None, None]) -> Generator[Page, None, None]:
    """The same pages; the next one is asked of PostgreSQL while the engine stores the one before."""
    with ThreadPoolExecutor(1, "rebuild-read") as reader:
        coming = reader.submit(next, made, None)
        while (page := coming.result()) is not None:
            coming = reader.submit(next, made, None)
            yield page
