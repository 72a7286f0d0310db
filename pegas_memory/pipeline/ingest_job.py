"""Ingest: a source → document → chunks → atoms with their quotes. Crash-safe: every batch is one
transaction, and running the job again adds only what is missing."""

from __future__ import annotations

import hashlib
import re
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pegas_memory import bm25, ingest
from pegas_memory.db import atoms, citations, documents, outbox
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.citations import NewCitation
from pegas_memory.db.documents import DocumentRow, NewDocument
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Database
from pegas_memory.distill import chunk_atoms, distill_extractive
from pegas_memory.errors import Cancelled, FetchFailed, FetchTimeout, InputError, NoUsableText
from pegas_memory.model import (
    AtomCounts,
    Chunk,
    Distill,
    DocumentAnswer,
    DocumentKind,
    DraftAtom,
    Extracted,
    to_json,
)
from pegas_memory.pipeline.jobs import Progress
from pegas_memory.pipeline.learn import Learner, Lesson, Recent
from pegas_memory.text import language_of, sha256

BATCH = 32
"""Atoms in one transaction; also what is lost at most, and done again, when a worker is killed."""
SNIPPET_AUTHORITY = 0.2
MAX_FILES = 10_000
READABLE = frozenset({".txt", ".text", ".md", ".markdown", ".rst", ".html", ".htm", ".xhtml", ".pdf", ".epub"})
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


@dataclass(frozen=True, slots=True)
class Read:
    """A source as it was read, with what identifies its bytes."""

    document: Extracted
    uri: str
    content_hash: str
    authority: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    document: DocumentRow
    kind: DocumentKind
    chunks: int
    atoms: AtomCounts
    warnings: tuple[str, ...]
    unchanged: bool


