"""Ingest: a source → document → chunks → atoms with their quotes. Crash-safe: every batch is one
transaction, and running the job again adds only what is missing."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from pegas_memory import bm25, ingest
from pegas_memory.db import atoms, citations, documents, jobs, outbox, tenants
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.citations import NewCitation
from pegas_memory.db.documents import DocumentRow, NewDocument
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Connection, Database
from pegas_memory.db.turns import Turn
from pegas_memory.distill import chunk_atoms, distill_extractive
from pegas_memory.errors import Cancelled, InputError, NoUsableText
from pegas_memory.model import AtomCounts, Chunk, Distill, DocumentAnswer, DocumentKind, DraftAtom, Extracted, to_json
from pegas_memory.pipeline.jobs import Progress
from pegas_memory.pipeline.learn import Learner, Lesson, Recent
from pegas_memory.pipeline.reading import Read, files_below, is_address, read_source
from pegas_memory.text import language_of

BATCH = 32
"""Atoms in one transaction; also what is lost at most, and done again, when a worker is killed."""
FAILURES_SHOWN = 50
TURN_PAUSE = 0.2
WELL_COVERED = 0.75


@dataclass(slots=True)
class _Run:
    """One job being run, with what it has done so far."""

    job: JobRow
    progress: Progress
    stop: threading.Event
    created: int = 0
    duplicate: int = 0
    failed: list[str] = field(default_factory=list)

    def tell(self, **more: Any) -> None:
        """Note the progress; raises ``Cancelled`` when the job was asked to stop."""
        self.progress({"created": self.created, "duplicate": self.duplicate, "failed": len(self.failed), **more})
        if self.stop.is_set():
            raise Cancelled("The job was stopped.")

    def join(self, conn: Connection) -> None:
        """Write in this transaction, if the job was not ended by a purge of what it reads."""
        tenants.join(conn, self.job.tenant)
        if not jobs.goes_on(conn, self.job):
            raise Cancelled("The job was stopped.")


@dataclass(frozen=True, slots=True)
class _Outcome:
    document: DocumentRow
    kind: DocumentKind
    chunks: int
    warnings: tuple[str, ...]


class IngestWork:
    """The work of jobs of kind ``ingest``."""

    def __init__(self, db: Database, learner: Learner) -> None:
        self._db = db
        self._learner = learner

    def __call__(self, job: JobRow, progress: Progress, stop: threading.Event) -> dict[str, Any]:
        run = _Run(job, progress, stop)
        source = str(job.payload.get("source", ""))
        if source and not is_address(source) and Path(source).is_dir():
            return self._folder(run, Path(source))
        outcome = self._document(run, read_source(job.payload))
        return _answer(run, outcome, outcome.chunks, outcome.warnings)

    def _folder(self, run: _Run, folder: Path) -> dict[str, Any]:
        """One document a file; a file that cannot be read is a warning, never the end of the rest."""
        found = files_below(folder, [Path(root) for root in run.job.payload.get("roots", [])])
        if not found.files:
            raise NoUsableText("The folder holds no file of a kind that can be read. " + " ".join(found.skipped))
        outcomes: list[_Outcome] = []
        for number, path in enumerate(found.files):
            run.tell(files=number, of_files=len(found.files), file=path.name)
            try:
                outcomes.append(self._document(run, read_source({**run.job.payload, "source": str(path)})))
            except InputError as error:
                run.failed.append(f"{path.name}: {error.code}: {error.message}")
        if not outcomes:
            raise NoUsableText(f"None of the {len(found.files)} files could be read; the first said: {run.failed[0]}")
        first = [f"{len(outcomes)} documents were ingested; the first is shown."] if len(outcomes) > 1 else []
        more = len(run.failed) - FAILURES_SHOWN
        rest = [f"… and {more} more files failed."] if more > 0 else []
        warnings = (*first, *found.skipped, *run.failed[:FAILURES_SHOWN], *rest)
        return _answer(run, outcomes[0], sum(outcome.chunks for outcome in outcomes), warnings)

    def _document(self, run: _Run, read: Read) -> _Outcome:
        turn = Turn(self._db.url, f"document {run.job.tenant} {read.uri}")
        try:
            while not turn.mine():
                run.tell(waiting="another worker ingests this document", title=read.document.title)
                time.sleep(TURN_PAUSE)
            return self._alone(run, read)
        finally:
            turn.close()

    def _alone(self, run: _Run, read: Read) -> _Outcome:
        """With the document's turn: two versions written at once would mix their citations."""
        tenant = run.job.tenant
        chunks = ingest.chunk(read.document)
        drafts, distiller = _distilled(read.document, chunks, Distill(run.job.payload.get("distill", "auto")))
        if not drafts:
            raise NoUsableText("The source holds no text that could be stored.")
        with self._db.tenant(tenant) as conn:
            run.join(conn)
            known = documents.by_uri(conn, tenant, read.uri, locked=True)
            if known and known.ingested_at and known.same_as(read.content_hash, distiller):
                run.duplicate += citations.count_of_document(conn, tenant, known.id)
                chunk_count = documents.chunk_count(conn, tenant, known.id)
                return _Outcome(known, read.document.kind, chunk_count, _unchanged(run.job))
            row = documents.put(conn, tenant, _new_document(run.job, read, distiller))
            redistilled = known is not None and known.distilled_by != distiller
            chunk_ids = documents.replace_chunks(conn, tenant, row.id, chunks, keep_ids=not redistilled)
        lessons = [_lesson(run.job, row.id, draft, distiller, chunks, chunk_ids) for draft in drafts]
        self._learn(run, lessons, read.document.title)
        self._finish(tenant, row.id)
        return _Outcome(row, read.document.kind, len(chunks), (*read.document.warnings, *_left_out(read, drafts)))

    def _learn(self, run: _Run, lessons: Sequence[Lesson], title: str) -> None:
        recent = Recent()
        for begin in range(0, len(lessons), BATCH):
            run.tell(atoms=begin, of=len(lessons), title=title)
            batch = lessons[begin : begin + BATCH]
            learned, _ = self._learner.learn(run.job.tenant, batch, recent, begin=run.join)
            run.created += sum(one.created for one in learned)
            run.duplicate += sum(not one.created for one in learned)
        run.tell(atoms=len(lessons), of=len(lessons), title=title)

    def _finish(self, tenant: str, doc_id: UUID) -> None:
        """Drop what this version no longer says; atoms left without support become stale."""
        with self._db.tenant(tenant) as conn:
            touched = citations.drop_outdated(conn, tenant, doc_id)
            bare = set(citations.without_support(conn, tenant, touched))
            for atom_id in touched:
                row = atoms.lock(conn, tenant, atom_id)
                if row is not None and atom_id in bare:
                    atoms.mark_stale(conn, row, "its document changed and no longer says it")
            outbox.enqueue(conn, tenant, "atom", [i for i in touched if i not in bare])
            documents.mark_ingested(conn, tenant, doc_id)


