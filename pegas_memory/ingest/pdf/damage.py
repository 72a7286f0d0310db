"""Which pages are damaged. PDFium draws a page whose content breaks off as a shorter one, and a page whose
content is lost as a blank one, without a word; here the streams themselves are looked at."""

from __future__ import annotations

import io
import logging
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from pypdf import PdfReader
from pypdf.errors import DeprecationError, PyPdfError
from pypdf.generic import IndirectObject

MAX_BLANK_PAGES = 50
"""Blank pages looked at; a document with more of them is judged by these."""
_EMPTY_STREAM = 20
"""Bytes of a compressed stream that may well hold nothing."""
_MAX_UNPACKED = 1_000_000_000
"""Bytes unpacked for one file; what comes after them is not looked at."""
_MOST_LOOKS = 4
"""Times that the bytes of a file are looked at."""
_PIECE = 1 << 16
_STREAM = re.compile(rb"(?<!end)stream\r?\n")
_OBJECT = re.compile(rb"(\d{1,10})\s+\d{1,5}\s+obj\b")
_FLATE = re.compile(rb"/(?:Filter|F)\s*\[?\s*/(?:FlateDecode|Fl)\b")
_HEAD = 1_500
_FLUSHED = b"\x00\x00\xff\xff"
"""Ends compressed data that its writer flushed and never closed; nothing is missing."""
_MAX_PLAIN = 5_000_000
_DRAWS = re.compile(rb"\sT[fjJ]\s")
_INLINE_IMAGE = re.compile(rb"\bID\s")
_STRINGS = re.compile(rb"\((?:\\.|[^()\\]|\((?:\\.|[^()\\])*\))*\)|%[^\r\n]*|/[^\s/\[\]<>()]*", re.DOTALL)
_OPERATORS = re.compile(rb"\)\s*T[jJ]\s[-+.\d\s]*T[dDm*]\s*[(\[]")
"""Within a string: one that was never closed goes on through the operators after it."""
_ALIEN = re.compile(rb"[\x01-\x08\x0b\x0e-\x1f\x7f-\xff]|\x00{4}|\b(?:endobj|startxref)\b")
_TOKEN = re.compile(rb"[^\s\[\]<>()]+")
# Operators that set state and draw nothing.
_SILENT = frozenset(
    b"q Q cm gs w J j M d ri i g G rg RG k K cs CS sc SC scn SCN BT ET Tf Tm Td TL BMC BDC EMC n W".split()
)
_NUMBER_OR_NAME = re.compile(rb"[-+.\d]+|/\S*")
_ERRORS = (
    PyPdfError, DeprecationError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError,
    zlib.error, NotImplementedError, AssertionError, MemoryError,
)  # fmt: skip

# It logs every irregularity; the verdict here is all that matters.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def lost_pages(data: bytes, pages: Sequence[int]) -> list[int]:
    """Those of the blank ``pages`` (from 1) that are not provably blank: their content does not decode, or
    holds drawing operators that drew nothing."""
    if not pages:
        return []
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        return [page for page in pages[:MAX_BLANK_PAGES] if not _is_blank(reader, page - 1)]
    except _ERRORS:
        return list(pages)


def cut_pages(data: bytes) -> list[int] | None:
    """Pages (from 1) that draw with a stream whose compressed data breaks off or fails its checksum; None when
    such streams exist and the file is too damaged to tell whose they are. ``data`` is not encrypted."""
    broken = broken_streams(data)
    if not broken:
        return []
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        return [n for n, page in enumerate(reader.pages, 1) if not broken.isdisjoint(_drawn_with(page))]
    except _ERRORS:
        return None


def broken_streams(data: bytes) -> set[int]:
    """Numbers of the objects whose Flate stream does not unpack to its end; images are left out."""
    broken: set[int] = set()
    left = _MAX_UNPACKED
    unread = _MOST_LOOKS * len(data)  # streams of a hostile file may all run to one end
    end = 0
    for match in _STREAM.finditer(data):
        head = data[max(0, match.start() - _HEAD) : match.start()]
        owners = list(_OBJECT.finditer(head))
        owner = owners[-1] if owners else None
        about = head[owner.end() :] if owner else b""
        if owner is None or b"/Image" in about:
            continue
        if end < match.end():
            end = data.find(b"endstream", match.end())
            end = end if end >= 0 else len(data)
        if _FLATE.search(about):
            whole, unpacked = _unpacks(data, match.end(), end, left)
        elif b"/Filter" in about or b"/Type" in about:
            continue
        else:
            whole, unpacked = _is_sound(data[match.end() : min(end, match.end() + _MAX_PLAIN)]), 0
        if not whole:
            broken.add(int(owner.group(1)))
        left -= unpacked
        unread -= min(end - match.end(), _MAX_PLAIN)
        if left <= 0 or unread <= 0:
            break
    return broken