class IngestWork:
    """The work of jobs of kind ``ingest``."""

    def __init__(self, db: Database, learner: Learner) -> None:
        self._db = db
        self._learner = learner

    def __call__(self, job: JobRow, progress: Progress, stop: threading.Event) -> dict[str, Any]:
        payload = job.payload
        source = str(payload.get("source", ""))
        path = Path(source) if source and not _is_url(source) else None
        if path is not None and path.is_dir():
            return self._folder(job, path, progress, stop)
        outcome = self._document(job, self._read(payload), progress, stop)
        return _answer(outcome)

    # --- reading ---------------------------------------------------------------------------------

    def _read(self, payload: Mapping[str, Any]) -> Read:
        source, title = str(payload.get("source", "")), str(payload.get("title", ""))
        kind = DocumentKind(payload["kind"]) if payload.get("kind") else None
        authority = payload.get("authority")
        if not source:
            text = str(payload.get("text", ""))
            read = ingest.read_text(text, kind or DocumentKind.TEXT, title)
            content_hash = sha256(text)
            return Read(read, f"text:{content_hash[:32]}", content_hash, authority)
        if _is_url(source):
            return self._fetch(payload, kind)
        path = ingest.allowed_path(source, [Path(root) for root in payload.get("roots", [])])
        document = ingest.read_file(path, kind)
        return Read(_titled(document, title), path.as_uri(), _file_hash(path), authority)

    def _fetch(self, payload: Mapping[str, Any], kind: DocumentKind | None) -> Read:
        url, snippet, title = (str(payload.get(name, "")) for name in ("source", "snippet", "title"))
        authority = payload.get("authority")
        try:
            fetched = ingest.fetch(
                url, proxy_url=str(payload.get("proxy_url", "")), allow_private=bool(payload.get("allow_private"))
            )
            document = ingest.read_bytes(
                fetched.data, kind or _web_kind(fetched.content_type), fetched.url, fetched.content_type
            )
        except (FetchFailed, FetchTimeout, NoUsableText) as error:
            if not snippet:
                raise
            document = ingest.read_text(snippet, DocumentKind.TEXT, title or url)
            note = f"The page could not be read ({error.code}); the snippet was stored in its place."
            document = replace(document, kind=DocumentKind.WEB, warnings=(*document.warnings, note))
            return Read(document, url, sha256(snippet), min(authority or SNIPPET_AUTHORITY, SNIPPET_AUTHORITY))
        return Read(_titled(document, title), url, _bytes_hash(fetched.data), authority)

    def _folder(self, job: JobRow, folder: Path, progress: Progress, stop: threading.Event) -> dict[str, Any]:
        """One document a file; a file that cannot be read is a warning, never the end of the rest."""
        roots = [Path(root) for root in job.payload.get("roots", [])]
        files = list(_files_below(folder, roots))
        if not files:
            raise NoUsableText("The folder holds no file of a kind that can be read.")
        outcomes: list[Outcome] = []
        failed: list[str] = []
        for number, path in enumerate(files, start=1):
            _check(stop)
            progress({"files": number - 1, "of": len(files), "file": path.name})
            try:
                read = self._read({**job.payload, "source": str(path), "title": "", "kind": None})
                outcomes.append(self._document(job, read, progress, stop))
            except InputError as error:
                failed.append(f"{path.name}: {error.code}: {error.message}")
        if not outcomes:
            raise NoUsableText(f"None of the {len(files)} files could be read; the first said: {failed[0]}.")
        return _folder_answer(outcomes, failed)

    # --- one document ------------------------------------------------------------------------------

    def _document(self, job: JobRow, read: Read, progress: Progress, stop: threading.Event) -> Outcome:
        distill = Distill(job.payload.get("distill", Distill.AUTO.value))
        chunks = ingest.chunk(read.document)
        drafts, distiller = _distilled(read.document, chunks, distill)
        if not drafts:
            raise NoUsableText("The source holds no text that could be stored.")
        with self._db.tenant(job.tenant) as conn:
            known = documents.by_uri(conn, job.tenant, read.uri, locked=True)
            if known and known.ingested_at and known.content_hash == _version(read, distiller):
                citation_count = citations.count_of_document(conn, job.tenant, known.id)
                counted = documents.chunk_count(conn, job.tenant, known.id)
                counts = AtomCounts(duplicate=citation_count)
                return Outcome(known, read.document.kind, counted, counts, (), unchanged=True)
            row = documents.put(conn, job.tenant, _new_document(job, read, distiller))
            chunk_ids = documents.replace_chunks(conn, job.tenant, row.id, chunks)
        counts = self._learn(job, read, row.id, chunks, chunk_ids, drafts, distiller, progress, stop)
        self._finish(job, row.id)
        return Outcome(row, read.document.kind, len(chunks), counts, read.document.warnings, unchanged=False)

    def _learn(
        self,
        job: JobRow,
        read: Read,
        doc_id: UUID,
        chunks: Sequence[Chunk],
        chunk_ids: Sequence[UUID],
        drafts: Sequence[DraftAtom],
        distiller: str,
        progress: Progress,
        stop: threading.Event,
    ) -> AtomCounts:
        recent = Recent()
        created = duplicate = 0
        starts = [chunk.locator.start for chunk in chunks]
        for begin in range(0, len(drafts), BATCH):
            _check(stop)
            batch = drafts[begin : begin + BATCH]
            lessons = [
                Lesson(_new_atom(job, doc_id, draft, distiller), (_citation(doc_id, draft, starts, chunk_ids),))
                for draft in batch
            ]
            learned, _ = self._learner.learn(job.tenant, lessons, recent)
            created += sum(one.created for one in learned)
            duplicate += sum(not one.created for one in learned)
            progress({"atoms": begin + len(batch), "of": len(drafts), "title": read.document.title})
        return AtomCounts(created, duplicate)

    def _finish(self, job: JobRow, doc_id: UUID) -> None:
        """Drop what this version no longer says; atoms left without support become stale."""
        with self._db.tenant(job.tenant) as conn:
            touched = citations.drop_outdated(conn, job.tenant, doc_id)
            bare = set(citations.without_support(conn, job.tenant, touched))
            for atom_id in touched:
                row = atoms.lock(conn, job.tenant, atom_id)
                if row is not None and atom_id in bare:
                    atoms.mark_stale(conn, row, "its document changed and no longer says it")
            outbox.enqueue(conn, job.tenant, "atom", [i for i in touched if i not in bare])
            documents.mark_ingested(conn, job.tenant, doc_id)


def _is_url(source: str) -> bool:
    return _SCHEME.match(source) is not None


