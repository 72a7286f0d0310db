"""The one thread that calls a native model, queries before documents.

OpenMP keeps a team of threads for every thread that calls it, and once there are more of them than processors
it stops letting them spin between two pieces of work: with two calling threads a query took 17–22 ms, with one
9 ms (two cores). So everybody hands work to this thread, and a query that arrives overtakes the documents
that wait, which come in small slices.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from pegas_memory.errors import EmbedderUnavailable

T = TypeVar("T")


class ModelThread:
    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._urgent: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._patient: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._asked = -math.inf

    def urgent_within(self, seconds: float) -> bool:
        """Whether urgent work came in the last ``seconds``: more of it is likely to come soon."""
        return time.monotonic() - self._asked < seconds

    def run(self, work: Callable[[], T], *, urgent: bool) -> T:
        """The result of ``work``, done in this thread; what it raises is raised here.

        Raises:
            EmbedderUnavailable: closed before its turn came.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._closed:
                raise _closed()
            if urgent:
                self._asked = time.monotonic()
            (self._urgent if urgent else self._patient).append((future, work))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()
        return future.result()

    def close(self) -> None:
        """Nothing more is begun; what waits for its turn is refused."""
        with self._changed:
            self._closed = True
            waiting = [*self._urgent, *self._patient]
            self._urgent.clear()
            self._patient.clear()
            self._changed.notify()
        for future, _ in waiting:
            future.set_exception(_closed())

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._urgent or self._patient)
                if self._closed:
                    return
                future, work = (self._urgent or self._patient).popleft()
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller who waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)


def _closed() -> EmbedderUnavailable:
    return EmbedderUnavailable("The bundled model has been closed.", "Open the embedder again.")
