"""Looking at engine processes from outside."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pegas_memory.config import Settings, load_settings
from tests.homes import processes_of

PATIENCE = 60.0


def settings_for(home: Path, **more: Any) -> Settings:
    return load_settings(**{"home": home, "embedder": "bundled", "database_url": "", "qdrant_url": "", **more})


def engines_of(home: Path) -> list[int]:
    """Ids of the engine processes of ``home``."""
    return [pid for pid in processes_of(home) if b"-m\0pegas_memory.engine\0" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def eventually(what: Callable[[], bool], said: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {said}"
        time.sleep(0.02)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)


def gone(pid: int) -> bool:
    """A zombie is gone too: nobody is left in it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def postgres_pid(home: Path) -> int:
    return int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])


def postgres_runs(home: Path) -> bool:
    return (home / "postgres" / "data" / "postmaster.pid").exists()
