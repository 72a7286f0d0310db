"""A reading as bytes: the text once, and columns of numbers that point into it.

Blocks stay in the child; the flows need none. What comes back is checked number by number against the text,
and its counts are bounded, so that an answer cannot grow in the parent to many times its bytes.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from pegas_memory.errors import InputError, TextTooLong
from pegas_memory.model import AtomType, Chunk, DocumentKind, DraftAtom, Extracted, Locator
from pegas_memory.reading.frames import Malformed, Part
from pegas_memory.reading.source import Reading
from pegas_memory.text import DOCUMENT_LIMIT, URI_LIMIT, clean_json, clean_text

MAX_CHUNKS = 500_000
MAX_DRAFTS = 1_000_000
"""100 MB of English text make 107,000 chunks and 143,000 drafts."""
_MAX_ABOUT = 4_000_000
_MAX_NUMBER = 2**31 - 1
_MAX_STRINGS = 3 * MAX_DRAFTS + MAX_DRAFTS + MAX_CHUNKS
_SECTIONS = struct.Struct(">7Q")
_TYPES = tuple(AtomType)
_NONE = -1
_WHERE, _OF_CHUNK, _OF_DRAFT = 5, 6, 7
"""Numbers of a row. All begin with start, end, place, page, line; a chunk's ends with its overlap, a draft's with
its type and the chunk that is its content."""


def answer_out(reading: Reading) -> list[Part]:
    """Raises ``TextTooLong`` for more chunks or drafts than travel."""
    document = reading.document
    if len(reading.chunks) > MAX_CHUNKS or len(reading.drafts) > MAX_DRAFTS:
        raise TextTooLong("The source falls into too many parts.", "Split it into several sources.")
    places: dict[tuple[str, ...], int] = {}
    contents = {chunk.text: chunk.position for chunk in reading.chunks}
    chunk_rows, draft_rows, weights = array("q"), array("q"), array("d")
    strings: list[str] = []
    for chunk in reading.chunks:
        chunk_rows.extend((*_row(chunk.locator, places), chunk.overlap))
    for draft in reading.drafts:
        held = contents.get(draft.content, _NONE)
        draft_rows.extend((*_row(draft.locator, places), _TYPES.index(draft.type), held))
        weights.extend((draft.confidence, draft.importance))
        metadata = json.dumps(draft.metadata, ensure_ascii=False) if draft.metadata else ""
        strings += (draft.claim, "" if held != _NONE else draft.content, metadata)
    strings += (json.dumps(place, ensure_ascii=False) for place in places)
    encoded = [string.encode() for string in strings]
    about = [
        document.kind, document.title, document.language, document.pages, document.metadata, document.warnings,
    ]  # fmt: skip
    sections = [
        json.dumps(about, ensure_ascii=False).encode(),
        document.text.encode(),
        b"".join(encoded),
        array("q", map(len, encoded)).tobytes(),
        chunk_rows.tobytes(),
        draft_rows.tobytes(),
        weights.tobytes(),
    ]
    return [_SECTIONS.pack(*map(len, sections)), *sections]


def _row(where: Locator, places: dict[tuple[str, ...], int]) -> tuple[int, ...]:
    place = places.setdefault((where.chapter, *where.headings), len(places))
    page = _NONE if where.page is None else where.page
    return where.start, where.end, place, page, _NONE if where.line is None else where.line


def answer_in(body: bytearray) -> Reading:
    """The reading, without blocks. Raises ``Malformed`` when anything in it does not fit."""
    try:
        return _reading(body)
    except (ValueError, TypeError, IndexError, RecursionError, struct.error, InputError) as error:
        raise Malformed(f"an answer that does not fit: {error}"[:200]) from error


def _reading(body: bytearray) -> Reading:
    about, text_bytes, blob, lengths, chunk_rows, draft_rows, weights = _split(body)
    text = _string(text_bytes)
    if len(about) > _MAX_ABOUT or len(text) > DOCUMENT_LIMIT:
        raise Malformed("more than a document can be")
    in_chunks, in_drafts = _rows(chunk_rows, _OF_CHUNK, MAX_CHUNKS), _rows(draft_rows, _OF_DRAFT, MAX_DRAFTS)
    strings = _strings(blob, _numbers("q", lengths))
    said = [(next(strings), next(strings), next(strings)) for _ in in_drafts]
    places = [_place(string) for string in strings]
    chunks = [_chunk(text, position, row, places) for position, row in enumerate(in_chunks)]
    trust = _numbers("d", weights)
    drafts = [
        _draft(text, row, places, words, pair, chunks)
        for row, words, pair in zip(in_drafts, said, zip(trust[::2], trust[1::2], strict=True), strict=True)
    ]
    return Reading(_document(text, *json.loads(bytes(about))), chunks, drafts)


def _document(text: str, kind: Any, title: Any, language: Any, pages: Any, metadata: Any, warnings: Any) -> Extracted:
    if not isinstance(metadata, dict) or not isinstance(warnings, list):
        raise Malformed("no description of a document")
    return Extracted(
        kind=DocumentKind(kind),
        text=text,
        blocks=(),
        title=clean_text(title, field="title", max_characters=URI_LIMIT, multiline=False),
        language=clean_text(language, field="language", max_characters=20, multiline=False),
        pages=None if pages is None else _within(pages, _MAX_NUMBER),
        metadata=clean_json(metadata, field="metadata"),
        warnings=tuple(clean_text(said, field="warnings", max_characters=URI_LIMIT) for said in warnings),
    )


def _locator(row: Sequence[int], places: Sequence[tuple[str, ...]], length: int) -> Locator:
    start, end, place, page, line = row[:_WHERE]
    if not 0 <= start < end <= length:
        raise Malformed("a span outside the text")
    chapter, *headings = places[_within(place, len(places) - 1)]
    return Locator(start, end, _or_none(page), chapter, tuple(headings), _or_none(line))


def _chunk(text: str, position: int, row: Sequence[int], places: Sequence[tuple[str, ...]]) -> Chunk:
    where = _locator(row, places, len(text))
    return Chunk(position, text[where.start : where.end], where, (), _within(row[-1], where.end - where.start))


def _draft(
    text: str,
    row: Sequence[int],
    places: Sequence[tuple[str, ...]],
    words: tuple[str, str, str],
    weights: tuple[float, float],
    chunks: Sequence[Chunk],
) -> DraftAtom:
    where, (kind, held) = _locator(row, places, len(text)), row[_WHERE:]
    claim, content, metadata = words
    if not all(0.0 <= weight <= 1.0 for weight in weights):
        raise Malformed("a weight that is none")
    more = clean_json(json.loads(metadata), field="metadata") if metadata else {}
    if not isinstance(more, dict):
        raise Malformed("metadata that is none")
    return DraftAtom(
        type=_TYPES[_within(kind, len(_TYPES) - 1)],
        claim=claim,
        quote=text[where.start : where.end],
        locator=where,
        content=content if held == _NONE else chunks[_within(held, len(chunks) - 1)].text,
        confidence=weights[0],
        importance=weights[1],
        metadata=more,
    )


# --- columns -------------------------------------------------------------------------------------------


def _split(body: bytearray) -> list[memoryview]:
    sizes = _SECTIONS.unpack_from(body)
    ends = list(accumulate(sizes, initial=_SECTIONS.size))
    if ends[-1] != len(body):
        raise Malformed("sections that do not fill their frame")
    view = memoryview(body)
    return [view[start:end] for start, end in pairwise(ends)]


def _numbers(kind: str, section: memoryview) -> array[Any]:
    found = array(kind)
    found.frombytes(section)
    return found


def _rows(section: memoryview, width: int, most: int) -> list[tuple[int, ...]]:
    if len(section) > 8 * width * most:
        raise Malformed("more parts than a document can have")
    return list(zip(*[iter(_numbers("q", section))] * width, strict=True))


def _strings(blob: memoryview, lengths: Sequence[int]) -> Iterator[str]:
    if len(lengths) > _MAX_STRINGS or any(length < 0 for length in lengths):
        raise Malformed("strings that are none")
    ends = list(accumulate(lengths, initial=0))
    if ends[-1] != len(blob):
        raise Malformed("strings that do not fill their section")
    return (_string(blob[start:end]) for start, end in pairwise(ends))


def _string(section: memoryview) -> str:
    """Raises ``ValueError`` for what is not UTF-8, and ``Malformed`` for a NUL, which no database stores."""
    found = str(section, "utf-8")
    if "\0" in found:
        raise Malformed("a NUL character")
    return found


def _place(string: str) -> tuple[str, ...]:
    found = json.loads(string)
    if not isinstance(found, list) or not found:
        raise Malformed("a place that is none")
    return tuple(clean_text(name, field="headings", max_characters=URI_LIMIT) for name in found)


def _within(number: Any, most: int) -> int:
    if type(number) is not int or not 0 <= number <= most:
        raise Malformed("a number out of range")
    return number


def _or_none(number: int) -> int | None:
    return None if number == _NONE else _within(number, _MAX_NUMBER)
