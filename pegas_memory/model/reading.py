"""What the workshops hand to the flows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from pegas_memory.model.kinds import AtomType, DocumentKind, Metadata


@dataclass(frozen=True, slots=True)
class Locator:
    """Where in its document a passage stands. ``start``/``end`` are character offsets in
    ``Extracted.text``; ``headings`` is the path from the outermost heading down; ``line`` (from 1) is set
    for source code, whose text is the file's own."""

    start: int
    end: int
    page: int | None = None
    chapter: str = ""
    headings: tuple[str, ...] = ()
    line: int | None = None

    def __str__(self) -> str:
        parts = [f"p. {self.page}"] if self.page is not None else []
        parts += [f"line {self.line}"] if self.line is not None else []
        parts += [self.chapter] if self.chapter and self.chapter not in self.headings else []
        parts += [" › ".join(self.headings)] if self.headings else []
        return ", ".join([*parts, f"chars {self.start}–{self.end}"])


class BlockKind(StrEnum):
    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST_ITEM = "list_item"
    TABLE = "table"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Block:
    """One structural piece of a document; ``text == Extracted.text[locator.start:locator.end]``. ``garbled``
    says that its letters are not those that the page shows (a font without a Unicode map): no claim is made
    of it."""

    kind: BlockKind
    text: str
    locator: Locator
    level: int = 0
    language: str = ""
    garbled: bool = False


@dataclass(frozen=True, slots=True)
class Extracted:
    """A document as read: its whole text, its blocks in reading order, and what it says of itself."""

    kind: DocumentKind
    text: str
    blocks: tuple[Block, ...]
    title: str = ""
    language: str = ""
    pages: int | None = None
    metadata: Metadata = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of whole blocks, small enough to embed; ``text == Extracted.text[start:end]``. Its first ``overlap``
    characters stand in the chunk before as well: the last sentence of a paragraph that had to be cut."""

    position: int
    text: str
    locator: Locator
    blocks: tuple[Block, ...]
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class DraftAtom:
    """A typed claim before it is stored. ``quote`` stands letter for letter in the document at
    ``locator``; ``claim`` is self-contained and in the language of the source."""

    type: AtomType
    claim: str
    quote: str
    locator: Locator
    content: str = ""
    confidence: float = 0.5
    importance: float = 0.5
    metadata: Metadata = field(default_factory=dict)
