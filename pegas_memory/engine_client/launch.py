"""Starting an engine process, once, however many callers want one."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import SecretStr

from pegas_memory.config import Settings, child_environment
from pegas_memory.engine_client.link import Link, LinkLost
from pegas_memory.engine_client.place import FileLock, Place, is_held, refusal
from pegas_memory.errors import BadSettings, DiskFull, EngineUnavailable, HomeNotWritable, PegasError

log = logging.getLogger(__name__)

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
FREE_BYTES_NEEDED = 32 * 1024 * 1024
"""Of PEGAS_HOME's disk: with less, a file of the shard that grows below its map ends the process (SIGBUS)."""

FIRST_ANSWER = 3.0
"""Seconds for the first word of whoever listens, which every engine says at once, starting or not."""

_EXIT_CODES: dict[type[PegasError], int] = {BadSettings: 2, DiskFull: 3, HomeNotWritable: 4}
_EXIT_MESSAGES = {
    2: "The engine cannot use these settings.",
    3: "The disk of PEGAS_HOME is full; the engine cannot start.",
    4: "PEGAS_HOME cannot be written to; the engine cannot start.",
}
_DEATHS = 2  # a first signal may have been meant for somebody else


def has_space(folder: Path) -> bool:
    """Whether the disk of ``folder`` has room for an engine to work; also when that cannot be seen."""
    try:
        return shutil.disk_usage(folder).free >= FREE_BYTES_NEEDED
    except OSError:
        return True  # whoever writes there will meet the reason


def exit_code(error: PegasError) -> int:
    """The code by which an engine says why it ended where it cannot write it down; 1 for all the rest."""
    return _EXIT_CODES.get(type(error), 1)


class Starter:
    """Finds the engine of ``place``, or starts it; remembers, over several tries, how those it started ended."""

    def __init__(self, place: Place, settings: Settings, deadline: float) -> None:
        """``deadline`` is a time of ``time.monotonic()``."""
        self._place = place
        self._settings = settings
        self._deadline = deadline
        self._child: subprocess.Popen[bytes] | None = None
        self._deaths = 0

    def reach(self) -> Link:
        """A connection to the running engine, or to the one that is started now.

        Raises:
            EngineUnavailable: none could be reached in time. HomeNotWritable, DiskFull.
            PegasError: what the started engine said before it ended.
        """
        found = _dial(self._place)
        if found is None:
            self._place.prepare()
            found = _Start(self._place, self._deadline, self._spawn).run()
        try:
            found.call("ping", {}, max(0.1, min(FIRST_ANSWER, self._deadline - time.monotonic())))
        except LinkLost:
            found.close()
            if not self._evict():
                self.mourn()
            raise
        except EngineUnavailable as error:
            found.close()
            if self._evict():
                raise LinkLost("What listened was no engine.") from error
            raise
        return found

    def _evict(self) -> bool:
        """Remove the socket of a listener that is no engine: a real one holds the engine lock as long as it
        listens, so that whoever gets it knows that none does."""
        spawning, leading = FileLock(self._place.spawn_lock), FileLock(self._place.engine_lock)
        if not spawning.take():
            return False
        try:
            if not self._place.socket.exists() or not leading.take():
                return False
            log.warning("a listener without the engine's lock was put aside")
            self._place.socket.unlink(missing_ok=True)
            return True
        except OSError as error:
            raise refusal(error, "PEGAS_HOME cannot be written to") from error
        finally:
            leading.release()
            spawning.release()

    def _spawn(self, reached: Callable[[], bool]) -> None:
        """Start one and wait until it listens or has ended. A quiet end means that another one leads."""
        if self._child is not None:  # it let go of the lock, so it ends
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(1.0)
            self.mourn()
        self._place.forget_error()
        self._child = start_process(self._place, self._settings)
        while self._child.poll() is None and not reached() and time.monotonic() < self._deadline:
            time.sleep(0.01)
        self.mourn()

    def mourn(self) -> None:
        """Raises PegasError when the engine that we started ended in a way that the next one would, too."""
        code = self._child.poll() if self._child is not None else None
        if code is None:
            return
        self._child = None
        self._deaths += code < 0
        if code > 0 or self._deaths >= _DEATHS:
            raise self._place.noted_error() or _ended(self._place, code)


