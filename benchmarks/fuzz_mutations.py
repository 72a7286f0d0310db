"""Mutations of documents: of any bytes, of PDFs and of HTML (of EPUBs: ``fuzz_zip``).

Each is a function of (random, data, spare). ``spare`` is another document of the kind, for splices. All chance
comes from ``random``, so a seed repeats a file.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Change = Callable[[Random, bytes, bytes], bytes]
BOMB = 100_000_000
"""Bytes that a planted stream unpacks to."""
NUMBERS = (b"0", b"-1", b"1", b"65536", b"2147483647", b"2147483648", b"4294967296", b"99999999999999999999", b"1e9")
CHARSETS = ("utf-8", "utf-16", "windows-1251", "koi8-r", "iso-8859-1", "gb18030", "x-nonsense", "utf-7")
_STREAM = re.compile(rb"stream\r?\n")
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?![\w.])")
_REFERENCE = re.compile(rb"(\d+) (\d+) R\b")
_LENGTH = re.compile(rb"/Length \d+")
_KEYWORD = re.compile(rb"\b(?:endobj|endstream|obj|stream|xref|trailer|startxref|BT|ET|Tj|TJ|Tf)\b|%%EOF|<<|>>")
_TAG = re.compile(rb"</?[A-Za-z][^<>]*>")
_ATTRIBUTE = re.compile(rb"\s[\w:-]+\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_META_CHARSET = re.compile(rb"charset\s*=\s*[\"']?[\w-]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mutation:
    """``tells``: a loss that it causes can be known from the bytes alone, so a reader has no excuse."""

    name: str
    change: Change
    tells: bool = True


# --- any bytes ----------------------------------------------------------------------------------------


def flips(random: Random, data: bytes, _spare: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 2, 8, 64))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def noise(random: Random, data: bytes, _spare: bytes) -> bytes:
    start, end = _piece(random, data)
    return data[:start] + random.randbytes(end - start) + data[end:]


def truncation(random: Random, data: bytes, _spare: bytes) -> bytes:
    return data[: random.randrange(len(data)) + 1]


def beheading(random: Random, data: bytes, _spare: bytes) -> bytes:
    return data[random.randrange(min(len(data), 2_000)) :]


def removal(random: Random, data: bytes, _spare: bytes) -> bytes:
    start, end = _piece(random, data)
    return data[:start] + data[end:]


def repetition(random: Random, data: bytes, _spare: bytes) -> bytes:
    start, end = _piece(random, data)
    return data[:end] + data[start:end] * random.choice((1, 3, 20)) + data[end:]


def zeros(random: Random, data: bytes, _spare: bytes) -> bytes:
    start, end = _piece(random, data)
    return data[:start] + bytes(end - start) + data[end:]


def splice(random: Random, data: bytes, spare: bytes) -> bytes:
    start, end = _piece(random, data)
    first, last = _piece(random, spare)
    return data[:start] + spare[first:last] + data[end:]


def _piece(random: Random, data: bytes) -> tuple[int, int]:
    """A span, mostly short, at times up to half of the data."""
    size = max(1, int(len(data) * random.choice((0.001, 0.01, 0.1, 0.5)) * random.random()))
    start = random.randrange(max(1, len(data) - size))
    return start, start + size


# --- PDF ----------------------------------------------------------------------------------------------


def numbers(random: Random, data: bytes, _spare: bytes) -> bytes:
    """Object numbers, counts, lengths, offsets and coordinates outside of streams."""
    return _some(random, data, _NUMBER, lambda _: random.choice(NUMBERS))


def references(random: Random, data: bytes, _spare: bytes) -> bytes:
    known = [found[1] for found in _REFERENCE.finditer(data)] or [b"1"]
    return _some(random, data, _REFERENCE, lambda _: random.choice(known) + b" 0 R")


def lengths(random: Random, data: bytes, _spare: bytes) -> bytes:
    return _some(random, data, _LENGTH, lambda _: b"/Length " + random.choice(NUMBERS))


def keywords(random: Random, data: bytes, _spare: bytes) -> bytes:
    return _some(random, data, _KEYWORD, lambda found: random.choice((b"", b" " * len(found[0]), b"endobj", found[0])))


def payload(random: Random, data: bytes, _spare: bytes) -> bytes:
    """Bits of one stream, or a stream that unpacks to far more than it is."""
    starts = [found.end() for found in _STREAM.finditer(data)]
    if not starts:
        return data
    start = random.choice(starts)
    end = max(data.find(b"endstream", start), start + 1)
    if random.random() < 0.03:
        return data[:start] + zlib.compress(bytes(BOMB)) + data[end:]
    changed = bytearray(data)
    for _ in range(random.choice((1, 4, 32))):
        changed[min(random.randrange(start, end), len(data) - 1)] ^= 1 << random.randrange(8)
    return bytes(changed)


def circles(random: Random, data: bytes, _spare: bytes) -> bytes:
    """/Prev, /Parent, /Kids or /Next that lead back to where they came from."""
    start = data.rfind(b"startxref")
    offset = _NUMBER.search(data, max(start, 0))
    if random.random() < 0.5 and offset is not None:
        return data.replace(b"/Root", b"/Prev " + offset[0] + b" /Root", 1)
    name = random.choice((b"/Kids", b"/Parent", b"/Next", b"/First", b"/Contents", b"/Resources"))
    at = random.choice(list(_REFERENCE.finditer(data)) or [None])
    return data if at is None else re.sub(name + rb"\s*\[?[^/>]*", name + b" [" + at[0] + b"] ", data, count=3)


def _some(random: Random, data: bytes, what: re.Pattern[bytes], made: Callable[[re.Match[bytes]], bytes]) -> bytes:
    """``data`` with one or a few of the matches replaced."""
    found = list(what.finditer(data))
    if not found:
        return data
    for match in sorted(random.sample(found, min(len(found), random.choice((1, 1, 3, 10)))), key=lambda m: -m.start()):
        data = data[: match.start()] + made(match) + data[match.end() :]
    return data


# --- markup -------------------------------------------------------------------------------------------


def tag_soup(random: Random, data: bytes, _spare: bytes) -> bytes:
    tags = list(_TAG.finditer(data)) or [None]
    return _some(
        random, data, _TAG, lambda found: random.choice((b"", found[0] * 2, (random.choice(tags) or found)[0]))
    )


def attributes(random: Random, data: bytes, _spare: bytes) -> bytes:
    odd = (
        b' colspan="1000000000"',
        b" rowspan='99999999'",
        b' style="display:none',
        b" id=x id=y",
        b" =\"'",
        b" \x00=1",
    )
    return _some(random, data, _ATTRIBUTE, lambda _: random.choice(odd))


def swallow(random: Random, data: bytes, _spare: bytes) -> bytes:
    """The beginning of what swallows the rest of a page, never ended."""
    begins = (b"<!--", b"<script>", b"<style>", b"<textarea>", b"<title>", b"<![CDATA[", b"<template>", b"<a href='")
    at = random.randrange(len(data))
    return data[:at] + random.choice(begins) + data[at:]


def depth(random: Random, data: bytes, _spare: bytes) -> bytes:
    name = random.choice((b"div", b"b", b"table><tr><td", b"ul><li", b"span", b"blockquote"))
    at = random.randrange(len(data))
    return data[:at] + (b"<" + name + b">") * random.choice((300, 5_000, 50_000)) + data[at:]


def encodings(random: Random, data: bytes, _spare: bytes) -> bytes:
    """Another encoding than the page names, or another name than its encoding."""
    charset = random.choice(CHARSETS)
    way = random.randrange(4)
    if way == 0:
        return _META_CHARSET.sub(b"charset=" + charset.encode(), data)
    if way == 1:
        return _META_CHARSET.sub(b"", data)
    if way == 2:
        return random.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00")) + data
    known = charset if charset not in ("x-nonsense", "utf-7") else "cp1252"
    return data.decode("utf-8", "replace").encode(known, "xmlcharrefreplace")


def entities(random: Random, data: bytes, _spare: bytes) -> bytes:
    laughs = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10 if n else b"lol") for n in range(10))
    outside = b'<!ENTITY l9 SYSTEM "file:///etc/passwd">'
    at = max(data.find(b"<body"), 0)
    end = data.find(b">", at) + 1
    doctype = b"<!DOCTYPE html [" + random.choice((laughs, outside)) + b"]>"
    used = random.choice((b"&l9;", b"&#0;", b"&#xD800;", b"&#99999999999;", b"&nosuch;"))
    return doctype + re.sub(rb"<!DOCTYPE[^>]*>", b"", data[:end], flags=re.IGNORECASE) + used * 3 + data[end:]


ANY = (
    Mutation("flips", flips), Mutation("noise", noise), Mutation("truncation", truncation),
    Mutation("beheading", beheading), Mutation("removal", removal), Mutation("repetition", repetition),
    Mutation("zeros", zeros), Mutation("splice", splice),
)  # fmt: skip
PDF = (
    Mutation("numbers", numbers), Mutation("references", references), Mutation("lengths", lengths),
    Mutation("keywords", keywords), Mutation("payload", payload), Mutation("circles", circles),
)  # fmt: skip
MARKUP = (
    Mutation("tag_soup", tag_soup), Mutation("attributes", attributes), Mutation("swallow", swallow),
    Mutation("depth", depth), Mutation("encodings", encodings), Mutation("entities", entities),
)  # fmt: skip

# Text that is cut out of a page between its tags is missed by nobody who has not seen the page before.
PAGE = tuple(Mutation(m.name, m.change, m.name not in ("removal", "splice", "noise", "beheading")) for m in ANY)
