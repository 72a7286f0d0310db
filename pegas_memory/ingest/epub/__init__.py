"""EPUB 2 and 3 into blocks: the pages of the reading order, under the names that the contents give them.

Pages are unpacked one at a time; pictures, fonts and sound never are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegas_memory.errors import NoTextLayer, NoUsableText, PasswordNeeded, PegasError, UnreadableFile
from pegas_memory.ingest.blocks import BlockWriter, tidy_line
from pegas_memory.ingest.epub.archive import Archive, Damaged
from pegas_memory.ingest.epub.contents import MAX_NAME, Entry, read_contents
from pegas_memory.ingest.epub.package import Item, read_package
from pegas_memory.ingest.html import decode_html, parse_xhtml, write_body
from pegas_memory.model import DocumentKind, Extracted
from pegas_memory.progress import tell

MAX_PAGES = 150_000_000
"""Bytes of all pages of a book; the largest of the reference sets has 25 million."""
_SHOWN = 5
"""Names that a warning lists."""


def read_epub(data: bytes, title: str = "") -> Extracted:
    """Chapters in spine order, items out of the linear order (notes, answers) last.

    Raises ``UnreadableFile`` (no archive, a bomb), ``PasswordNeeded`` (all of it encrypted),
    ``NoTextLayer`` (pictures only), ``NoUsableText`` (nothing to read).
    """
    archive = Archive(data)
    package = read_package(archive)
    locked = [item for item in package.order if archive.is_locked(item.path)]
    if locked and len(locked) == len(package.order):
        raise PasswordNeeded(
            "The EPUB is encrypted (digital rights management, or a password).",
            "Give a copy without it, or another source.",
        )
    if package.pictures and not package.order:
        raise NoTextLayer("Every page of the EPUB is a picture.")
    if not package.order:
        raise NoUsableText("The EPUB names no chapter that is in it.")
    size = sum(archive.size(item.path) for item in package.order)
    if size > MAX_PAGES:
        raise UnreadableFile(
            f"The EPUB is too large: its pages unpack to {size / 1e6:,.0f} MB; "
            f"at most {MAX_PAGES / 1e6:.0f} MB are read."
        )
    writer = BlockWriter()
    contents = read_contents(archive, package)
    # What the contents lead to is part of the book, though the reading order forgot it.
    forgotten = [item for item in package.apart if item.path in contents]
    chapters = _Chapters(archive, writer, contents)
    order = [i for i in package.order if i.linear] + [i for i in package.order if not i.linear] + forgotten
    for number, item in enumerate(order):
        tell("chapters", number, len(order))
        chapters.write(item)
    for count, what in (
        ([item.path for item in forgotten], "page(s) stand in the contents but in no reading order; they come last"),
        (
            [item.path for item in package.apart if item not in forgotten],
            "page(s) stand in no reading order and were left out",
        ),
        (package.missing, "item(s) named by the book are missing from the archive"),
        ([item.path for item in locked], "chapter(s) are encrypted and were left out"),
        (chapters.damaged, "chapter(s) are damaged, or unpack too far, and were left out"),
        (chapters.unreadable, "chapter(s) cannot be parsed and were left out"),
    ):
        package.notes += _note(count, what)
    if package.pictures:
        package.notes.append(f"{package.pictures} page(s) are pictures without text.")
    return writer.finish(
        DocumentKind.EPUB,
        title=title or package.title,
        declared_language=package.language,
        metadata=package.about,
        warnings=(*package.notes, *dict.fromkeys(chapters.notes)),
    )


def _note(paths: Sequence[str], what: str) -> list[str]:
    if not paths:
        return []
    shown = ", ".join(tidy_line(path)[:100] for path in paths[:_SHOWN])
    return [f"{len(paths)} {what}: {shown}{', …' if len(paths) > _SHOWN else ''}."]


class _Chapters:
    """Writes page after page; what cannot be written is listed."""

    def __init__(self, archive: Archive, writer: BlockWriter, contents: dict[str, list[Entry]]) -> None:
        self.archive = archive
        self.writer = writer
        self.contents = contents
        self.damaged: list[str] = []
        self.unreadable: list[str] = []
        self.notes: list[str] = []

    def write(self, item: Item) -> None:
        if self.archive.is_locked(item.path):
            return
        try:
            data = self.archive.read(item.path)
        except Damaged:
            self.damaged.append(item.path)
            return
        try:
            page = parse_xhtml(decode_html(data or b""))
        except NoUsableText:
            return
        except PegasError:
            self.unreadable.append(item.path)
            return
        self.notes += page.warnings
        places = self._begin(item, page.root)
        write_body(self.writer, page.root, everything=True, chapters=places)

    def _begin(self, item: Item, root: Any) -> dict[str, str]:
        """Set the chapter that the page begins with; returns the names of those that begin inside it.

        A page that neither the contents nor a heading of its own names goes on with the chapter before."""
        entries = self.contents.get(self.archive.find(item.path), [])
        ids = {value for value in root.xpath("//@id|//a/@name") if value} if entries else set()
        places: dict[str, str] = {}
        whole: Entry | None = None
        for entry in entries:
            if entry.fragment in ids:
                places.setdefault(entry.fragment, entry.name)
            elif whole is None or whole.fragment > "" == entry.fragment:
                whole = entry
        name = whole.name if whole else "" if places else _first_heading(root, 2 if self.contents else 3)
        if name or places or not item.linear:
            self.writer.leave_headings()
            self._step_under(entries[0] if entries else None)
        self.writer.chapter = name or (self.writer.chapter if item.linear else "")
        return places

    def _step_under(self, entry: Entry | None) -> None:
        """Parts and volumes that the contents set above the page head the path of its headings."""
        names = [name for name, path in entry.above if path != entry.path] if entry else []
        for level, name in enumerate(names, start=-len(names)):
            self.writer.enter(level, name)


def _first_heading(root: Any, levels: int) -> str:
    for element in root.iter(*(f"h{level}" for level in range(1, levels + 1))):
        if name := tidy_line("".join(element.itertext())):
            return name[:MAX_NAME]
    return ""
