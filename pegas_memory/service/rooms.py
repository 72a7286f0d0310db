"""What the use cases need, opened once, and how they wait for their own writes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.db.graph_questions import PostgresGraph
from pegas_memory.db.session import Connection, Database
from pegas_memory.embedding import Embedder
from pegas_memory.engine_client import EngineClient
from pegas_memory.errors import Unavailable
from pegas_memory.graph import Graph
from pegas_memory.memgraph_store import GraphStore
from pegas_memory.model import Degraded, EmbeddingModel
from pegas_memory.outbox_sync import embedding_consumer, vector_consumer, vector_target
from pegas_memory.pipeline import Learner, Recent
from pegas_memory.retrieval import Retrieval
from pegas_memory.vectors import Searcher, Vectors

log = logging.getLogger(__name__)

OWN_WRITES_WAIT = 2.0
RECENT_KEPT = 400
MODEL_PAUSE = 2.0
OTHERS_WRITES_WAIT = 0.15
"""Seconds that a search waits for what this process, or another, wrote a moment before."""


@dataclass(slots=True)
class OpenRooms:
    settings: Settings
    db: Database
    embedder: Embedder
    searcher: Searcher
    wake: Callable[[], None]
    """Tell the worker that there is something to do; it hears NOTIFY as well, this is only sooner."""
    part_states: Callable[[], dict[str, object]]
    """How the parts behind the wire say they are."""
    clock: Callable[[], datetime]
    engine: EngineClient | None = None
    """The engine process of this PEGAS_HOME, where one is needed."""
    graph_server: Graph | None = None
    graph_scanner: Callable[[], GraphStore] | None = None
    """Opens what a comparison reads of the graph server; None when there is none."""
    """None: PostgreSQL answers about links."""
    graph_consumer: str = ""
    """Whose position says how much of PostgreSQL the graph server holds."""
    stored_graph: PostgresGraph = field(init=False)
    vectors: Vectors = field(init=False)
    learner: Learner = field(init=False)
    retrieval: Retrieval = field(init=False)
    written: OwnWrites = field(init=False)
    _ask_model_after: float = field(init=False, default=0.0)
    _recent: dict[str, Recent] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.stored_graph = PostgresGraph(self.db)
        self.vectors = Vectors(self.db, self.embedder)
        self.learner = Learner(self.db, self.vectors, self.searcher)
        self.retrieval = Retrieval(self.db, self.embedder, self.searcher)
        self.written = OwnWrites(self)

    @property
    def graph(self) -> Graph:
        """The graph that is asked first."""
        return self.graph_server or self.stored_graph

    def nudge(self) -> None:
        """Wake the worker if it can be reached; what was committed stays so, and NOTIFY reaches it as well."""
        try:
            self.wake()
        except Unavailable as error:
            log.info("worker not woken: %s", error.code)

    def recent(self, tenant: str) -> Recent:
        """What this process stored last for the tenant."""
        return self._recent.setdefault(tenant, Recent(keep=RECENT_KEPT))

    def forget(self, tenant: str) -> None:
        """Drop what this process remembers of a tenant that was deleted."""
        self._recent.pop(tenant, None)

    def model(self) -> EmbeddingModel | None:
        """The embedding model; None while its endpoint is down and it was never asked. An endpoint that
        did not answer is asked again after ``MODEL_PAUSE`` seconds, since each try may wait for it."""
        if time.monotonic() < self._ask_model_after:
            return None
        try:
            return self.embedder.model
        except Unavailable:
            self._ask_model_after = time.monotonic() + MODEL_PAUSE
            return None

    def consumers(self) -> list[str]:
        """The positions that decide whether a write can be found: vector index first, then the cache."""
        model = self.model()
        if model is None:
            return []
        target = vector_target(self.settings)
        return [vector_consumer(target, model.name, model.dimension), embedding_consumer(model)]


FILLING = (Degraded("vector index", "it is being filled from PostgreSQL; results may be incomplete"),)
GRAPH_FILLING = (Degraded("graph server", "it is being filled from PostgreSQL"),)


@dataclass(frozen=True, slots=True)
class Settled:
    """How many changes of the tenant still wait for a projection, why answers may be incomplete besides,
    and the milliseconds that were waited."""

    pending: int
    degraded: tuple[Degraded, ...]
    waited: float


class OwnWrites:
    """Lets a search see what was stored a moment before: it waits, bounded, until that is projected."""

    def __init__(self, rooms: OpenRooms) -> None:
        self._rooms = rooms
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}

    def note(self, tenant: str, xid: int) -> None:
        with self._lock:
            self._last[tenant] = max(xid, self._last.get(tenant, 0))
        self._rooms.nudge()

    def settle(self, tenant: str) -> Settled:
        """Wait for this process's last write to reach the vector index, and a moment for others'."""
        return self._settle(tenant, self._rooms.consumers(), FILLING)

    def settle_graph(self, tenant: str) -> Settled:
        """The same for the graph server."""
        return self._settle(tenant, [self._rooms.graph_consumer], GRAPH_FILLING)

    def _settle(self, tenant: str, consumers: list[str], filling: tuple[Degraded, ...]) -> Settled:
        started = time.perf_counter()
        waiting, filled = self._progress(tenant, consumers)
        with self._lock:
            mine = self._last.get(tenant, 0)
        while waiting and consumers:
            spent = time.perf_counter() - started
            own = bool(mine) and not self._passed(tenant, consumers, mine)
            if spent > (OWN_WRITES_WAIT if own else OTHERS_WRITES_WAIT):
                break
            time.sleep(0.004)
            waiting, filled = self._progress(tenant, consumers)
        return Settled(waiting, () if filled else filling, (time.perf_counter() - started) * 1000)

    def pending(self, tenant: str) -> int:
        return self._progress(tenant, self._rooms.consumers())[0]

    def _progress(self, tenant: str, consumers: list[str]) -> tuple[int, bool]:
        with self._rooms.db.tenant(tenant) as conn:
            return outbox.progress(conn, consumers) if consumers else (outbox.unread(conn), True)

    def _passed(self, tenant: str, consumers: Sequence[str], xid: int) -> bool:
        with self._rooms.db.tenant(tenant) as conn:
            return outbox.passed(conn, consumers, xid)


def waiting_in(conn: Connection, consumers: list[str]) -> int:
    """Changes of the transaction's tenant that cannot be found by vector yet."""
    return outbox.pending(conn, consumers) if consumers else outbox.unread(conn)


def degraded_by(model: EmbeddingModel | None) -> tuple[Degraded, ...]:
    if model is not None:
        return ()
    return (Degraded("embedder", "embedder_unavailable: vectors are made once it answers again"),)


def failing_lanes(rooms: OpenRooms, prefix: str) -> list[str]:
    """What those of the worker's lanes met that go on failing; none where the worker is a process of its own."""
    try:
        worker = rooms.part_states().get("worker")
    except Unavailable as error:
        return [str(error)]
    lanes = worker.get("lanes") if isinstance(worker, dict) else None
    return [
        f"{name}: {state['last_error']} ({state['failures']} times)"
        for name, state in (lanes or {}).items()
        if name.startswith(prefix) and state["failures"]
    ]
