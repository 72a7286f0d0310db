"""What engine and clients say to each other: frames of msgpack, each led by its length.

A frame is four bytes of length (big-endian) and one msgpack value of at most ``MAX_FRAME`` bytes.
A request is ``[id, method, parameters]``, an answer ``[id, True, result]`` or ``[id, False, error]``.
Beside msgpack's own types: UUIDs, aware datetimes, float32 arrays. Pure: no socket is touched here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import msgpack
import numpy as np

from pegas_memory.errors import PegasError, error_of
from pegas_memory.model import (
    ArmHits,
    EmbeddingModel,
    Hit,
    MemoryKind,
    SearchFilter,
    ShownAs,
    SparseVector,
)

MAX_FRAME = 64 * 1024 * 1024
_LENGTH = struct.Struct(">I")
_UUID, _FLOATS = 1, 2
T = TypeVar("T")


class MalformedFrame(ValueError):
    """The bytes are no frame of ours; the connection they came from cannot be used further."""


class CannotPack(ValueError):
    """The value has no place on the wire, or is longer than ``MAX_FRAME``."""


def pack(value: Any) -> bytes:
    """One whole frame.

    Raises:
        CannotPack: for other types, naive datetimes, lone surrogates, over ``MAX_FRAME`` bytes.
    """
    try:
        body: bytes = msgpack.packb(value, default=_extension, datetime=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise CannotPack(str(error)) from error
    if len(body) > MAX_FRAME:
        raise CannotPack(f"{len(body)} bytes, at most {MAX_FRAME} travel at once")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Turns bytes as they arrive into values. After ``MalformedFrame`` it is of no more use."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The values that became complete with ``data``, in order.

        Raises:
            MalformedFrame: a length over ``MAX_FRAME``, or a body that is not exactly one value.
        """
        self._buffer += data
        values: list[Any] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > MAX_FRAME:
                raise MalformedFrame(f"a frame of {length} bytes is announced")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            values.append(_unpack(bytes(memoryview(self._buffer)[start + _LENGTH.size : end])))
            start = end
        if start:
            del self._buffer[:start]
        return values


def _unpack(body: bytes) -> Any:
    try:
        return msgpack.unpackb(body, ext_hook=_from_extension, timestamp=3, strict_map_key=False)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise MalformedFrame(f"the body of a frame cannot be read: {type(error).__name__}") from error


def _extension(value: Any) -> msgpack.ExtType:
    if isinstance(value, UUID):
        return msgpack.ExtType(_UUID, value.bytes)
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        shape = struct.pack(f">B{value.ndim}I", value.ndim, *value.shape)
        return msgpack.ExtType(_FLOATS, shape + value.astype("<f4", copy=False).tobytes())
    raise TypeError(f"{type(value).__name__} does not travel")


def _from_extension(code: int, data: bytes) -> Any:
    match code:
        case 1:
            return UUID(bytes=data)
        case 2:
            return _floats(data)
        case _:
            raise ValueError(f"unknown extension {code}")


def _floats(data: bytes) -> Any:
    dimensions = data[0] if data else 0
    start = 1 + 4 * dimensions
    if not 1 <= dimensions <= 2 or len(data) < start:
        raise ValueError("not an array")
    shape = struct.unpack_from(f">{dimensions}I", data, 1)
    return np.frombuffer(data, dtype="<f4", offset=start).reshape(shape).astype(np.float32)


# --- records -----------------------------------------------------------------------------------------
# Columns instead of a map for each hit: a search answer of 200 hits costs microseconds.


def filter_out(where: SearchFilter) -> dict[str, Any]:
    return {
        "tenant": where.tenant,
        "memory": sorted(where.memory),
        "types": sorted(where.types),
        "shown_as": sorted(where.shown_as),
        "tags": sorted(where.tags),
        "doc_id": where.doc_id,
        "since": where.since,
        "until": where.until,
        "min_confidence": where.min_confidence,
        "as_of": where.as_of,
    }


def filter_in(value: Mapping[str, Any]) -> SearchFilter:
    """Raises KeyError, TypeError or ValueError on a map that is no filter."""
    return SearchFilter(
        tenant=str(value["tenant"]),
        memory=frozenset(MemoryKind(kind) for kind in value["memory"]),
        types=frozenset(value["types"]),
        shown_as=frozenset(ShownAs(shown) for shown in value["shown_as"]),
        tags=frozenset(value["tags"]),
        doc_id=_optional(value["doc_id"], UUID),
        since=_optional(value["since"], datetime),
        until=_optional(value["until"], datetime),
        min_confidence=_optional(value["min_confidence"], float),
        as_of=_optional(value["as_of"], datetime),
    )


def _optional(value: Any, kind: type[T]) -> T | None:
    if value is None or isinstance(value, kind):
        return value
    raise TypeError(f"{type(value).__name__} where {kind.__name__} belongs")


def sparse_out(vector: SparseVector | None) -> list[bytes] | None:
    if vector is None:
        return None
    return [np.asarray(vector.indices, "<u4").tobytes(), np.asarray(vector.values, "<f8").tobytes()]


def sparse_in(value: Any) -> SparseVector | None:
    if value is None:
        return None
    indices, values = value
    return SparseVector(tuple(np.frombuffer(indices, "<u4").tolist()), tuple(np.frombuffer(values, "<f8").tolist()))


def hits_out(hits: ArmHits) -> dict[str, list[bytes]]:
    return {"dense": _arm_out(hits.dense), "lexical": _arm_out(hits.lexical)}


def hits_in(value: Mapping[str, Any]) -> ArmHits:
    return ArmHits(dense=_arm_in(value["dense"]), lexical=_arm_in(value["lexical"]))


def _arm_out(arm: tuple[Hit, ...]) -> list[bytes]:
    scores = np.asarray([hit.score for hit in arm], "<f8").tobytes()
    return [b"".join(hit.entity_id.bytes for hit in arm), scores]


def _arm_in(value: Any) -> tuple[Hit, ...]:
    ids, scores = value
    numbers = np.frombuffer(scores, "<f8").tolist()
    if len(ids) != 16 * len(numbers):
        raise ValueError("as many ids as scores belong into an arm")
    return tuple(Hit(UUID(bytes=ids[16 * i : 16 * i + 16]), score) for i, score in enumerate(numbers))


def model_out(model: EmbeddingModel | None) -> list[Any] | None:
    return None if model is None else [model.name, model.dimension, model.max_characters]


def model_in(value: Any) -> EmbeddingModel | None:
    if value is None:
        return None
    name, dimension, max_characters = value
    return EmbeddingModel(str(name), int(dimension), int(max_characters))


# --- errors ------------------------------------------------------------------------------------------


def error_out(error: PegasError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


def error_in(value: Any) -> PegasError:
    """The error as the class that owns its code, so that it can be caught as if raised here."""
    fields = value if isinstance(value, Mapping) else {}
    said = str(fields.get("message", "The engine answered with an error."))
    return error_of(str(fields.get("code", "")), said, str(fields.get("hint", "")))
