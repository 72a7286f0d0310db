"""One child process as its parent sees it: started, given a source, listened to, ended."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from pegas_memory.config import bare_environment
from pegas_memory.errors import Cancelled, InputError, ParserFailed, ParserTimeout, Unavailable
from pegas_memory.reading.answers import answer_in
from pegas_memory.reading.frames import FrameReader, Kind, Malformed, Part, error_in, progress_in, source_out
from pegas_memory.reading.limits import limits_for
from pegas_memory.reading.source import Reading, Source

Progress = Callable[[str, int, int], None]
"""(what, done, of): e.g. ("pages", 120, 500)."""

MAX_SERVED = 100
"""Sources that one child reads: what a library leaks, or a file does to it, lasts no longer."""
LARGE = 10_000_000
"""Bytes or characters after which a child is not kept: it would hold on to their memory."""
START_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_REAP_SECONDS = 5.0
_PIECE = 1 << 20
_TAIL = 4_000
_TOO_LONG = "Reading it took longer than a source of its size may take."

log = logging.getLogger(__name__)


class Gone(Exception):
    """The child had left before it was given anything, as one does that nobody needed for a while."""


class Child:
    """Used by one thread at a time, but for ``kill``. After anything but a reading or an ``InputError`` of the
    source it is of no more use, and has ended."""

    def __init__(self) -> None:
        """Raises ``Unavailable`` when no process can be started."""
        command = [sys.executable, "-P", "-B", "-X", "utf8", "-X", "faulthandler", "-m", __package__]
        paths = [path for path in sys.path if Path(path).is_absolute()]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, cwd="/",
                start_new_session=True, env=bare_environment(PYTHONPATH=os.pathsep.join(paths)),
            )  # fmt: skip
        except OSError as error:
            raise Unavailable(f"No process to read with can be started ({error.strerror}).") from error
        for pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)
        self._ready = False
        self._killed = False
        self._said = b""
        self._served = 0
        self.worn = False

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def read(self, source: Source, stop: threading.Event, progress: Progress) -> Reading:
        """Raises the ``InputError`` of the source, ``ParserTimeout``, ``ParserFailed``, ``Cancelled`` (``stop``, or
        ``kill``), ``Unavailable`` (it does not start), ``Gone``."""
        usable = False
        try:
            if not self._ready:
                self._start(stop)
            self._served += 1
            reading = self._reading(source, stop, progress)
            size = max(len(source.data), len(reading.document.text))
            self.worn = self._served >= MAX_SERVED or size > LARGE
            usable = True
            return reading
        except Malformed as error:
            log.warning("reading process %d said what none of ours says: %s", self._process.pid, error)
            raise ParserFailed("The parser answered with what is no document.") from error
        except InputError as error:
            usable = not isinstance(error, (ParserFailed, ParserTimeout))
            raise
        finally:
            if not usable:
                self.end()

    def kill(self) -> None:
        """From any thread: whoever waits for it is told ``Cancelled``."""
        self._killed = True
        self._process.kill()

    def end(self) -> None:
        self._process.kill()
        for pipe in self._pipes():
            pipe.close()
        try:
            self._process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("reading process %d does not go", self._process.pid)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        return stdin, stdout, stderr

    def _start(self, stop: threading.Event) -> None:
        try:
            kind, _ = next(self._frames([], stop, START_SECONDS, START_SECONDS))
        except (ParserFailed, ParserTimeout, Gone) as error:
            raise Unavailable("The process that reads documents cannot start.", "See the log.") from error
        self._ready = kind is Kind.READY

    def _reading(self, source: Source, stop: threading.Event, progress: Progress) -> Reading:
        limits = limits_for(len(source.data))
        for kind, body in self._frames(source_out(source), stop, limits.silence, limits.wall):
            match kind:
                case Kind.PROGRESS:
                    progress(*progress_in(body))
                case Kind.ERROR:
                    raise error_in(body)
                case Kind.ANSWER:
                    return answer_in(body)
                case _:
                    break
        raise Malformed("a frame out of turn")

    def _frames(
        self, outgoing: list[Part], stop: threading.Event, silence: float, wall: float
    ) -> Iterator[tuple[Kind, bytearray]]:
        """Writes ``outgoing`` and yields what comes back, until somebody has heard enough."""
        stdin, stdout, stderr = self._pipes()
        waiting = deque(memoryview(part) for part in outgoing if part)
        incoming = FrameReader()
        began = heard = time.monotonic()
        self._said = b""
        with selectors.PollSelector() as selector:
            for pipe in (stdout, stderr):
                selector.register(pipe, selectors.EVENT_READ)
            if waiting:
                selector.register(stdin, selectors.EVENT_WRITE)
            while True:
                ready = [key.fileobj for key, _ in selector.select(_LOOK_SECONDS)]
                if stop.is_set():
                    raise Cancelled("The reading was stopped.")
                if stdin in ready and not self._sent(waiting):
                    selector.unregister(stdin)
                if stderr in ready and not self._noted():
                    selector.unregister(stderr)
                if stdout in ready:
                    data = os.read(stdout.fileno(), _PIECE)
                    if not data:
                        raise self._ended(silent=heard == began)
                    heard = time.monotonic()
                    yield from incoming.feed(data)
                now = time.monotonic()
                if now - heard > silence or now - began > wall:
                    raise ParserTimeout(_TOO_LONG)

    def _sent(self, waiting: deque[memoryview]) -> bool:
        """Whether there is more to be sent."""
        stdin, _, _ = self._pipes()
        try:
            written = os.write(stdin.fileno(), waiting[0][:_PIECE])
        except BrokenPipeError:
            return False  # what became of it is told by the other pipe
        waiting[0] = waiting[0][written:]
        if not waiting[0]:
            waiting.popleft()
        return bool(waiting)

    def _noted(self) -> bool:
        """Whether its stderr goes on; the end of what came is kept for the log."""
        _, _, stderr = self._pipes()
        data = os.read(stderr.fileno(), _PIECE)
        self._said = (self._said + data)[-_TAIL:]
        return bool(data)

    def _ended(self, *, silent: bool) -> Exception:
        """Why the child ended without an answer."""
        if self._killed:
            return Cancelled("The reading was stopped.")
        try:
            code = self._process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return ParserFailed("The parser stopped answering.")
        if code == 0 and silent and self._served > 1:
            return Gone()
        with suppress(BlockingIOError):
            while self._noted():
                pass
        log.warning(
            "reading process %d ended code=%d: %s", self._process.pid, code, self._said.decode(errors="replace")
        )
        match -code:
            case signal.SIGXCPU:
                return ParserTimeout(_TOO_LONG)
            case signal.SIGKILL:
                return ParserFailed("The parser was killed from outside, as when the machine runs out of memory.")
            case number if number > 0:
                return ParserFailed(f"The parser crashed or ran out of memory ({_name(number)}).")
            case _:
                return ParserFailed("The parser failed in a way that nobody foresaw.")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