def _web_kind(content_type: str) -> DocumentKind | None:
    return DocumentKind.WEB if "html" in content_type.lower() or not content_type else None


def _titled(document: Extracted, title: str) -> Extracted:
    return replace(document, title=title) if title else document


def _file_hash(path: Path) -> str:
    return _bytes_hash(path.read_bytes())


def _bytes_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _version(read: Read, distiller: str) -> str:
    """What must be equal for a second ingest to change nothing: the bytes, and how they were distilled."""
    return sha256(read.content_hash, distiller)


def _files_below(folder: Path, roots: Sequence[Path]) -> Iterator[Path]:
    found = 0
    for path in sorted(folder.rglob("*")):
        if found >= MAX_FILES:
            return
        if not path.is_file() or path.suffix.lower() not in READABLE:
            continue
        try:
            yield ingest.allowed_path(str(path), roots)
        except InputError:
            continue
        found += 1


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise Cancelled("The job was stopped.")


def _distilled(document: Extracted, chunks: Sequence[Chunk], distill: Distill) -> tuple[list[DraftAtom], str]:
    if distill is Distill.OFF:
        return chunk_atoms(document, chunks), "off"
    return distill_extractive(document, chunks), "extractive-1"


def _new_document(job: JobRow, read: Read, distiller: str) -> NewDocument:
    payload, document = job.payload, read.document
    occurred = payload.get("occurred_at")
    return NewDocument(
        kind=document.kind,
        uri=read.uri,
        title=document.title,
        body=document.text,
        content_hash=_version(read, distiller),
        language=document.language or language_of(document.text),
        pages=document.pages,
        authority=read.authority,
        tags=tuple(payload.get("tags", ())),
        metadata={**to_json(document.metadata), **payload.get("metadata", {})},
        warnings=document.warnings,
        occurred_at=datetime.fromisoformat(occurred) if occurred else None,
    )


def _new_atom(job: JobRow, doc_id: UUID, draft: DraftAtom, distiller: str) -> NewAtom:
    occurred = job.payload.get("occurred_at")
    text = f"{draft.claim}\n{draft.content}" if draft.content else draft.claim
    return NewAtom(
        type=draft.type,
        claim=draft.claim,
        content=draft.content,
        confidence=draft.confidence,
        importance=draft.importance,
        tags=tuple(job.payload.get("tags", ())),
        metadata={**to_json(draft.metadata), **job.payload.get("metadata", {})},
        occurred_at=datetime.fromisoformat(occurred) if occurred else None,
        language=language_of(draft.claim),
        terms=tuple(bm25.terms(text)),
        distilled_by=distiller,
        doc_id=doc_id,
    )


def _citation(doc_id: UUID, draft: DraftAtom, starts: Sequence[int], chunk_ids: Sequence[UUID]) -> NewCitation:
    at = max(0, bisect_right(starts, draft.locator.start) - 1)
    return NewCitation(doc_id, draft.quote, draft.locator, chunk_id=chunk_ids[at] if chunk_ids else None)


def _answer(outcome: Outcome) -> dict[str, Any]:
    row = outcome.document
    warnings = list(outcome.warnings)
    if outcome.unchanged:
        warnings.append("The same bytes were ingested before; nothing changed.")
    document = DocumentAnswer(
        outcome.kind, row.title, row.uri, row.pages, row.characters, row.language, row.content_hash
    )
    return {
        "doc_id": str(row.id),
        "document": to_json(document),
        "chunks": outcome.chunks,
        "atoms": to_json(outcome.atoms),
        "warnings": warnings,
    }


def _folder_answer(outcomes: Sequence[Outcome], failed: Sequence[str]) -> dict[str, Any]:
    first = _answer(outcomes[0])
    counts = AtomCounts(sum(o.atoms.created for o in outcomes), sum(o.atoms.duplicate for o in outcomes), len(failed))
    warnings = [f"{len(outcomes)} documents were ingested; the first is shown."] if len(outcomes) > 1 else []
    shown = [*warnings, *failed[:50]]
    if len(failed) > 50:
        shown.append(f"… and {len(failed) - 50} more files failed.")
    return {**first, "chunks": sum(o.chunks for o in outcomes), "atoms": to_json(counts), "warnings": shown}
