"""What the service answers; field names are those of CONTRACT §3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from pegas_memory.model.kinds import DocumentKind, GapStatus, JobState, MemoryKind, Metadata


@dataclass(frozen=True, slots=True)
class Degraded:
    part: str
    reason: str


@dataclass(frozen=True, slots=True)
class Citation:
    doc_id: UUID
    title: str
    uri: str
    locator: str
    quote: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    atom_id: UUID
    memory: MemoryKind
    type: str
    claim: str
    content: str
    status: str
    confidence: float
    score: float
    strength: float
    tags: tuple[str, ...]
    metadata: Metadata
    occurred_at: datetime | None
    created_at: datetime
    citations: tuple[Citation, ...]
    superseded_by: UUID | None = None
    explain: Metadata | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    results: tuple[SearchResult, ...]
    next_cursor: str
    degraded: tuple[Degraded, ...]
    pending: int
    timings: Metadata = field(default_factory=dict)
    """Milliseconds by part: embed, engine, postgres, wait. Not shown by the tools."""


@dataclass(frozen=True, slots=True)
class GapAnswer:
    gap_id: UUID
    question: str
    reason: str
    priority: float
    status: GapStatus
    created_at: datetime
    answered_by: tuple[UUID, ...]
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GapPage:
    gaps: tuple[GapAnswer, ...]
    next_cursor: str
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class GapChange:
    gap_id: UUID
    created: bool
    duplicate_of: UUID | None
    status: GapStatus
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class ContextItem:
    atom_id: UUID
    memory: MemoryKind
    status: str
    confidence: float
    score: float


@dataclass(frozen=True, slots=True)
class ContextAnswer:
    context: str
    items: tuple[ContextItem, ...]
    tokens: int
    contradictions: tuple[tuple[UUID, UUID], ...]
    gaps: tuple[GapAnswer, ...]
    enough: bool
    degraded: tuple[Degraded, ...]
    pending: int


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    atom_id: UUID
    created: bool
    duplicate_of: UUID | None
    similarity: float | None
    replaced: UUID | None
    status: str
    revision: int
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class AtomCounts:
    created: int = 0
    duplicate: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    kind: DocumentKind
    title: str
    uri: str
    pages: int | None
    characters: int
    language: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class IngestAnswer:
    job_id: UUID
    state: JobState
    doc_id: UUID | None = None
    document: DocumentAnswer | None = None
    chunks: int = 0
    atoms: AtomCounts = AtomCounts()
    warnings: tuple[str, ...] = ()
    error: ErrorAnswer | None = None
    progress: Metadata = field(default_factory=dict)
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0

    @property
    def percent(self) -> float:
        """How much of the work is done, as far as it can be told: of a document reading is the first half, of
        several each is worth the same."""
        share = _share(self.progress.get("done"), self.progress.get("of"))
        inner = (1 + share) / 2 if self.progress.get("what") == "atoms" else share / 2
        files = int(self.progress.get("of_files", 0))
        whole = (int(self.progress.get("files", 0)) + inner) / files if files else inner
        return 100.0 if self.state == JobState.DONE else min(100.0, 100.0 * whole)

    @property
    def stage(self) -> str:
        """What is being done, in words."""
        told = self.progress
        if "waiting" in told:
            return str(told["waiting"])
        counted = f" {told['done']:,} of {told['of']:,}" if told.get("of") else ""
        doing = f"{told['what']}{counted}" if "what" in told else ""
        which = f"file {told.get('files', 0) + 1:,} of {told['of_files']:,}" if told.get("of_files") else ""
        return ", ".join(part for part in (which, doing) if part) or str(self.state)


def _share(done: object, of: object) -> float:
    return min(1.0, done / of) if isinstance(done, int) and isinstance(of, int) and of > 0 else 0.0


@dataclass(frozen=True, slots=True)
class JobAnswer:
    job_id: UUID
    kind: str
    state: JobState
    progress: Metadata
    created_at: datetime
    finished_at: datetime | None
    error: ErrorAnswer | None


@dataclass(frozen=True, slots=True)
class AtomTotals:
    total: int
    by_type: Mapping[str, int]
    by_status: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LinkTotals:
    total: int
    inferred: int


@dataclass(frozen=True, slots=True)
class ProjectionState:
    """``failed`` changes were set aside, ``dead`` of them are not tried again by themselves."""

    backend: str
    pending: int
    lag_seconds: float
    failed: int
    last_error: str = ""
    dead: int = 0


@dataclass(frozen=True, slots=True)
class EmbeddingState:
    provider: str
    model: str
    dimension: int | None


@dataclass(frozen=True, slots=True)
class StatsAnswer:
    atoms: AtomTotals
    documents: int
    chunks: int
    citations: int
    open_gaps: int
    code_symbols: int
    code_dependencies: int
    links: LinkTotals
    episodes: int
    procedures: int
    jobs: tuple[JobAnswer, ...]
    projections: Mapping[str, ProjectionState]
    embedding: EmbeddingState
    llm: str
    version: str
    tenant: str
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0
    detail: Metadata | None = None


@dataclass(frozen=True, slots=True)
class TenantState:
    """``deleting``: its deletion was begun and not ended."""

    name: str
    atoms: int
    documents: int
    links: int
    gaps: int
    symbols: int
    deleting: bool


@dataclass(frozen=True, slots=True)
class TenantDeleted:
    """``removed`` counts rows by table."""

    name: str
    removed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of ``doctor``: ``state`` is ok, warn or fail; ``mend`` says what to do, empty when ok."""

    name: str
    state: str
    detail: str
    mend: str
