"""Locks that the operating system releases when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pegas_memory.errors import DatabaseUnavailable

STEP = 0.02


@contextmanager
def held(
    path: Path, seconds: float, waiting_for: str, meanwhile: Callable[[float], None] | None = None
) -> Iterator[int]:
    """Hold an exclusive ``flock`` on ``path``; yields its descriptor.

    A child that inherits the descriptor holds the lock too, and goes on holding it when this
    process is gone. ``meanwhile`` is called at each try with the seconds waited so far.

    Raises:
        DatabaseUnavailable: not had within ``seconds``.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        started = time.monotonic()
        while not _taken(descriptor):
            waited = time.monotonic() - started
            if waited > seconds:
                raise DatabaseUnavailable(f"Waited {seconds:.0f} seconds for {waiting_for}.")
            if meanwhile is not None:
                meanwhile(waited)
            time.sleep(STEP)
        yield descriptor
    finally:
        os.close(descriptor)  # never LOCK_UN: that would release it for the children too


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
