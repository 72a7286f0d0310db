"""Mutations of an EPUB as what it is: an archive of a package file, a table of contents and pages."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Callable
from random import Random

from benchmarks.fuzz_mutations import ANY, BOMB, MARKUP, Change, Mutation

Members = list[tuple[str, bytes]]
_TAG_OF_PACKAGE = re.compile(rb"<(?:\w+:)?(?:itemref|item|spine|manifest|metadata|package|reference)\b[^>]*>")
_HREF = re.compile(rb"(href|idref|src|id|media-type|full-path|linear|toc)=\"[^\"]*\"")


def members_of(data: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def packed(members: Members, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names that occur twice are meant
        for name, data in members:
            entry = zipfile.ZipInfo(name)  # of 1980: the clock must not be in the bytes
            stored = name == "mimetype"
            archive.writestr(entry, data, zipfile.ZIP_STORED if stored else compression)
    return target.getvalue()


def _with(pattern: str, change: Callable[[Random, bytes], bytes]) -> Change:
    """A change of one of the members whose names match."""

    def changed(random: Random, data: bytes, _spare: bytes) -> bytes:
        members = members_of(data)
        fitting = [n for n, (name, inner) in enumerate(members) if re.search(pattern, name) and inner]
        if not fitting:
            return data
        at = random.choice(fitting)
        members[at] = (members[at][0], change(random, members[at][1]))
        return packed(members)

    return changed


def _package(random: Random, data: bytes) -> bytes:
    """An entry gone, doubled, or taken from elsewhere."""
    found = list(_TAG_OF_PACKAGE.finditer(data))
    for match in sorted(random.sample(found, min(len(found), random.choice((1, 2, 5)))), key=lambda m: -m.start()):
        other = random.choice(found)[0]
        data = data[: match.start()] + random.choice((b"", match[0] * 2, other)) + data[match.end() :]
    return data


def _names(random: Random, data: bytes) -> bytes:
    values = (b"", b"nosuch.xhtml", b"../../etc/passwd", b"http://127.0.0.1/x", b"%00", b"/", b"#a", b"application/pdf")
    found = list(_HREF.finditer(data))
    for match in sorted(random.sample(found, min(len(found), random.choice((1, 3, 9)))), key=lambda m: -m.start()):
        data = data[: match.start(0)] + match[1] + b'="' + random.choice(values) + b'"' + data[match.end() :]
    return data


def _bytes(random: Random, data: bytes) -> bytes:
    return random.choice([*ANY, *MARKUP]).change(random, data, data)


def _order(random: Random, data: bytes, _spare: bytes) -> bytes:
    """Members gone, empty, doubled, renamed, from another order."""
    members = members_of(data)
    at = random.randrange(len(members))
    name, inner = members[at]
    ways: list[Members] = [
        [],
        [(name, b"")],
        [(name, inner), (name, inner[: len(inner) // 2])],
        [(name.upper(), inner)],
        [("../" + name, inner)],
        [("/" + name, inner)],
        [(name.replace("/", "\\"), inner)],
    ]
    members[at : at + 1] = random.choice(ways)
    if random.random() < 0.3:
        random.shuffle(members)
    return packed(members, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def _extra(random: Random, data: bytes, _spare: bytes) -> bytes:
    """Rights, a bomb, or another method of packing."""
    members = members_of(data)
    if random.random() < 0.4:
        members.append(("META-INF/encryption.xml", b"<encryption><EncryptedData/></encryption>"))
    elif random.random() < 0.3:
        at = random.randrange(len(members))
        members[at] = (members[at][0], b"<p>" + b" " * BOMB)
    return packed(members, random.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED)))


EPUB = (
    Mutation("package entries", _with(r"\.opf$", _package)),
    Mutation("package names", _with(r"\.opf$|container\.xml$", _names)),
    Mutation("package bytes", _with(r"\.opf$|container\.xml$", _bytes)),
    Mutation("contents", _with(r"\.ncx$|nav\.xhtml$|toc\.xhtml$", _bytes)),
    Mutation("pages", _with(r"\.(?:xhtml|html|htm|xml)$", _bytes)),
    Mutation("members", _order),
    Mutation("extras", _extra),
)
