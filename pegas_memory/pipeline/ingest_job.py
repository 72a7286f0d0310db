"""Ingest: a source → document → chunks → atoms with their quotes. Crash-safe: every batch is one transaction
that also notes how far the job has come, and a job that is taken up again goes on from there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from pegas_memory import ingest
from pegas_memory.db import atoms, citations, documents, outbox
from pegas_memory.db.documents import DocumentRow, NewDocument
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Connection, Database
from pegas_memory.db.turns import Turn
from pegas_memory.errors import FetchFailed, FetchTimeout, InputError, NoUsableText, PegasError, UnsupportedKind
from pegas_memory.model import AtomCounts, DocumentAnswer, DocumentKind, to_json
from pegas_memory.pipeline.folders import Found, files_below, is_repository
from pegas_memory.pipeline.jobs import Progress
from pegas_memory.pipeline.learn import Learned, Learner, Recent
from pegas_memory.pipeline.reading import (
    SNIPPET,
    Item,
    Taken,
    digest,
    is_address,
    item_of,
    stand_in,
    take,
)
from pegas_memory.pipeline.rows import described, is_same_version, lesson_of, new_document
from pegas_memory.pipeline.run import Run
from pegas_memory.reading import Reader, Reading

log = logging.getLogger(__name__)

BATCH = 32
"""Atoms in one transaction; also what is lost at most, and done again, when a worker is killed."""
TURN_PAUSE = 0.2
WELL_COVERED = 0.75
RETRACTED = 'The document was retracted and stays hidden; memory_verify(verdict="restore") brings it back.'
_LOOK_AT_THE_PATH = "Check the path; quote a pattern, so that the shell leaves it alone."
SAME = "The same bytes were ingested before; nothing changed."


@dataclass(frozen=True, slots=True)
class _Outcome:
    document: DocumentRow
    chunks: int
    warnings: tuple[str, ...]


class IngestWork:
    """The work of jobs of kind ``ingest``. ``closed`` are folders from which no file is read."""

    def __init__(self, db: Database, learner: Learner, reader: Reader, closed: Sequence[Path] = ()) -> None:
        self._db = db
        self._learner = learner
        self._reader = reader
        self._closed = tuple(closed)

    def __call__(self, job: JobRow, progress: Progress, stop: threading.Event) -> dict[str, Any]:
        run = Run.of(job, progress, stop)
        source, pattern = (str(job.payload.get(name, "")) for name in ("source", "pattern"))
        if source and not is_address(source) and (pattern or Path(source).is_dir()):
            return self._folder(run, Path(source), pattern)
        outcome = self._document(run, item_of(job.payload, self._closed))
        return _answer(run, outcome, outcome.chunks, outcome.warnings)

    # --- many -------------------------------------------------------------------------------------------

    def _folder(self, run: Run, folder: Path, pattern: str) -> dict[str, Any]:
        """One document a file; a file that cannot be read is a warning, never the end of the rest."""
        payload = run.job.payload
        roots = [Path(root) for root in payload.get("roots", [])]
        repository = payload.get("kind") == DocumentKind.CODE_REPO or is_repository(folder)
        folder = ingest.allowed_path(str(folder), roots, self._closed)
        found = files_below(folder, roots, self._closed, pattern=pattern, repository=repository, check=run.tell)
        first: _Outcome | None = None
        count = chunks = 0
        for number, path in enumerate(found.files):
            run.base = {"files": number, "of_files": len(found.files), "file": path.name}
            run.tell()
            item = _file(payload, path, folder, repository)
            outcome = self._one_of_many(run, item, found, repository)
            if outcome is not None:
                first, count, chunks = first or outcome, count + 1, chunks + outcome.chunks
        run.base = {"files": len(found.files), "of_files": len(found.files)}
        run.tell()
        if not pattern:
            self._note_gone(run, folder, found)
        if first is None:
            raise NoUsableText(" ".join([_nothing(run, found, pattern), *found.said()]), _LOOK_AT_THE_PATH)
        return _answer(run, first, chunks, _of_many(run, first, count, found))

    def _note_gone(self, run: Run, folder: Path, found: Found) -> None:
        """What was read from the folder before and is not among its files now, gone or left out, keeps its claims."""
        with self._db.tenant(run.job.tenant) as conn:
            known = documents.uris_below(conn, run.job.tenant, f"{folder.as_uri()}/")
        gone = len(known - {path.as_uri() for path in found.files})
        if gone:
            found.skipped["documents read from here before are not among these files; their claims stand"] = gone

    def _one_of_many(self, run: Run, item: Item, found: Found, repository: bool) -> _Outcome | None:
        """What became of one file; None when it was passed over or failed, which is then noted."""
        assert item.path is not None
        try:
            if repository and (reason := ingest.not_written(item.path.name, ingest.read_allowed(item.path))):
                found.skipped[f"{reason} files were left out"] += 1
                return None
            outcome = self._finished(run, item)
            if outcome is not None:
                return outcome
            outcome = self._document(run, item)
            self._passed(run, item.path)
            return outcome
        except UnsupportedKind:
            found.skipped["files of other kinds were left out"] += 1
        except InputError as error:
            run.fail(f"{item.path.name}: {error.code}: {error.message}")
        except PegasError:
            raise
        except Exception as error:
            log.exception("job %s: a file of its folder failed", run.job.id)
            run.fail(f"{item.path.name}: internal_error: it failed unexpectedly ({type(error).__name__}).")
        return None

    def _finished(self, run: Run, item: Item) -> _Outcome | None:
        """A file that this job has ingested before it was interrupted, and that is still the same."""
        if item.path is None or str(item.path) > run.done.last:
            return None
        content_hash = digest(ingest.read_allowed(item.path))
        with self._db.tenant(run.job.tenant) as conn:
            known = documents.by_uri(conn, run.job.tenant, item.uri)
            if known is None or not is_same_version(known, item, content_hash):
                return None
            return _Outcome(known, documents.chunk_count(conn, run.job.tenant, known.id), ())

    def _passed(self, run: Run, path: Path) -> None:
        reached = replace(run.done, last=max(run.done.last, str(path)))
        with self._db.tenant(run.job.tenant) as conn:
            run.save(conn, reached)
        run.done = reached

    # --- one --------------------------------------------------------------------------------------------

    def _document(self, run: Run, item: Item) -> _Outcome:
        """With the document's turn: two versions written at once would mix their citations."""
        turn = Turn(self._db.url, f"document {run.job.tenant} {item.uri}")
        try:
            while not turn.mine():
                run.tell(waiting="another worker ingests this document")
                time.sleep(TURN_PAUSE)
            return self._alone(run, item)
        finally:
            turn.close()

    def _alone(self, run: Run, item: Item) -> _Outcome:
        with self._db.tenant(run.job.tenant) as conn:
            known = documents.by_uri(conn, run.job.tenant, item.uri)
        try:
            taken = take(item, known)
            if known and (taken is None or is_same_version(known, item, taken.content_hash)):
                return self._counted(run, known) or self._unchanged(run, known, SAME)
            assert taken is not None
            return self._version(run, item, known, taken, self._read(run, taken))
        except (FetchFailed, FetchTimeout, NoUsableText) as error:
            if not is_address(item.uri) or not item.payload.get("snippet"):
                raise
            if known and known.ingested_at and not known.metadata.get(SNIPPET):
                note = f"The page could not be read ({error.code}); what was read of it before stands."
                return self._unchanged(run, known, note)
            taken = stand_in(item, error.code)
            if known and is_same_version(known, item, taken.content_hash):
                return self._unchanged(run, known, *taken.warnings)
            return self._version(run, item, known, taken, self._read(run, taken))

    def _read(self, run: Run, taken: Taken) -> Reading:
        run.tell(what="reading")
        reading = self._reader.read(
            taken.source, stop=run.stop, progress=lambda what, done, of: run.tell(what=what, done=done, of=of)
        )
        if not reading.drafts:
            raise NoUsableText("The source holds no text that could be stored.")
        return reading

    def _version(self, run: Run, item: Item, known: DocumentRow | None, taken: Taken, reading: Reading) -> _Outcome:
        """Bring the document to what was read, or go on doing so."""
        tenant = run.job.tenant
        new = new_document(item, known, taken, reading)
        with self._db.tenant(tenant) as conn:
            run.join(conn)
            row = documents.by_uri(conn, tenant, item.uri, locked=True)
            begun = documents.chunk_ids(conn, tenant, row.id) if row and _begun(run, row, new) else []
            if row and begun and len(begun) == len(reading.chunks):
                reached, chunk_ids = run.done, begun
            else:
                redistilled = row is not None and row.distilled_by != new.distilled_by
                row = documents.put(conn, tenant, new)
                chunk_ids = documents.replace_chunks(conn, tenant, row.id, reading.chunks, keep_ids=not redistilled)
                reached = replace(run.done, uri=item.uri, revision=row.revision, lessons=0)
            run.save(conn, reached)
        run.done = reached
        self._learn(run, item, row, reading, chunk_ids)
        retracted = self._finish(run, row.id)
        hidden = (f"{retracted} of its claims were retracted and stay so.",) if retracted else ()
        notes = (*taken.warnings, *reading.document.warnings, *_left_out(reading), *hidden)
        return _Outcome(row, len(reading.chunks), notes)

    def _learn(self, run: Run, item: Item, row: DocumentRow, reading: Reading, chunk_ids: Sequence[UUID]) -> None:
        drafts, recent = reading.drafts, Recent()
        for begin in range(run.done.lessons, len(drafts), BATCH):
            run.tell(what="atoms", done=begin, of=len(drafts), title=row.title)
            batch = [lesson_of(item, row, draft, reading.chunks, chunk_ids) for draft in drafts[begin : begin + BATCH]]
            reached = run.done

            def end(conn: Connection, learned: Sequence[Learned]) -> None:
                nonlocal reached
                created = sum(one.created for one in learned)
                reached = replace(
                    run.done,
                    created=run.done.created + created,
                    duplicate=run.done.duplicate + len(learned) - created,
                    lessons=run.done.lessons + len(learned),
                )
                run.save(conn, reached)

            self._learner.learn(run.job.tenant, batch, recent, begin=run.join, end=end)
            run.done = reached
        run.tell(what="atoms", done=len(drafts), of=len(drafts), title=row.title)

    def _finish(self, run: Run, doc_id: UUID) -> int:
        """Drop what this version no longer says; atoms left without support become stale. Returns how many of
        its claims are retracted."""
        tenant = run.job.tenant
        with self._db.tenant(tenant) as conn:
            run.join(conn)
            touched = citations.drop_outdated(conn, tenant, doc_id)
            rows = atoms.lock_all(conn, tenant, touched)
            bare = set(citations.without_support(conn, tenant, touched))
            for atom_id, row in rows.items():
                if atom_id in bare:
                    atoms.mark_stale(conn, row, "its document changed and no longer says it")
            outbox.enqueue(conn, tenant, "atom", [i for i in touched if i not in bare])
            documents.mark_ingested(conn, tenant, doc_id)
            return documents.retracted_claims(conn, tenant, doc_id)

    def _counted(self, run: Run, known: DocumentRow) -> _Outcome | None:
        """A document that this very job had finished, and counted, when it was interrupted."""
        if (run.done.uri, run.done.revision) != (known.uri, known.revision):
            return None
        with self._db.tenant(run.job.tenant) as conn:
            return _Outcome(known, documents.chunk_count(conn, run.job.tenant, known.id), ())

    def _unchanged(self, run: Run, known: DocumentRow, *notes: str) -> _Outcome:
        """The bytes are known: only what the caller says of them may be new."""
        tenant, payload = run.job.tenant, run.job.payload
        with self._db.tenant(tenant) as conn:
            run.join(conn)
            changed = documents.describe(conn, tenant, known.id, described(payload, known))
            row = documents.find(conn, tenant, known.id)
            count = citations.count_of_document(conn, tenant, known.id)
            reached = replace(
                run.done, duplicate=run.done.duplicate + count, uri=known.uri, revision=known.revision, lessons=0
            )
            run.save(conn, reached)
            chunk_count = documents.chunk_count(conn, tenant, known.id)
        run.done = reached
        more = ("What the call says of the document was applied.",) if changed else ()
        hidden = (RETRACTED,) if known.retracted_at else ()
        return _Outcome(row or known, chunk_count, (*notes, *more, *hidden))


