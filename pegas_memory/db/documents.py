"""Documents and their chunks: where knowledge came from, and the passages as they were read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.ids import new_id
from pegas_memory.model import Chunk, DocumentKind, Metadata
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
    created_at: datetime

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
                language, characters, pages, tags, metadata, warnings, occurred_at)
            VALUES (:tenant, :id, :kind, :uri, :title, coalesce(:authority, {DEFAULT_AUTHORITY}), :hash, :distilled_by,
                :body, :language, :characters, :pages, :tags, CAST(:metadata AS jsonb), :warnings, :occurred_at)
            ON CONFLICT (tenant, uri) DO UPDATE SET kind = excluded.kind, title = excluded.title,
                authority = coalesce(:authority, d.authority), content_hash = excluded.content_hash,
                distilled_by = excluded.distilled_by,
                body = excluded.body, language = excluded.language, characters = excluded.characters,
                pages = excluded.pages, tags = excluded.tags, metadata = excluded.metadata,
                warnings = excluded.warnings, occurred_at = excluded.occurred_at, revision = d.revision + 1,
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
                "locator": json.dumps(
                    {
                        "start": chunk.locator.start,
                        "end": chunk.locator.end,
                        "page": chunk.locator.page,
                        "chapter": chunk.locator.chapter,
                        "headings": list(chunk.locator.headings),
                    },
                    ensure_ascii=False,
                ),
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
