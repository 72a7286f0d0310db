"""The step that moves projections on, and what a projection has to be for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pegas_memory.db import outbox
from pegas_memory.db.outbox import Backfill, Batch, Change
from pegas_memory.db.session import Database
from pegas_memory.errors import DatabaseUnavailable, PegasError, SetupError, Unavailable

SLICE = 256
PRUNE_EVERY = 60.0
DURABLE_EVERY = 2.0
DIED_OVER = 2
"""A slice that was taken so often and never passed is tried change by change: a process may have died over
one of them, and the others must not wait for it."""

log = logging.getLogger(__name__)


class Projection(Protocol):
    """One target. ``project`` must be harmless when repeated."""

    @property
    def consumer(self) -> str: ...

    @property
    def fills(self) -> tuple[str, ...]:
        """The kinds of entity with which a new target is filled, in this order."""
        ...

    def project(self, changes: Sequence[Change]) -> None:
        """Bring the target to the present state of these entities; of other kinds, nothing.

        Raises:
            Unavailable: the target is down; nothing is marked and all of it is tried again.
            PegasError: a change cannot be projected; it is set aside on its own.
        """
        ...

    def make_durable(self) -> None:
        """What was projected so far survives a crash from now on. May cost a disk flush."""
        ...

    def filled(self, generation: int) -> None:
        """The target holds all that stood in the tables."""
        ...


@dataclass(frozen=True, slots=True)
class _Work:
    """What waits for one projection: changes, failures to try again, a page of what it is filled with."""

    batch: Batch
    due: tuple[Change, ...]
    failing: bool
    filling: Backfill | None
    page: tuple[Change, ...]
    page_attempts: int


class Sync:
    """Moves every projection on by one slice a step. One thread at a time calls :meth:`step`.

    A change can be found once it is projected; that it is durable follows every ``DURABLE_EVERY``
    seconds, since a flush of the embedded index stops its whole process for a moment.

    ``step`` and ``settle`` raise DatabaseUnavailable, and ``outbox.PositionMoved`` when another process has
    taken a consumer over, or it was switched to another generation: make a new Sync, with the target as it is now.
    """

    def __init__(self, db: Database, projections: Sequence[Projection]) -> None:
        self._db = db
        self._projections = tuple(projections)
        self._generations: dict[str, int] = {}
        self._backoff: dict[str, tuple[float, float]] = {}
        self._pruned = time.monotonic()
        self._dirty: dict[str, float] = {}
        self._filling: dict[str, Backfill] = {}
        with db.everything() as conn:
            for projection in self._projections:
                outbox.register(conn, projection.consumer)
                outbox.rewind(conn, projection.consumer)
                self._generations[projection.consumer] = outbox.generation_of(conn, projection.consumer) or 1

    def step(self) -> bool:
        """True when some projection has more to do at once."""
        more = [self._step(projection) for projection in self._projections]
        if time.monotonic() - self._pruned > PRUNE_EVERY:
            self._pruned = time.monotonic()
            self._prune()
        return any(more)

    def settle(self) -> None:
        """Make everything durable now; before the target is closed."""
        for projection in self._projections:
            self._make_durable(projection)

    def _prune(self) -> None:
        with self._db.everything() as conn:
            outbox.give_up_on_abandoned(conn)
        pruned = 1
        while pruned:
            with self._db.everything() as conn:
                pruned = outbox.prune(conn)

    def _step(self, projection: Projection) -> bool:
        consumer = projection.consumer
        delay, until = self._backoff.get(consumer, (0.0, 0.0))
        if time.monotonic() < until:
            return False
        try:
            work = self._look(projection)
            worked = self._project_batch(projection, work)
            self._one_by_one(projection, work.due)
            worked = self._backfill(projection, work) or worked
            self._keep_durable(projection)
        except DatabaseUnavailable:
            raise  # the lane pauses, and hears when PostgreSQL is back
        except (Unavailable, SetupError) as error:  # the target is down, or refuses us: no change is to blame
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

    def _look(self, projection: Projection) -> _Work:
        """All that waits, in one transaction: a step that finds nothing must cost next to nothing."""
        consumer = projection.consumer
        with self._db.everything() as conn:
            batch = outbox.take(conn, consumer, SLICE)
            if batch.generation != self._generations[consumer]:
                raise outbox.PositionMoved(consumer)
            due = outbox.due_failures(conn, consumer, SLICE)
            failing = bool(batch.changes) and outbox.failed_count(conn, consumer) > 0
            at = self._filling.get(consumer) or outbox.backfill_of(conn, consumer)
            page = outbox.backfill_page(conn, at, projection.fills, SLICE) if at else ()
            tried = outbox.take_page(conn, consumer, page) if page else 0
            return _Work(batch, due, failing, at, page, tried)

    def _project_batch(self, projection: Projection, work: _Work) -> bool:
        batch, consumer = work.batch, projection.consumer
        if batch.end is None:
            return False
        together = batch.attempts <= DIED_OVER
        if together:
            together = self._project(projection, batch.changes)
        else:
            log.warning("projection %s: a process ended over %d changes; one by one", consumer, len(batch.changes))
            self._one_by_one(projection, batch.changes)
        self._touch(projection)
        try:
            with self._db.everything() as conn:
                outbox.advance(conn, consumer, batch)
                if together and work.failing:
                    outbox.clear_failures(conn, consumer, batch.changes)
        except outbox.PositionMoved:
            self._note_again(batch.changes)
            raise
        return True

    def _note_again(self, changes: Sequence[Change]) -> None:
        """Another process has the consumer, and may have brought these up to date before this one, which was
        slow, wrote over it."""
        with self._db.everything() as conn:
            for change in changes:
                outbox.enqueue(conn, change.tenant, change.entity_type, [change.entity_id])

    def _backfill(self, projection: Projection, work: _Work) -> bool:
        consumer = projection.consumer
        if work.filling is None:
            return False
        if work.page:
            if work.page_attempts > DIED_OVER:
                self._one_by_one(projection, work.page)
            else:
                self._project(projection, work.page)
            self._touch(projection)
            with self._db.everything() as conn:
                outbox.pass_page(conn, consumer, work.page)
            self._filling[consumer] = work.filling.moved_to(work.page[-1], len(work.page))
            return True
        projection.make_durable()
        projection.filled(self._generations[consumer])
        with self._db.everything() as conn:
            outbox.backfill_advance(conn, consumer, self._generations[consumer], None)
        self._filling.pop(consumer, None)
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
            outbox.settle_durable(conn, consumer, self._generations[consumer])
            if consumer in self._filling:
                outbox.backfill_advance(conn, consumer, self._generations[consumer], self._filling[consumer])

    def _project(self, projection: Projection, changes: Sequence[Change]) -> bool:
        """The whole slice at once; when a change in it cannot be projected, each one on its own. True for the
        first."""
        try:
            if changes:
                projection.project(changes)
        except (Unavailable, SetupError):
            raise
        except PegasError:
            self._one_by_one(projection, changes)
            return False
        return True

    def _one_by_one(self, projection: Projection, changes: Sequence[Change]) -> None:
        for change in changes:
            with self._db.everything() as conn:
                alive = outbox.take_one(conn, projection.consumer, change)
            if alive:
                self._attempt(projection, change)

    def _attempt(self, projection: Projection, change: Change) -> None:
        """One change alone, whose attempt was counted before; when the target is down it is forgiven."""
        consumer = projection.consumer
        try:
            projection.project([change])
        except (Unavailable, SetupError):
            with self._db.everything() as conn:
                outbox.forgive(conn, consumer, change)
            raise
        except PegasError as error:
            log.warning("projection %s set %s %s aside: %s", consumer, change.entity_type, change.entity_id, error)
            with self._db.everything() as conn:
                outbox.note_failure(conn, consumer, change, str(error))
        else:
            self._touch(projection)
            with self._db.everything() as conn:
                outbox.clear_failures(conn, consumer, [change])