def _ended(place: Place, code: int) -> PegasError:
    for kind, known in _EXIT_CODES.items():
        if known == code:
            return kind(_EXIT_MESSAGES[code])
    if not has_space(place.home):
        return DiskFull(_EXIT_MESSAGES[_EXIT_CODES[DiskFull]])
    return EngineUnavailable(f"The engine ended while it started (code {code}).")


def _dial(place: Place) -> Link | None:
    try:
        return Link(place)
    except EngineUnavailable:
        return None


class _Start:
    def __init__(self, place: Place, deadline: float, spawn: Callable[[Callable[[], bool]], None]) -> None:
        self._place = place
        self._deadline = deadline
        self._spawn = spawn
        self._link: Link | None = None

    def run(self) -> Link:
        lock = FileLock(self._place.spawn_lock)
        held = lock.take(wait=self._deadline - time.monotonic(), give_up=self._reached)
        try:
            while self._link is None and not self._reached():
                if not held or time.monotonic() >= self._deadline:
                    raise self._too_late()
                if not is_held(self._place.engine_lock):
                    self._spawn(self._reached)
                time.sleep(0.02)  # the holder is about to listen, or on its way out
        finally:
            lock.release()
        assert self._link is not None
        return self._link

    def _reached(self) -> bool:
        if self._link is None:
            self._link = _dial(self._place)
        return self._link is not None

    def _too_late(self) -> EngineUnavailable:
        said = self._place.noted_error()
        return EngineUnavailable(f"No engine answered in time.{f' Its last error: {said.message}' if said else ''}")


def start_process(place: Place, settings: Settings) -> subprocess.Popen[bytes]:
    """Start ``python -m pegas_memory.engine`` detached, with these very settings (on its stdin, so that
    secrets are in no argument list). Its output goes to the engine's log.

    Raises:
        EngineUnavailable: the process cannot be started. HomeNotWritable, DiskFull: its log cannot be opened.
    """
    command = [sys.executable, "-P", "-m", "pegas_memory.engine"]
    try:
        log_file = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise refusal(error, "The engine's log cannot be written") from error
    try:
        try:
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log_file, stderr=log_file, cwd="/",
                start_new_session=True, close_fds=True, env=_environment(settings),
            )  # fmt: skip
        finally:
            os.close(log_file)
        _hand_over(child, settings)
    except OSError as error:
        raise EngineUnavailable(f"The engine process cannot be started ({error.strerror}).") from error
    # Somebody has to wait for it, or a dead engine stays in the process table while we live.
    threading.Thread(target=child.wait, name="engine-reaper", daemon=True).start()
    log.info("engine started pid=%d", child.pid)
    return child


def _hand_over(child: subprocess.Popen[bytes], settings: Settings) -> None:
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps(plain(settings)).encode())
        child.stdin.close()
    except BrokenPipeError:
        child.stdin = None  # it ended already; the caller sees its code


def plain(settings: Settings) -> dict[str, object]:
    """The settings as JSON values, secrets revealed, in the form that ``load_settings(**…)`` takes."""
    return {name: _plain(getattr(settings, name)) for name in type(settings).model_fields}


def _plain(value: object) -> object:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _environment(settings: Settings) -> dict[str, str]:
    environment = {**child_environment(settings), "PYTHONUTF8": "1"}  # paths must not depend on the locale
    if PACKAGE_ROOT.name not in {"site-packages", "dist-packages"}:
        parts = [str(PACKAGE_ROOT), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(part for part in parts if part)
    return environment
