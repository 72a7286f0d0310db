"""The table of contents of a book: chapter names by file and place, from nav document and NCX."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pegas_memory.ingest.blocks import tidy_line
from pegas_memory.ingest.epub.archive import Archive, inside, named
from pegas_memory.ingest.epub.package import Package

MAX_NAME = 200
_MAX_ENTRIES = 50_000
_TYPE = "{http://www.idpf.org/2007/ops}type"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the contents: ``above`` are the names and files of the entries that it stands under."""

    name: str
    path: str
    fragment: str
    above: tuple[tuple[str, str], ...] = ()


def read_contents(archive: Archive, package: Package) -> dict[str, list[Entry]]:
    """Entries by file, in the order of the contents. The nav document counts; the NCX speaks for files
    that it does not name."""
    found: dict[str, list[Entry]] = {}
    for entries in (_from_nav(archive, package), _from_ncx(archive, package)):
        known = frozenset(found)
        for entry in entries:
            if entry.path not in known:
                found.setdefault(entry.path, []).append(entry)
    return found


def _from_nav(archive: Archive, package: Package) -> Iterator[Entry]:
    root = archive.xml(package.nav) if package.nav else None
    navs = list(named(root, "nav"))
    toc = next((nav for nav in navs if "toc" in (nav.get(_TYPE) or nav.get("role") or "").split()), None)
    if toc is None:
        toc = next((nav for nav in navs if not nav.get(_TYPE)), None)
    if toc is not None:
        yield from _entries(archive, package, package.nav, toc, "li", _nav_entry)


def _from_ncx(archive: Archive, package: Package) -> Iterator[Entry]:
    root = archive.xml(package.ncx) if package.ncx else None
    for points in list(named(root, "navMap"))[:1]:
        yield from _entries(archive, package, package.ncx, points, "navPoint", _ncx_entry)


def _entries(archive: Archive, package: Package, source: str, top: Any, step: str, said: Any) -> Iterator[Entry]:
    """Every ``step`` element below ``top`` with what it stands under, without recursion."""
    folders = (posixpath.dirname(archive.find(source)), package.folder, "")
    under: dict[Any, tuple[tuple[str, str], ...]] = {}
    for number, element in enumerate(named(top, step)):
        if number > _MAX_ENTRIES:
            return
        above = next((under[a] for a in element.iterancestors() if a in under), ())
        name, href = said(element)
        name = tidy_line(name)[:MAX_NAME]
        path = next(filter(None, (archive.find(inside(folder, href)) for folder in folders)), "")
        if name and path:
            yield Entry(name, path, unquote(href.partition("#")[2]), above)
        under[element] = (*above[-9:], (name, path)) if name else above


def _nav_entry(item: Any) -> tuple[str, str]:
    """Label and address of a list item; an image in the label speaks by its alternative text."""
    for child in named(item, "a", "span"):
        if any(a is not item and a.tag.rpartition("}")[2] == "li" for a in _up_to(child, item)):
            return "", ""
        parts = [child.text or ""]
        for node in child.iterdescendants():
            parts += [node.get("alt") or node.get("title") or "", node.text or "", node.tail or ""]
        return "".join(parts).strip() or child.get("title") or "", child.get("href") or ""
    return "", ""


def _up_to(element: Any, top: Any) -> Iterator[Any]:
    for ancestor in element.iterancestors():
        yield ancestor
        if ancestor is top:
            return


def _ncx_entry(point: Any) -> tuple[str, str]:
    label = next((child for child in point if child.tag.rpartition("}")[2] == "navLabel"), None)
    content = next((child for child in point if child.tag.rpartition("}")[2] == "content"), None)
    name = "".join(label.itertext()) if label is not None else ""
    return name, (content.get("src") or "") if content is not None else ""
