"""What was read, as the rows that are written of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pegas_memory import bm25
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.citations import NewCitation
from pegas_memory.db.documents import DEFAULT_AUTHORITY, Described, DocumentRow, NewDocument
from pegas_memory.model import Chunk, DocumentKind, DraftAtom, to_json
from pegas_memory.pipeline.learn import Lesson
from pegas_memory.pipeline.reading import PARTIAL_AUTHORITY, SNIPPET, Item, Taken
from pegas_memory.reading import Reading
from pegas_memory.text import language_of

AUTHORITY_ELSE = "authority_else"
"""Key of the metadata of a document whose authority was lowered: what it is once the whole is read."""


def is_same_version(known: DocumentRow, item: Item, content_hash: str) -> bool:
    """Whether reading these bytes again, as the caller wants them read, would change nothing."""
    if not known.ingested_at or not known.same_as(content_hash, item.distiller):
        return False
    kind = item.kind
    return kind is None or known.kind == kind or (kind is DocumentKind.WEB and known.kind != DocumentKind.HTML)


def described(payload: Mapping[str, Any], known: DocumentRow) -> Described:
    """What the call says, where it says anything; a folder's calls give no titles."""
    metadata = dict(payload.get("metadata") or {})
    authority = payload.get("authority")
    if authority is not None and AUTHORITY_ELSE in known.metadata:
        metadata[AUTHORITY_ELSE] = authority
        authority = min(authority, known.authority)
    return Described(
        title=payload.get("title") or None,
        tags=tuple(payload["tags"]) if payload.get("tags") else None,
        metadata=metadata or None,
        authority=authority,
        occurred_at=_occurred(payload),
    )


def new_document(item: Item, known: DocumentRow | None, taken: Taken, reading: Reading) -> NewDocument:
    payload, document = item.payload, reading.document
    authority = payload.get("authority")
    if authority is None:
        authority = known.metadata.get(AUTHORITY_ELSE, known.authority) if known else DEFAULT_AUTHORITY
    partial = document.metadata.get("access") == "paywall"
    most = PARTIAL_AUTHORITY if partial and taken.at_most is None else taken.at_most
    lowered = {AUTHORITY_ELSE: authority} if most is not None and authority > most else {}
    return NewDocument(
        kind=DocumentKind.WEB if taken.metadata.get(SNIPPET) else document.kind,
        uri=item.uri,
        title=document.title,
        body=document.text,
        content_hash=taken.content_hash,
        distilled_by=item.distiller,
        language=document.language or language_of(document.text),
        pages=document.pages,
        authority=authority if most is None else min(authority, most),
        tags=tuple(payload.get("tags", ())),
        metadata={**to_json(document.metadata), **taken.metadata, **lowered, **payload.get("metadata", {})},
        warnings=(*taken.warnings, *document.warnings),
        occurred_at=_occurred(payload),
        fetch_etag=taken.etag,
        fetch_last_modified=taken.last_modified,
    )


def lesson_of(
    item: Item, row: DocumentRow, draft: DraftAtom, chunks: Sequence[Chunk], chunk_ids: Sequence[UUID]
) -> Lesson:
    atom = NewAtom(
        type=draft.type,
        claim=draft.claim,
        content=draft.content,
        confidence=draft.confidence,
        importance=draft.importance,
        tags=tuple(item.payload.get("tags", ())),
        metadata={**to_json(draft.metadata), **item.payload.get("metadata", {})},
        occurred_at=_occurred(item.payload),
        language=language_of(draft.claim),
        terms=tuple(bm25.terms(f"{draft.claim}\n{draft.content}" if draft.content else draft.claim)),
        distilled_by=item.distiller,
        doc_id=row.id,
    )
    at = max(0, bisect_right(chunks, draft.locator.start, key=lambda chunk: chunk.locator.start) - 1)
    return Lesson(atom, (NewCitation(row.id, draft.quote, draft.locator, chunk_id=chunk_ids[at]),))


def _occurred(payload: Mapping[str, Any]) -> datetime | None:
    given = payload.get("occurred_at")
    return datetime.fromisoformat(given) if given else None
