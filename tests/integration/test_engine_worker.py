"""The worker's loop on a real PostgreSQL: what wakes it, what it survives, how it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from pegas_memory.db.session import Database
from pegas_memory.errors import DatabaseUnavailable, EmbedderUnavailable
from pegas_memory.worker import JOB_LANES, Lane, Worker
from tests.support.embedding_server import hashed_embedding_server
from tests.support.engines import engines_of, eventually

ROOT = Path(__file__).resolve().parents[2]
SLOW_TICK = 600.0


class Steps:
    """Counts its calls and does, at each, the next of ``acts``; then there is no more to do."""

    def __init__(self, *acts: object) -> None:
        self.calls = 0
        self._acts = list(acts)

    def __call__(self, _stop: threading.Event | None = None) -> bool:
        self.calls += 1
        act = self._acts.pop(0) if self._acts else False
        if isinstance(act, BaseException):
            raise act
        return bool(act)


@contextmanager
def running(worker: Worker) -> Iterator[threading.Event]:
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def test_notify_wakes_the_lane_that_it_is_for(migrated_url: str) -> None:
    project, jobs = Steps(), Steps()
    worker = Worker(migrated_url, project={"vector": project}, run_job=jobs, tick=SLOW_TICK)
    db = Database(migrated_url)

    def notify(channel: str) -> None:
        with db.everything() as conn:
            conn.execute(text("SELECT pg_notify(:channel, '')"), {"channel": channel})

    with running(worker):
        eventually(lambda: bool(worker.status()["listening"]) and not worker.busy, "it listens and rests")
        seen = project.calls, jobs.calls
        notify("pegas_outbox")
        eventually(lambda: project.calls == seen[0] + 1, "projection ran")
        assert jobs.calls == seen[1]
        notify("pegas_job")
        eventually(lambda: jobs.calls == seen[1] + 1, "jobs ran")
        assert project.calls == seen[0] + 1
        worker.wake()
        eventually(lambda: (project.calls, jobs.calls) == (seen[0] + 2, seen[1] + 2), "both ran")
    db.close()


def test_a_lost_listening_connection_is_opened_again(migrated_url: str) -> None:
    project = Steps()
    worker = Worker(migrated_url, project={"vector": project}, run_job=Steps(), tick=SLOW_TICK)
    db = Database(migrated_url)
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pegas-memory listener'"
    with running(worker):
        eventually(lambda: bool(worker.status()["listening"]), "it listens")
        with db.everything() as conn:
            conn.execute(text(kill))
        eventually(lambda: not worker.status()["listening"], "the connection is lost")
        eventually(lambda: bool(worker.status()["listening"]), "it listens again")
        eventually(lambda: not worker.busy, "it rests")
        seen = project.calls
        with db.everything() as conn:
            conn.execute(text("SELECT pg_notify('pegas_outbox', '')"))
        eventually(lambda: project.calls > seen, "projection ran")
    db.close()


def test_without_a_database_the_lanes_still_tick() -> None:
    project = Steps()
    url = "postgresql+psycopg://nobody@127.0.0.1:9/nothing"
    with running(Worker(url, project={"vector": project}, run_job=Steps(), tick=0.01)):
        eventually(lambda: project.calls > 3, "projection ran")


def test_a_long_job_does_not_hold_up_projection_and_is_told_to_stop(migrated_url: str) -> None:
    project, started = Steps(), threading.Event()

    def job(stop: threading.Event) -> bool:
        started.set()
        stop.wait()
        return True

    worker = Worker(migrated_url, project={"vector": project}, run_job=job, tick=0.01)
    with running(worker):
        assert started.wait(30)
        seen = project.calls
        eventually(lambda: project.calls > seen + 2, "projection went on")
        assert worker.busy


def test_a_job_that_hangs_holds_up_no_other_job(migrated_url: str) -> None:
    hangs, done, calls = threading.Event(), threading.Event(), Steps()

    def job(stop: threading.Event) -> bool:
        if not hangs.is_set():
            hangs.set()
            stop.wait()
        elif calls():
            return True
        done.set()
        return False

    worker = Worker(migrated_url, project={}, run_job=job, job_lanes=JOB_LANES, tick=SLOW_TICK)
    with running(worker):
        assert hangs.wait(30)
        assert done.wait(30)
        eventually(lambda: bool(worker.status()["listening"]), "it listens")
        seen = calls.calls
        worker.wake_jobs()
        eventually(lambda: calls.calls > seen, "the other lane looked again")
        assert worker.busy
        lanes = worker.status()["lanes"]
        assert isinstance(lanes, dict)
        assert sorted(lanes) == ["jobs", "jobs 2", "jobs 3"]


@pytest.mark.parametrize(
    "fault", [EmbedderUnavailable("down"), DatabaseUnavailable("down"), ValueError("a bug"), AssertionError()]
)
def test_a_lane_outlives_what_its_steps_raise_and_says_it(fault: Exception) -> None:
    steps, stop = Steps(True, fault, fault, True), threading.Event()
    lane = Lane("vector", steps, 0.01)
    thread = threading.Thread(target=lane.run, args=(stop,))
    thread.start()
    eventually(lambda: lane.state().failures == 1, "it failed")
    assert not lane.busy  # what fails keeps no idle engine alive
    assert lane.state().last_error
    eventually(lambda: steps.calls > 4 and lane.state().failures == 0, "it went on")
    assert lane.state().last_error == ""
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


def _worker(home: Path, url: str, embedder: str, qdrant_url: str) -> subprocess.Popen[str]:
    """``pegas-memory worker`` as a person starts it."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
        "PEGAS_HOME": str(home),
        "PEGAS_DATABASE_URL": url,
        "PEGAS_QDRANT_URL": qdrant_url,
        "PEGAS_EMBEDDER": embedder,
    }
    command = [sys.executable, "-m", "pegas_memory.cli", "worker"]
    return subprocess.Popen(command, env=environment, cwd="/", stderr=subprocess.PIPE, text=True)


