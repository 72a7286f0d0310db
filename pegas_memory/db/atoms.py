"""Atoms: the retrieval unit. Every function works in the caller's transaction and tenant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, insert, text

from pegas_memory.db import outbox
from pegas_memory.db.ids import new_id
from pegas_memory.db.tables import LIVE, pm_atom, pm_revision
from pegas_memory.model import AtomStatus, AtomType, Metadata, SearchFilter, ShownAs
from pegas_memory.text import collapse, sha256

INITIAL_STABILITY = 10.0
"""Days; the semantic S of the design's forgetting curve."""


@dataclass(frozen=True, slots=True)
class NewAtom:
    type: AtomType
    claim: str
    content: str = ""
    confidence: float = 0.5
    importance: float = 0.5
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    occurred_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    language: str = ""
    terms: tuple[str, ...] = ()
    distilled_by: str = ""
    dedup_pending: bool = False
    doc_id: UUID | None = None

    @property
    def identity(self) -> str:
        """The key by which two atoms are the same (CONTRACT §5)."""
        times = [t.astimezone(UTC).isoformat() if t else "" for t in (self.valid_from, self.valid_to)]
        return sha256(self.type.value, collapse(self.claim), self.content, *times)


@dataclass(frozen=True, slots=True)
class AtomRow:
    tenant: str
    id: UUID
    type: str
    claim: str
    content: str
    status: str
    confidence: float
    importance: float
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    terms: tuple[str, ...]
    occurred_at: datetime | None
    created_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    revision: int
    access_count: int
    last_access: datetime | None
    stability: float | None
    retracted_at: datetime | None
    superseded_at: datetime | None
    superseded_by: UUID | None
    dedup_pending: bool

    @property
    def shown_as(self) -> ShownAs:
        if self.retracted_at is not None:
            return ShownAs.RETRACTED
        if self.superseded_at is not None:
            return ShownAs.SUPERSEDED
        return ShownAs(self.status)

    @property
    def held_from(self) -> datetime:
        """From when it held true; it and ``held_until`` say what ``SearchFilter.as_of`` asks."""
        return self.valid_from or self.created_at

    @property
    def held_until(self) -> datetime | None:
        """Until when, exclusive; None while it holds."""
        return min(filter(None, (self.valid_to, self.superseded_at, self.retracted_at)), default=None)


_COLUMNS = ", ".join(f"a.{f}" for f in AtomRow.__dataclass_fields__)


def _row(values: Mapping[str, Any]) -> AtomRow:
    return AtomRow(**{**values, "tags": tuple(values["tags"]), "terms": tuple(values["terms"])})


_NEW = """tenant, id, type, claim, content, content_hash, confidence, importance, tags, metadata, terms, language,
    occurred_at, valid_from, valid_to, stability, distilled_by, dedup_pending, doc_id"""
_AS_NEW = """id uuid, type text, claim text, content text, content_hash text, confidence float8, importance float8,
    tags text[], metadata jsonb, terms text[], language text, occurred_at timestamptz, valid_from timestamptz,
    valid_to timestamptz, stability float8, distilled_by text, dedup_pending boolean, doc_id uuid"""


def insert_many(conn: Connection, tenant: str, new: Sequence[NewAtom]) -> list[UUID | None]:
    """Insert live atoms in one statement and note them in the outbox. Ids in the order given; None where a
    live one of that identity stands (``new`` may hold one identity twice)."""
    if not new:
        return []
    rows = [_new_row(atom) for atom in new]
    inserted = conn.execute(
        text(
            f"""INSERT INTO pm_atom ({_NEW})
            SELECT :tenant, r.* FROM json_to_recordset(CAST(:rows AS json)) AS r ({_AS_NEW})
            ON CONFLICT (tenant, content_hash) WHERE {LIVE} DO NOTHING RETURNING id"""
        ),
        {"tenant": tenant, "rows": _json(rows)},
    )
    made = set(inserted.scalars())
    ids = [UUID(str(row["id"])) for row in rows]
    outbox.enqueue(conn, tenant, "atom", [atom_id for atom_id in ids if atom_id in made])
    return [atom_id if atom_id in made else None for atom_id in ids]


