"""What parent and child say to each other: frames of a kind, a length and a body.

Nothing that the child says is taken on trust: the file that it reads may own it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, BinaryIO

from pegas_memory.errors import InputError, PegasError, error_of
from pegas_memory.model import Distill, DocumentKind
from pegas_memory.reading.source import Source
from pegas_memory.text import clean_text

Part = bytes | bytearray | memoryview

MAX_ANSWER = 1_000_000_000
MAX_WORDS = 64_000
"""Bytes of any other frame that a child sends."""
_HEAD = struct.Struct(">cQ")
_LENGTH = struct.Struct(">I")


class Kind(StrEnum):
    READY = "r"
    SOURCE = "s"
    PROGRESS = "p"
    ERROR = "e"
    ANSWER = "a"


class Malformed(ValueError):
    """The bytes are no frame of ours; whoever sent them is not to be heard further."""


def framed(kind: Kind, parts: Sequence[Part] = ()) -> list[Part]:
    """The parts of a whole frame, to be written one after another."""
    return [_HEAD.pack(kind.encode(), sum(map(len, parts))), *parts]


class FrameReader:
    """Turns bytes as they arrive into frames. After ``Malformed`` it is of no more use."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[Kind, bytearray]]:
        """The frames that became complete with ``data``. Raises ``Malformed``."""
        self._buffer += data
        found = []
        while len(self._buffer) >= _HEAD.size:
            letter, length = _HEAD.unpack_from(self._buffer)
            kind = _kind(letter)
            if length > (MAX_ANSWER if kind is Kind.ANSWER else MAX_WORDS):
                raise Malformed(f"a frame of {length} bytes is announced")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                break
            body, self._buffer = self._buffer, self._buffer[end:]
            del body[end:], body[: _HEAD.size]
            found.append((kind, body))
        return found


def _kind(letter: bytes) -> Kind:
    try:
        return Kind(letter.decode("ascii"))
    except ValueError as error:
        raise Malformed("a frame of no known kind") from error


# --- source, progress, error ---------------------------------------------------------------------------


def source_out(source: Source) -> list[Part]:
    about = _json([source.kind, source.name, source.content_type, source.title, source.distill, source.decoded])
    return framed(Kind.SOURCE, [_LENGTH.pack(len(about)), about, source.data])


def source_from(pipe: BinaryIO) -> Source | None:
    """The next source that comes through ``pipe``; None when it was closed. The sender is trusted."""
    head = pipe.read(_HEAD.size + _LENGTH.size)
    if len(head) < _HEAD.size + _LENGTH.size:
        return None
    (_, whole), (length,) = _HEAD.unpack_from(head), _LENGTH.unpack_from(head, _HEAD.size)
    about, data = pipe.read(length), pipe.read(whole - _LENGTH.size - length)
    if len(data) < whole - _LENGTH.size - length:
        return None
    kind, name, content_type, title, distill, decoded = json.loads(about)
    kind = DocumentKind(kind) if kind else None
    return Source(data, kind, name, content_type, title, Distill(distill), decoded)


def progress_out(what: str, done: int, of: int) -> list[Part]:
    return framed(Kind.PROGRESS, [_json([what, done, of])])


def progress_in(body: bytearray) -> tuple[str, int, int]:
    """Raises ``Malformed``."""
    what, done, of = _loaded(body)
    if not (type(done) is int and type(of) is int and 0 <= done < 2**31 and 0 <= of < 2**31):
        raise Malformed("no progress")
    return what[:40], done, of


def error_out(error: PegasError) -> list[Part]:
    return framed(Kind.ERROR, [_json([error.code, error.message[:4_000], error.hint[:4_000]])])


def error_in(body: bytearray) -> InputError:
    """The error as the class that owns its code. Raises ``Malformed``."""
    try:
        error = error_of(*(clean_text(part, field="error", max_characters=MAX_WORDS) for part in _loaded(body)))
    except (InputError, TypeError) as odd:
        raise Malformed("no error") from odd
    if not isinstance(error, InputError):
        raise Malformed("an error that no document makes")
    return error


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _loaded(body: bytearray) -> list[Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed("no JSON") from error
    if not isinstance(said, list) or len(said) != 3 or not isinstance(said[0], str):
        raise Malformed("not the three parts of a message")
    return said
