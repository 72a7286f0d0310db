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

from pegas_memory.config import load_settings
from pegas_memory.db.session import Database
from pegas_memory.errors import BadSettings, DatabaseUnavailable, EmbedderUnavailable
from pegas_memory.worker import Lane, Worker, run_worker
from tests.support.embedding_server import hashed_embedding_server
from tests.support.engines import eventually

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


def test_a_worker_of_its_own_is_refused_where_the_engine_does_the_work(home: Path) -> None:
    with pytest.raises(BadSettings, match="PEGAS_QDRANT_URL"):
        run_worker(load_settings(home=home, database_url="postgresql+psycopg://x@/x", qdrant_url=""))


_WORKER = """
import sys
from pegas_memory.config import load_settings
from pegas_memory.worker import run_worker
run_worker(load_settings())
"""


def test_the_worker_of_the_server_profile_listens_and_leaves_on_a_signal(home: Path, migrated_url: str) -> None:
    with hashed_embedding_server(dimension=32) as embeddings:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
            "PEGAS_DATABASE_URL": migrated_url,
            "PEGAS_QDRANT_URL": "http://127.0.0.1:9",
            "PEGAS_EMBEDDER": f"openai:hashed@{embeddings.openai_url}",
        }
        process = subprocess.Popen([sys.executable, "-c", _WORKER], env=environment, cwd="/")
        try:
            url = migrated_url.replace("postgresql+psycopg", "postgresql")
            listening = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pegas-memory listener'"
            with psycopg.connect(url, autocommit=True) as connection:

                def listens() -> bool:
                    row = connection.execute(listening).fetchone()
                    return row is not None and row[0] == 1

                eventually(listens, "the worker listens")
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
