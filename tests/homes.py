"""Short-lived ``PEGAS_HOME`` folders, and the end of whatever a test left running in one."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_home() -> Iterator[Path]:
    """A new folder on a short path. At the end its processes (engine, PostgreSQL) end and it is removed."""
    folder = Path(tempfile.mkdtemp(prefix="ph-", dir="/tmp"))
    try:
        yield folder
    finally:
        end_processes_of(folder)
        shutil.rmtree(folder, ignore_errors=True)


def end_processes_of(folder: Path) -> None:
    """End every process whose command line or environment names ``folder``, politely first."""
    for number, patience in ((signal.SIGTERM, 3.0), (signal.SIGINT, 3.0), (signal.SIGKILL, 10.0)):
        running = processes_of(folder)
        for pid in running:
            _signal(pid, number)
        deadline = time.monotonic() + patience
        while running and time.monotonic() < deadline:
            time.sleep(0.05)
            running = processes_of(folder)
        if not running:
            return


def processes_of(folder: Path) -> list[int]:
    """Ids of the processes that were started for ``folder``; this one is left out."""
    needle = os.fsencode(str(folder))
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            named = needle in (entry / "cmdline").read_bytes() or needle in (entry / "environ").read_bytes()
            zombie = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if named and not zombie:
            found.append(int(entry.name))
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