def _unchanged(job: JobRow) -> tuple[str, ...]:
    said = "The same bytes were ingested before; nothing changed."
    given = [name for name in ("title", "tags", "metadata") if job.payload.get(name)]
    return (f"{said} The {' and '.join(given)} of this call were not applied." if given else said,)


def _left_out(read: Read, drafts: Sequence[DraftAtom]) -> tuple[str, ...]:
    """Says when much of the text stands in no atom, so that nobody takes it for findable."""
    total = sum(1 for character in read.document.text if not character.isspace())
    quoted, end = 0, 0
    for draft in sorted(drafts, key=lambda draft: draft.locator.start):
        begin = max(draft.locator.start, end)
        end = max(end, draft.locator.end)
        quoted += sum(1 for character in read.document.text[begin:end] if not character.isspace())
    share = quoted / max(total, 1)
    if share >= WELL_COVERED:
        return ()
    return (f'The claims quote {share:.0%} of the text; distill="off" makes every passage findable.',)


def _distilled(document: Extracted, chunks: Sequence[Chunk], distill: Distill) -> tuple[list[DraftAtom], str]:
    if distill is Distill.OFF:
        return chunk_atoms(document, chunks), "off"
    return distill_extractive(document, chunks), "extractive-1"


def _new_document(job: JobRow, read: Read, distiller: str) -> NewDocument:
    payload, document = job.payload, read.document
    return NewDocument(
        kind=document.kind,
        uri=read.uri,
        title=document.title,
        body=document.text,
        content_hash=read.content_hash,
        distilled_by=distiller,
        language=document.language or language_of(document.text),
        pages=document.pages,
        authority=read.authority,
        tags=tuple(payload.get("tags", ())),
        metadata={**to_json(document.metadata), **payload.get("metadata", {})},
        warnings=document.warnings,
        occurred_at=_occurred(job),
    )


def _occurred(job: JobRow) -> datetime | None:
    given = job.payload.get("occurred_at")
    return datetime.fromisoformat(given) if given else None


def _lesson(
    job: JobRow, doc_id: UUID, draft: DraftAtom, distiller: str, chunks: Sequence[Chunk], chunk_ids: Sequence[UUID]
) -> Lesson:
    atom = NewAtom(
        type=draft.type,
        claim=draft.claim,
        content=draft.content,
        confidence=draft.confidence,
        importance=draft.importance,
        tags=tuple(job.payload.get("tags", ())),
        metadata={**to_json(draft.metadata), **job.payload.get("metadata", {})},
        occurred_at=_occurred(job),
        language=language_of(draft.claim),
        terms=tuple(bm25.terms(f"{draft.claim}\n{draft.content}" if draft.content else draft.claim)),
        distilled_by=distiller,
        doc_id=doc_id,
    )
    at = max(0, bisect_right(chunks, draft.locator.start, key=lambda chunk: chunk.locator.start) - 1)
    return Lesson(atom, (NewCitation(doc_id, draft.quote, draft.locator, chunk_id=chunk_ids[at]),))


def _answer(run: _Run, outcome: _Outcome, chunks: int, warnings: Sequence[str]) -> dict[str, Any]:
    row = outcome.document
    document = DocumentAnswer(
        outcome.kind, row.title, row.uri, row.pages, row.characters, row.language, row.content_hash
    )
    return {
        "doc_id": str(row.id),
        "document": to_json(document),
        "chunks": chunks,
        "atoms": to_json(AtomCounts(run.created, run.duplicate, len(run.failed))),
        "warnings": list(warnings),
    }
