"""PostgreSQL's outbox → projections. Each projection has its own position and its own failures, so
that one that is slow or down neither delays another nor makes it repeat its work."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID, uuid5

from pegas_memory import bm25
from pegas_memory.config import Settings
from pegas_memory.db import atoms, citations, outbox
from pegas_memory.db.atoms import AtomRow
from pegas_memory.db.outbox import Backfill, Batch, Change
from pegas_memory.db.session import Database
from pegas_memory.engine_client.place import Place
from pegas_memory.errors import InputError, PegasError, Unavailable
from pegas_memory.model import FOREVER, Dense, EmbeddingModel, MemoryKind, Point, PointPayload
from pegas_memory.qdrant_store import FORMAT, VectorIndex
from pegas_memory.text import sha256
from pegas_memory.vectors import Vectors, embedded_text

SLICE = 256
PRUNE_EVERY = 60.0
DURABLE_EVERY = 2.0

log = logging.getLogger(__name__)


class Projection(Protocol):
    """One target. ``project`` must be harmless when repeated."""

    @property
    def consumer(self) -> str: ...

    def project(self, changes: Sequence[Change]) -> None:
        """Bring the target to the present state of these entities.

        Raises:
            Unavailable: the target is down; nothing is marked and all of it is tried again.
            PegasError: a change cannot be projected; it is set aside on its own.
        """
        ...

    def make_durable(self) -> None:
        """What was projected so far survives a crash from now on. May cost a disk flush."""
        ...


@dataclass(frozen=True, slots=True)
class _Work:
    """What waits for one projection: changes, failures to try again, a page of what it is filled with."""

    batch: Batch
    due: tuple[Change, ...]
    filling: Backfill | None
    page: tuple[Change, ...]


class Sync:
    """Moves every projection on by one slice a step. One thread at a time calls :meth:`step`.

    A change can be found once it is projected; that it is durable follows every ``DURABLE_EVERY``
    seconds, since a flush of the embedded index stops its whole process for a moment.
    """

    def __init__(self, db: Database, projections: Sequence[Projection]) -> None:
        self._db = db
        self._projections = tuple(projections)
        self._backoff: dict[str, tuple[float, float]] = {}
        self._pruned = time.monotonic()
        self._dirty: dict[str, float] = {}
        self._filling: dict[str, Backfill] = {}
        with db.everything() as conn:
            for projection in self._projections:
                outbox.register(conn, projection.consumer)
                outbox.rewind(conn, projection.consumer)

    def step(self) -> bool:
        """True when some projection has more to do at once."""
        more = [self._step(projection) for projection in self._projections]
        if time.monotonic() - self._pruned > PRUNE_EVERY:
            self._pruned = time.monotonic()
            with self._db.everything() as conn:
                outbox.give_up_on_abandoned(conn)
                outbox.prune(conn)
        return any(more)

    def settle(self) -> None:
        """Make everything durable now; before the target is closed."""
        for projection in self._projections:
            self._make_durable(projection)

    def _step(self, projection: Projection) -> bool:
        consumer = projection.consumer
        delay, until = self._backoff.get(consumer, (0.0, 0.0))
        if time.monotonic() < until:
            return False
        try:
            work = self._look(consumer)
            worked = self._project_batch(projection, work.batch)
            for change in work.due:
                self._project_alone(projection, change)
            worked = self._backfill(projection, work) or worked
            self._keep_durable(projection)
        except Unavailable as error:
            delay = min(30.0, max(0.2, delay * 2))
            self._backoff[consumer] = (delay, time.monotonic() + delay)
            log.warning("projection %s waits %.1f s: %s", consumer, delay, error)
            self._note(consumer, str(error))
            return False
        self._backoff.pop(consumer, None)
        return worked

    def _note(self, consumer: str, message: str) -> None:
        try:
            with self._db.everything() as conn:
                outbox.note_error(conn, consumer, message)
        except Unavailable as error:
            log.warning("projection %s: its error could not be noted: %s", consumer, error)

    def _look(self, consumer: str) -> _Work:
        """All that waits, in one transaction: a step that finds nothing must cost next to nothing."""
        with self._db.everything() as conn:
            batch = outbox.take(conn, consumer, SLICE)
            due = outbox.due_failures(conn, consumer, SLICE)
            at = self._filling.get(consumer) or outbox.backfill_of(conn, consumer)
            return _Work(batch, due, at, outbox.backfill_page(conn, at, SLICE) if at else ())

    def _project_batch(self, projection: Projection, batch: Batch) -> bool:
        if batch.end is None:
            return False
        self._project(projection, batch.changes)
        self._touch(projection)
        with self._db.everything() as conn:
            outbox.advance(conn, projection.consumer, batch)
        return True

    def _backfill(self, projection: Projection, work: _Work) -> bool:
        consumer = projection.consumer
        if work.filling is None:
            return False
        if work.page:
            self._project(projection, work.page)
            self._touch(projection)
            self._filling[consumer] = work.filling.moved_to(work.page[-1])
            return True
        projection.make_durable()
        self._filling.pop(consumer, None)
        with self._db.everything() as conn:
            outbox.backfill_advance(conn, consumer, None)
        return False

    def _touch(self, projection: Projection) -> None:
        self._dirty.setdefault(projection.consumer, time.monotonic())

    def _keep_durable(self, projection: Projection) -> None:
        since = self._dirty.get(projection.consumer)
        if since is not None and time.monotonic() - since > DURABLE_EVERY:
            self._make_durable(projection)

    def _make_durable(self, projection: Projection) -> None:
        consumer = projection.consumer
        if self._dirty.pop(consumer, None) is None:
            return
        projection.make_durable()
        with self._db.everything() as conn:
            outbox.settle_durable(conn, consumer)
            if consumer in self._filling:
                outbox.backfill_advance(conn, consumer, self._filling[consumer])

    def _project(self, projection: Projection, changes: Sequence[Change]) -> None:
        """The whole slice at once; when a change in it cannot be projected, each one on its own."""
        if not changes:
            return
        try:
            projection.project(changes)
        except Unavailable:
            raise
        except PegasError:
            for change in changes:
                self._project_alone(projection, change)

    def _project_alone(self, projection: Projection, change: Change) -> None:
        try:
            projection.project([change])
        except Unavailable:
            raise
        except PegasError as error:
            log.warning("projection %s set %s %s aside: %s", projection.consumer, change.entity_type, change.entity_id,
                        error)  # fmt: skip
            with self._db.everything() as conn:
                outbox.record_failure(conn, projection.consumer, change, str(error))
        else:
            with self._db.everything() as conn:
                outbox.clear_failures(conn, projection.consumer, [change])


class EmbeddingProjection:
    """Fills the vector cache for atoms; tells the outbox, so that the index takes the vector up."""

    def __init__(self, db: Database, vectors: Vectors) -> None:
        self._db = db
        self._vectors = vectors
        self.consumer = embedding_consumer(vectors.model)

    def project(self, changes: Sequence[Change]) -> None:
        for tenant, ids in _atoms_by_tenant(changes, but="embedded").items():
            with self._db.tenant(tenant) as conn:
                rows = atoms.fetch(conn, tenant, ids)
            texts = {row.id: self._vectors.parts(embedded_text(row.claim, row.content)) for row in rows.values()}
            wanted = [part for parts in texts.values() for part in parts]
            known = self._vectors.cached(tenant, wanted)
            fresh = [atom_id for atom_id, parts in texts.items() if any(part not in known for part in parts)]
            if not fresh:
                continue
            try:
                self._vectors.of(tenant, [part for atom_id in fresh for part in texts[atom_id]])
            except InputError as error:
                raise PegasError(f"The text cannot be embedded ({error.code}).") from error
            with self._db.tenant(tenant) as conn:
                outbox.enqueue(conn, tenant, "atom", fresh, op="embedded")

    def make_durable(self) -> None:
        """PostgreSQL made it so at commit."""


class VectorProjection:
    """Atoms → the vector index: one point for each part, the sparse vector on the first."""

    def __init__(self, db: Database, vectors: Vectors, index: VectorIndex, consumer: str) -> None:
        self._db = db
        self._vectors = vectors
        self._index = index
        self.consumer = consumer

    def project(self, changes: Sequence[Change]) -> None:
        for tenant, ids in _atoms_by_tenant(changes).items():
            with self._db.tenant(tenant) as conn:
                rows = atoms.fetch(conn, tenant, ids)
                doc_ids = citations.doc_ids_of(conn, tenant, list(rows))
            points = self._points(tenant, list(rows.values()), doc_ids)
            if rows:
                self._index.replace(list(rows), points)
            gone = [atom_id for atom_id in ids if atom_id not in rows]
            if gone:
                self._index.delete_entities(tenant, gone)

    def make_durable(self) -> None:
        self._index.flush()

    def _points(self, tenant: str, rows: Sequence[AtomRow], doc_ids: dict[UUID, tuple[UUID, ...]]) -> list[Point]:
        parts = {row.id: self._vectors.parts(embedded_text(row.claim, row.content)) for row in rows}
        known = self._vectors.cached(tenant, [part for listed in parts.values() for part in listed])
        return [p for row in rows for p in points_of(row, doc_ids.get(row.id, ()), parts[row.id], known)]


def points_of(row: AtomRow, doc_ids: tuple[UUID, ...], parts: Sequence[str], vectors: dict[str, Dense]) -> list[Point]:
    """The points of one atom; a part whose vector is pending has none yet."""
    payload = PointPayload(
        tenant=row.tenant,
        memory=MemoryKind.KNOWLEDGE,
        entity_id=row.id,
        revision=row.revision,
        type=row.type,
        shown_as=row.shown_as,
        tags=row.tags,
        doc_ids=doc_ids,
        occurred=(row.occurred_at or row.created_at).timestamp(),
        confidence=row.confidence,
        valid_from=row.held_from.timestamp(),
        valid_until=FOREVER if row.held_until is None else row.held_until.timestamp(),
    )
    whole = bm25.encode_document(embedded_text(row.claim, row.content))
    empty = bm25.encode_document("")
    return [
        Point(uuid5(row.id, str(n)), payload, whole if n == 0 else empty, vectors.get(part))
        for n, part in enumerate(parts)
        if n == 0 or part in vectors
    ]


def _atoms_by_tenant(changes: Sequence[Change], but: str = "") -> dict[str, list[UUID]]:
    found: dict[str, list[UUID]] = {}
    for change in changes:
        if change.entity_type == "atom" and change.op != but:
            found.setdefault(change.tenant, []).append(change.entity_id)
    return found


def embedding_consumer(model: EmbeddingModel) -> str:
    """The dimension is part of it: an endpoint may come to serve another model under the same name."""
    return f"embedding:{model.name}:{model.dimension}"


def vector_consumer(target: str, model_name: str, dimension: int) -> str:
    """``target`` names one physical index: a server collection or one embedded shard."""
    return f"vector:{target}:{model_name}:{dimension}"


def vector_target(settings: Settings) -> str:
    """The physical index of these settings: a server's collections, or the shard of one PEGAS_HOME.

    A shard says its own format; that of a collection is part of the name, so that a new one fills it again."""
    if settings.embedded_vectors:
        return f"edge-{Place(settings.home).identity()}"
    return f"server-{sha256(settings.qdrant_url, settings.qdrant_collection, str(FORMAT))[:12]}"
