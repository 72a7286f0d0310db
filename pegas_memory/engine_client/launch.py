"""Starting an engine process, once, however many callers want one."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from pydantic import SecretStr

from pegas_memory.config import Settings, child_environment
from pegas_memory.engine_client.link import Link
from pegas_memory.engine_client.place import FileLock, Place, is_held
from pegas_memory.errors import EngineUnavailable

log = logging.getLogger(__name__)

PACKAGE_ROOT = Path(__file__).resolve().parents[2]


def reach(place: Place, settings: Settings, deadline: float) -> Link:
    """A connection to the running engine, or to the one that is started now.

    ``deadline`` is a time of ``time.monotonic()``.

    Raises:
        EngineUnavailable: none could be reached in time. HomeNotWritable.
        PegasError: what the started engine said before it ended.
    """
    found = _dial(place)
    if found is not None:
        return found
    place.prepare()
    return _Start(place, settings, deadline).run()


def _dial(place: Place) -> Link | None:
    try:
        return Link(place)
    except EngineUnavailable:
        return None


class _Start:
    def __init__(self, place: Place, settings: Settings, deadline: float) -> None:
        self._place = place
        self._settings = settings
        self._deadline = deadline
        self._link: Link | None = None
        self._killed = 0

    def run(self) -> Link:
        lock = FileLock(self._place.spawn_lock)
        held = lock.take(wait=self._deadline - time.monotonic(), give_up=self._reached)
        try:
            while self._link is None and not self._reached():
                if not held or time.monotonic() >= self._deadline:
                    raise self._too_late()
                if not is_held(self._place.engine_lock):
                    self._spawn()
                time.sleep(0.02)  # the holder is about to listen, or on its way out
        finally:
            lock.release()
        assert self._link is not None
        return self._link

    def _reached(self) -> bool:
        if self._link is None:
            self._link = _dial(self._place)
        return self._link is not None

    def _spawn(self) -> None:
        """Start one and wait until it listens or has ended. A quiet end means that another one leads."""
        self._place.forget_error()
        child = start_process(self._place, self._settings)
        while child.poll() is None and not self._reached() and time.monotonic() < self._deadline:
            time.sleep(0.01)
        code = child.poll() or 0
        self._killed += code < 0
        if code > 0 or self._killed > 1:  # a first signal may have been meant for somebody else
            said = self._place.noted_error()
            raise said or EngineUnavailable(f"The engine ended while it started (code {code}).")

    def _too_late(self) -> EngineUnavailable:
        said = self._place.noted_error()
        return EngineUnavailable(f"No engine answered in time.{f' Its last error: {said.message}' if said else ''}")


def start_process(place: Place, settings: Settings) -> subprocess.Popen[bytes]:
    """Start ``python -m pegas_memory.engine`` detached, with these very settings (on its stdin, so that
    secrets are in no argument list). Its output goes to the engine's log.

    Raises:
        EngineUnavailable: the process cannot be started.
    """
    command = [sys.executable, "-P", "-m", "pegas_memory.engine"]
    try:
        log_file = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
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
