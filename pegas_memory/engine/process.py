"""The life of the one engine process of a PEGAS_HOME: lock, listen, open, serve, close."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from pegas_memory import wire
from pegas_memory.config import Settings
from pegas_memory.engine.rooms import Rooms
from pegas_memory.engine.server import BACKLOG, Parameters, Server
from pegas_memory.engine_client import profile
from pegas_memory.engine_client.launch import exit_code
from pegas_memory.engine_client.place import FileLock, Place, refusal
from pegas_memory.errors import EngineUnavailable, PegasError
from pegas_memory.model import Role
from pegas_memory.version import VERSION

log = logging.getLogger(__name__)

LINGER_SECONDS = 5.0
"""How long an engine that cannot start stays to tell its callers why, instead of a process for each."""

_LONGEST_HELLO = 30.0
_GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.25
"""Between two looks whether the home still stands: until then PostgreSQL acknowledges what is lost."""
_TEND_LOOKS = 4
_LOCK_SECONDS = 0.3  # a client may hold the lock for a moment, only to see whether it is free


class Engine:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._place = Place(settings.home)
        self._lock = FileLock(self._place.engine_lock)
        self._profile = profile(settings)
        self._started = time.monotonic()
        self._changed = threading.Condition()
        self._state = "starting"
        self._error: PegasError | None = None
        self._ready_after = 0.0
        self._rooms = Rooms(settings)
        self._stop_read, self._stop_write = os.pipe()

    def run(self) -> int:
        """Serve until told to stop or idle; the exit code. 0 at once when another engine leads.

        Raises:
            HomeNotWritable, DiskFull: nothing can be locked or listened on below PEGAS_HOME.
        """
        self._place.prepare()
        if not self._lock.take(wait=_LOCK_SECONDS):
            return 0
        self._lock.write(f"{os.getpid()}\n")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ask_to_stop())
        server = Server(self._place.listen(BACKLOG), self._methods())
        self._server = server
        server.start()
        try:
            self._open()
            if self._error is None:
                self._watch(server)
        finally:
            self._leave(server)
        return 0 if self._error is None else exit_code(self._error)

    def _open(self) -> None:
        failure: PegasError | None = EngineUnavailable(
            "The engine failed at its start in a way that nobody foresaw.", f"See {self._place.log.name} in PEGAS_HOME."
        )
        try:
            self._rooms.open()
            failure = None
        except PegasError as error:
            log.error("engine failed phase=%s error=%s %s", self._rooms.phase, error.code, error.message,
                      exc_info=error)  # fmt: skip
            failure = error
        except OSError as error:
            log.exception("engine failed phase=%s", self._rooms.phase)
            failure = refusal(error, "PEGAS_HOME cannot be used")
        finally:  # also for what is not ours: the callers get an answer before it ends the process
            if failure is not None:
                self._fail(failure)
        if failure is None:
            self._ready_after = time.monotonic() - self._started
            log.info("engine ready seconds=%.2f", self._ready_after)
            self._become("ready")

    def _fail(self, failure: PegasError) -> None:
        self._error = failure
        self._place.note_error(failure)
        self._become("failed")
        self._told_to_stop(LINGER_SECONDS)

    def _become(self, state: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    def _watch(self, server: Server) -> None:
        looks = 0
        while not self._told_to_stop(_LOOK_SECONDS):
            if not self._lock.in_place():
                log.warning("engine leaves: its folder is gone")
                self._rooms.abandon()
                return
            looks += 1
            if looks % _TEND_LOOKS:
                continue
            self._rooms.tend()
            if server.idle_seconds() >= self._settings.engine_idle_seconds and not self._rooms.busy:
                log.info("engine leaves: idle")
                return

    def _leave(self, server: Server) -> None:
        if self._state != "failed":
            self._become("stopping")
        server.close(_GRACE_SECONDS)
        self._rooms.close()
        if self._lock.in_place():
            self._place.socket.unlink(missing_ok=True)
        self._lock.release()
        log.info("engine left")

    def _ask_to_stop(self) -> None:
        os.write(self._stop_write, b"x")  # a lock here could be held by the thread that the signal interrupts

    def _told_to_stop(self, seconds: float) -> bool:
        return bool(select.select([self._stop_read], [], [], seconds)[0])

    # --- methods ----------------------------------------------------------------------------------

    def _methods(self) -> dict[str, Callable[[Parameters], Callable[[], Any]]]:
        return {
            "ping": lambda _: lambda: None,
            "hello": self._hello,
            "embed": self._embed,
            "search": self._search,
            "model": lambda _: lambda: wire.model_out(self._opened().model()),
            "scan": self._scan,
            "adopt": self._adopt,
            "wake": lambda _: lambda: self._opened().wake(),
            "status": lambda _: self._status,
            "shutdown": lambda _: self._ask_to_stop,
        }

    def _opened(self) -> Rooms:
        match self._state:
            case "ready":
                return self._rooms
            case "failed":
                assert self._error is not None
                raise self._error
            case _:
                raise EngineUnavailable(f"The engine is {self._state}.", "Try again in a moment.")

    def _hello(self, parameters: Parameters) -> Callable[[], Any]:
        wait = min(float(parameters["wait"]), _LONGEST_HELLO)
        wanted = dict(parameters["profile"])
        differs = sorted(name for name, value in self._profile.items() if wanted.get(name) != value)

        def work() -> dict[str, Any]:
            with self._changed:
                if not differs:
                    self._changed.wait_for(lambda: self._state != "starting", wait)
                state = self._state
            ready = state == "ready"
            return {
                "state": state,
                "phase": self._rooms.phase,
                "error": wire.error_out(self._error) if self._error else None,
                "differs": differs,
                "clients": self._server.clients,
                "pid": os.getpid(),
                "version": VERSION,
                "database_url": self._rooms.database_url if ready else "",
                "model": wire.model_out(self._rooms.known_model) if ready else None,
            }

        return work

    def _embed(self, parameters: Parameters) -> Callable[[], Any]:
        texts, role = [str(text) for text in parameters["texts"]], Role(parameters["role"])
        return lambda: self._opened().embed(texts, role)

    def _search(self, parameters: Parameters) -> Callable[[], Any]:
        where = wire.filter_in(parameters["where"])
        dense, sparse = parameters["dense"], wire.sparse_in(parameters["sparse"])
        limit = int(parameters["limit"])

        def work() -> dict[str, Any]:
            hits, degraded = self._opened().search(where, dense=dense, sparse=sparse, limit=limit)
            return {"hits": wire.hits_out(hits), "degraded": degraded}

        return work

    def _scan(self, parameters: Parameters) -> Callable[[], Any]:
        after, limit = parameters["after"], int(parameters["limit"])
        return lambda: [tuple(row) for row in self._opened().scan(after, limit)]

    def _adopt(self, parameters: Parameters) -> Callable[[], Any]:
        generation = int(parameters["generation"])
        return lambda: self._opened().adopt(generation)

    def _status(self) -> dict[str, object]:
        return {
            "state": self._state,
            "phase": self._rooms.phase,
            "pid": os.getpid(),
            "version": VERSION,
            "up_seconds": round(time.monotonic() - self._started, 1),
            "ready_after_seconds": round(self._ready_after, 3),
            "clients": self._server.clients,
            **(self._rooms.status() if self._state == "ready" else {}),
        }
