"""The engine's documents are read beside it: what ends a reading ends nothing else."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegas_memory import PegasMemory
from pegas_memory.config import Settings
from pegas_memory.errors import ParserFailed
from pegas_memory.model import IngestRequest, JobState, SearchRequest, StoreRequest
from tests.support import hostile_files
from tests.support.embedding_server import HashedEmbeddingServer
from tests.support.engines import engines_of, eventually, gone, kill, settings_for
from tests.support.readers import children

BOOK = "\n\n".join(f"The horse number {n} of the king weighs {n % 900} kilograms." for n in range(60_000))


@pytest.fixture
def settings(home: Path, tmp_path: Path, embedding_server: HashedEmbeddingServer) -> Settings:
    embedder = f"openai:hashed@{embedding_server.openai_url}"
    return settings_for(home, embedder=embedder, ingest_roots=(tmp_path,))


@pytest.fixture
def memory(settings: Settings) -> Iterator[PegasMemory]:
    with PegasMemory.open(settings) as memory:
        memory.store(StoreRequest(claim="Pegasus is a winged horse."))
        yield memory


@pytest.fixture
def engine(memory: PegasMemory, settings: Settings) -> int:
    (engine,) = engines_of(settings.home)
    return engine


def test_a_reader_that_is_killed_fails_its_job_and_nothing_else(memory: PegasMemory, engine: int) -> None:
    job = memory.ingest(IngestRequest(text=BOOK, wait=False)).job_id
    eventually(lambda: memory.job(job).progress.get("what") == "characters", "the book is being read")
    for child in children(engine):
        kill(child)
    answer = memory.wait_job(job, 60)
    assert answer.state is JobState.FAILED
    assert answer.error is not None
    assert answer.error.code == ParserFailed.code
    assert not gone(engine)
    assert memory.search(SearchRequest(query="Pegasus winged horse")).results


def test_hostile_files_fail_alone_and_searches_go_on(memory: PegasMemory, engine: int, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    bomb = hostile_files.pdf_with_content(hostile_files.deflated(2_000, b" "))
    (folder / "a.pdf").write_bytes(bomb)
    (folder / "b.epub").write_bytes(hostile_files.epub_with_page(b" " * 400_000_000))
    (folder / "c.txt").write_text("The mountain of the muses is called Helicon.", encoding="utf-8")
    job = memory.ingest(IngestRequest(source=str(folder), wait=False)).job_id
    while (answer := memory.job(job)).state in (JobState.QUEUED, JobState.RUNNING):
        assert memory.search(SearchRequest(query="Pegasus winged horse")).results
    assert answer.state is JobState.DONE
    assert answer.atoms is not None
    assert (answer.atoms.created, answer.atoms.failed) == (1, 2)
    assert not gone(engine)


def test_readers_go_with_an_engine_that_is_killed(memory: PegasMemory, engine: int) -> None:
    memory.ingest(IngestRequest(text=BOOK, wait=False))
    eventually(lambda: children(engine), "the book is being read")
    reading = children(engine)
    kill(engine)
    eventually(lambda: all(gone(child) for child in reading), "the readers are gone")


def test_readers_go_with_an_engine_that_leaves(memory: PegasMemory, engine: int) -> None:
    job = memory.ingest(IngestRequest(text="The mountain of the muses is called Helicon.")).job_id
    assert memory.job(job).state is JobState.DONE
    reading = children(engine)
    assert len(reading) == 1
    kill(engine, signal.SIGTERM)
    eventually(lambda: gone(engine) and all(gone(child) for child in reading), "they are gone")
