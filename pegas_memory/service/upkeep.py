"""Making projections anew, comparing them with PostgreSQL, and looking at what they could not take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from uuid import UUID

from pegas_memory.db import outbox, tenants
from pegas_memory.db.outbox import FILLABLE, ConsumerState, Failure
from pegas_memory.errors import BadSettings, InvalidParameter, NotFound, Unavailable
from pegas_memory.model import Degraded, EmbeddingModel
from pegas_memory.rebuilding.rebuild import Rebuilt, rebuild_vectors
from pegas_memory.rebuilding.reconcile import Reconciled, reconcile_vectors
from pegas_memory.rebuilding.reconcile_graph import reconcile_graph
from pegas_memory.rebuilding.target import EmbeddedTarget, ServerTarget, Target
from pegas_memory.service.rooms import OpenRooms

ATOMS = ("atom",)
OnFilled = Callable[[int, int], None]
"""Called with (rows filled, rows in all)."""


@dataclass(frozen=True, slots=True)
class RebuildAnswer:
    """``noted``: rows of one tenant that are projected again, and then ``compared``: what else its projections
    held went; ``graph``: the generation that is being filled."""

    vector: Rebuilt | None = None
    graph: int | None = None
    noted: int = 0
    compared: ReconcileAnswer | None = None


@dataclass(frozen=True, slots=True)
class ReconcileAnswer:
    """``graph`` is None without a graph server."""

    vector: Reconciled | None
    graph: Reconciled | None
    not_compared: tuple[Degraded, ...] = ()

    @property
    def agrees(self) -> bool:
        return not self.not_compared and not any(one.left for one in (self.vector, self.graph) if one is not None)


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
        raise InvalidParameter(
            "There is no graph server: PostgreSQL answers questions about links.", "Set PEGAS_MEMGRAPH_URL to have one."
        )
    if tenant:
        _known(rooms, tenant)
        with rooms.db.everything() as conn:
            noted = outbox.enqueue_all(conn, tenant)
        rooms.nudge()
        compared = reconcile(rooms, tenant=tenant, dry_run=False)
        return RebuildAnswer(noted=noted, compared=compared)
    generation = None
    if graph:
        with rooms.db.everything() as conn:
            generation = outbox.refill(conn, rooms.graph_consumer)
        rooms.nudge()
    built = None
    if vector:
        built = rebuild_vectors(rooms.db, rooms.vectors, target_of(rooms), discard=discard, on_rows=on_rows)
    return RebuildAnswer(built, generation)


def _known(rooms: OpenRooms, tenant: str) -> None:
    with rooms.db.everything() as conn:
        if tenant not in tenants.names(conn):
            raise NotFound("There is no tenant of that name.", "`pegas-memory tenants` lists them.")


def reconcile(rooms: OpenRooms, *, tenant: str, dry_run: bool) -> ReconcileAnswer:
    """Find where the projections differ from PostgreSQL, and mend them unless ``dry_run``. One that cannot be
    read is named in ``not_compared``, and the other is compared all the same.

    Raises:
        DatabaseUnavailable.
    """
    if tenant:
        _known(rooms, tenant)
    vector = graph = None
    trouble = []
    try:
        vector = reconcile_vectors(
            rooms.db, rooms.vectors, target_of(rooms), rooms.consumers(), tenant=tenant, mend=not dry_run
        )
    except Unavailable as error:
        trouble.append(Degraded("vector index", f"{error.code}: {error.message}"))
    if rooms.graph_scanner is not None:
        try:
            with closing(rooms.graph_scanner()) as store:
                graph = reconcile_graph(rooms.db, store, rooms.graph_consumer, tenant=tenant, mend=not dry_run)
        except (Unavailable, BadSettings) as error:
            trouble.append(Degraded("graph server", f"{error.code}: {error.message}"))
    return ReconcileAnswer(vector, graph, tuple(trouble))
