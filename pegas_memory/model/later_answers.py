"""The answers of the tools for verifying, code, rules and the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from pegas_memory.model.answers import Degraded


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
    """``results`` shows the first of the ``judged`` atoms; a purged one is ``purged`` after."""

    results: tuple[VerifyResult, ...]
    judged: int = 0
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
