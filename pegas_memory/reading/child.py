"""The child process: reads one source after another, holds itself to its limits, and ends with its parent."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import select
import signal
import sys
import time

from pegas_memory import progress
from pegas_memory.errors import InputError, ParserFailed
from pegas_memory.reading import work
from pegas_memory.reading.answers import answer_out
from pegas_memory.reading.frames import Kind, Part, error_out, framed, progress_out, source_from
from pegas_memory.reading.limits import Budget, confine, limits_for
from pegas_memory.reading.source import Source

IDLE_SECONDS = 60.0
_PROGRESS_SECONDS = 0.25


def main() -> None:
    confine()
    faulthandler.register(signal.SIGXCPU, chain=True)  # its stderr says where the time went
    line = _Line(os.dup(0), os.dup(1))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a library prints is no answer
    line.write(framed(Kind.READY))
    while (source := line.source()) is not None:
        _serve(line, source)
        source = None


class _Line:
    """The two pipes to the parent."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = os.fdopen(incoming, "rb")
        self._outgoing = outgoing
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(incoming, fcntl.F_SETOWN, os.getpid())

    def source(self) -> Source | None:
        """What the parent sends next; None when it closed the pipe, or sent nothing for a while."""
        if not select.select([self._incoming], [], [], IDLE_SECONDS)[0]:
            return None
        return source_from(self._incoming)

    def end_with_parent(self, really: bool) -> None:
        """From now on the kernel ends this process (SIGIO) when the parent's end of the pipe closes, whatever a
        parser is doing. Only between a source and its answer, when nothing else can come through the pipe."""
        flags = fcntl.fcntl(self._incoming, fcntl.F_GETFL) & ~fcntl.FASYNC
        fcntl.fcntl(self._incoming, fcntl.F_SETFL, flags | (fcntl.FASYNC if really else 0))
        if really and select.select([self._incoming], [], [], 0)[0]:
            sys.exit(0)  # it went before we said so

    def write(self, parts: list[Part]) -> None:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(self._outgoing, view) :]


def _serve(line: _Line, source: Source) -> None:
    """An error of the source is an answer; any other ends this process, with its traceback on stderr."""
    limits = limits_for(len(source.data))
    budget = Budget(limits)
    told = 0.0
    most: dict[str, int] = {}

    def listener(what: str, done: int, of: int) -> None:
        nonlocal told
        most[what] = max(done, most.get(what, 0))  # a second pass over the same is no step back
        now = time.monotonic()
        if now - told >= _PROGRESS_SECONDS:
            told = now
            budget.step()
            line.write(progress_out(what, most[what], of))

    line.end_with_parent(True)
    try:
        with progress.heard_by(listener):
            answer = framed(Kind.ANSWER, answer_out(work.read(source)))
    except InputError as error:
        answer = error_out(error)
    except MemoryError:
        answer = error_out(ParserFailed(f"Reading it takes more than {limits.memory / 1e6:,.0f} MB of memory."))
    line.end_with_parent(False)
    line.write(answer)
