"""The loop that projects the outbox, runs jobs and tends: woken by NOTIFY, a local call or a slow tick.

Each kind of work has a lane, a thread of its own, so that a long job does not hold up projection.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pegas_memory.db.notify import Listener
from pegas_memory.errors import PegasError

log = logging.getLogger(__name__)

OUTBOX, JOB = "pegas_outbox", "pegas_job"
JOB_LANES = 3
"""Jobs at a time: one that is long, or hangs and does not hear its cancel, holds up no short one. Two of them are
the most that one tenant gets (``pipeline.jobs.MOST_OF_ONE``), so that others always find a lane. Not more: reading
and embedding are bound by the processor, which searches need too."""
TICK_SECONDS = 1.0
UPKEEP_SECONDS = 60.0
LONGEST_PAUSE = 15.0
_LISTEN_SECONDS = 0.25
_LEAVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LaneState:
    name: str
    busy: bool
    runs: int
    failures: int
    """In a row; 0 after a step that succeeded."""
    last_error: str


class Lane:
    """Runs ``step(stop)`` while it says that there is more, then sleeps until woken or for ``tick`` seconds.

    A step that raises is logged and tried again after a pause that doubles up to ``LONGEST_PAUSE``.
    """

    def __init__(self, name: str, step: Callable[[threading.Event], bool], tick: float = TICK_SECONDS) -> None:
        self.name = name
        self._step = step
        self._tick = tick
        self._wake = threading.Event()
        self._again = threading.Event()
        self._busy = True  # until the first look says otherwise
        self._runs = 0
        self._failures = 0
        self._last_error = ""

    def wake(self) -> None:
        self._busy = True
        self._wake.set()

    def try_again(self) -> None:
        """End the pause after a failure: what it failed on may be back."""
        self._again.set()
        self.wake()

    def state(self) -> LaneState:
        return LaneState(self.name, self._busy, self._runs, self._failures, self._last_error)

    @property
    def busy(self) -> bool:
        """Whether work is under way or known to wait. Work that fails is not waited for."""
        return self._busy and not self._failures

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self._wake.clear()
            self._busy = True
            try:
                more = self._step(stop)
            except Exception as error:  # noqa: BLE001 - the loop outlives whatever one step met
                self._note(error)
                self._again.wait(min(LONGEST_PAUSE, 0.25 * 2 ** min(self._failures, 10)))
                self._again.clear()
                continue
            self._runs += 1
            self._failures, self._last_error = 0, ""
            if not more:
                self._busy = self._wake.is_set()
                self._wake.wait(self._tick)
        self._busy = False

    def _note(self, error: Exception) -> None:
        self._failures += 1
        known = isinstance(error, PegasError)
        self._last_error = error.message if isinstance(error, PegasError) else type(error).__name__
        if self._failures in {1, 10} or self._failures % 100 == 0:
            said = getattr(error, "code", type(error).__name__)
            log.warning("lane=%s failures=%d error=%s %s", self.name, self._failures, said, self._last_error,
                        exc_info=None if known else error)  # fmt: skip


class Worker:
    """Each projection by name, and ``run_job(stop)``, do one piece of work and say whether there is
    more; a job is expected to look at ``stop`` and to leave soon after it is set. With several
    ``job_lanes`` ``run_job`` is called by as many threads, each for a job of its own."""

    def __init__(
        self,
        database_url: str,
        *,
        project: Mapping[str, Callable[[], bool]],
        run_job: Callable[[threading.Event], bool],
        job_lanes: int = 1,
        upkeep: Callable[[], None] | None = None,
        tick: float = TICK_SECONDS,
    ) -> None:
        self._url = database_url
        self._projections = [Lane(name, _unstoppable(step), tick) for name, step in project.items()]
        self._jobs = [Lane(f"jobs {n}" if n > 1 else "jobs", run_job, tick) for n in range(1, job_lanes + 1)]
        self._lanes = [*self._projections, *self._jobs]
        if upkeep is not None:
            self._lanes.append(Lane("upkeep", _once(upkeep), UPKEEP_SECONDS))
        self._listening = False

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set; returns when every lane has left, or after some seconds' grace."""
        threads = [
            threading.Thread(target=lane.run, args=(stop,), name=f"worker-{lane.name}", daemon=True)
            for lane in self._lanes
        ]
        for thread in threads:
            thread.start()
        try:
            self._listen(stop)
        finally:
            stop.set()
            for lane in self._lanes:
                lane.try_again()
            _join(threads, _LEAVE_SECONDS)

    def wake(self) -> None:
        """Look for work now."""
        self.wake_projections()
        self.wake_jobs()

    def wake_jobs(self) -> None:
        for lane in self._jobs:
            lane.wake()

    def wake_projections(self) -> None:
        for lane in self._projections:
            lane.wake()

    @property
    def busy(self) -> bool:
        """Whether work is under way or waits; upkeep does not count, and work that fails is not waited for."""
        return any(lane.busy for lane in (*self._jobs, *self._projections))

    def status(self) -> dict[str, object]:
        """Plain values: whether NOTIFY is heard, and each lane's state."""
        lanes = {
            s.name: {"busy": s.busy, "runs": s.runs, "failures": s.failures, "last_error": s.last_error}
            for s in (lane.state() for lane in self._lanes)
        }
        return {"listening": self._listening, "lanes": lanes}

    def _listen(self, stop: threading.Event) -> None:
        listener = Listener(self._url, (OUTBOX, JOB))
        pause = 0.25
        try:
            while not stop.is_set():
                try:
                    heard = listener.wait(_LISTEN_SECONDS)
                except PegasError as error:
                    if self._listening or pause == 0.25:
                        log.warning("listening stopped error=%s; the tick goes on", error.code)
                    self._listening = False
                    stop.wait(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                if not self._listening:
                    self._listening, pause = True, 0.25
                    for lane in self._lanes:  # whatever was written while nobody listened
                        lane.try_again()
                if OUTBOX in heard:
                    self.wake_projections()
                if JOB in heard:
                    self.wake_jobs()
        finally:
            self._listening = False
            listener.close()


def _unstoppable(step: Callable[[], bool]) -> Callable[[threading.Event], bool]:
    return lambda _stop: step()


def _once(work: Callable[[], None]) -> Callable[[threading.Event], bool]:
    def step(_stop: threading.Event) -> bool:
        work()
        return False

    return step


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            log.warning("%s did not leave in time", thread.name)