def _new_row(atom: NewAtom) -> dict[str, object]:
    occurred, since, until = (t.isoformat() if t else None for t in (atom.occurred_at, atom.valid_from, atom.valid_to))
    return {
        "id": str(new_id()),
        "type": atom.type.value,
        "claim": atom.claim,
        "content": atom.content,
        "content_hash": atom.identity,
        "confidence": atom.confidence,
        "importance": atom.importance,
        "tags": list(atom.tags),
        "metadata": atom.metadata,
        "terms": list(dict.fromkeys(atom.terms)),
        "language": atom.language,
        "occurred_at": occurred,
        "valid_from": since,
        "valid_to": until,
        "stability": INITIAL_STABILITY,
        "distilled_by": atom.distilled_by,
        "dedup_pending": atom.dedup_pending,
        "doc_id": str(atom.doc_id) if atom.doc_id else None,
    }


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def find_identical(conn: Connection, tenant: str, hashes: Sequence[str]) -> dict[str, AtomRow]:
    """By identity: the live atom, else the one retracted last. Superseded ones are not matched."""
    if not hashes:
        return {}
    rows = conn.execute(
        text(
            f"SELECT a.content_hash AS identity, {_COLUMNS} FROM pm_atom a WHERE a.tenant = :tenant"
            " AND a.content_hash = ANY(:hashes) AND a.superseded_at IS NULL"
            " ORDER BY a.retracted_at DESC NULLS FIRST, a.id"
        ),
        {"tenant": tenant, "hashes": list(hashes)},
    ).mappings()
    found: dict[str, AtomRow] = {}
    for row in rows:
        values = dict(row)
        found.setdefault(values.pop("identity"), _row(values))
    return found


def fetch(conn: Connection, tenant: str, ids: Sequence[UUID]) -> dict[UUID, AtomRow]:
    """Atoms by id, in any state; unknown ids are absent."""
    if not ids:
        return {}
    rows = conn.execute(
        text(f"SELECT {_COLUMNS} FROM pm_atom a WHERE a.tenant = :tenant AND a.id = ANY(:ids)"),
        {"tenant": tenant, "ids": list(ids)},
    ).mappings()
    return {row["id"]: _row(dict(row)) for row in rows}


class Revision(NamedTuple):
    tenant: str
    id: UUID
    revision: int


def revision_page(conn: Connection, after: tuple[str, UUID], limit: int) -> list[Revision]:
    """The atoms after (tenant, id) in that order."""
    rows = conn.execute(
        text(
            "SELECT tenant, id, revision FROM pm_atom WHERE (tenant, id) > (:tenant, :id)"
            " ORDER BY tenant, id LIMIT :limit"
        ),
        {"tenant": after[0], "id": after[1], "limit": limit},
    )
    return [Revision(*row) for row in rows]


_INDEXED = _COLUMNS.replace("a.metadata", "'{}'::jsonb AS metadata").replace("a.terms", "'{}'::text[] AS terms")


def indexed_page(conn: Connection, after: tuple[str, UUID], limit: int) -> list[AtomRow]:
    """The atoms after (tenant, id) in that order, with what the vector index has of them: without ``metadata``
    and ``terms``."""
    rows = conn.execute(
        text(
            f"SELECT {_INDEXED} FROM pm_atom a WHERE (a.tenant, a.id) > (:tenant, :id)"
            " ORDER BY a.tenant, a.id LIMIT :limit"
        ),
        {"tenant": after[0], "id": after[1], "limit": limit},
    ).mappings().all()  # fmt: skip
    return [_row(dict(row)) for row in rows]


def lock(conn: Connection, tenant: str, atom_id: UUID) -> AtomRow | None:
    """One atom, locked until the transaction ends."""
    row = conn.execute(
        text(f"SELECT {_COLUMNS} FROM pm_atom a WHERE a.tenant = :tenant AND a.id = :id FOR UPDATE"),
        {"tenant": tenant, "id": atom_id},
    ).mappings().one_or_none()  # fmt: skip
    return _row(dict(row)) if row else None


