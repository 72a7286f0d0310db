"""Jobs: whose turn it is, what is told meanwhile, and how one goes on after it was stopped, wherever that was."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from pegas_memory.db import jobs
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Database
from pegas_memory.errors import DatabaseUnavailable
from pegas_memory.model import Distill, IngestAnswer, IngestRequest, JobState
from pegas_memory.pipeline import JobRunner, Learner
from pegas_memory.pipeline.ingest_job import BATCH, IngestWork
from pegas_memory.pipeline.jobs import MOST_OF_ONE
from pegas_memory.reading import Reader
from tests.support.embedding_server import HashedEmbeddingServer
from tests.support.local_memory import LocalMemory


@pytest.fixture
def db(migrated_url: str) -> Iterator[Database]:
    opened = Database(migrated_url)
    yield opened
    opened.close()


def queue(db: Database, tenant: str, count: int = 1) -> None:
    with db.tenant(tenant) as conn:
        conn.execute(
            text(
                "INSERT INTO pm_job (tenant, id, kind, payload) SELECT :tenant, gen_random_uuid(), 'wait',"
                " jsonb_build_object('n', n) FROM generate_series(1, :count) n"
            ),
            {"tenant": tenant, "count": count},
        )


def states(db: Database, tenant: str) -> list[str]:
    with db.tenant(tenant) as conn:
        return list(conn.execute(text("SELECT state FROM pm_job ORDER BY created_at, id")).scalars())


def runner(db: Database, work: Callable[[JobRow], None]) -> JobRunner:
    def run(job: JobRow, progress: object, stop: threading.Event) -> dict[str, Any]:
        work(job)
        return {}

    return JobRunner(db, {"wait": run})


def test_one_call_claims_one_job_however_it_is_planned(db: Database) -> None:
    queue(db, "one", 3)
    with db.everything() as conn:
        for way in ("hashjoin", "mergejoin", "material", "hashagg", "sort"):
            conn.execute(text(f"SET LOCAL enable_{way} = off"))
        assert jobs.claim(conn, "worker") is not None
    assert sorted(states(db, "one")) == ["queued", "queued", "running"]


def test_tenants_take_turns(db: Database) -> None:
    queue(db, "many", 5)
    queue(db, "few")
    queue(db, "some", 2)
    served: list[str] = []
    one = runner(db, lambda job: served.append(job.tenant))
    while one.run_next(threading.Event()):
        pass
    assert served == ["many", "few", "some", "many", "some", "many", "many", "many"]


def test_long_jobs_of_one_tenant_leave_a_lane_to_others(db: Database) -> None:
    queue(db, "long", 5)
    go_on = threading.Event()
    one = runner(db, lambda job: None if job.tenant == "short" else go_on.wait(30) and None)
    lanes = [threading.Thread(target=one.run_next, args=(threading.Event(),)) for _ in range(MOST_OF_ONE)]
    for lane in lanes:
        lane.start()
    while states(db, "long").count("running") < MOST_OF_ONE:
        time.sleep(0.01)
    assert not one.run_next(threading.Event()), "the last lane is for somebody else"
    queue(db, "short")
    assert one.run_next(threading.Event())
    assert states(db, "short") == ["done"]
    go_on.set()
    for lane in lanes:
        lane.join()


def test_ten_thousand_waiting_jobs_slow_nobody_down(db: Database) -> None:
    queue(db, "flood", 10_000)
    queue(db, "one")
    one = runner(db, lambda job: None)
    began = time.monotonic()
    for _ in range(20):
        assert one.run_next(threading.Event())
    assert (time.monotonic() - began) / 20 < 0.5
    assert states(db, "one") == ["done"]
    assert states(db, "flood").count("done") == 19


def test_a_text_of_a_job_is_not_read_to_tell_its_state(db: Database) -> None:
    with db.tenant("t") as conn:
        job_id = jobs.create(conn, "t", "ingest", {"text": "x" * 5_000_000, "n": 1})
        found = jobs.find(conn, "t", job_id)
    assert found is not None
    assert found.payload == {}


# --- going on ---------------------------------------------------------------------------------------------

PASSAGES = 400


class Stopped(Exception):
    """As if the process ended here: nothing that the job does catches it, no handler runs after it."""


def book(count: int = PASSAGES) -> str:
    filler = " ".join(f"word{n}" for n in range(120))
    return "\n\n".join(f"Passage {n} says {n * 7}: {filler}." for n in range(count))


@contextmanager
def worker(memory: LocalMemory) -> Iterator[Callable[[UUID, int], Mapping[str, Any]]]:
    """``run(job_id, batches)`` runs the job here until so many batches are committed, then dies; 0: to its end."""
    reader = Reader()

    def run(job_id: UUID, batches: int = 0) -> Mapping[str, Any]:
        with memory.rooms.db.everything() as conn:
            job = jobs.claim(conn, "test worker")
        assert job is not None
        assert job.id == job_id
        seen = 0

        def progress(state: Mapping[str, Any]) -> None:
            nonlocal seen
            seen += state.get("what") == "atoms"
            if batches and seen > batches:
                raise Stopped

        learner = Learner(memory.rooms.db, memory.rooms.vectors, memory.rooms.searcher)
        try:
            result = IngestWork(memory.rooms.db, learner, reader)(job, progress, threading.Event())
        except Stopped:
            with memory.rooms.db.everything() as conn:
                assert jobs.release_all_of(conn, "test worker") == 1
            return {}
        with memory.rooms.db.everything() as conn:
            jobs.finish(conn, job, JobState.DONE, result=result)
        return result

    yield run
    reader.close()


def only_here(memory: LocalMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on only ``worker`` takes jobs: the memory's own worker does not ask as it."""
    claim = jobs.claim
    monkeypatch.setattr(jobs, "claim", lambda conn, name, *more: claim(conn, name) if name == "test worker" else None)