def _is_sound(content: bytes) -> bool:
    """False for drawing operators with bytes between them that belong to none, or within a string."""
    if not _DRAWS.search(content) or _INLINE_IMAGE.search(content):
        return True
    if any(len(_OPERATORS.findall(text)) > 1 for text in _STRINGS.findall(content)):
        return False
    return _ALIEN.search(_STRINGS.sub(b"", content)) is None


def _unpacks(data: bytes, start: int, end: int, limit: int) -> tuple[bool, int]:
    """Whether a zlib stream is whole as far as ``limit`` bytes of it, and the bytes it gave."""
    if end - start < 2 or data[start] & 0x0F != 8 or int.from_bytes(data[start : start + 2], "big") % 31:
        return end - start < 2, 0
    inflate = zlib.decompressobj(-15)
    check, count, at = 1, 0, start + 2
    tail = b""
    try:
        while not inflate.eof and (at < end or tail):
            piece = tail or data[at : min(at + _PIECE, end)]
            at += 0 if tail else len(piece)
            out = inflate.decompress(piece, _PIECE * 16)
            tail = inflate.unconsumed_tail
            check = zlib.adler32(out, check)
            count += len(out)
            if count > limit:
                return True, count
    except zlib.error:
        return False, count
    if not inflate.eof:
        return _FLUSHED in data[max(start, end - 8) : end], count
    written = (inflate.unused_data + data[at:end])[:4]
    return len(written) < 4 or int.from_bytes(written, "big") == check, count


def _drawn_with(page: Any) -> Iterator[int]:
    """Object numbers of what a page draws text with: its content, forms, its fonts' files and Unicode maps."""
    yield from _numbers(page.get("/Contents"), page.get_object().raw_get("/Contents") if "/Contents" in page else None)
    yield from _resources(page.get("/Resources"), 3)


def _numbers(value: Any, raw: Any) -> Iterator[int]:
    if isinstance(raw, IndirectObject):
        yield raw.idnum
    if isinstance(value, list):
        yield from (item.idnum for item in list.__iter__(value) if isinstance(item, IndirectObject))


def _resources(resources: Any, depth: int) -> Iterator[int]:
    found = resources.get_object() if resources is not None else {}
    for font in dict(found.get("/Font", {})).values():
        yield from _font_streams(dict(font.get_object()))
    for raw in dict(found.get("/XObject", {})).values():
        thing = raw.get_object()
        if thing.get("/Subtype") == "/Form" and isinstance(raw, IndirectObject):
            yield raw.idnum
            if depth:
                yield from _resources(thing.get("/Resources"), depth - 1)


def _font_streams(font: dict[str, Any]) -> Iterator[int]:
    for part in font.get("/DescendantFonts", []):
        yield from _font_streams(dict(part.get_object()))
    described = font.get("/FontDescriptor")
    about = dict(described.get_object()) if described is not None else {}
    for raw in (font.get("/ToUnicode"), *(about.get(name) for name in ("/FontFile", "/FontFile2", "/FontFile3"))):
        if isinstance(raw, IndirectObject):
            yield raw.idnum


def _is_blank(reader: PdfReader, index: int) -> bool:
    try:
        page = reader.pages[index]
        contents = page.get_contents()
        content = contents.get_data() if contents is not None else b""
        stored = sum(_stored_length(part) for part in _parts(page.get("/Contents")))
    except _ERRORS:
        return False
    if not content.strip():
        return stored <= _EMPTY_STREAM
    tokens = _TOKEN.findall(content[:100_000])
    return all(token in _SILENT or _NUMBER_OR_NAME.fullmatch(token) for token in tokens)


def _parts(contents: object) -> list[object]:
    found = contents.get_object() if hasattr(contents, "get_object") else contents
    return list(found) if isinstance(found, list) else [found]


def _stored_length(part: object) -> int:
    """Bytes of a stream as the file holds them; pypdf drops ``/Length`` and tells it nowhere else."""
    stream = part.get_object() if hasattr(part, "get_object") else part
    return len(getattr(stream, "_data", b""))
