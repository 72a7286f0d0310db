"""Making projections anew, comparing them with PostgreSQL, and looking at what they could not take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from pegas_memory.db import outbox
from pegas_memory.db.outbox import FILLABLE, ConsumerState, Failure
from pegas_memory.errors import InvalidParameter, NotFound
from pegas_memory.model import EmbeddingModel
from pegas_memory.rebuilding.rebuild import Rebuilt, rebuild_vectors
from pegas_memory.rebuilding.reconcile import Reconciled, reconcile_vectors
from pegas_memory.rebuilding.target import EmbeddedTarget, ServerTarget, Target
from pegas_memory.service.rooms import OpenRooms

ATOMS = ("atom",)
OnFilled = Callable[[int, int], None]
"""Called with (rows filled, rows in all)."""


@dataclass(frozen=True, slots=True)
class RebuildAnswer:
    """``noted``: rows of one tenant that are projected again; ``graph``: the generation that is being filled."""

    vector: Rebuilt | None = None
    graph: int | None = None
    noted: int = 0


@dataclass(frozen=True, slots=True)
class OutboxState:
    """Every consumer over all tenants, how many rows each kind of filling goes through, and what failed."""

    consumers: tuple[ConsumerState, ...]
    to_be_filled: Mapping[str, int]
    failures: tuple[Failure, ...]


def outbox_state(rooms: OpenRooms, limit: int = 100) -> OutboxState:
    """Raises DatabaseUnavailable."""
    with rooms.db.everything() as conn:
        consumers = tuple(outbox.states(conn))
        filling = {
            state.consumer: outbox.to_be_filled(conn, tuple(FILLABLE) if state.consumer.startswith("graph:") else ATOMS)
            for state in consumers
            if state.backfilling
        }
        return OutboxState(consumers, filling, tuple(outbox.failures(conn, limit)))


def replay(rooms: OpenRooms, entity_id: UUID | None) -> int:
    """Try what failed again now: all of it, or what concerns one entity. Returns how many changes.

    Raises:
        NotFound: nothing of that id has failed.
    """
    with rooms.db.everything() as conn:
        count = outbox.replay(conn, entity_id)
    if entity_id is not None and not count:
        raise NotFound("Nothing of that id has failed.", "`pegas-memory outbox` lists the failures.")
    rooms.nudge()
    return count


def target_of(rooms: OpenRooms, model: EmbeddingModel | None = None) -> Target:
    """The vector index of ``model``, by default of the one in use.

    Raises:
        EmbedderUnavailable: the model is not known.
    """
    mine = rooms.embedder.model
    wanted = model or mine
    if rooms.settings.embedded_vectors:
        return EmbeddedTarget(rooms.settings, wanted, rooms.db, rooms.engine if wanted == mine else None)
    return ServerTarget(rooms.settings, wanted, rooms.db)


def rebuild(
    rooms: OpenRooms, *, vector: bool, graph: bool, tenant: str, discard: bool, on_rows: OnFilled | None
) -> RebuildAnswer:
    """Make projections anew from PostgreSQL. With ``tenant`` nothing is built: all it has is projected again.

    Raises:
        RebuildRunning, VectorsUnavailable, EmbedderUnavailable, DatabaseUnavailable.
    """
    if graph and not rooms.settings.memgraph_url:
        raise InvalidParameter("There is no graph server: PostgreSQL answers questions about links.")
    if tenant:
        with rooms.db.everything() as conn:
            noted = outbox.enqueue_all(conn, tenant)
        rooms.nudge()
        return RebuildAnswer(noted=noted)
    generation = None
    if graph:
        with rooms.db.everything() as conn:
            generation = outbox.refill(conn, rooms.graph_consumer)
        rooms.nudge()
    built = None
    if vector:
        built = rebuild_vectors(rooms.db, rooms.vectors, target_of(rooms), discard=discard, on_rows=on_rows)
    return RebuildAnswer(built, generation)


def reconcile(rooms: OpenRooms, *, tenant: str, dry_run: bool) -> Reconciled:
    """Find where the vector index differs from PostgreSQL, and mend it unless ``dry_run``.

    Raises:
        VectorsUnavailable, EmbedderUnavailable, DatabaseUnavailable.
    """
    target = target_of(rooms)
    return reconcile_vectors(rooms.db, rooms.vectors, target, rooms.consumers(), tenant=tenant, mend=not dry_run)
