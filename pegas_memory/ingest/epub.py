"""EPUB 2 and 3 into blocks: the spine in order. The only room that knows EbookLib (AGPL-3.0)."""

from __future__ import annotations

import io
import lzma
import posixpath
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import ebooklib
from ebooklib import epub as ebooklib_epub
from lxml import etree

from pegas_memory.errors import NoUsableText, PegasError, UnreadableFile
from pegas_memory.ingest.blocks import BlockWriter, tidy_line
from pegas_memory.ingest.html import decode_html, parse, write_body
from pegas_memory.model import DocumentKind, Extracted

MAX_UNPACKED = 300_000_000
"""Bytes that the archive may declare or turn out to hold."""
MAX_ENTRIES = 20_000
_CONTAINER = "META-INF/container.xml"
_READABLE = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError,
    NotImplementedError, ValueError, KeyError, struct.error,
)  # fmt: skip
_PACKAGE_ERRORS = (
    *_ARCHIVE_ERRORS, ebooklib_epub.EpubException, etree.LxmlError, AttributeError, TypeError, IndexError,
    AssertionError,
)  # fmt: skip


@dataclass(slots=True)
class _Chapter:
    """One spine item: its path in the archive, its bytes, and whether it is in the linear order."""

    path: str
    data: bytes
    linear: bool = True


@dataclass(slots=True)
class _Book:
    title: str = ""
    authors: list[str] = field(default_factory=list)
    language: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    chapters: list[_Chapter] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Chapter names of the table of contents by path (the first that points there)."""
    missing: list[str] = field(default_factory=list)


def read_epub(data: bytes, title: str = "") -> Extracted:
    """Chapters in spine order, items out of the linear order (notes, answers) last.

    Raises ``UnreadableFile`` (no archive, a bomb, no package), ``NoUsableText`` (nothing to read).
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _ARCHIVE_ERRORS as error:
        raise UnreadableFile("The EPUB is not a readable zip archive.") from error
    with archive:
        _refuse_bomb(archive)
        book, notes = _open_book(data, archive)
    writer = BlockWriter()
    unreadable = _write(writer, book)
    if book.missing:
        notes.append(f"{len(book.missing)} item(s) named by the book are missing from the archive.")
    if unreadable:
        notes.append(f"{unreadable} chapter(s) cannot be parsed and were left out.")
    return writer.finish(
        DocumentKind.EPUB,
        title=title or book.title,
        declared_language=book.language,
        metadata={"author": book.authors, **book.about},
        warnings=tuple(notes),
    )


def _refuse_bomb(archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    declared = sum(entry.file_size for entry in entries)
    if declared > MAX_UNPACKED or len(entries) > MAX_ENTRIES:
        raise UnreadableFile(
            f"The EPUB unpacks to {declared / 1e6:,.0f} MB in {len(entries):,} entries; "
            f"at most {MAX_UNPACKED / 1e6:.0f} MB and {MAX_ENTRIES:,} are read."
        )
    # A header may understate: zipfile stops at the declared size, so what is read stays within the sum.


def _open_book(data: bytes, archive: zipfile.ZipFile) -> tuple[_Book, list[str]]:
    """By EbookLib; by hand where it refuses the file, finds no chapter, or would take the wrong one of
    several packages (it takes the last, the standard says the first)."""
    packages = _package_paths(archive)
    if len(packages) == 1:
        try:
            book = _from_ebooklib(data)
        except _PACKAGE_ERRORS:
            book = _Book()
        if book.chapters:
            return book, []
    book = _from_archive(archive, packages)
    if not book.chapters:
        raise NoUsableText("The EPUB names no chapter that is in it.")
    return book, [] if len(packages) > 1 else [
        "The package file is irregular; the chapters were read from the archive."
    ]


# --- EbookLib -----------------------------------------------------------------------------------------


def _from_ebooklib(data: bytes) -> _Book:
    source = ebooklib_epub.read_epub(io.BytesIO(data), {"ignore_ncx": False})
    book = _Book(
        title=_first(source.get_metadata("DC", "title")),
        authors=[value for value, _ in source.get_metadata("DC", "creator") if value],
        language=_first(source.get_metadata("DC", "language")),
        about={
            "publisher": _first(source.get_metadata("DC", "publisher")),
            "date": _first(source.get_metadata("DC", "date")),
            "identifier": _first(source.get_metadata("DC", "identifier")),
        },
    )
    root = _common_folder(source)
    for identifier, linear in source.spine:
        item = source.get_item_with_id(identifier)
        if item is None:
            book.missing.append(str(identifier))
        elif item.media_type in _READABLE or item.get_type() == ebooklib.ITEM_DOCUMENT:
            book.chapters.append(_Chapter(item.file_name, item.content or b"", linear != "no"))
    book.names = _names_of_files(root, list(_toc_links(source.toc)))
    return book


def _names_of_files(root: str, links: list[tuple[str, str]]) -> dict[str, str]:
    """What the contents call each file: the entry for the file itself, or the only one inside it."""
    names: dict[str, list[str]] = {}
    whole: dict[str, str] = {}
    for href, name in links:
        path, _, fragment = href.partition("#")
        path = posixpath.normpath(posixpath.join(root, unquote(path)))
        names.setdefault(path, []).append(name)
        if not fragment:
            whole.setdefault(path, name)
    return {path: whole.get(path, found[0]) for path, found in names.items() if path in whole or len(found) == 1}


def _first(values: list[Any]) -> str:
    return next((tidy_line(value) for value, _ in values if value and value.strip()), "")


def _common_folder(source: Any) -> str:
    """The folder that links of the contents are relative to: that of the NCX or nav document."""
    for item in source.get_items():
        if item.get_type() in (ebooklib.ITEM_NAVIGATION,) or "nav" in getattr(item, "properties", []):
            return posixpath.dirname(str(item.file_name))
    return ""


def _toc_links(toc: Any) -> Iterator[tuple[str, str]]:
    waiting = list(toc) if isinstance(toc, (list, tuple)) else [toc]
    seen = 0
    while waiting and seen < MAX_ENTRIES:
        entry = waiting.pop(0)
        seen += 1
        if isinstance(entry, (list, tuple)):
            waiting = [*entry, *waiting]
            continue
        href, name = getattr(entry, "href", "") or "", getattr(entry, "title", "") or ""
        if href and name.strip():
            yield href, tidy_line(name)


# --- by hand ------------------------------------------------------------------------------------------


def _xml(data: bytes) -> Any | None:
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError):
        return None


