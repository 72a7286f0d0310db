"""Two ways from a file to its text: what PostgreSQL holds after an ingest, and what the parser answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import UUID

from sqlalchemy import text

from benchmarks.speed_run import own_home
from pegas_memory import PegasMemory
from pegas_memory.errors import PegasError
from pegas_memory.ingest import chunk, read_file
from pegas_memory.model import DocumentKind, IngestRequest, JobState

NO_EMBEDDER = {"embedder": "ollama:none", "ollama_url": "http://127.0.0.1:9"}
"""An endpoint that is not there: atoms are stored and cited all the same, and vectors would come later. Nothing is
merged as a near duplicate then."""
LONGEST = 600.0


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a file: its text, or the ``code`` of the error."""

    text: str = ""
    first_page: str = ""
    """The text before whatever is the first to be located on a later page, for PDFs."""
    title: str = ""
    language: str = ""
    pages: int | None = None
    code: str = ""
    seconds: float = 0.0
    misplaced: int = 0
    """Chunks and quotes that do not stand letter for letter where their locators say."""
    quotes: int = 0


class Way(Protocol):
    def __call__(self, path: Path, kind: DocumentKind | None = None) -> Kept: ...


def parsed(path: Path, kind: DocumentKind | None = None) -> Kept:
    """The parser's answer, cut into chunks."""
    began = time.perf_counter()
    try:
        document = read_file(path, kind)
    except PegasError as error:
        return Kept(code=error.code, seconds=time.perf_counter() - began)
    seconds = time.perf_counter() - began
    chunks = chunk(document)
    return Kept(
        document.text,
        document.text[: min((b.locator.start for b in document.blocks if (b.locator.page or 1) > 1), default=None)],
        document.title,
        document.language,
        document.pages,
        seconds=seconds,
        misplaced=sum(document.text[c.locator.start : c.locator.end] != c.text for c in chunks),
    )


class Stored:
    """Ingests a file as any client does and reads back what PostgreSQL then holds."""

    def __init__(self, memory: PegasMemory) -> None:
        self._memory = memory

    def __call__(self, path: Path, kind: DocumentKind | None = None) -> Kept:
        began = time.perf_counter()
        try:
            answer = self._memory.ingest(IngestRequest(source=str(path), kind=kind), wait_seconds=LONGEST)
        except PegasError as error:
            return Kept(code=error.code, seconds=time.perf_counter() - began)
        seconds = time.perf_counter() - began
        if answer.state is not JobState.DONE or answer.doc_id is None:
            code = answer.error.code if answer.error else answer.state.value
            return Kept(code=code, seconds=seconds)
        return self.read_back(answer.doc_id, seconds)

    def read_back(self, doc_id: UUID, seconds: float) -> Kept:
        where = {"tenant": self._memory.tenant, "id": doc_id}
        with self._memory.rooms.db.tenant(self._memory.tenant) as conn:
            body, title, language, pages = conn.execute(
                text("SELECT body, title, language, pages FROM pm_document WHERE tenant = :tenant AND id = :id"), where
            ).one()
            chunks = conn.execute(
                text("SELECT text, locator FROM pm_chunk WHERE tenant = :tenant AND doc_id = :id ORDER BY position"),
                where,
            ).all()
            quotes = conn.execute(
                text("SELECT quote, locator FROM pm_citation WHERE tenant = :tenant AND doc_id = :id"), where
            ).all()
        return Kept(
            body,
            body[: min((at["start"] for _, at in [*chunks, *quotes] if (at.get("page") or 1) > 1), default=None)],
            title,
            language,
            pages,
            seconds=seconds,
            misplaced=sum(body[at["start"] : at["end"]] != said for said, at in [*chunks, *quotes]),
            quotes=len(quotes),
        )


@contextmanager
def stored(roots: Sequence[Path]) -> Iterator[Stored]:
    """A product of its own, with an engine process and no vectors, that may read below ``roots``."""
    with own_home(ingest_roots=list(roots), **NO_EMBEDDER) as settings, PegasMemory.open(settings) as memory:
        yield Stored(memory)