def queued(memory: LocalMemory, **request: object) -> UUID:
    return memory.ingest(IngestRequest(**request, wait=False)).job_id  # type: ignore[arg-type]


def counts(memory: LocalMemory) -> tuple[int, int, int, int]:
    stats = memory.stats()
    return stats.documents, stats.chunks, stats.citations, stats.atoms.total


@pytest.mark.fault(19)
def test_a_job_goes_on_at_the_claim_where_it_stopped(memory: LocalMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    only_here(memory, monkeypatch)
    job_id = queued(memory, text=book(), title="Book", distill=Distill.OFF)
    embedded: list[str] = []
    make = memory.rooms.vectors.made
    monkeypatch.setattr(memory.rooms.vectors, "made", lambda texts: embedded.extend(texts) or make(texts))
    with worker(memory) as run:
        for batches in (2, 3, 4):
            run(job_id, batches)
            before = memory.job(job_id)
            assert before.atoms.created == before.atoms.created // BATCH * BATCH > 0
        result = run(job_id, 0)
    total = result["atoms"]["created"]
    assert total >= PASSAGES
    assert result["atoms"] == {"created": total, "duplicate": 0, "failed": 0}
    assert counts(memory) == (1, total, total, total)
    assert len(embedded) == len(set(embedded)), "nothing was embedded twice"
    with memory.rooms.db.tenant(memory.tenant) as conn:
        positions = list(conn.execute(text("SELECT position FROM pm_chunk ORDER BY position")).scalars())
        chunks = conn.execute(text("SELECT count(DISTINCT chunk_id) FROM pm_citation")).scalar_one()
        revision = conn.execute(text("SELECT revision FROM pm_document")).scalar_one()
    assert positions == list(range(total))
    assert (chunks, revision) == (total, 1)


def test_another_version_in_between_starts_again(
    memory: LocalMemory, monkeypatch: pytest.MonkeyPatch, ingest_root: Path
) -> None:
    only_here(memory, monkeypatch)
    path = ingest_root / "between.txt"
    path.write_text(book(120), encoding="utf-8")
    job_id = queued(memory, source=str(path), distill=Distill.OFF)
    with worker(memory) as run:
        run(job_id, 2)
        path.write_text("Only this is left of the book.", encoding="utf-8")
        result = run(job_id, 0)
    assert result["chunks"] == 1
    assert memory.stats().chunks == 1
    live = [a for a, n in memory.stats().atoms.by_status.items() for _ in range(n) if a == "candidate"]
    assert len(live) == 1


def test_a_folder_goes_on_at_the_file_where_it_stopped(
    memory: LocalMemory, monkeypatch: pytest.MonkeyPatch, ingest_root: Path
) -> None:
    only_here(memory, monkeypatch)
    folder = ingest_root / "resumed"
    folder.mkdir()
    for n in range(6):
        (folder / f"{n}.txt").write_text(f"Buoy {n} lies {n} miles out.", encoding="utf-8")
    (folder / "2.pdf").write_bytes(b"%PDF-1.7 not really")
    job_id = queued(memory, source=str(folder))
    with worker(memory) as run:
        run(job_id, 7)
        assert 0 < memory.stats().documents < 6
        result = run(job_id, 0)
    assert result["atoms"] == {"created": 6, "duplicate": 0, "failed": 1}
    assert counts(memory) == (6, 6, 6, 6)


def test_one_broken_file_never_spoils_the_others(
    memory: LocalMemory, monkeypatch: pytest.MonkeyPatch, ingest_root: Path
) -> None:
    folder = ingest_root / "spoilt"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.txt").write_text(f"The {name} pier stands on {ord(name)} piles.", encoding="utf-8")
    read = Reader.read

    def breaks(self: Reader, source: Any, **more: Any) -> Any:
        if source.name == "b.txt":
            raise ZeroDivisionError("nobody foresaw this: /home/secret")
        return read(self, source, **more)

    monkeypatch.setattr(Reader, "read", breaks)
    answer = memory.ingest(IngestRequest(source=str(folder)))
    assert answer.state is JobState.DONE
    assert (answer.atoms.created, answer.atoms.failed) == (2, 1)
    (said,) = [warning for warning in answer.warnings if "internal_error" in warning]
    assert said.startswith("b.txt: internal_error")
    assert "secret" not in said


def test_a_part_that_is_down_pauses_the_whole_job(
    memory: LocalMemory, monkeypatch: pytest.MonkeyPatch, ingest_root: Path
) -> None:
    folder = ingest_root / "paused"
    folder.mkdir()
    (folder / "a.txt").write_text("The pier stands on 97 piles.", encoding="utf-8")
    read, fails = Reader.read, [DatabaseUnavailable("down")]

    def breaks(self: Reader, source: Any, **more: Any) -> Any:
        if fails:
            raise fails.pop()
        return read(self, source, **more)

    monkeypatch.setattr(Reader, "read", breaks)
    answer = memory.ingest(IngestRequest(source=str(folder)))
    assert answer.state is JobState.DONE
    assert (answer.atoms.created, answer.atoms.failed) == (1, 0)


# --- stopping and telling -----------------------------------------------------------------------------------


def test_a_cancel_ends_the_reading_at_once(memory: LocalMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = threading.Event()

    def hangs(self: Reader, source: Any, *, stop: threading.Event, **more: Any) -> Any:
        from pegas_memory.errors import Cancelled

        entered.set()
        assert stop.wait(30)
        raise Cancelled("stopped")

    monkeypatch.setattr(Reader, "read", hangs)
    job_id = queued(memory, text="The pier stands on 97 piles.")
    assert entered.wait(20)
    began = time.monotonic()
    assert memory.cancel_job(job_id).state is JobState.CANCELLED
    assert time.monotonic() - began < 2.5
    monkeypatch.undo()
    assert memory.retry_job(job_id).state is JobState.DONE


def test_a_long_job_tells_how_far_it_has_come(memory: LocalMemory, embedding_server: HashedEmbeddingServer) -> None:
    told: list[IngestAnswer] = []
    answer = memory.ingest(IngestRequest(text=book(800), distill=Distill.OFF), on_progress=told.append)
    assert answer.state is JobState.DONE
    percents = [one.percent for one in told if one.state is JobState.RUNNING]
    assert percents == sorted(percents)
    assert any(50 < percent < 100 for percent in percents)
    assert any("atoms" in one.stage and " of 8" in one.stage for one in told)
    assert answer.percent == 100
