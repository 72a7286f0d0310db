"""Giving verdicts, and looking for what is left of a purged thing in the whole database."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import text

from pegas_memory.db.session import Connection
from pegas_memory.model import Verdict, VerifyAnswer, VerifyRequest
from pegas_memory.qdrant_store import VectorIndex
from tests.support.local_memory import LocalMemory

SEARCHED = ("text", "jsonb", "ARRAY", "uuid", "bytea")


def give(memory: LocalMemory, verdict: Verdict, *ids: UUID, doc: UUID | None = None) -> VerifyAnswer:
    return memory.verify(VerifyRequest(verdict, f"because of {verdict.value}", ids, doc))


def rows(memory: LocalMemory, sql: str, **bound: Any) -> list[Any]:
    """Rows of the memory's tenant, which is bound as ``:t``."""
    with memory.rooms.db.tenant(memory.tenant) as conn:
        return list(conn.execute(text(sql), {"t": memory.tenant, **bound}).all())


def drained(memory: LocalMemory) -> None:
    """Wait until everything of the tenant is projected."""
    deadline = time.monotonic() + 30
    while memory.stats().pending:
        assert time.monotonic() < deadline, memory.stats()
        time.sleep(0.02)


def entities_in(index: VectorIndex) -> set[UUID]:
    """Every entity, of all tenants, that the index holds a point of."""
    found: set[UUID] = set()
    after: UUID | None = None
    while page := index.scan(after, 500):
        found |= {point.entity_id for point in page}
        after = page[-1].id
    return found


def columns(conn: Connection) -> list[tuple[str, str]]:
    """(table, column) of every column of the schema that could hold a text or an id, by the catalogue."""
    rows = conn.execute(
        text(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
            " AND table_name LIKE 'pm\\_%' AND data_type = ANY(:kinds) ORDER BY 1, 2"
        ),
        {"kinds": list(SEARCHED)},
    ).all()
    return [(row[0], row[1]) for row in rows]


def traces(conn: Connection, words: Iterable[object], but: Sequence[str] = ()) -> list[str]:
    """``table.column: word`` for each of the words that stands anywhere; whole tables in ``but`` are left out."""
    found = []
    for table, column in columns(conn):
        if table in but:
            continue
        for word in words:
            hit = conn.execute(
                text(f"SELECT count(*) FROM {table} WHERE strpos(CAST({column} AS text), :word) > 0"),
                {"word": str(word)},
            ).scalar_one()
            if hit:
                found.append(f"{table}.{column}: {word}")
    return found
