"""Frames: whatever was packed arrives, however the bytes are cut; whatever is no frame is refused."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

import msgpack
import numpy as np
import pytest

from pegas_memory import errors, wire
from pegas_memory.model import (
    ArmHits,
    EmbeddingModel,
    Hit,
    MemoryKind,
    SearchFilter,
    ShownAs,
    SparseVector,
)


def through(value: object) -> object:
    (arrived,) = wire.FrameReader().feed(wire.pack(value))
    return arrived


def test_plain_values_ids_and_times_survive() -> None:
    moscow = timezone(timedelta(hours=3))
    value = {
        "text": "Привет, ёжик 🦔\x00\n",
        "bytes": b"\x00\xff",
        "number": [0, -1, 2**63, 0.1, math.pi, None, True],
        "id": UUID(int=2**128 - 1),
        "when": datetime(2026, 11, 30, 19, 1, 2, 345678, tzinfo=moscow),
        "before 1970": datetime(1815, 6, 18, 11, 35, 0, 1, tzinfo=UTC),
    }
    assert through(value) == value


@pytest.mark.parametrize("shape", [(384,), (3, 768), (0, 384), (1, 1)])
def test_float_arrays_survive_bit_by_bit(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    arrived = through(array)
    assert isinstance(arrived, np.ndarray)
    assert arrived.dtype == np.float32
    assert arrived.shape == shape
    assert arrived.tobytes() == array.tobytes()
    arrived += 1  # its own memory, not the frame's


def test_an_array_that_is_a_view_is_sent_as_it_reads() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]
    np.testing.assert_array_equal(through(array), array)


def test_frames_arrive_one_by_one_however_the_bytes_are_cut() -> None:
    values = [{"n": n, "x": "я" * n} for n in range(40)]
    stream = b"".join(wire.pack(value) for value in values)
    for step in (1, 3, 7, 1000, len(stream)):
        reader = wire.FrameReader()
        arrived = [v for start in range(0, len(stream), step) for v in reader.feed(stream[start : start + step])]
        assert arrived == values


@pytest.mark.parametrize(
    "value",
    [object(), datetime(2026, 1, 1), "\ud800", 2**64, np.zeros(2), {"s": {1}}],
    ids=["object", "naive", "surrogate", "huge integer", "float64", "set"],
)
def test_what_has_no_place_on_the_wire_is_refused_by_the_sender(value: object) -> None:
    with pytest.raises(wire.CannotPack):
        wire.pack(value)


def test_a_frame_over_the_limit_is_refused_by_both_ends() -> None:
    with pytest.raises(wire.CannotPack):
        wire.pack(b"x" * (wire.MAX_FRAME + 1))
    with pytest.raises(wire.MalformedFrame):
        wire.FrameReader().feed(struct.pack(">I", wire.MAX_FRAME + 1))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x93\x01",
        b"\x01\x02",
        b"\xd9\x02\xff\xfe",
        msgpack.packb(msgpack.ExtType(1, b"short")),
        msgpack.packb(msgpack.ExtType(2, b"")),
        msgpack.packb(msgpack.ExtType(2, b"\x01\x00\x00\x00\x05abcd")),
        msgpack.packb(msgpack.ExtType(2, b"\xff" + b"\x00" * 8)),
        msgpack.packb(msgpack.ExtType(99, b"")),
        b"\x91" * 5000 + b"\x01",
        b"\xdd\xff\xff\xff\xff",
        b"\x81\x91\x01\x01",
    ],
)
def test_junk_in_a_frame_is_named_and_nothing_else_is_raised(body: bytes) -> None:
    with pytest.raises(wire.MalformedFrame):
        wire.FrameReader().feed(struct.pack(">I", len(body)) + body)


def test_random_bytes_raise_nothing_but_malformed_frame() -> None:
    dice = np.random.default_rng(11)
    for _ in range(2000):
        body = dice.bytes(int(dice.integers(0, 60)))
        try:
            wire.FrameReader().feed(struct.pack(">I", len(body)) + body)
        except wire.MalformedFrame:
            continue


def test_a_search_filter_survives_whole_and_empty() -> None:
    whole = SearchFilter(
        tenant="a|b:ё",
        memory=frozenset(MemoryKind),
        types=frozenset({"fact", "code"}),
        shown_as=frozenset({ShownAs.RETRACTED}),
        tags=frozenset({"тег", ""}),
        doc_id=uuid4(),
        since=datetime(1900, 1, 1, tzinfo=UTC),
        until=datetime(2100, 1, 1, tzinfo=UTC),
        min_confidence=0.0,
        as_of=datetime(2020, 6, 1, 12, 0, 0, 1, tzinfo=UTC),
    )
    for where in (whole, SearchFilter("default")):
        arrived = wire.filter_in(through(wire.filter_out(where)))  # type: ignore[arg-type]
        assert arrived == where
        assert all(isinstance(kind, MemoryKind) for kind in arrived.memory)


@pytest.mark.parametrize(
    ("field", "value"), [("memory", ["nothing"]), ("doc_id", "x"), ("since", 5), ("as_of", 5), ("types", None)]
)
def test_a_filter_of_the_wrong_form_is_refused(field: str, value: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        wire.filter_in({**wire.filter_out(SearchFilter("default")), field: value})


def test_vectors_hits_and_models_survive() -> None:
    sparse = SparseVector((0, 5, 2**32 - 1), (0.1, 1e-300, 3.5))
    hits = ArmHits(dense=(Hit(uuid4(), 0.1), Hit(uuid4(), -1.0)), lexical=(Hit(uuid4(), 31.4),))
    model = EmbeddingModel("ollama:embeddinggemma", 768, 6000)
    assert wire.sparse_in(through(wire.sparse_out(sparse))) == sparse
    assert wire.sparse_in(through(wire.sparse_out(None))) is None
    assert wire.sparse_in(through(wire.sparse_out(SparseVector((), ())))) == SparseVector((), ())
    assert wire.hits_in(through(wire.hits_out(hits))) == hits  # type: ignore[arg-type]
    assert wire.hits_in(through(wire.hits_out(ArmHits()))) == ArmHits()  # type: ignore[arg-type]
    assert wire.model_in(through(wire.model_out(model))) == model
    assert wire.model_in(through(wire.model_out(None))) is None


def all_errors(kind: type[errors.PegasError] = errors.PegasError) -> list[type[errors.PegasError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in all_errors(child))]


@pytest.mark.parametrize("kind", [k for k in all_errors() if k.__module__ == errors.__name__], ids=lambda k: k.code)
def test_every_error_arrives_as_its_own_class(kind: type[errors.PegasError]) -> None:
    arrived = wire.error_in(through(wire.error_out(kind("Что-то не так.", "Do this."))))
    assert type(arrived) is kind
    assert (arrived.message, arrived.hint) == ("Что-то не так.", "Do this.")


@pytest.mark.parametrize("said", [None, "x", {}, {"code": "of a newer version", "message": "m"}])
def test_an_unknown_error_is_still_an_error(said: object) -> None:
    assert type(wire.error_in(said)) is errors.PegasError
