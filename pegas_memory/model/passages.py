"""What opening a memory and listing documents answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Standing(StrEnum):
    """Where a quote stands in the stored text of its document."""

    AT_LOCATOR = "at_locator"
    ELSEWHERE = "elsewhere"
    ABSENT = "absent"
    NO_QUOTE = "no_quote"
    NO_STORED_TEXT = "no_stored_text"


class SourceState(StrEnum):
    """What has become of the file that a document was read from."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    MISSING = "missing"
    NOT_ALLOWED = "not_allowed"
    NOT_CHECKED = "not_checked"


@dataclass(frozen=True, slots=True)
class Passage:
    """A quote in its document, with what stands around it; ``link`` opens the source at the place."""

    doc_id: UUID
    title: str
    kind: str
    uri: str
    link: str
    locator: str
    before: str
    quote: str
    after: str
    standing: Standing
    source: SourceState


@dataclass(frozen=True, slots=True)
class OpenedMemory:
    """``kind`` says what the id is of: atom, episode, procedure, entity, symbol, document or gap. Only an atom
    has passages; ``more`` counts the citations that are not shown."""

    id: UUID
    kind: str
    type: str
    text: str
    content: str
    status: str
    confidence: float | None
    superseded_by: UUID | None = None
    passages: tuple[Passage, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """``state``: read, being_read, cited (named by a claim as its source, never read) or retracted."""

    doc_id: UUID
    kind: str
    title: str
    uri: str
    state: str
    language: str
    pages: int | None
    characters: int
    authority: float
    tags: tuple[str, ...]
    chunks: int
    atoms: int
    created_at: datetime
    ingested_at: datetime | None


@dataclass(frozen=True, slots=True)
class DocumentPage:
    documents: tuple[ListedDocument, ...]
    next_cursor: str


@dataclass(frozen=True, slots=True)
class CitationFault:
    citation_id: UUID
    atom_id: UUID
    doc_id: UUID
    reason: str


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """``held`` of the ``citations`` stand where they say. ``unlocated`` name no place, ``untold`` a source that
    was never read: nothing can be said of these. ``being_read`` counts documents that were passed over.
    ``faults`` shows the first of the ``faulty`` ones."""

    documents: int
    citations: int
    held: int
    unlocated: int
    untold: int
    being_read: int
    faulty: int
    faults: tuple[CitationFault, ...]
