"""Run waiting jobs: claim, keep alive, finish or fail with a reason that the caller can read by id."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pegas_memory.db import jobs
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Connection, Database
from pegas_memory.errors import Cancelled, PegasError, Unavailable, UnsupportedKind
from pegas_memory.model import JobState

HEARTBEAT = 4.0
"""Seconds; well under ``jobs.ABANDONED_AFTER``."""
LOOK = 0.4
"""Seconds between looks at whether a job was cancelled, and between the progress that is written."""
MOST_OF_ONE = 2
"""Jobs of one tenant at a time; a worker has more lanes, so that long ones of one do not keep others waiting."""
SERVED = 1_000
SETTLE_SECONDS = 15.0

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
        self._claiming = threading.Lock()
        self._served: list[str] = []
        self._name = sole_name or f"{socket.gethostname()} pid {os.getpid()}"
        if sole_name:
            with db.everything() as conn:
                jobs.release_all_of(conn, sole_name)

    def run_next(self, stop: threading.Event) -> bool:
        """Run the job whose turn it is; False when none waits."""
        job = self._claimed()
        if job is None:
            return False
        log.info("job %s (%s) attempt %d", job.id, job.kind, job.attempts)
        self._run(job, stop)
        return True

    def _claimed(self) -> JobRow | None:
        """Tenants take turns: the one that was served last comes last."""
        with self._claiming:
            with self._db.everything() as conn:
                job = jobs.claim(conn, self._name, self._served, MOST_OF_ONE)
            if job is not None:
                self._served = [*(name for name in self._served if name != job.tenant), job.tenant][-SERVED:]
            return job

    def _run(self, job: JobRow, stop: threading.Event) -> None:
        if job.tries > jobs.MAX_ATTEMPTS:
            died = PegasError("The worker died on this job again and again.", "Look at the source.")
            self._fail(job, died, stop, "job_abandoned")
            return
        work = self._work.get(job.kind)
        if work is None:
            unknown = UnsupportedKind(f"No worker knows jobs of kind {job.kind!r}.", "Update pegas-memory.")
            self._fail(job, unknown, stop)
            return
        with self._alive(job, stop) as (told, halted):
            try:
                result = work(job, told.append, halted)
            except Cancelled:
                self._halt(job, stop)
            except Unavailable as error:
                self._later(job, error, stop)
            except PegasError as error:
                self._fail(job, error, stop)
            except Exception as error:
                log.exception("job %s failed", job.id)
                said = f"The job failed unexpectedly ({type(error).__name__})."
                self._fail(job, PegasError(said, f"See the log for job {job.id}."), stop)
            else:
                reached = told[0]
                self._settle(lambda conn: jobs.finish(conn, job, JobState.DONE, progress=reached, result=result), stop)

    @contextmanager
    def _alive(self, job: JobRow, stop: threading.Event) -> Iterator[tuple[deque[Mapping[str, Any]], threading.Event]]:
        """What the work appends to the first is written as its progress; the second is set when it has to stop."""
        halted, ended = threading.Event(), threading.Event()
        told: deque[Mapping[str, Any]] = deque([job.progress], maxlen=1)

        def beat() -> None:
            written, beaten, silent = told[0], time.monotonic(), False
            while not ended.wait(LOOK):
                state, now = told[0], time.monotonic()
                try:
                    with self._db.everything() as conn:
                        if state is not written or now - beaten > HEARTBEAT:
                            gone = jobs.heartbeat(conn, job, state)
                            written, beaten = state, now
                        else:
                            gone = jobs.stopped(conn, job)
                except Unavailable as error:
                    if not silent:
                        log.warning("job %s: no heartbeat: %s", job.id, error)
                    silent, gone = True, False
                else:
                    silent = False
                if gone or stop.is_set():
                    halted.set()

        thread = threading.Thread(target=beat, name=f"heartbeat-{job.id}", daemon=True)
        thread.start()
        try:
            yield told, halted
        finally:
            ended.set()
            thread.join()

    def _settle(self, write: Callable[[Connection], None], stop: threading.Event) -> None:
        """Note how a job ended. A PostgreSQL that is being started again is waited for: else the job would count as
        abandoned only when its last heartbeat is old.

        Raises ``Unavailable`` after ``SETTLE_SECONDS``."""
        until = time.monotonic() + SETTLE_SECONDS
        while True:
            try:
                with self._db.everything() as conn:
                    return write(conn)
            except Unavailable:
                if stop.is_set() or time.monotonic() > until:
                    raise
                stop.wait(LOOK)

    def _halt(self, job: JobRow, stop: threading.Event) -> None:
        """Stopped half-way: the worker is going down (another goes on), or the caller cancelled it."""
        error = {
            "code": Cancelled.code,
            "message": "Cancelled.",
            "hint": "Use action='retry' to go on from where it stopped.",
        }

        def write(conn: Connection) -> None:
            if jobs.cancel_requested(conn, job):
                jobs.finish(conn, job, JobState.CANCELLED, error=error)
            else:
                jobs.release(conn, job)

        self._settle(write, stop)

    def _later(self, job: JobRow, error: Unavailable, stop: threading.Event) -> None:
        """A part is down: try again a few times, then say so."""
        if job.tries >= jobs.MAX_ATTEMPTS:
            self._fail(job, error, stop)
            return
        log.warning("job %s waits: %s", job.id, error)
        stop.wait(min(2.0**job.tries, 15.0))
        self._settle(lambda conn: jobs.release(conn, job), stop)

    def _fail(self, job: JobRow, error: PegasError, stop: threading.Event, code: str = "") -> None:
        said = {"code": code or error.code, "message": error.message, "hint": error.hint}
        log.warning("job %s failed: %s %s", job.id, said["code"], error.message)
        self._settle(lambda conn: jobs.finish(conn, job, JobState.FAILED, error=said), stop)
