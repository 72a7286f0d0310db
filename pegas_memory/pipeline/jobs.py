"""Run waiting jobs: claim, keep alive, finish or fail with a reason that the caller can read by id."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pegas_memory.db import jobs
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Database
from pegas_memory.errors import Cancelled, PegasError, Unavailable
from pegas_memory.model import JobState

HEARTBEAT = 4.0
"""Seconds; well under ``jobs.ABANDONED_AFTER``."""

log = logging.getLogger(__name__)

Progress = Callable[[Mapping[str, Any]], None]
Work = Callable[[JobRow, Progress, threading.Event], dict[str, Any]]
"""(job, progress, stop) → the job's result as JSON; raises ``Cancelled`` when ``stop`` is set."""


class JobRunner:
    """One job at a time, by kind.

    ``sole_name`` is given by a worker that can only exist once (the engine of one PEGAS_HOME): what a
    former one of that name left running is taken up at once instead of after the heartbeat's time.
    """

    def __init__(self, db: Database, work: Mapping[str, Work], sole_name: str = "") -> None:
        self._db = db
        self._work = dict(work)
        self._name = sole_name or f"{socket.gethostname()} pid {os.getpid()}"
        if sole_name:
            with db.everything() as conn:
                jobs.release_all_of(conn, sole_name)

    def run_next(self, stop: threading.Event) -> bool:
        """Run the job that has waited longest; False when none waits."""
        with self._db.everything() as conn:
            job = jobs.claim(conn, self._name)
        if job is None:
            return False
        log.info("job %s (%s) attempt %d", job.id, job.kind, job.attempts)
        self._run(job, stop)
        return True

    def _run(self, job: JobRow, stop: threading.Event) -> None:
        if job.tries > jobs.MAX_ATTEMPTS:
            self._fail(job, "job_abandoned", "The worker died on this job again and again.", "Look at the source.")
            return
        work = self._work.get(job.kind)
        if work is None:
            self._fail(job, "unsupported_kind", f"No worker knows jobs of kind {job.kind!r}.", "Update pegas-memory.")
            return
        with self._alive(job, stop) as (progress, halted):
            try:
                result = work(job, progress, halted)
            except Cancelled:
                self._halt(job, stop)
            except Unavailable as error:
                self._later(job, error, stop)
            except PegasError as error:
                self._fail(job, error.code, error.message, error.hint)
            except Exception as error:
                log.exception("job %s failed", job.id)
                said = f"The job failed unexpectedly ({type(error).__name__})."
                self._fail(job, "internal_error", said, f"See the log for job {job.id}.")
            else:
                with self._db.everything() as conn:
                    jobs.finish(conn, job, JobState.DONE, result=result)

    @contextmanager
    def _alive(self, job: JobRow, stop: threading.Event) -> Iterator[tuple[Progress, threading.Event]]:
        halted, ended = threading.Event(), threading.Event()
        latest: list[Mapping[str, Any]] = []

        def beat() -> None:
            while not ended.wait(HEARTBEAT if not stop.is_set() else 0.2):
                if stop.is_set():
                    halted.set()
                    continue
                try:
                    with self._db.everything() as conn:
                        if jobs.heartbeat(conn, job, latest[-1] if latest else None):
                            halted.set()
                except Unavailable as error:
                    log.warning("job %s: no heartbeat: %s", job.id, error)

        def progress(state: Mapping[str, Any]) -> None:
            latest[:] = [state]
            if stop.is_set():
                halted.set()
            with self._db.everything() as conn:
                if jobs.heartbeat(conn, job, state):
                    halted.set()

        thread = threading.Thread(target=beat, name=f"heartbeat-{job.id}", daemon=True)
        thread.start()
        try:
            yield progress, halted
        finally:
            ended.set()
            thread.join()

    def _halt(self, job: JobRow, stop: threading.Event) -> None:
        """Stopped half-way: the worker is going down (another goes on), or the caller cancelled it."""
        with self._db.everything() as conn:
            if stop.is_set():
                jobs.release(conn, job)
            else:
                jobs.finish(conn, job, JobState.CANCELLED, error={"code": "cancelled", "message": "Cancelled.",
                            "hint": "Use action='retry' to go on from where it stopped."})  # fmt: skip

    def _later(self, job: JobRow, error: Unavailable, stop: threading.Event) -> None:
        """A part is down: try again a few times, then say so."""
        if job.tries >= jobs.MAX_ATTEMPTS:
            self._fail(job, error.code, error.message, error.hint)
            return
        log.warning("job %s waits: %s", job.id, error)
        stop.wait(min(2.0**job.tries, 15.0))
        with self._db.everything() as conn:
            jobs.release(conn, job)

    def _fail(self, job: JobRow, code: str, message: str, hint: str) -> None:
        log.warning("job %s failed: %s %s", job.id, code, message)
        with self._db.everything() as conn:
            jobs.finish(conn, job, JobState.FAILED, error={"code": code, "message": message, "hint": hint})