@contextmanager
def _killed_at_last(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def _listens(url: str) -> bool:
    listening = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pegas-memory listener'"
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        row = connection.execute(f"{listening} AND datname = current_database()").fetchone()
    return row is not None and row[0] == 1


def _says_it_works(process: subprocess.Popen[str]) -> str:
    """What it writes until it says that it works, which a thing that is down does not keep it from."""
    assert process.stderr is not None
    said = ""
    while not (line := process.stderr.readline()).startswith("Working"):
        assert line, f"it ended: {said}"
        said += line
    return said


def _leaves(process: subprocess.Popen[str], number: signal.Signals) -> str:
    assert process.poll() is None
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_worker_verb_of_the_server_profile_names_a_dead_index_and_leaves_on_a_signal(
    home: Path, migrated_url: str, number: signal.Signals
) -> None:
    with hashed_embedding_server(dimension=32) as embeddings:
        process = _worker(home, migrated_url, f"openai:hashed@{embeddings.openai_url}", "http://127.0.0.1:9")
        with _killed_at_last(process):
            said = _says_it_works(process)
            eventually(lambda: _listens(migrated_url), "the worker listens")
            said += _leaves(process, number)
    assert "Qdrant" in said
    assert "[vectors_unavailable]" in said
    assert "Traceback" not in said
    assert engines_of(home) == []


def test_the_worker_verb_names_a_dead_embedder(home: Path, migrated_url: str) -> None:
    with _killed_at_last(
        process := _worker(home, migrated_url, "openai:hashed@http://127.0.0.1:9/v1", "http://127.0.0.1:9")
    ):
        said = _says_it_works(process)
        _leaves(process, signal.SIGTERM)
    assert "[embedder_unavailable]" in said


def test_the_worker_verb_ends_when_the_database_is_down(home: Path) -> None:
    url = "postgresql+psycopg://nobody:secret@127.0.0.1:9/none"
    with _killed_at_last(process := _worker(home, url, "openai:hashed@http://127.0.0.1:9/v1", "http://127.0.0.1:9")):
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "[database_unavailable]" in said
    assert "secret" not in said


def test_the_worker_verb_keeps_the_engine_up_where_one_does_the_work(home: Path, migrated_url: str) -> None:
    with hashed_embedding_server(dimension=32) as embeddings:
        process = _worker(home, migrated_url, f"openai:hashed@{embeddings.openai_url}", "")
        with _killed_at_last(process):
            eventually(lambda: len(engines_of(home)) == 1 and _listens(migrated_url), "the engine works")
            said = _leaves(process, signal.SIGTERM)
    assert "engine process" in said
