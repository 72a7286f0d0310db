"""Documents and their chunks: where knowledge came from, and the passages as they were read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db import outbox
from pegas_memory.db.ids import new_id
from pegas_memory.model import Chunk, DocumentKind, Metadata, to_json
from pegas_memory.text import sha256

DEFAULT_AUTHORITY = 0.5


@dataclass(frozen=True, slots=True)
class NewDocument:
    kind: DocumentKind
    uri: str
    title: str
    body: str
    content_hash: str
    """sha256 of the bytes, as ``sha256sum`` gives it."""
    distilled_by: str = ""
    language: str = ""
    pages: int | None = None
    authority: float | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    occurred_at: datetime | None = None
    fetch_etag: str = ""
    fetch_last_modified: str = ""


@dataclass(frozen=True, slots=True)
class Described:
    """What a caller says of a document whose bytes are known; None leaves it as it is."""

    title: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: Metadata | None = None
    authority: float | None = None
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DocumentRow:
    id: UUID
    kind: str
    uri: str
    title: str
    authority: float
    content_hash: str
    distilled_by: str
    language: str
    characters: int
    pages: int | None
    revision: int
    ingested_at: datetime | None
    retracted_at: datetime | None
    created_at: datetime
    metadata: Mapping[str, Any]
    fetch_etag: str
    fetch_last_modified: str

    def same_as(self, content_hash: str, distilled_by: str) -> bool:
        """Whether reading these bytes, distilled this way, would change nothing."""
        return (self.content_hash, self.distilled_by) == (content_hash, distilled_by)


_COLUMNS = ", ".join(DocumentRow.__dataclass_fields__)


def find(conn: Connection, tenant: str, doc_id: UUID, *, locked: bool = False) -> DocumentRow | None:
    row = conn.execute(
        text(
            f"SELECT {_COLUMNS} FROM pm_document WHERE tenant = :tenant AND id = :id"
            + (" FOR UPDATE" if locked else "")
        ),
        {"tenant": tenant, "id": doc_id},
    ).one_or_none()
    return DocumentRow(*row) if row else None


def by_uri(conn: Connection, tenant: str, uri: str, *, locked: bool = False) -> DocumentRow | None:
    row = conn.execute(
        text(
            f"SELECT {_COLUMNS} FROM pm_document WHERE tenant = :tenant AND uri = :uri"
            + (" FOR UPDATE" if locked else "")
        ),
        {"tenant": tenant, "uri": uri},
    ).one_or_none()
    return DocumentRow(*row) if row else None


def cite_source(conn: Connection, tenant: str, *, uri: str, title: str, authority: float | None) -> UUID:
    """The document that a stored claim names as its source; one that is known already stays as it is."""
    key = uri or f"source:{sha256(title)[:32]}"
    kind = DocumentKind.WEB if key.startswith(("http://", "https://")) else DocumentKind.TEXT
    inserted = conn.execute(
        text(
            "INSERT INTO pm_document (tenant, id, kind, uri, title, authority) VALUES"
            " (:tenant, :id, :kind, :uri, :title, :authority) ON CONFLICT (tenant, uri) DO NOTHING RETURNING id"
        ),
        {
            "tenant": tenant,
            "id": new_id(),
            "kind": kind.value,
            "uri": key,
            "title": title or key,
            "authority": DEFAULT_AUTHORITY if authority is None else authority,
        },
    ).scalar_one_or_none()
    if inserted is not None:
        return UUID(str(inserted))
    known = by_uri(conn, tenant, key)
    assert known is not None
    return known.id


def put(conn: Connection, tenant: str, new: NewDocument) -> DocumentRow:
    """Insert the document, or bring the one of that URI to this version (``ingested_at`` is cleared)."""
    row = conn.execute(
        text(
            f"""INSERT INTO pm_document AS d (tenant, id, kind, uri, title, authority, content_hash, distilled_by, body,
                language, characters, pages, tags, metadata, warnings, occurred_at, fetch_etag, fetch_last_modified)
            VALUES (:tenant, :id, :kind, :uri, :title, coalesce(:authority, {DEFAULT_AUTHORITY}), :hash, :distilled_by,
                :body, :language, :characters, :pages, :tags, CAST(:metadata AS jsonb), :warnings, :occurred_at,
                :etag, :last_modified)
            ON CONFLICT (tenant, uri) DO UPDATE SET kind = excluded.kind, title = excluded.title,
                authority = coalesce(:authority, d.authority), content_hash = excluded.content_hash,
                distilled_by = excluded.distilled_by,
                body = excluded.body, language = excluded.language, characters = excluded.characters,
                pages = excluded.pages, tags = excluded.tags, metadata = excluded.metadata,
                warnings = excluded.warnings, occurred_at = excluded.occurred_at, revision = d.revision + 1,
                fetch_etag = excluded.fetch_etag, fetch_last_modified = excluded.fetch_last_modified,
                ingested_at = NULL, retracted_at = NULL, updated_at = clock_timestamp()
            RETURNING {_COLUMNS}"""
        ),
        {
            "tenant": tenant,
            "id": new_id(),
            "kind": new.kind.value,
            "uri": new.uri,
            "title": new.title or new.uri,
            "authority": new.authority,
            "hash": new.content_hash,
            "distilled_by": new.distilled_by,
            "body": new.body,
            "language": new.language,
            "characters": len(new.body),
            "pages": new.pages,
            "tags": list(new.tags),
            "metadata": json.dumps(new.metadata, ensure_ascii=False),
            "warnings": list(new.warnings),
            "occurred_at": new.occurred_at,
            "etag": new.fetch_etag,
            "last_modified": new.fetch_last_modified,
        },
    ).one()
    return DocumentRow(*row)


def replace_chunks(
    conn: Connection, tenant: str, doc_id: UUID, chunks: Sequence[Chunk], *, keep_ids: bool = True
) -> list[UUID]:
    """The document's chunks become exactly these; one whose text is unchanged keeps its id, unless
    ``keep_ids`` is false: then what cites the old ones is outdated.

    Returns an id for each chunk, in order."""
    known: dict[str, list[UUID]] = {}
    for chunk_hash, chunk_id in conn.execute(
        text("DELETE FROM pm_chunk WHERE tenant = :tenant AND doc_id = :doc_id RETURNING content_hash, id"),
        {"tenant": tenant, "doc_id": doc_id},
    ).all():
        known.setdefault(chunk_hash, []).append(chunk_id)
    ids: list[UUID] = []
    rows: list[dict[str, object]] = []
    for chunk in chunks:
        chunk_hash = sha256(chunk.text)
        reusable = known.get(chunk_hash) if keep_ids else None
        ids.append(reusable.pop() if reusable else new_id())
        rows.append(
            {
                "tenant": tenant,
                "id": ids[-1],
                "doc_id": doc_id,
                "position": chunk.position,
                "text": chunk.text,
                "locator": json.dumps(to_json(chunk.locator), ensure_ascii=False),
                "hash": chunk_hash,
            }
        )
    if rows:
        conn.execute(
            text(
                "INSERT INTO pm_chunk (tenant, id, doc_id, position, text, locator, content_hash) VALUES"
                " (:tenant, :id, :doc_id, :position, :text, CAST(:locator AS jsonb), :hash)"
            ),
            rows,
        )
    return ids


def chunk_ids(conn: Connection, tenant: str, doc_id: UUID) -> list[UUID]:
    """In the order of their positions."""
    rows = conn.execute(
        text("SELECT id FROM pm_chunk WHERE tenant = :tenant AND doc_id = :doc_id ORDER BY position"),
        {"tenant": tenant, "doc_id": doc_id},
    ).scalars()
    return list(rows)


def describe(conn: Connection, tenant: str, doc_id: UUID, new: Described) -> bool:
    """Write what the caller says of a document whose text is unchanged; tags and metadata reach its atoms as
    well, beside those that they have. False when it says nothing new."""
    bound = {
        "tenant": tenant,
        "id": doc_id,
        "title": new.title,
        "tags": None if new.tags is None else list(new.tags),
        "metadata": json.dumps(new.metadata or {}, ensure_ascii=False),
        "authority": new.authority,
        "occurred_at": new.occurred_at,
    }
    changed = conn.execute(text(_DESCRIBE), bound).one_or_none()
    retold = list(conn.execute(text(_RETELL), bound).scalars()) if new.tags or new.metadata else []
    outbox.enqueue(conn, tenant, "atom", retold)
    return changed is not None or bool(retold)


_DESCRIBE = """UPDATE pm_document d SET title = n.title, tags = n.tags, metadata = n.metadata, authority = n.authority,
        occurred_at = n.occurred_at, updated_at = clock_timestamp()
    FROM (SELECT coalesce(:title, title) AS title, coalesce(CAST(:tags AS text[]), tags) AS tags,
            metadata || CAST(:metadata AS jsonb) AS metadata, coalesce(:authority, authority) AS authority,
            coalesce(CAST(:occurred_at AS timestamptz), occurred_at) AS occurred_at
        FROM pm_document WHERE tenant = :tenant AND id = :id) n
    WHERE d.tenant = :tenant AND d.id = :id AND (d.title, d.tags, d.metadata, d.authority, d.occurred_at)
        IS DISTINCT FROM (n.title, n.tags, n.metadata, n.authority, n.occurred_at) RETURNING d.id"""
_RETELL = """WITH cited AS (
        SELECT a.id, a.tags, a.metadata FROM pm_atom a WHERE a.tenant = :tenant
        AND a.id IN (SELECT c.atom_id FROM pm_citation c WHERE c.tenant = :tenant AND c.doc_id = :id)
        AND NOT (a.tags @> coalesce(CAST(:tags AS text[]), '{}') AND a.metadata @> CAST(:metadata AS jsonb))
        ORDER BY a.id FOR UPDATE),
    told AS (
        UPDATE pm_atom a SET revision = a.revision + 1, updated_at = clock_timestamp(),
            metadata = CASE WHEN a.doc_id = :id THEN a.metadata || CAST(:metadata AS jsonb)
                ELSE CAST(:metadata AS jsonb) || a.metadata END,
            tags = a.tags || ARRAY(SELECT t FROM unnest(CAST(:tags AS text[])) t WHERE t <> ALL(a.tags))
        FROM cited c WHERE a.tenant = :tenant AND a.id = c.id RETURNING a.id, a.revision)
    INSERT INTO pm_revision (tenant, id, entity_type, entity_id, revision, change, before)
    SELECT :tenant, gen_random_uuid(), 'atom', t.id, t.revision, 'described again',
        jsonb_build_object('tags', c.tags, 'metadata', c.metadata)
    FROM told t JOIN cited c ON c.id = t.id RETURNING entity_id"""


def uris_below(conn: Connection, tenant: str, prefix: str) -> set[str]:
    """Addresses of documents that were read, are not retracted, and begin with ``prefix``."""
    rows = conn.execute(
        text(
            "SELECT uri FROM pm_document WHERE tenant = :tenant AND starts_with(uri, :prefix)"
            " AND content_hash <> '' AND retracted_at IS NULL"
        ),
        {"tenant": tenant, "prefix": prefix},
    ).scalars()
    return set(rows)


def retracted_claims(conn: Connection, tenant: str, doc_id: UUID) -> int:
    """How many claims that came from the document are hidden by a verdict."""
    found = conn.execute(
        text(
            "SELECT count(*) FROM pm_atom WHERE tenant = :tenant AND doc_id = :id"
            " AND retracted_at IS NOT NULL AND superseded_at IS NULL"
        ),
        {"tenant": tenant, "id": doc_id},
    )
    return int(found.scalar_one())


def mark_ingested(conn: Connection, tenant: str, doc_id: UUID) -> None:
    conn.execute(
        text("UPDATE pm_document SET ingested_at = clock_timestamp() WHERE tenant = :tenant AND id = :id"),
        {"tenant": tenant, "id": doc_id},
    )


def body_of(conn: Connection, tenant: str, doc_id: UUID) -> str:
    """The canonical text that the locators of this document's citations count in."""
    found = conn.execute(
        text("SELECT body FROM pm_document WHERE tenant = :tenant AND id = :id"), {"tenant": tenant, "id": doc_id}
    ).scalar_one_or_none()
    return str(found or "")


def chunk_count(conn: Connection, tenant: str, doc_id: UUID) -> int:
    return int(
        conn.execute(
            text("SELECT count(*) FROM pm_chunk WHERE tenant = :tenant AND doc_id = :id"),
            {"tenant": tenant, "id": doc_id},
        ).scalar_one()
    )