def lock_all(conn: Connection, tenant: str, ids: Iterable[UUID]) -> dict[UUID, AtomRow]:
    """Atoms by id, locked in the order of their ids until the transaction ends; unknown ids are absent."""
    wanted = sorted(ids)
    if not wanted:
        return {}
    rows = conn.execute(
        text(
            f"SELECT {_COLUMNS} FROM pm_atom a WHERE a.tenant = :tenant AND a.id = ANY(:ids) ORDER BY a.id FOR UPDATE"
        ),
        {"tenant": tenant, "ids": wanted},
    ).mappings()
    return {row["id"]: _row(dict(row)) for row in rows}


def change(
    conn: Connection, before: AtomRow, values: Mapping[str, Any], *, what: str, reason: str = "", actor: str = ""
) -> int:
    """Write ``values`` into the atom; keep what they replace in the history, note it in the outbox.

    Returns the new revision. The atom must be locked by the caller."""
    revision = before.revision + 1
    known = {k: getattr(before, k) for k in values if k in AtomRow.__dataclass_fields__}
    conn.execute(
        pm_atom.update()
        .where(pm_atom.c.tenant == before.tenant, pm_atom.c.id == before.id)
        .values(**values, revision=revision, updated_at=text("clock_timestamp()"))
    )
    conn.execute(
        insert(pm_revision).values(
            tenant=before.tenant,
            id=new_id(),
            entity_type="atom",
            entity_id=before.id,
            revision=revision,
            change=what,
            before=_plain(known),
            reason=reason,
            actor=actor,
        )
    )
    outbox.enqueue(conn, before.tenant, "atom", [before.id])
    return revision


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    from pegas_memory.model import to_json

    return {k: to_json(v) for k, v in values.items()}


def supersede(conn: Connection, old: AtomRow, by: UUID, *, at: datetime, reason: str, actor: str = "") -> int:
    """Close ``old`` in favour of ``by``: its validity ends, its history stays."""
    values: dict[str, Any] = {"superseded_at": at, "superseded_by": by}
    if old.valid_to is None or old.valid_to > at:
        values["valid_to"] = at
    return change(conn, old, values, what="superseded", reason=reason, actor=actor)


def mark_stale(conn: Connection, row: AtomRow, reason: str) -> int:
    return change(conn, row, {"status": AtomStatus.STALE.value, "status_reason": reason}, what="stale", reason=reason)


_LIVE_SHOWN = (
    "CASE WHEN a.retracted_at IS NOT NULL THEN 'retracted' WHEN a.superseded_at IS NOT NULL THEN 'superseded'"
    " ELSE a.status END"
)


def _conditions(where: SearchFilter) -> tuple[str, dict[str, Any]]:
    """The one predicate that every arm and list shares."""
    parts = ["a.tenant = :tenant"]
    values: dict[str, Any] = {"tenant": where.tenant}

    def add(condition: str, **bound: Any) -> None:
        parts.append(condition)
        values.update(bound)

    if where.types:
        add("a.type = ANY(:types)", types=sorted(where.types))
    if where.shown_as:
        add(f"{_LIVE_SHOWN} = ANY(:shown)", shown=sorted(where.shown_as))
    if where.tags:
        add("a.tags && :tags", tags=sorted(where.tags))
    if where.doc_id is not None:
        add(
            "EXISTS (SELECT FROM pm_citation c WHERE c.tenant = a.tenant AND c.atom_id = a.id AND c.doc_id = :doc_id)",
            doc_id=where.doc_id,
        )
    if where.since is not None:
        add("coalesce(a.occurred_at, a.created_at) >= :since", since=where.since)
    if where.until is not None:
        add("coalesce(a.occurred_at, a.created_at) <= :until", until=where.until)
    if where.min_confidence is not None:
        add("a.confidence >= :min_confidence", min_confidence=where.min_confidence)
    if where.as_of is not None:
        add(
            "coalesce(a.valid_from, a.created_at) <= :as_of AND (a.valid_to IS NULL OR a.valid_to > :as_of)"
            " AND (a.superseded_at IS NULL OR a.superseded_at > :as_of)"
            " AND (a.retracted_at IS NULL OR a.retracted_at > :as_of)",
            as_of=where.as_of,
        )
    return " AND ".join(parts), values


