"""The log file of a door, and incidents: what the caller hears of a failure that nobody planned."""

from __future__ import annotations

import logging
import uuid
from logging.handlers import RotatingFileHandler
from pathlib import Path

log = logging.getLogger("pegas_memory.doors")

FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"


def log_to(home: Path, name: str) -> None:
    """Full logs in ``home``/logs/``name``.log, once per process. A home that cannot be written is
    only warned of: opening the memory tells it with its own error."""
    root = logging.getLogger()
    if any(isinstance(handler, RotatingFileHandler) for handler in root.handlers):
        return
    try:
        folder = home / "logs"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{name}.log"
        path.touch(mode=0o600)
        handler = RotatingFileHandler(path, maxBytes=5_000_000, backupCount=3, encoding="utf-8")
    except OSError as error:
        log.warning("no log file: %s", error.strerror)
        return
    handler.setFormatter(logging.Formatter(FORMAT))
    root.addHandler(handler)


def incident(error: BaseException, what: str) -> str:
    """Log the traceback under a fresh number; the caller gets the number and nothing of the inside."""
    number = uuid.uuid4().hex[:12]
    log.error("incident=%s in=%s", number, what, exc_info=error)
    return (
        f"internal_error: Something failed inside Pegas Memory (incident {number}). "
        "Try again; if it stays, run `pegas-memory doctor` and report the incident number."
    )
