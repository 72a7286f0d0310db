"""Building a document block by block, so that text and locators cannot disagree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pegas_memory.errors import NoUsableText
from pegas_memory.model import Block, BlockKind, DocumentKind, Extracted, Locator
from pegas_memory.text import DOCUMENT_LIMIT, METADATA_LIMIT, clean_text, collapse, language_of

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAGE_BREAK = re.compile("[\x0b\x0c\x85]")
_WORD = re.compile(r"[^\W_]")
_LETTER = re.compile(r"[^\W\d_]")
MAX_HEADING = 300
"""Characters of a heading that are kept in a heading path."""


def tidy(value: str, max_characters: int = DOCUMENT_LIMIT) -> str:
    """Text that a parser returned, through the gate. What a decoder left behind (lone surrogates)
    becomes U+FFFD."""
    return clean_text(parted(_SURROGATE.sub("\ufffd", value)), field="text", max_characters=max_characters)


def parted(value: str) -> str:
    """Form feeds, vertical tabs and NEL as line ends: the gate would drop them and glue words."""
    return _PAGE_BREAK.sub("\n", value)


def tidy_line(value: str) -> str:
    """``value`` on one line, white space collapsed."""
    return collapse(tidy(value))


def tidy_metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a document: strings cleaned and bounded, lists of strings likewise, empty ones left out."""
    kept: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, str):
            value = tidy_line(value[:METADATA_LIMIT])
        elif isinstance(value, (list, tuple)):
            value = [line for line in (tidy_line(str(v)[:METADATA_LIMIT]) for v in value) if line]
        if value not in ("", [], None):
            kept[tidy_line(key)] = value
    return kept


def has_words(text: str) -> bool:
    """True when ``text`` holds at least one letter or digit."""
    return _WORD.search(text) is not None


def visible_runs(text: str) -> Iterator[tuple[int, int]]:
    """Spans (start, end) of the runs of lines that hold something visible, parted by blank lines.
    By hand: a pattern would take quadratic time over a long line of spaces."""
    start = end = -1
    at = 0
    for line in text.split("\n"):
        if line and not line.isspace():
            start = at if start < 0 else start
            end = at + len(line)
        elif start >= 0:
            yield start, end
            start = -1
        at += len(line) + 1
    if start >= 0:
        yield start, end


class BlockWriter:
    """Collects blocks in reading order; between two of them stands white space only.

    ``page`` (1-based) and ``chapter`` are stamped on the blocks added while they are set.
    """

    def __init__(self) -> None:
        self.page: int | None = None
        self.chapter = ""
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._path: list[tuple[int, str]] = []

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(name for _, name in self._path)

    @property
    def in_list(self) -> bool:
        """True after a list item or a line that announces a list."""
        last = self._blocks[-1] if self._blocks else None
        return last is not None and (last.kind is BlockKind.LIST_ITEM or last.text.endswith(":"))

    def enter(self, level: int, heading: str) -> None:
        """Step to a heading of the outline without writing a block."""
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        name = tidy_line(heading)[:MAX_HEADING]
        if name:
            self._path.append((level, name))

    def leave_headings(self) -> None:
        self._path.clear()

    def outline(self) -> tuple[tuple[int, str], ...]:
        """The path of headings with their levels, to come back to after a box that has its own."""
        return tuple(self._path)

    def return_to(self, outline: tuple[tuple[int, str], ...]) -> None:
        self._path[:] = outline

    def add(
        self, kind: BlockKind, text: str, *, level: int = 0, language: str = "", name: str = "", gap: str = "\n\n",
        garbled: bool = False,
    ) -> None:  # fmt: skip
        """Append a block; one without a letter or digit is left out. ``name`` is the heading's plain
        text where ``text`` holds markup; ``gap`` is the white space before the block."""
        text = tidy(text).strip("\n") if kind is BlockKind.CODE else tidy(text).strip()
        if not has_words(text):
            return
        if kind is BlockKind.HEADING:
            self.enter(level, name or text)
        if self._parts:
            self._parts.append(gap)
            self._length += len(gap)
        start, end = self._length, self._length + len(text)
        locator = Locator(start, end, self.page, self.chapter, self.headings)
        self._parts.append(text)
        self._length = end
        self._blocks.append(Block(kind, text, locator, level, language, garbled))

    def finish(
        self,
        kind: DocumentKind,
        *,
        title: str = "",
        declared_language: str = "",
        pages: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> Extracted:
        """The document. Raises ``NoUsableText`` when no block holds a letter."""
        if not any(_LETTER.search(block.text) for block in self._blocks):
            raise NoUsableText(f"No readable text was found in this {kind.value} source.")
        text = "".join(self._parts)
        kept = tidy_metadata({"language": declared_language, **(metadata or {})})
        return Extracted(
            kind=kind,
            text=text,
            blocks=tuple(self._blocks),
            title=tidy_line(title)[:500],
            language=language_for(text, declared_language),
            pages=pages,
            metadata=kept,
            warnings=warnings,
        )


_CYRILLIC_LANGUAGES = frozenset("ru uk be bg sr mk kk ky tg mn".split())


def language_for(text: str, declared: str = "") -> str:
    """Two-letter language: what the document declares where its script agrees, else by script.
    Templates often declare ``en`` on pages that are not."""
    seen = language_of(text)
    tag = re.split(r"[-_]", declared.strip().lower(), maxsplit=1)[0][:3]
    if not tag or not tag.isascii() or not tag.isalpha():
        return seen
    if seen == "ru":
        return tag if tag in _CYRILLIC_LANGUAGES else "ru"
    return tag if tag not in _CYRILLIC_LANGUAGES else seen