def _nothing(run: Run, found: Found, pattern: str) -> str:
    if run.failures:
        return f"None of the {len(found.files)} files could be read. The first said: {run.failures[0]}"
    return "No file matches the pattern." if pattern else "The folder holds no file that is read."


def _file(payload: Any, path: Path, folder: Path, repository: bool) -> Item:
    """A file of a folder; one of a repository goes by its path there, and source code is read as such."""
    if not repository:
        return Item({**payload, "source": str(path)}, path.as_uri(), path)
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name
    kind = DocumentKind.CODE_REPO.value if ingest.language_of_code(name) else None
    return Item({**payload, "source": str(path), "kind": kind}, path.as_uri(), path, name)


def _begun(run: Run, row: DocumentRow, new: NewDocument) -> bool:
    """Whether this job was interrupted in the middle of just this version."""
    mine = run.done.uri == row.uri and run.done.revision == row.revision and run.done.lessons > 0
    return mine and row.ingested_at is None and row.same_as(new.content_hash, new.distilled_by)


def _of_many(run: Run, first: _Outcome, count: int, found: Found) -> tuple[str, ...]:
    head = [f"{count} documents were ingested; the first is shown."] if count > 1 else [*first.warnings]
    more = run.failed - len(run.failures)
    rest = [f"… and {more} more files failed."] if more > 0 else []
    return (*head, *found.said(), *run.failures, *rest)


def _left_out(reading: Reading) -> tuple[str, ...]:
    """Says when much of the text stands in no atom, so that nobody takes it for findable."""
    if reading.document.kind is DocumentKind.CODE_REPO:
        return ()
    text = reading.document.text
    total = sum(1 for character in text if not character.isspace())
    quoted, end = 0, 0
    for draft in sorted(reading.drafts, key=lambda draft: draft.locator.start):
        begin = max(draft.locator.start, end)
        end = max(end, draft.locator.end)
        quoted += sum(1 for character in text[begin:end] if not character.isspace())
    share = quoted / max(total, 1)
    if share >= WELL_COVERED:
        return ()
    return (f'The claims quote {share:.0%} of the text; distill="off" makes every passage findable.',)


def _answer(run: Run, outcome: _Outcome, chunks: int, warnings: Sequence[str]) -> dict[str, Any]:
    row = outcome.document
    document = DocumentAnswer(
        DocumentKind(row.kind), row.title, row.uri, row.pages, row.characters, row.language, row.content_hash
    )
    return {
        "doc_id": str(row.id),
        "document": to_json(document),
        "chunks": chunks,
        "atoms": to_json(AtomCounts(run.done.created, run.done.duplicate, run.failed)),
        "warnings": list(warnings),
    }
