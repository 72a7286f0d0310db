"""What the service takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from pegas_memory.model.graph import Direction
from pegas_memory.model.kinds import (
    AtomType,
    Distill,
    DocumentKind,
    GapStatus,
    MemoryKind,
    Metadata,
    SearchMode,
    ShownAs,
    Verdict,
)

MAX_CARRIED_BYTES = 100_000_000
"""Of a document that travels with its job; PostgreSQL's JSON takes 268 MB of text."""


@dataclass(frozen=True, slots=True)
class SourceRef:
    uri: str = ""
    title: str = ""
    quote: str = ""
    locator: str = ""
    authority: float | None = None


@dataclass(frozen=True, slots=True)
class LinkRequest:
    """``dst`` is an id or a name; a name becomes an entity."""

    dst: str
    kind: str
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class StoreRequest:
    claim: str = ""
    type: AtomType = AtomType.FACT
    content: str = ""
    memory: MemoryKind = MemoryKind.KNOWLEDGE
    confidence: float | None = None
    importance: float | None = None
    source: SourceRef | None = None
    links: tuple[LinkRequest, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    replaces: UUID | None = None


@dataclass(frozen=True, slots=True)
class SearchRequest:
    query: str = ""
    limit: int = 10
    types: frozenset[AtomType] = frozenset()
    statuses: frozenset[ShownAs] = frozenset()
    tags: frozenset[str] = frozenset()
    doc_id: UUID | None = None
    memory: frozenset[MemoryKind] = frozenset({MemoryKind.KNOWLEDGE})
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    min_confidence: float | None = None
    mode: SearchMode = SearchMode.HYBRID
    ids: tuple[UUID, ...] = ()
    explain: bool = False
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class ContextRequest:
    question: str
    max_tokens: int = 2000
    memory: frozenset[MemoryKind] = frozenset(MemoryKind)
    types: frozenset[AtomType] = frozenset()
    tags: frozenset[str] = frozenset()
    doc_id: UUID | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """``kind`` None means auto. Exactly one of ``source``, ``text``, ``data`` is given; ``data`` is a document's
    bytes, of any kind."""

    source: str = ""
    text: str = ""
    title: str = ""
    kind: DocumentKind | None = None
    authority: float | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    occurred_at: datetime | None = None
    distill: Distill = Distill.AUTO
    snippet: str = ""
    wait: bool = True
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class GapRequest:
    """``priority`` None means 0.5 for a new gap, and unchanged for one that exists."""

    question: str = ""
    reason: str = ""
    priority: float | None = None
    tags: tuple[str, ...] = ()
    gap_id: UUID | None = None
    status: GapStatus | None = None
    answered_by: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """``node`` and ``to`` are ids or names. ``depth`` None means one step, and for a path as many as may be."""

    node: str = ""
    kind: str = ""
    direction: Direction = Direction.BOTH
    depth: int | None = None
    to: str = ""
    include_inferred: bool = True
    explain: UUID | None = None
    limit: int = 100
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Either ``atom_ids`` or ``doc_id``: with the latter the verdict falls on the document and what only it
    supports."""

    verdict: Verdict
    reason: str
    atom_ids: tuple[UUID, ...] = ()
    doc_id: UUID | None = None
