"""Documents: ingest, its jobs, and looking one up."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

from pegas_memory.db import citations, documents, jobs, tenants
from pegas_memory.db.jobs import JobRow
from pegas_memory.errors import EmptyText, InvalidParameter, NotFound, TextTooLong
from pegas_memory.ingest import allowed_path
from pegas_memory.model import (
    MAX_CARRIED_BYTES,
    AtomCounts,
    Degraded,
    Distill,
    DocumentAnswer,
    DocumentKind,
    ErrorAnswer,
    IngestAnswer,
    IngestRequest,
    JobAnswer,
    JobState,
)
from pegas_memory.pipeline.folders import split_pattern
from pegas_memory.pipeline.reading import is_address
from pegas_memory.service.rooms import OpenRooms, degraded_by, failing_lanes
from pegas_memory.text import DOCUMENT_LIMIT, URI_LIMIT, clean_json, clean_tags, clean_text

LONGEST_WAIT = 45.0
"""Seconds that a call waits for its job before it answers with the job's id (clients give up at 60)."""
_POLL = (0.01, 0.25)
ENDED = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})

OnProgress = Callable[[IngestAnswer], None]


def ingest(
    rooms: OpenRooms,
    tenant: str,
    request: IngestRequest,
    *,
    wait_seconds: float = LONGEST_WAIT,
    on_progress: OnProgress | None = None,
) -> IngestAnswer:
    """Queue the ingest as a job and wait for it, at most ``wait_seconds``; then its id is the answer.

    Raises:
        EmptyText, InvalidParameter, PathNotAllowed, UrlNotAllowed, TextTooLong.
    """
    payload = _payload(rooms, request)
    with rooms.db.tenant(tenant) as conn:
        tenants.join(conn, tenant)
        job_id = jobs.create(conn, tenant, "ingest", payload)
    rooms.nudge()
    if not request.wait:
        return job(rooms, tenant, job_id)
    return wait(rooms, tenant, job_id, wait_seconds, on_progress)


def wait(
    rooms: OpenRooms, tenant: str, job_id: UUID, seconds: float, on_progress: OnProgress | None = None
) -> IngestAnswer:
    """The job's answer once it ended, or its present state after ``seconds``."""
    deadline = time.monotonic() + seconds
    pause, longest = _POLL
    while True:
        answer = job(rooms, tenant, job_id)
        if on_progress is not None:
            on_progress(answer)
        if answer.state in ENDED or time.monotonic() >= deadline:
            return answer
        time.sleep(pause)
        pause = min(longest, pause * 1.5)


def _payload(rooms: OpenRooms, request: IngestRequest) -> dict[str, Any]:
    source = request.source.strip()
    if len(source) > URI_LIMIT:
        raise TextTooLong(f"`source` has {len(source):,} characters; at most {URI_LIMIT:,} fit.")
    if sum(map(bool, (source, request.text, request.data))) != 1:
        raise InvalidParameter("Give either `source` or `text`.", "`source` is a URL, a file or a folder.")
    if request.distill is Distill.LLM and not rooms.settings.llm:
        raise InvalidParameter("`distill` is llm but no language model is configured.", "Set PEGAS_LLM, or use auto.")
    if request.authority is not None and not 0 <= request.authority <= 1:
        raise InvalidParameter(f"`authority` is {request.authority}; it must be from 0 to 1.")
    settings = rooms.settings
    payload: dict[str, Any] = {
        **_checked_source(rooms, source, request.title),
        "title": clean_text(request.title, field="title", max_characters=URI_LIMIT, multiline=False),
        "kind": request.kind.value if request.kind else None,
        "authority": request.authority,
        "tags": list(clean_tags(request.tags)),
        "metadata": clean_json(dict(request.metadata), field="metadata"),
        "occurred_at": request.occurred_at.isoformat() if request.occurred_at else None,
        "distill": request.distill.value,
        "snippet": clean_text(request.snippet, field="snippet", max_characters=DOCUMENT_LIMIT),
        "roots": [str(root) for root in settings.ingest_roots],
        "allow_private": settings.allow_private_urls,
        "proxy_url": settings.proxy_url,
    }
    if request.text:
        text = clean_text(request.text, field="text", max_characters=DOCUMENT_LIMIT)
        if not any(character.isalnum() for character in text):
            raise EmptyText("`text` holds no word.")
        payload["text"] = text
    if request.data:
        if len(request.data) > MAX_CARRIED_BYTES:
            raise TextTooLong(
                f"The document has over {MAX_CARRIED_BYTES / 1e6:.0f} MB.", "Save it to a file and ingest the file."
            )
        payload["data"] = base64.b64encode(request.data).decode()
    return payload


