"""The package file of a book: what it says of itself, its parts, and the order in which they are read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pegas_memory.ingest.blocks import tidy_line
from pegas_memory.ingest.epub.archive import Archive, Damaged, inside, named

CONTAINER = "META-INF/container.xml"
_PAGES = ("application/xhtml+xml", "text/html", "image/svg+xml", "application/x-dtbook+xml", "text/x-oeb1-document")
_PAGE_NAME = re.compile(r"\.(?:x?html?|xht|svg)$", re.IGNORECASE)
_HTML_NAME = re.compile(r"\.(?:x?html?|xht)$", re.IGNORECASE)
_PAGE_ROOT = re.compile(rb"<(?:\w+:)?(?:html|body|svg|dtbook)[\s>]", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Item:
    """A part of the book: ``path`` is its name in the archive, or what it should be when it is missing."""

    identifier: str
    path: str
    media_type: str = ""
    properties: frozenset[str] = frozenset()
    fallback: str = ""
    linear: bool = True


@dataclass(slots=True)
class Package:
    """``order`` holds the pages to read, ``missing`` the names of parts that are not in the archive."""

    folder: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    language: str = ""
    order: list[Item] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    apart: list[Item] = field(default_factory=list)
    """Pages that are in the archive and not in the reading order."""
    pictures: int = 0
    nav: str = ""
    ncx: str = ""
    notes: list[str] = field(default_factory=list)


def read_package(archive: Archive) -> Package:
    """The first package of the container that can be read; without one, every page of the archive by name."""
    for path in _package_paths(archive):
        root = archive.xml(path)
        if root is not None and next(named(root, "manifest", "spine"), None) is not None:
            package = _package(archive, root, posixpath.dirname(path))
            break
    else:
        package = Package(notes=["The book has no package file; its pages were read in the order of their names."])
    if not package.order and not package.pictures:
        if not package.notes:
            package.notes.append(
                "The book names no page that is in it; its pages were read in the order of their names."
            )
        package.apart = []
        package.order = [Item("", name) for name in sorted(archive.names, key=_natural) if _PAGE_NAME.search(name)]
    package.ncx = package.ncx or next((n for n in archive.names if n.lower().endswith(".ncx")), "")
    return package


def _package_paths(archive: Archive) -> Iterable[str]:
    for element in named(archive.xml(CONTAINER), "rootfile"):
        if path := archive.find(inside("", element.get("full-path") or "")):
            yield path
    yield from sorted((n for n in archive.names if n.lower().endswith(".opf")), key=lambda n: (n.count("/"), n))


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key under which ``ch2`` comes before ``ch10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]


def _package(archive: Archive, root: Any, folder: str) -> Package:
    manifest: dict[str, list[Item]] = {}
    items = [_item(archive, element, folder) for element in named(root, "item")]
    for item in items:
        # A spine may name a part by its file where its id is missing or mistaken.
        for key in (item.identifier, item.identifier.casefold(), item.path, posixpath.basename(item.path)):
            manifest.setdefault(key, []).append(item)
    package = Package(folder=folder, **_metadata(root))
    spine = next(named(root, "spine"), None)
    if spine is not None and spine.get("page-progression-direction") == "rtl":
        package.about["direction"] = "rtl"
    seen: set[str] = set()
    for reference in named(root, "itemref"):
        wanted = reference.get("idref") or ""
        found = _page(archive, manifest, wanted)
        if found is None:
            package.missing.append(_path_of(manifest, wanted))
        elif not found.path:
            package.pictures += 1
        elif found.path not in seen:
            linear = (reference.get("linear") or "").strip().lower() != "no"
            package.order.append(Item(found.identifier, found.path, found.media_type, linear=linear))
            # Each file once, however often the spine names it.
            seen.add(found.path)
    package.nav = next((item.path for item in items if "nav" in item.properties and archive.find(item.path)), "")
    ncx = manifest.get(spine.get("toc") or "", []) if spine is not None else []
    tables = [*ncx, *(item for item in items if item.media_type == "application/x-dtbncx+xml")]
    package.ncx = next((item.path for item in tables if archive.find(item.path)), "")
    spare = {item.fallback for item in items}
    listed = {item.path for item in items}
    unlisted = (
        []
        if sum(n.lower().endswith(".opf") for n in archive.names) > 1
        else [Item(name, name, _PAGES[0]) for name in archive.names if name not in listed and _HTML_NAME.search(name)]
    )
    package.apart = [
        Item(item.identifier, item.path, item.media_type, linear=False)
        for item in [*items, *unlisted]
        if item.media_type in _PAGES[:2]
        and item.path not in seen
        and item.path != package.nav
        and item.identifier not in spare
        and archive.find(item.path)
    ]
    return package


def _item(archive: Archive, element: Any, folder: str) -> Item:
    path = inside(folder, element.get("href") or "")
    # Some books write every address from the top of the archive.
    path = archive.find(path) or archive.find(inside("", element.get("href") or "")) or path
    return Item(
        (element.get("id") or "").strip(),
        path,
        (element.get("media-type") or "").partition(";")[0].strip().lower(),
        frozenset((element.get("properties") or "").split()),
        (element.get("fallback") or "").strip(),
    )


def _page(archive: Archive, manifest: dict[str, list[Item]], wanted: str) -> Item | None:
    """The page that a reference of the spine leads to, over its fallbacks; one without a path for
    pictures and the like, None for what is not in the archive."""
    absent = True
    tried: set[str] = set()
    while wanted and wanted not in tried:
        tried.add(wanted)
        items = manifest.get(wanted) or manifest.get(wanted.casefold()) or []
        item = next((i for i in items if archive.find(i.path)), items[0] if items else None)
        if item is None:
            break
        if archive.find(item.path):
            absent = False
            if _is_page(archive, item):
                return item
        wanted = item.fallback
    return None if absent else Item("", "")


def _is_page(archive: Archive, item: Item) -> bool:
    """By its declared type or name; where these say nothing or something else, by its first bytes."""
    if item.media_type in _PAGES or _PAGE_NAME.search(item.path):
        return True
    if item.media_type.startswith(("image/", "audio/", "video/", "font/")):
        return False
    try:
        return _PAGE_ROOT.search((archive.read(item.path) or b"")[:4096]) is not None
    except Damaged:
        return False


def _path_of(manifest: dict[str, list[Item]], wanted: str) -> str:
    items = manifest.get(wanted)
    return (items[0].path if items else "") or wanted or "(unnamed)"


def _metadata(root: Any) -> dict[str, Any]:
    block = next(named(root, "metadata"), root)
    titles = _texts(block, "title")
    identifiers = list(named(block, "identifier"))
    chosen = [e for e in identifiers if e.get("id") and e.get("id") == root.get("unique-identifier")]
    dates = sorted(named(block, "date"), key=_is_other_event)
    about: dict[str, Any] = {
        "author": _texts(block, "creator"),
        "contributor": _texts(block, "contributor"),
        "publisher": next(iter(_texts(block, "publisher")), ""),
        "date": next(filter(None, map(_text, dates)), ""),
        "identifier": next(filter(None, map(_text, [*chosen, *identifiers])), ""),
        "description": tidy_line(_TAG.sub(" ", next(iter(_texts(block, "description")), ""))),
        "subject": _texts(block, "subject"),
        "other_titles": titles[1:],
    }
    return {
        "title": titles[0] if titles else "",
        "language": next(iter(_texts(block, "language")), ""),
        "about": {key: value for key, value in about.items() if value},
    }


def _is_other_event(element: Any) -> bool:
    """True for dates of creation and modification, which EPUB 2 marks: the publication comes first."""
    event = next((value for key, value in element.items() if key.rpartition("}")[2] == "event"), "publication")
    return str(event) not in ("publication", "original-publication")


def _texts(block: Any, name: str) -> list[str]:
    return [text for text in map(_text, named(block, name)) if text]


def _text(element: Any) -> str:
    return tidy_line("".join(element.itertext()))
