"""Passages: citations with the text around them, documents in pages, and what a check of citations reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.model import ListedDocument

AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """``place`` is where the quote, or what the locator names, stands in the document's text; -1 when nowhere.
    ``before``, ``words`` and ``after`` are the text there."""

    doc_id: UUID
    title: str
    kind: str
    uri: str
    content_hash: str
    characters: int
    locator: Mapping[str, Any]
    locator_text: str
    quote: str
    place: int
    before: str
    words: str
    after: str


_CITED = """SELECT c.doc_id, d.title, d.kind, d.uri, d.content_hash, d.characters, c.locator, c.locator_text, c.quote,
        p.place, substring(d.body FROM greatest(p.place - :around, 0) + 1 FOR greatest(least(:around, p.place), 0)),
        substring(d.body FROM p.place + 1 FOR s.size), substring(d.body FROM p.place + s.size + 1 FOR :around)
    FROM pm_citation c JOIN pm_document d ON d.tenant = c.tenant AND d.id = c.doc_id
    CROSS JOIN LATERAL (SELECT CAST(c.locator ->> 'start' AS int) AS first, CAST(c.locator ->> 'end' AS int) AS last) l
    CROSS JOIN LATERAL (SELECT CASE c.quote WHEN '' THEN coalesce(l.last - l.first, 0) ELSE length(c.quote) END
        AS size) s
    CROSS JOIN LATERAL (SELECT CASE
        WHEN c.quote = '' THEN coalesce(l.first, -1)
        WHEN substring(d.body FROM l.first + 1 FOR s.size) = c.quote THEN l.first
        ELSE strpos(d.body, c.quote) - 1 END AS place) p
    WHERE c.tenant = :tenant AND c.atom_id = :id ORDER BY d.authority DESC, c.created_at, c.id LIMIT :limit"""


def of_atom(conn: Connection, tenant: str, atom_id: UUID, *, around: int, limit: int) -> list[CitedPassage]:
    """The citations of one atom, the most authoritative documents first, each with at most ``around`` characters
    on either side. A quote is looked for at its locator, then in the whole text."""
    values = {"tenant": tenant, "id": atom_id, "around": around, "limit": limit}
    return [CitedPassage(*row) for row in conn.execute(text(_CITED), values)]


def count_of_atom(conn: Connection, tenant: str, atom_id: UUID) -> int:
    found = conn.execute(
        text("SELECT count(*) FROM pm_citation WHERE tenant = :tenant AND atom_id = :id"),
        {"tenant": tenant, "id": atom_id},
    )
    return int(found.scalar_one())


class Named(NamedTuple):
    """What an id is of, the words that name it, and its state where it has one."""

    kind: str
    text: str
    status: str


_SHOWN = "CASE WHEN retracted_at IS NOT NULL THEN 'retracted' WHEN superseded_at IS NOT NULL THEN 'superseded' END"
_NAMED = " UNION ALL ".join(
    f"SELECT '{kind}' AS kind, {words} AS text, coalesce({status}, '') AS status FROM {table}"
    " WHERE tenant = :tenant AND id = :id"
    for kind, table, words, status in (
        ("episode", "pm_episodic_trace", "content", _SHOWN),
        ("procedure", "pm_procedure", "content", _SHOWN),
        ("entity", "pm_entity", "name", "''"),
        ("symbol", "pm_code_symbol", "qualified_name", "''"),
        ("document", "pm_document", "title", "CASE WHEN retracted_at IS NOT NULL THEN 'retracted' END"),
        ("gap", "pm_research_gap", "question", "status"),
    )
)


def named(conn: Connection, tenant: str, some_id: UUID) -> Named | None:
    """Whatever but an atom has this id; None when nothing has."""
    row = conn.execute(text(_NAMED), {"tenant": tenant, "id": some_id}).first()
    return Named(*row) if row else None


_LISTED = """SELECT d.id AS doc_id, d.kind, d.title, d.uri, CASE WHEN d.retracted_at IS NOT NULL THEN 'retracted'
        WHEN d.ingested_at IS NOT NULL THEN 'read' WHEN d.content_hash = '' THEN 'cited' ELSE 'being_read' END AS state,
    d.language, d.pages, d.characters, d.authority, d.tags,
    (SELECT count(*) FROM pm_chunk k WHERE k.tenant = d.tenant AND k.doc_id = d.id) AS chunks,
    (SELECT count(DISTINCT c.atom_id) FROM pm_citation c WHERE c.tenant = d.tenant AND c.doc_id = d.id) AS atoms,
    d.created_at, d.ingested_at
    FROM pm_document d WHERE d.tenant = :tenant AND (:kind = '' OR d.kind = :kind)
    AND (cardinality(CAST(:tags AS text[])) = 0 OR d.tags && CAST(:tags AS text[]))
    AND (CAST(:before AS uuid) IS NULL OR d.id < CAST(:before AS uuid)) ORDER BY d.id DESC LIMIT :limit"""


def documents(
    conn: Connection, tenant: str, *, kind: str, tags: Sequence[str], before: UUID | None, limit: int
) -> list[ListedDocument]:
    """Documents, the newest first; those with any of ``tags``; after the one with the id ``before``."""
    values = {"tenant": tenant, "kind": kind, "tags": list(tags), "before": before, "limit": limit}
    rows = conn.execute(text(_LISTED), values).mappings()
    return [ListedDocument(**{**row, "tags": tuple(row["tags"])}) for row in rows]


class Checked(NamedTuple):
    """A document whose citations are checked; ``finished`` says that no job is writing it."""

    id: UUID
    finished: bool
    told: bool
    """Whether its text is stored."""


def to_check(conn: Connection, tenant: str, after: UUID | None, limit: int) -> list[Checked]:
    rows = conn.execute(
        text(
            "SELECT id, ingested_at IS NOT NULL, content_hash <> '' FROM pm_document WHERE tenant = :tenant"
            " AND (CAST(:after AS uuid) IS NULL OR id > CAST(:after AS uuid)) ORDER BY id LIMIT :limit"
        ),
        {"tenant": tenant, "after": after, "limit": limit},
    )
    return [Checked(*row) for row in rows]


class StoredChunk(NamedTuple):
    id: UUID
    start: int
    end: int
    text: str


def chunks_of(conn: Connection, tenant: str, doc_id: UUID) -> Iterator[StoredChunk]:
    """All chunks of a document, a few hundred in memory at a time."""
    rows = conn.execute(
        text(
            "SELECT id, CAST(locator ->> 'start' AS int), CAST(locator ->> 'end' AS int), text FROM pm_chunk"
            " WHERE tenant = :tenant AND doc_id = :doc_id"
        ).execution_options(yield_per=AT_ONCE),
        {"tenant": tenant, "doc_id": doc_id},
    )
    return (StoredChunk(*row) for row in rows)


class StoredCitation(NamedTuple):
    """``start`` is None for one that names no place."""

    id: UUID
    atom_id: UUID
    chunk_id: UUID | None
    start: int | None
    end: int | None
    quote: str


def citations_of(conn: Connection, tenant: str, doc_id: UUID) -> Iterator[StoredCitation]:
    """All citations of a document, a few hundred in memory at a time."""
    rows = conn.execute(
        text(
            "SELECT id, atom_id, chunk_id, CAST(locator ->> 'start' AS int), CAST(locator ->> 'end' AS int), quote"
            " FROM pm_citation WHERE tenant = :tenant AND doc_id = :doc_id"
        ).execution_options(yield_per=AT_ONCE),
        {"tenant": tenant, "doc_id": doc_id},
    )
    return (StoredCitation(*row) for row in rows)