def _checked_source(rooms: OpenRooms, source: str, title: str) -> dict[str, str]:
    """A URL as it is; a path resolved and below the roots of this process, with the pattern that follows it."""
    if not source:
        return {"source": ""}
    if source.lower().startswith("file:///"):
        source = unquote(urlsplit(source).path)
    if is_address(source):
        source = clean_text(source, field="source", max_characters=URI_LIMIT, multiline=False)
        if source.lower().startswith(("http://", "https://")):
            return {"source": source}
        raise InvalidParameter("`source` has a scheme that is not read; use http, https or a path.")
    roots, closed = rooms.settings.ingest_roots, (rooms.settings.home,)
    path, pattern = allowed_path(str(Path(source).expanduser()), roots, closed), ""
    if not path.exists():
        folder, pattern = split_pattern(source)
        path = allowed_path(str(Path(folder).expanduser()), roots, closed) if pattern else path
    if title and (pattern or path.is_dir()):
        raise InvalidParameter("`title` cannot be given for a folder.", "Leave it out, or ingest the files one by one.")
    return {"source": str(path), **({"pattern": pattern} if pattern else {})}


def job(rooms: OpenRooms, tenant: str, job_id: UUID) -> IngestAnswer:
    """The state of one ingest job.

    Raises:
        NotFound.
    """
    with rooms.db.tenant(tenant) as conn:
        row = jobs.find(conn, tenant, job_id)
    if row is None:
        raise NotFound("There is no job of that id.", "memory_stats lists the latest jobs.")
    return _as_ingest(rooms, tenant, row)


def _as_ingest(rooms: OpenRooms, tenant: str, row: JobRow) -> IngestAnswer:
    result = row.result
    found = result.get("document")
    document = DocumentAnswer(**{**found, "kind": DocumentKind(found["kind"])}) if found else None
    degraded = list(degraded_by(rooms.model())) if row.state in ENDED else []
    if row.state is JobState.QUEUED and not rooms.settings.needs_engine:
        degraded.append(Degraded("worker", "the job waits for a worker: run `pegas-memory worker`"))
    elif row.state is JobState.QUEUED:
        degraded += [Degraded("worker", f"jobs do not run: {error}") for error in failing_lanes(rooms, "jobs")[:1]]
    return IngestAnswer(
        job_id=row.id,
        state=row.state,
        doc_id=UUID(result["doc_id"]) if result.get("doc_id") else None,
        document=document,
        chunks=int(result.get("chunks", 0)),
        atoms=AtomCounts(**result["atoms"]) if "atoms" in result else _so_far(row),
        warnings=tuple(result.get("warnings", ())),
        error=_error(row),
        progress=row.progress,
        degraded=tuple(degraded),
        pending=rooms.written.pending(tenant) if row.state is JobState.DONE else 0,
    )


def _so_far(row: JobRow) -> AtomCounts:
    """What a job that has not ended, or was stopped, has stored."""
    counted = {name: int(row.checkpoint.get(name, 0)) for name in ("created", "duplicate")}
    return AtomCounts(**counted, failed=int(row.progress.get("failed", 0)))


def _error(row: JobRow) -> ErrorAnswer | None:
    return ErrorAnswer(**row.error) if row.error else None


def cancel(rooms: OpenRooms, tenant: str, job_id: UUID) -> IngestAnswer:
    """Ask a job to stop; what it stored stays. Raises NotFound."""
    job(rooms, tenant, job_id)
    with rooms.db.tenant(tenant) as conn:
        jobs.request_cancel(conn, tenant, job_id)
    return wait(rooms, tenant, job_id, 5.0)


def retry(rooms: OpenRooms, tenant: str, job_id: UUID) -> IngestAnswer:
    """Run a failed or cancelled job again; it goes on from what is stored.

    Raises:
        NotFound, InvalidParameter (the job is in another state).
    """
    state = job(rooms, tenant, job_id).state
    with rooms.db.tenant(tenant) as conn:
        tenants.join(conn, tenant)
        again = jobs.retry(conn, tenant, job_id, {"proxy_url": rooms.settings.proxy_url})
    if not again:
        raise InvalidParameter(f"The job is {state.value}; only a failed or cancelled one can be retried.")
    rooms.nudge()
    return wait(rooms, tenant, job_id, LONGEST_WAIT)


def job_answer(row: JobRow) -> JobAnswer:
    return JobAnswer(row.id, row.kind, row.state, row.progress, row.created_at, row.finished_at, _error(row))


def document(rooms: OpenRooms, tenant: str, doc_id: UUID) -> dict[str, Any]:
    """One document: what it is, how much of it is stored, and the beginning of its text.

    Raises:
        NotFound.
    """
    with rooms.db.tenant(tenant) as conn:
        row = documents.find(conn, tenant, doc_id)
        if row is None:
            raise NotFound("There is no document of that id.")
        return {
            "doc_id": row.id,
            "kind": row.kind,
            "title": row.title,
            "uri": row.uri,
            "authority": row.authority,
            "pages": row.pages,
            "characters": row.characters,
            "language": row.language,
            "revision": row.revision,
            "created_at": row.created_at,
            "ingested_at": row.ingested_at,
            "chunks": documents.chunk_count(conn, tenant, doc_id),
            "atoms": citations.count_of_document(conn, tenant, doc_id),
            "beginning": documents.body_of(conn, tenant, doc_id)[:2_000],
        }
