"""One connection to the engine: a request, then its answer."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from pegas_memory import wire
from pegas_memory.engine_client.place import Place
from pegas_memory.errors import EngineUnavailable, InvalidParameter

_RECEIVE = 256 * 1024
_ids = itertools.count(1)

SILENCE = 3.0
"""Seconds without an answer after which a caller looks whether the engine is there at all."""


class LinkLost(EngineUnavailable):
    """The engine went away under the connection; a new one may answer the same request."""


class NoAnswer(EngineUnavailable):
    """The engine is connected and did not answer in time."""


class NobodyThere(NoAnswer):
    """It answers nothing at all: it is stopped, or hangs."""


class Link:
    """Not thread-safe: one caller at a time. After ``EngineUnavailable`` it is out of step: close it."""

    def __init__(self, place: Place, timeout: float = 5.0) -> None:
        self._socket = place.dial(timeout)
        self._reader = wire.FrameReader()

    def call(
        self, method: str, parameters: Mapping[str, Any], timeout: float, there: Callable[[], bool] | None = None
    ) -> Any:
        """The engine's answer, within ``timeout`` seconds. After ``SILENCE`` seconds of waiting ``there`` is
        asked, once, whether the engine answers anything at all.

        Raises:
            LinkLost: the connection broke. NoAnswer: no answer in time. NobodyThere: ``there`` said no.
            InvalidParameter: the parameters cannot travel. PegasError: what the engine raised.
        """
        number = next(_ids)
        try:
            frame = wire.pack([number, method, dict(parameters)])
        except wire.CannotPack as error:
            raise InvalidParameter("The text or the vectors of this call cannot be sent.") from error
        try:
            answer = self._exchange(frame, timeout, there)
        except TimeoutError as error:
            raise NoAnswer(f"The engine did not answer '{method}' in time.") from error
        except (OSError, wire.MalformedFrame) as error:
            raise LinkLost(f"The engine ended while it answered '{method}'.") from error
        return _result(number, answer)

    def _exchange(self, frame: bytes, timeout: float, there: Callable[[], bool] | None) -> Any:
        deadline = time.monotonic() + timeout
        self._socket.settimeout(timeout)
        self._socket.sendall(frame)
        if there is None or timeout <= SILENCE:
            return self._receive(deadline)
        try:
            return self._receive(min(deadline, time.monotonic() + SILENCE))
        except TimeoutError as error:
            if not there():
                raise NobodyThere("The engine does not answer.") from error
        return self._receive(deadline)

    def _receive(self, deadline: float) -> Any:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            data = self._socket.recv(_RECEIVE)
            if not data:
                raise ConnectionResetError
            values = self._reader.feed(data)
            if values:
                return values[0]

    def alive(self) -> bool:
        """Whether the engine still holds its end; asks the kernel only."""
        try:
            self._socket.settimeout(0)
            return self._socket.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        self._socket.close()


def _result(number: int, answer: Any) -> Any:
    match answer:
        case [int(found), True, result] if found == number:
            return result
        case [int(found), False, error] if found == number:
            raised = wire.error_in(error)
            if isinstance(error, dict) and error.get("leaving"):
                raise LinkLost(raised.message, raised.hint)
            raise raised
        case _:
            raise LinkLost("The engine answered something else than was asked.")
