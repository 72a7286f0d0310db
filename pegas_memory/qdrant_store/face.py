"""The face that both vector engines show: ids and scores only, never a body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from pegas_memory.model import ArmHits, Dense, Point, SearchFilter, SparseVector


class ScannedPoint(NamedTuple):
    id: UUID
    entity_id: UUID
    revision: int
    has_dense: bool
    tenant: str


class VectorIndex(Protocol):
    """One collection of one (model, dimension). Every write is validated as a whole before the engine
    sees any of it, and may be repeated without effect.

    Any method may raise ``VectorsUnavailable``; those that open the collection ``WrongDimension``.
    """

    def ensure(self) -> None:
        """Open the collection of this (model, dimension), making it when there is none.

        Raises:
            WrongDimension: it exists and was made for another model or dimension.
        """

    def upsert(self, points: Sequence[Point]) -> None:
        """Store whole points under their ids; each replaces the point that has its id.

        Raises:
            InvalidVector: not finite, zero, or a sparse part that is not distinct and ascending.
            WrongDimension: a dense part of another length than the model's.
        """

    def replace(self, tenant: str, entity_ids: Sequence[UUID], points: Sequence[Point]) -> None:
        """Make ``points`` the only points of these entities of ``tenant``. The new ones are stored before the
        stale ones go, so that a reader never finds an entity missing.

        Raises:
            InvalidVector: as ``upsert``; also for a point of another tenant, or of an entity that is not named.
        """

    def delete_entities(self, tenant: str, entity_ids: Sequence[UUID]) -> None:
        """Remove every point of these entities of ``tenant``."""

    def delete_tenant(self, tenant: str) -> None:
        """Remove every point of ``tenant``."""

    def search(self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int) -> ArmHits:
        """Per arm the best point of each entity: up to ``limit`` entities, filtered before the top is
        taken, by score descending, then entity id. An arm whose vector is None stays empty.

        ``since`` and ``until`` are inclusive; one tag of ``where.tags`` is enough. ``as_of`` keeps what
        is valid then: from its first moment on, no longer at its last.
        """

    def count(self) -> int:
        """The exact number of points of all tenants."""

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        """Points of all tenants with ids above ``after``, ascending, at most ``limit``."""

    def flush(self) -> None:
        """Return when everything stored before is durable (a server has waited already)."""

    def close(self) -> None:
        """Flush and release. Later calls raise ``VectorsUnavailable``; closing twice is fine."""
