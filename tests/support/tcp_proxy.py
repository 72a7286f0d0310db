"""A TCP proxy that misbehaves on request: it stalls, resets, refuses, and loses a server's answer."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType

_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends RST instead of FIN."""


@dataclass(eq=False, slots=True)
class _Pair:
    client: socket.socket
    server: socket.socket
    closed: threading.Event = field(default_factory=threading.Event)

    def reset(self) -> None:
        self.closed.set()
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
            end.close()


class TcpProxy:
    """Listens on a free loopback port and passes bytes to and from ``target``. Thread-safe."""

    def __init__(self, target: int, host: str = "127.0.0.1") -> None:
        self._target = (host, target)
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._pairs: set[_Pair] = set()
        self._replies_left: int | None = None
        self._marker = b""
        self.lost = threading.Event()
        self.connections = 0
        self._recording: list[bytes] | None = None
        self._listener: socket.socket | None = None
        self.port = 0
        self.accept()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def pause(self) -> None:
        """Stall: connections stay open and new ones are taken, but no byte moves."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    def drop_all(self) -> None:
        """Reset every open connection."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            pair.reset()

    def refuse(self) -> None:
        """Reset every connection and take no new one: the port is closed, as after a crash."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.drop_all()

    def accept(self) -> None:
        """Listen (again, after :meth:`refuse`, and at the same port)."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._listener.getsockname()[1])
        self._start(self._accept, self._listener)

    def drop_before_reply(self, after: int = 0, marker: bytes = b"") -> None:
        """Lose one answer: of the requests that hold ``marker`` let ``after`` pass; the next one still reaches
        the server whole, and what the server then says is thrown away and the connection reset. ``lost`` is
        set when it has happened."""
        with self._lock:
            self.lost.clear()
            self._marker = marker
            self._replies_left = after

    def record(self) -> list[bytes]:
        """What clients send from now on; the list grows."""
        self._recording = []
        return self._recording

    def close(self) -> None:
        self.resume()
        self.refuse()

    @staticmethod
    def _start(work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self, listener: socket.socket) -> None:
        for client in _arrivals(listener):
            self.connections += 1
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                client.close()
                continue
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server)
            with self._lock:
                self._pairs.add(pair)
            doomed = threading.Event()
            self._start(self._requests, pair, doomed)
            self._start(self._replies, pair, doomed)

    def _requests(self, pair: _Pair, doomed: threading.Event) -> None:
        for data in self._chunks(pair, pair.client):
            if self._recording is not None:
                self._recording.append(data)
            if self._is_last(data):
                doomed.set()
            if not _send(pair.server, data):
                break
        self._finish(pair)

    def _replies(self, pair: _Pair, doomed: threading.Event) -> None:
        for data in self._chunks(pair, pair.server):
            if doomed.is_set():
                self.lost.set()
                break
            if not _send(pair.client, data):
                break
        self._finish(pair)

    def _chunks(self, pair: _Pair, source: socket.socket) -> Iterator[bytes]:
        while not pair.closed.is_set():
            try:
                data = source.recv(65_536)
            except OSError:
                return
            if not data:
                return
            while not self._flowing.wait(0.2):
                if pair.closed.is_set():
                    return
            yield data

    def _is_last(self, data: bytes) -> bool:
        with self._lock:
            if self._replies_left is None or self._marker not in data:
                return False
            if self._replies_left:
                self._replies_left -= 1
                return False
            self._replies_left = None
            return True

    def _finish(self, pair: _Pair) -> None:
        with self._lock:
            self._pairs.discard(pair)
        pair.reset()


def _arrivals(listener: socket.socket) -> Iterator[socket.socket]:
    while True:
        try:
            yield listener.accept()[0]
        except OSError:
            return


def _send(to: socket.socket, data: bytes) -> bool:
    try:
        to.sendall(data)
    except OSError:
        return False
    return True
