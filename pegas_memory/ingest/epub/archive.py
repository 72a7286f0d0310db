"""The zip archive of a book: entries found by names that differ a little, bombs and locks refused."""

from __future__ import annotations

import io
import lzma
import posixpath
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from lxml import etree

from pegas_memory.errors import UnreadableFile

MAX_UNPACKED = 300_000_000
"""Bytes that the archive may declare or turn out to hold."""
MAX_ENTRIES = 20_000
_MOST_OF_AN_ENTRY = 500
"""Bytes of an entry in the directory: 46, its name, and what some writers add."""
MAX_PAGE = 50_000_000
MAX_RATIO = 200
"""Pages of books are deflated to a tenth; what shrinks to a two-hundredth of more than a megabyte is filler."""
_ERRORS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError,
    NotImplementedError, ValueError, KeyError, IndexError, struct.error, OverflowError,
)  # fmt: skip
_ENCRYPTED = 0x1
_UTF8_NAME = 0x800
_FONT_METHODS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Obfuscation of fonts, which says nothing of the text."""


class Damaged(Exception):
    """An entry that is there and cannot be unpacked."""


class Archive:
    """The entries of a book by path. Raises ``UnreadableFile`` for what is no zip archive and for bombs."""

    def __init__(self, data: bytes) -> None:
        # The directory is bounded before it is read: millions of entries cost a minute and a gigabyte.
        end = data.rfind(b"PK\x05\x06")
        if end >= 0 and int.from_bytes(data[end + 12 : end + 16], "little") > MAX_ENTRIES * _MOST_OF_AN_ENTRY:
            raise UnreadableFile(f"The EPUB lists too many entries; at most {MAX_ENTRIES:,} are read.")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _ERRORS as error:
            raise UnreadableFile("The EPUB is not a readable zip archive.") from error
        entries = self._zip.infolist()
        declared = sum(entry.file_size for entry in entries)
        # A header may understate: zipfile stops at the declared size, so what is read stays within the sum.
        if declared > MAX_UNPACKED or len(entries) > MAX_ENTRIES:
            raise UnreadableFile(
                f"The EPUB unpacks to {declared / 1e6:,.0f} MB in {len(entries):,} entries; "
                f"at most {MAX_UNPACKED / 1e6:.0f} MB and {MAX_ENTRIES:,} are read."
            )
        self._exact = {e.filename: e for e in entries if e.filename and not e.filename.endswith("/")}
        self._alike: dict[str, zipfile.ZipInfo] = {}
        for entry in self._exact.values():
            self._alike.setdefault(_folded(entry.filename), entry)
            if not entry.flag_bits & _UTF8_NAME:
                self._alike.setdefault(_folded(_as_utf8(entry.filename)), entry)
        self.locked = self._locked()

    @property
    def names(self) -> list[str]:
        return list(self._exact)

    def find(self, path: str) -> str:
        """The name in the archive that ``path`` means (case, percent signs and composed letters set
        aside); empty when there is none."""
        found = self._exact.get(path) or self._alike.get(_folded(path))
        return found.filename if found is not None else ""

    def size(self, path: str) -> int:
        """Bytes that the entry unpacks to; 0 when there is none."""
        entry = self._exact.get(self.find(path))
        return entry.file_size if entry is not None else 0

    def read(self, path: str) -> bytes | None:
        """The bytes of an entry, None when there is none. Raises ``Damaged``."""
        name = self.find(path)
        if not name:
            return None
        entry = self._exact[name]
        if entry.file_size > MAX_PAGE or entry.file_size > max(MAX_RATIO * entry.compress_size, 1_000_000):
            raise Damaged(name)
        try:
            return self._zip.read(entry)
        except _ERRORS as error:
            raise Damaged(name) from error

    def xml(self, path: str) -> Any | None:
        """The root of an XML entry, mended where it can be; None when there is nothing to read. Entities
        are left alone."""
        try:
            data = self.read(path)
        except Damaged:
            return None
        parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, remove_comments=True)
        try:
            return etree.fromstring(data or b"", parser)
        except (etree.LxmlError, ValueError):
            return None

    def is_locked(self, path: str) -> bool:
        """True for what only a password or a reading system with its key opens."""
        entry = self._exact.get(self.find(path))
        return entry is not None and bool(entry.flag_bits & _ENCRYPTED or entry.filename in self.locked)

    def _locked(self) -> frozenset[str]:
        locked = set()
        for element in named(self.xml("META-INF/encryption.xml"), "EncryptedData"):
            method = next((e.get("Algorithm") for e in named(element, "EncryptionMethod")), "")
            if method not in _FONT_METHODS:
                locked |= {self.find(inside("", e.get("URI") or "")) for e in named(element, "CipherReference")}
        return frozenset(locked - {""})


def named(root: Any, *names: str) -> Iterator[Any]:
    """Elements by local name, whatever their namespace, in document order."""
    if root is not None:
        yield from (e for e in root.iter(etree.Element) if e.tag.rpartition("}")[2] in names)


def inside(folder: str, href: str) -> str:
    """The path in the archive that ``href`` means in a file of ``folder``; it cannot leave the archive.
    Empty for addresses elsewhere."""
    path = unquote(href.strip().partition("#")[0].partition("?")[0]).replace("\\", "/")
    if not path or (":" in path.partition("/")[0] and not path.startswith("/")):
        return ""
    whole = posixpath.normpath(path if path.startswith("/") else posixpath.join(folder, path))
    parts = [part for part in whole.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unquote(name).replace("\\", "/").lstrip("/")).casefold()


def _as_utf8(name: str) -> str:
    """A name that the archive holds as UTF-8 without saying so."""
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name