def matching(conn: Connection, where: SearchFilter, ids: Sequence[UUID]) -> dict[UUID, AtomRow]:
    """Those of ``ids`` that meet the filter now, whatever a late projection said."""
    if not ids:
        return {}
    condition, values = _conditions(where)
    rows = conn.execute(
        text(f"SELECT {_COLUMNS} FROM pm_atom a WHERE {condition} AND a.id = ANY(:ids)"), {**values, "ids": list(ids)}
    ).mappings()
    return {row["id"]: _row(dict(row)) for row in rows}


def page_of(conn: Connection, where: SearchFilter, ids: Sequence[UUID], *, skip: int, limit: int) -> list[AtomRow]:
    """Like :func:`matching`, in the order of ``ids``: ``limit`` of those that meet the filter, after ``skip``.

    OFFSET 0 keeps each look-up on the primary key, whatever the planner takes the tenant's size to be."""
    if not ids:
        return []
    near = ids[: 2 * (skip + limit)]  # few are hidden by the filter, so that all of them are seldom needed
    page = _page_of(conn, where, near, skip, limit)
    return page if len(page) == limit or len(near) == len(ids) else _page_of(conn, where, ids, skip, limit)


def _page_of(conn: Connection, where: SearchFilter, ids: Sequence[UUID], skip: int, limit: int) -> list[AtomRow]:
    condition, values = _conditions(where)
    rows = conn.execute(
        text(
            f"""SELECT {_COLUMNS} FROM unnest(CAST(:ids AS uuid[])) WITH ORDINALITY AS wanted (id, n)
            CROSS JOIN LATERAL (SELECT * FROM pm_atom a WHERE {condition} AND a.id = wanted.id OFFSET 0) a
            ORDER BY wanted.n LIMIT :limit OFFSET :skip"""
        ),
        {**values, "ids": list(ids), "limit": limit, "skip": skip},
    ).mappings()
    return [_row(dict(row)) for row in rows]


def newest(conn: Connection, where: SearchFilter, limit: int, *, before: tuple[datetime, UUID] | None) -> list[AtomRow]:
    """Newest first, after the position ``before`` = (created_at, id) of the last one shown."""
    condition, values = _conditions(where)
    if before is not None:
        condition += " AND (a.created_at, a.id) < (:before_time, :before_id)"
        values |= {"before_time": before[0], "before_id": before[1]}
    rows = conn.execute(
        text(f"SELECT {_COLUMNS} FROM pm_atom a WHERE {condition} ORDER BY a.created_at DESC, a.id DESC LIMIT :limit"),
        {**values, "limit": limit},
    ).mappings()
    return [_row(dict(row)) for row in rows]


def by_terms(conn: Connection, where: SearchFilter, terms: Sequence[str], limit: int) -> list[tuple[UUID, float]]:
    """The lexical arm when the vector engine is down: share of the question's terms that an atom holds."""
    if not terms:
        return []
    condition, values = _conditions(where)
    rows = conn.execute(
        text(
            f"""SELECT a.id, hits.n / CAST(:total AS float) AS score FROM pm_atom a
            CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(a.terms) t WHERE t = ANY(:terms)) hits
            WHERE {condition} AND a.terms && :terms ORDER BY score DESC, a.id LIMIT :limit"""
        ),
        {**values, "terms": list(terms), "total": len(terms), "limit": limit},
    ).all()
    return [(row[0], float(row[1])) for row in rows]


def dedup_waiting(conn: Connection, limit: int) -> list[tuple[str, UUID]]:
    """Live atoms that were stored without a look for near duplicates (the embedder was down)."""
    rows = conn.execute(
        text(
            f"SELECT tenant, id FROM pm_atom a WHERE dedup_pending AND {LIVE} AND NOT EXISTS (SELECT FROM pm_tenant t"
            " WHERE t.id = a.tenant AND t.deleted_at IS NOT NULL) ORDER BY tenant, id LIMIT :limit"
        ),
        {"limit": limit},
    ).all()
    return [(row[0], row[1]) for row in rows]


def settle_dedup(conn: Connection, tenant: str, ids: Iterable[UUID]) -> None:
    conn.execute(
        text("UPDATE pm_atom SET dedup_pending = false WHERE tenant = :tenant AND id = ANY(:ids)"),
        {"tenant": tenant, "ids": list(ids)},
    )