def _named(root: Any, name: str) -> list[Any]:
    """Elements by local name, whatever their namespace."""
    return (
        [] if root is None else [e for e in root.iter() if isinstance(e.tag, str) and e.tag.rpartition("}")[2] == name]
    )


def _read(archive: zipfile.ZipFile, path: str) -> bytes | None:
    names = {path, unquote(path)}
    wanted = next((n for n in archive.namelist() if n in names or n.casefold() == path.casefold()), None)
    if wanted is None:
        return None
    try:
        return archive.read(wanted)
    except _ARCHIVE_ERRORS:
        return None


def _package_paths(archive: zipfile.ZipFile) -> list[str]:
    container = _xml(_read(archive, _CONTAINER) or b"")
    paths = [e.get("full-path") for e in _named(container, "rootfile") if e.get("full-path")]
    return paths or [name for name in archive.namelist() if name.lower().endswith(".opf")][:1]


def _from_archive(archive: zipfile.ZipFile, packages: list[str]) -> _Book:
    package = _xml(_read(archive, packages[0]) or b"") if packages else None
    if package is None:
        return _all_pages(archive)
    folder = posixpath.dirname(packages[0])
    book = _Book(
        title=_text_of(package, "title"),
        authors=[tidy_line("".join(e.itertext())) for e in _named(package, "creator")],
        language=_text_of(package, "language"),
    )
    manifest = {e.get("id"): e for e in _named(package, "item") if e.get("id") and e.get("href")}
    references: dict[str, Any] = {}
    for element in _named(package, "itemref"):
        references.setdefault(element.get("idref"), element)
    for identifier, reference in references.items():
        item = manifest.get(identifier)
        path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href")))) if item is not None else ""
        content = _read(archive, path) if path else None
        if content is None:
            book.missing.append(path)
        elif item is not None and (item.get("media-type") or _READABLE[0]) in _READABLE:
            book.chapters.append(_Chapter(path, content, reference.get("linear") != "no"))
    return book if book.chapters else _all_pages(archive)


def _all_pages(archive: zipfile.ZipFile) -> _Book:
    """Without a usable package: every page of the archive by name."""
    pages = sorted(n for n in archive.namelist() if n.lower().endswith((".xhtml", ".html", ".htm")))
    read = [(name, _read(archive, name)) for name in pages]
    return _Book(chapters=[_Chapter(name, data) for name, data in read if data])


def _text_of(root: Any, name: str) -> str:
    texts = (tidy_line("".join(e.itertext())) for e in _named(root, name))
    return next((text for text in texts if text), "")


# --- blocks -----------------------------------------------------------------------------------------


def _write(writer: BlockWriter, book: _Book) -> int:
    """Write the chapters; returns how many could not be parsed."""
    unreadable = 0
    # Each file once, however often the spine names it.
    once: dict[str, _Chapter] = {}
    for chapter in book.chapters:
        once.setdefault(posixpath.normpath(chapter.path), chapter)
    ordered = [c for c in once.values() if c.linear] + [c for c in once.values() if not c.linear]
    for chapter in ordered:
        writer.leave_headings()
        try:
            root = parse(decode_html(chapter.data)).root
        except NoUsableText:
            continue
        except PegasError:
            unreadable += 1
            continue
        path = posixpath.normpath(chapter.path)
        writer.chapter = book.names.get(path) or _first_heading(root) or writer.chapter
        write_body(writer, root, everything=True)
    return unreadable


def _first_heading(root: Any) -> str:
    for element in root.iter("h1", "h2", "h3"):
        name = tidy_line("".join(element.itertext()))
        if name:
            return name[:200]
    return ""
