"""What a child answers is taken apart without trust: it fits, or it is ``Malformed``."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import struct
from typing import Any

import pytest

from pegas_memory.errors import DatabaseUnavailable, NoUsableText, PathNotAllowed
from pegas_memory.model import AtomType, Chunk, Distill, DocumentKind, DraftAtom, Extracted, Locator
from pegas_memory.reading import Reading, Source
from pegas_memory.reading.answers import answer_in, answer_out
from pegas_memory.reading.frames import (
    FrameReader,
    Kind,
    Malformed,
    error_in,
    error_out,
    framed,
    progress_in,
    progress_out,
    source_from,
    source_out,
)

TEXT = "Пегас 🐎 летает над горой. Он бел.\n\nВторой абзац."


def reading() -> Reading:
    """One that fills every field."""
    first = Locator(0, 35, page=3, chapter="Глава", headings=("Кони", "Пегас"), line=7)
    chunks = [
        Chunk(0, TEXT[:35], first, ()),
        Chunk(1, TEXT[26:], dataclasses.replace(first, start=26, end=len(TEXT)), (), 9),
    ]
    drafts = [
        DraftAtom(
            AtomType.FACT, "Пегас летает.", TEXT[:26], dataclasses.replace(first, end=26), "", 0.75, 0.25, {"a": [1]}
        ),
        DraftAtom(AtomType.TABLE, "Таблица", TEXT[37:], Locator(37, len(TEXT)), chunks[1].text),
        DraftAtom(AtomType.CODE, "Код", TEXT[37:40], Locator(37, 40), "x = 1"),
    ]
    document = Extracted(DocumentKind.PDF, TEXT, (), "Заглавие", "ru", 12, {"author": ["А", "Б"]}, ("Страница 2.",))
    return Reading(document, chunks, drafts)


def packed(value: Reading) -> bytearray:
    return bytearray(b"".join(answer_out(value)))


def test_every_field_travels() -> None:
    made = reading()
    arrived = answer_in(packed(made))
    assert arrived == made
    assert arrived.drafts[1].content is arrived.chunks[1].text
    for record in (made.document, made.chunks[1], made.chunks[0].locator, made.drafts[0]):
        plain = [
            field.name
            for field in dataclasses.fields(record)
            if getattr(record, field.name) in (field.default, None) and field.name not in ("blocks", "content")
        ]
        assert plain == [], "a field that this test does not fill may be one that does not travel"


def test_a_source_travels() -> None:
    source = Source("Ёж".encode(), DocumentKind.WEB, "https://a.example/", "text/html", "Ёж", Distill.OFF, True)
    assert source_from(io.BytesIO(b"".join(source_out(source)))) == source
    assert source_from(io.BytesIO(b"")) is None
    assert source_from(io.BytesIO(b"".join(source_out(source))[:-1])) is None


def test_frames_arrive_in_whatever_pieces() -> None:
    sent = b"".join([*framed(Kind.READY), *progress_out("pages", 1, 2), *error_out(NoUsableText("Нет."))])
    for size in (1, 3, 1000):
        frames = FrameReader()
        got = [frame for at in range(0, len(sent), size) for frame in frames.feed(sent[at : at + size])]
        assert [kind for kind, _ in got] == [Kind.READY, Kind.PROGRESS, Kind.ERROR]
        assert progress_in(got[1][1]) == ("pages", 1, 2)
        assert (type(error_in(got[2][1])), error_in(got[2][1]).message) == (NoUsableText, "Нет.")


@pytest.mark.parametrize(
    "head", [b"x" + bytes(8), b"\xff" + bytes(8), b"p" + b"\xff" * 8, b"a" + struct.pack(">Q", 2**31)]
)
def test_a_head_that_is_none_is_refused_before_anything_is_read(head: bytes) -> None:
    with pytest.raises(Malformed):
        FrameReader().feed(head)


@pytest.mark.parametrize(
    "said", [None, 1, [], ["a", 1], ["a", -1, 2], ["a", 1, 2**40], ["a", True, 2], [1, 1, 1], ["a", 1.5, 2], {"a": 1}]
)
def test_progress_that_is_none(said: Any) -> None:
    with pytest.raises(Malformed):
        progress_in(bytearray(json.dumps(said).encode()))


def test_only_errors_that_a_document_can_make_are_believed() -> None:
    for said in (
        ["no_such_code", "x", ""],
        [DatabaseUnavailable.code, "x", ""],
        ["internal_error", "x", ""],
        ["a"],
        [[], 1, 2],
    ):
        with pytest.raises(Malformed):
            error_in(bytearray(json.dumps(said).encode()))
    with pytest.raises(Malformed):
        error_in(bytearray(b"[" * 60_000))
    assert "\0" not in str(error_in(bytearray(json.dumps([PathNotAllowed.code, "a\0b", ""]).encode())))


def changed(part: int, change: bytes) -> bytearray:
    """The answer with one of its sections exchanged."""
    _, *sections = answer_out(reading())
    sections[part] = change
    return bytearray(b"".join([struct.pack(">7Q", *map(len, sections)), *sections]))


def rows(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}q", *numbers)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (0, b"{}"),
        (0, b"[" * 100_000),
        (0, json.dumps(["pdf", "t", "ru", -1, {}, []]).encode()),
        (0, json.dumps(["pdf", "t", "ru", True, {}, []]).encode()),
        (0, json.dumps(["pdf", "t", "ru", None, [], []]).encode()),
        (0, json.dumps(["no kind", "t", "ru", None, {}, []]).encode()),
        (0, json.dumps(["pdf", 7, "ru", None, {}, []]).encode()),
        (0, json.dumps(["pdf", "t" * 9_000, "ru", None, {}, []]).encode()),
        (0, b'["pdf", "t", "ru", null, {"a": NaN}, []]'),
        (1, b"\xff\xfe"),
        (1, TEXT.encode().replace(b"\n", b"\0")),
        (1, b"short"),
        (2, b""),
        (2, b"\xff" * 300),
        (3, rows(-1, 2)),
        (3, rows(*[2**62] * 10)),
        (3, b"123"),
        (4, rows(0, 10, 0, 1, 1)),
        (4, rows(10, 10, 0, 1, 1, 0)),
        (4, rows(-5, 10, 0, 1, 1, 0)),
        (4, rows(0, 10_000, 0, 1, 1, 0)),
        (4, rows(0, 10, 99, 1, 1, 0)),
        (4, rows(0, 10, -1, 1, 1, 0)),
        (4, rows(0, 10, 0, -7, 1, 0)),
        (4, rows(0, 10, 0, 2**40, 1, 0)),
        (4, rows(0, 10, 0, 1, 1, 11)),
        (5, rows(*[0, 10, 0, 1, 1, 99, -1] * 3)),
        (5, rows(*[0, 10, 0, 1, 1, 0, 99] * 3)),
        (5, rows(*[0, 10, 0, 1, 1, 0, -2] * 3)),
        (6, struct.pack("=6d", *[float("nan")] * 6)),
        (6, struct.pack("=6d", *[1.5] * 6)),
        (6, struct.pack("=2d", 0.5, 0.5)),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(part: int, change: bytes) -> None:
    with pytest.raises(Malformed):
        answer_in(changed(part, change))


def test_an_answer_hurt_anywhere_fits_or_is_refused() -> None:
    rng = random.Random(7)
    whole = packed(reading())
    refused = 0
    for _ in range(3_000):
        hurt = bytearray(whole)
        for _ in range(rng.choice((1, 1, 4, 40))):
            hurt[rng.randrange(len(hurt))] = rng.choice((0, 1, 255, rng.randrange(256)))
        if rng.random() < 0.2:
            del hurt[rng.randrange(len(hurt)) :]
        try:
            got = answer_in(hurt)
        except Malformed:
            refused += 1
            continue
        assert all(got.document.text[d.locator.start : d.locator.end] == d.quote for d in got.drafts)
    assert refused > 1_000
