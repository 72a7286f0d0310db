"""The engine's log: one rotating file, which is also where stray output of the process goes."""

from __future__ import annotations

import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

_BYTES, _OLD_FILES = 2_000_000, 3


class _Journal(RotatingFileHandler):
    def doRollover(self) -> None:  # noqa: N802 - the name is logging's
        super().doRollover()
        self.take_output()

    def take_output(self) -> None:
        """Let file descriptors 1 and 2 follow the current file."""
        if self.stream is None:
            self.stream = self._open()
        for descriptor in (sys.__stdout__, sys.__stderr__):
            if descriptor is not None:
                descriptor.flush()
        os.dup2(self.stream.fileno(), 1)
        os.dup2(self.stream.fileno(), 2)


def open_journal(path: Path) -> None:
    """Send WARNING and above of everybody, INFO of our own engine, to ``path`` (0600).

    Raises OSError.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    journal = _Journal(path, maxBytes=_BYTES, backupCount=_OLD_FILES, encoding="utf-8")
    journal.setFormatter(logging.Formatter(f"%(asctime)s {os.getpid()} %(levelname)s %(name)s %(message)s"))
    journal.take_output()
    logging.raiseExceptions = False  # a full disk must not end the engine through its log
    logging.basicConfig(level=logging.WARNING, handlers=[journal], force=True)
    logging.getLogger("pegas_memory.engine").setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
