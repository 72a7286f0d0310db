"""What goes into a reading and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

from pegas_memory.model import Chunk, Distill, DocumentKind, DraftAtom, Extracted


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes to be read, with what is known of them. With ``decoded`` they are text that the caller holds,
    in UTF-8, so that nothing is guessed."""

    data: bytes
    kind: DocumentKind | None = None
    """None: by content."""
    name: str = ""
    """A file's name, or an address."""
    content_type: str = ""
    """The header that came with the bytes; empty for files."""
    title: str = ""
    """The caller's; wins over the document's own."""
    distill: Distill = Distill.EXTRACTIVE
    """``OFF`` gives one text atom a chunk."""
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Blocks stay in the child: ``document.blocks`` and each chunk's ``blocks`` are empty."""

    document: Extracted
    chunks: list[Chunk]
    drafts: list[DraftAtom]
