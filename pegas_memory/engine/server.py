"""The engine's socket: frames in, method calls, frames out. A thread for each connection."""

from __future__ import annotations

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pegas_memory import wire
from pegas_memory.errors import EngineUnavailable, InvalidParameter, PegasError

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 512
BACKLOG = 128
_RECEIVE = 256 * 1024
_CREDENTIALS = struct.Struct("3i")

Parameters = Mapping[str, Any]
Method = Callable[[Parameters], Callable[[], Any]]
"""Reads its parameters (KeyError, TypeError, ValueError when they do not fit) and returns the work."""


class Server:
    """Answers ``methods`` by name. Requests of one connection are answered in order; a failing
    method answers its PegasError, any other exception ends that connection alone."""

    def __init__(self, listener: socket.socket, methods: Mapping[str, Method]) -> None:
        self._listener = listener
        self._methods = methods
        self._guard = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._running = 0
        self._leaving = False
        self._last_client = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._accept, name="engine-accept", daemon=True).start()

    @property
    def clients(self) -> int:
        return len(self._connections)

    def idle_seconds(self) -> float:
        """How long nobody has been connected; 0 while somebody is."""
        with self._guard:
            return 0.0 if self._connections else time.monotonic() - self._last_client

    def close(self, grace: float) -> None:
        """Accept nobody, let running calls end within ``grace`` seconds, then hang up."""
        with self._guard:
            self._leaving = True
        _shut(self._listener)
        self._listener.close()
        deadline = time.monotonic() + grace
        while self._running and time.monotonic() < deadline:
            time.sleep(0.01)
        with self._guard:
            connections = list(self._connections)
        for connection in connections:
            _shut(connection)

    def _accept(self) -> None:
        while True:  # until close() hangs up the listener
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if self._leaving:
                    return
                log.warning("accept failed: %s", error.strerror)  # out of descriptors: some will come free
                time.sleep(0.1)
                continue
            if self._admit(connection):
                threading.Thread(
                    target=self._serve, args=(connection,), name="engine-connection", daemon=True
                ).start()  # fmt: skip
            else:
                connection.close()

    def _admit(self, connection: socket.socket) -> bool:
        if not _same_user(connection):
            log.warning("a connection of another user was refused")
            return False
        with self._guard:
            if self._leaving or len(self._connections) >= MOST_CONNECTIONS:
                return False
            self._connections.add(connection)
            return True

    def _serve(self, connection: socket.socket) -> None:
        reader = wire.FrameReader()
        try:
            while data := connection.recv(_RECEIVE):
                for request in reader.feed(data):
                    connection.sendall(self._answer(request))
        except wire.MalformedFrame as error:
            log.warning("a connection sent no frames and was closed: %s", error)
        except OSError:
            pass  # the client went away; whatever it asked for may be repeated
        finally:
            with self._guard:
                self._connections.discard(connection)
                self._last_client = time.monotonic()
            connection.close()

    def _answer(self, request: Any) -> bytes:
        match request:
            case [int(number), str(method), dict(parameters)]:
                pass
            case _:
                raise wire.MalformedFrame("not a request")
        with self._guard:
            self._running += 1
        try:
            return wire.pack([number, True, self._call(method, parameters)])
        except PegasError as error:
            return wire.pack([number, False, {**wire.error_out(error), "leaving": self._leaving}])
        finally:
            with self._guard:
                self._running -= 1

    def _call(self, method: str, parameters: Parameters) -> Any:
        if self._leaving:
            raise EngineUnavailable("The engine is stopping.")
        if method not in self._methods:
            raise InvalidParameter(f"The engine has no method '{method}'.")
        try:
            work = self._methods[method](parameters)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidParameter(f"The parameters of '{method}' do not fit.") from error
        return work()


def _same_user(connection: socket.socket) -> bool:
    """The folder's mode keeps others out already; this also holds where it was changed by hand."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(credentials)
    return uid in {0, os.getuid()}


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it is closed already
