"""A few child processes that read documents, so that a hostile file takes down nothing but its own reading."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pegas_memory.errors import Cancelled
from pegas_memory.reading.process import Child, Gone, Progress
from pegas_memory.reading.source import Reading, Source

_LOOK_SECONDS = 0.1


class Reader:
    """Children are started on first need and reused. Thread-safe."""

    def __init__(self, children: int = 2) -> None:
        self._turns = threading.Semaphore(children)
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._closed = False

    def read(
        self, source: Source, *, stop: threading.Event, progress: Progress = lambda _what, _done, _of: None
    ) -> Reading:
        """The document in ``source`` with its chunks and drafts; waits while all children are busy.

        Raises what the readers of ``ingest`` raise (``InputError``); ``ParserTimeout`` and ``ParserFailed`` (a
        crash, the memory limit), which are the source's fault as well; ``Cancelled`` soon after ``stop`` is set
        or the reader is closed, and the child is killed; ``Unavailable`` when no process can be started.
        What ``progress`` raises ends the reading, too.
        """
        while True:
            with self._child(stop) as child:
                try:
                    return child.read(source, stop, progress)
                except Gone:
                    continue

    def close(self) -> None:
        """End the children; a reading under way raises ``Cancelled``."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for child in self._busy:
                child.kill()
        for child in idle:
            child.end()

    @contextmanager
    def _child(self, stop: threading.Event) -> Iterator[Child]:
        while not self._turns.acquire(timeout=_LOOK_SECONDS):
            if self._closed or stop.is_set():
                raise Cancelled("The reading was stopped.")
        try:
            child = self._taken()
            try:
                yield child
            finally:
                self._given_back(child)
        finally:
            self._turns.release()

    def _taken(self) -> Child:
        with self._lock:
            if self._closed:
                raise Cancelled("The reading was stopped.")
            while self._idle:
                child = self._idle.pop()
                if child.alive:
                    break
                child.end()
            else:
                child = Child()
            self._busy.add(child)
            return child

    def _given_back(self, child: Child) -> None:
        with self._lock:
            self._busy.discard(child)
            if child.alive and not child.worn and not self._closed:
                self._idle.append(child)
                return
        child.end()
