"""A vector index made anew from PostgreSQL, beside the one that serves, whose place it takes when complete.

::

    begin_building → fill (flush, note the position, …) → follow the outbox → take over → the old one goes

It may be killed anywhere: the second consumer ``…#next`` says how far it is, durably, and the next run goes
on from there. What of the two, row and index, stands without the other is made anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pegas_memory.db import outbox
from pegas_memory.db.outbox import PositionMoved
from pegas_memory.db.session import Database
from pegas_memory.db.turns import Turn
from pegas_memory.errors import RebuildRunning, VectorsUnavailable
from pegas_memory.outbox_sync import Sync, VectorProjection
from pegas_memory.rebuilding.fill import OnRows, fill
from pegas_memory.rebuilding.target import Target
from pegas_memory.vectors import Vectors

log = logging.getLogger(__name__)

FOLLOW_SECONDS = 600.0
NEARLY = 1000
"""Changes that may still wait at the switch: whoever serves next projects them."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """``rows`` atoms became ``points`` points in ``seconds`` of filling; ``resumed``: an interrupted run had
    done the rest before."""

    generation: int
    rows: int
    points: int
    seconds: float
    points_per_second: float
    total_seconds: float
    resumed: bool


def rebuild_vectors(
    db: Database, vectors: Vectors, target: Target, *, discard: bool = False, on_rows: OnRows | None = None
) -> Rebuilt:
    """Build and switch. ``discard``: forget what an interrupted run has left.

    Raises:
        RebuildRunning: another process is at it. VectorsUnavailable, DatabaseUnavailable, DiskFull: run it again.
    """
    started = time.monotonic()
    with _alone(db, target.consumer):
        generation, resumed = _begin(db, target, discard=discard)
        building = outbox.building_name(target.consumer)
        index = target.building(generation)
        try:
            begun = time.monotonic()
            filled = fill(db, vectors, index, building, generation, on_rows)
            seconds = time.monotonic() - begun
            _follow(db, VectorProjection(db, vectors, index, building))
        except PositionMoved as error:
            raise VectorsUnavailable("What was being built was discarded meanwhile.", "Run it again.") from error
        finally:
            index.close()
        target.take_over(generation)
    log.info("vector index rebuilt generation=%d rows=%d seconds=%.1f", generation, filled.rows, seconds)
    rate = round(filled.points / seconds, 1) if seconds > 0 else 0.0
    total = round(time.monotonic() - started, 3)
    return Rebuilt(generation, filled.rows, filled.points, round(seconds, 3), rate, total, resumed)


@contextmanager
def _alone(db: Database, consumer: str) -> Iterator[None]:
    turn = Turn(db.url, f"rebuild {consumer}")
    try:
        if not turn.mine():
            raise RebuildRunning("A rebuild of this index is under way in another process.")
        yield
    finally:
        turn.close()


def _begin(db: Database, target: Target, *, discard: bool) -> tuple[int, bool]:
    """The generation to build, and whether a part of it stands."""
    with db.everything() as conn:
        if discard:
            outbox.discard_building(conn, target.consumer)
        generation, new = outbox.begin_building(conn, target.consumer)
    if not new and target.stands(generation):
        return generation, True
    target.drop(generation)
    with db.everything() as conn:
        outbox.reset_position(conn, outbox.building_name(target.consumer))
    return generation, False


def _follow(db: Database, projection: VectorProjection) -> None:
    """Project what was written while the index was filled, until it has caught up.

    Raises:
        VectorsUnavailable: it did not within ``FOLLOW_SECONDS``.
    """
    sync = Sync(db, [projection])
    deadline = time.monotonic() + FOLLOW_SECONDS
    while sync.step() or _pending(db, projection.consumer) > NEARLY:
        if time.monotonic() > deadline:
            raise VectorsUnavailable("The new index does not catch up with what is written.", "Run it again.")
        time.sleep(0.001)
    sync.settle()


def _pending(db: Database, consumer: str) -> int:
    with db.everything() as conn:
        return outbox.pending(conn, [consumer], at_most=NEARLY + 1)
