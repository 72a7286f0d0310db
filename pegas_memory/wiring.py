"""The composition root: settings → open rooms → the product's one face."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from pegas_memory.config import Settings, load_settings
from pegas_memory.db.instance import instance_id
from pegas_memory.db.migrate import ensure_schema
from pegas_memory.db.session import Database
from pegas_memory.embedding import Embedder, open_embedder
from pegas_memory.engine_client import EngineClient, RemoteEmbedder, RemoteIndex
from pegas_memory.errors import BadSettings, DatabaseUnavailable, GraphUnavailable, NotAvailableYet, Unavailable
from pegas_memory.memgraph_store import GraphReader, GraphStore, Server
from pegas_memory.model import (
    ArmHits,
    Check,
    CitationCheck,
    ContextAnswer,
    ContextRequest,
    Dense,
    DocumentKind,
    DocumentPage,
    Edge,
    EdgeFilter,
    GapAnswer,
    GapChange,
    GapPage,
    GapRequest,
    GapStatus,
    GraphAnswer,
    GraphRequest,
    IngestAnswer,
    IngestRequest,
    NodeRef,
    OpenedMemory,
    SearchAnswer,
    SearchFilter,
    SearchRequest,
    SparseVector,
    StatsAnswer,
    StoreAnswer,
    StoreRequest,
    TenantDeleted,
    TenantState,
    VerifyAnswer,
    VerifyRequest,
)
from pegas_memory.outbox_sync import graph_consumer, graph_target, vector_target
from pegas_memory.qdrant_store import VectorIndex, server_index
from pegas_memory.service import (
    archive,
    context,
    gaps,
    graph,
    health,
    library,
    memory,
    reading_room,
    renewal,
    tenants,
    upkeep,
    verdicts,
)
from pegas_memory.service.archive import Archived, OnRows
from pegas_memory.service.library import LONGEST_WAIT, OnProgress
from pegas_memory.service.reading_room import OnDocuments
from pegas_memory.service.renewal import Collected, ReembedAnswer
from pegas_memory.service.rooms import OpenRooms
from pegas_memory.service.upkeep import OnFilled, OutboxState, RebuildAnswer
from pegas_memory.vectors import Searcher

GRAPH_PAUSE = 10.0
RESTART_PATIENCE = 15.0
"""Seconds that a call waits for an embedded PostgreSQL that is being restarted after a crash."""


class PegasMemory:
    """The product as a library. Thread-safe; open it with :meth:`open`, as a context manager or not."""

    def __init__(self, rooms: OpenRooms, stack: ExitStack) -> None:
        self.rooms = rooms
        self._stack = stack

    @classmethod
    def open(cls, settings: Settings | None = None, *, http: bool = False) -> PegasMemory:
        """Open every part, starting the embedded ones on first need.

        Raises:
            SetupError: the settings, the home or the database do not fit. Unavailable: a part is down.
        """
        if http:
            raise NotAvailableYet("The HTTP server is not part of this version.")
        settings = settings or load_settings()
        with ExitStack() as stack:
            rooms = _open_rooms(settings, stack)
            return cls(rooms, stack.pop_all())

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> PegasMemory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def tenant(self) -> str:
        return self.rooms.settings.tenant

    def store(self, request: StoreRequest) -> StoreAnswer:
        return memory.store(self.rooms, self.tenant, request)

    def search(self, request: SearchRequest) -> SearchAnswer:
        return memory.search(self.rooms, self.tenant, request)

    def context(self, request: ContextRequest) -> ContextAnswer:
        return context.gather(self.rooms, self.tenant, request)

    def ingest(
        self, request: IngestRequest, *, wait_seconds: float = LONGEST_WAIT, on_progress: OnProgress | None = None
    ) -> IngestAnswer:
        return library.ingest(self.rooms, self.tenant, request, wait_seconds=wait_seconds, on_progress=on_progress)

    def job(self, job_id: UUID) -> IngestAnswer:
        return library.job(self.rooms, self.tenant, job_id)

    def wait_job(
        self, job_id: UUID, seconds: float = LONGEST_WAIT, on_progress: OnProgress | None = None
    ) -> IngestAnswer:
        return library.wait(self.rooms, self.tenant, job_id, seconds, on_progress)

    def cancel_job(self, job_id: UUID) -> IngestAnswer:
        return library.cancel(self.rooms, self.tenant, job_id)

    def retry_job(self, job_id: UUID) -> IngestAnswer:
        return library.retry(self.rooms, self.tenant, job_id)

    def document(self, doc_id: UUID) -> dict[str, Any]:
        return library.document(self.rooms, self.tenant, doc_id)

    def opened(self, some_id: UUID) -> OpenedMemory:
        """A memory with the passages that support it; an id of another kind says what it is."""
        return reading_room.opened(self.rooms, self.tenant, some_id)

    def documents(
        self, *, kind: DocumentKind | None = None, tags: Sequence[str] = (), limit: int = 50, cursor: str = ""
    ) -> DocumentPage:
        return reading_room.listed(self.rooms, self.tenant, kind=kind, tags=tags, limit=limit, cursor=cursor)

    def check_citations(self, on_documents: OnDocuments | None = None) -> CitationCheck:
        return reading_room.check(self.rooms, self.tenant, on_documents)

    def add_gap(self, request: GapRequest) -> GapChange:
        return gaps.put(self.rooms, self.tenant, request)

    def gap(self, gap_id: UUID) -> GapAnswer:
        return gaps.one(self.rooms, self.tenant, gap_id)

    def list_gaps(
        self,
        status: GapStatus | None = GapStatus.OPEN,
        limit: int = 20,
        tags: Sequence[str] = (),
        cursor: str = "",
    ) -> GapPage:
        return gaps.listed(self.rooms, self.tenant, status, limit, tuple(tags), cursor)

    def stats(self, detail: bool = False, job_id: UUID | None = None) -> StatsAnswer:
        return health.stats(self.rooms, self.tenant, detail=detail, job_id=job_id)

    def verify(self, request: VerifyRequest) -> VerifyAnswer:
        return verdicts.judge(self.rooms, self.tenant, request)

    def query_graph(self, request: GraphRequest) -> GraphAnswer:
        return graph.query(self.rooms, self.tenant, request)

    def tenants(self) -> tuple[TenantState, ...]:
        return tenants.listed(self.rooms)

    def delete_tenant(self, name: str, reason: str) -> TenantDeleted:
        return tenants.delete(self.rooms, name, reason)

    def doctor(self) -> list[Check]:
        return health.doctor(self.rooms)

    def rebuild(
        self,
        *,
        vector: bool = True,
        graph: bool = False,
        tenant: str = "",
        discard: bool = False,
        on_rows: OnFilled | None = None,
    ) -> RebuildAnswer:
        return upkeep.rebuild(self.rooms, vector=vector, graph=graph, tenant=tenant, discard=discard, on_rows=on_rows)

    def reembed(self, embedder: str, *, switch: bool = True, on_rows: OnFilled | None = None) -> ReembedAnswer:
        return renewal.reembed(self.rooms, embedder, switch=switch, on_rows=on_rows)

    def gc(self, *, remove: bool = False) -> Collected:
        return renewal.gc(self.rooms, remove_it=remove)

    def outbox(self) -> OutboxState:
        return upkeep.outbox_state(self.rooms)

    def replay(self, entity_id: UUID | None = None) -> int:
        return upkeep.replay(self.rooms, entity_id)

    def reconcile(self, *, tenant: str = "", dry_run: bool = False) -> upkeep.ReconcileAnswer:
        return upkeep.reconcile(self.rooms, tenant=tenant, dry_run=dry_run)

    def export_archive(
        self,
        path: Path,
        tenant: str | None = None,
        *,
        all_tenants: bool = False,
        vectors: bool = False,
        replace: bool = False,
        on_rows: OnRows | None = None,
    ) -> Archived:
        wanted = None if all_tenants else self.tenant if tenant is None else tenant
        return archive.export(self.rooms, wanted, path, vectors=vectors, replace=replace, on_rows=on_rows)

    def import_archive(self, path: Path, tenant: str | None = None, *, on_rows: OnRows | None = None) -> Archived:
        return archive.import_(self.rooms, path, tenant, on_rows=on_rows)


class _ServerSearcher:
    """A Qdrant server, whose collection is looked for at the first search that reaches it; the worker makes it."""

    def __init__(self, settings: Settings, embedder: Embedder, db: Database) -> None:
        self._settings = settings
        self._embedder = embedder
        self._db = db
        self._index: VectorIndex | None = None

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]:
        if self._index is None:
            with self._db.everything() as conn:
                instance = str(instance_id(conn))
            self._index = server_index(self._settings, self._embedder.model, instance)
        return self._index.search(where, dense=dense, sparse=sparse, limit=limit), ""


class LazyGraphServer:
    """The graph server, opened at the first question. One that failed is left alone for ``GRAPH_PAUSE``
    seconds, since each try may wait for it."""

    backend = "memgraph"

    def __init__(self, settings: Settings, db: Database) -> None:
        self._settings = settings
        self._db = db
        self._reader: GraphReader | None = None
        self._failed = ""
        self._again = 0.0

    def edges_at(
        self, tenant: str, refs: Sequence[NodeRef], where: EdgeFilter, *, after: UUID | None, limit: int
    ) -> list[Edge]:
        if time.monotonic() < self._again:
            raise GraphUnavailable(self._failed)
        try:
            return self._opened().edges_at(tenant, refs, where, after=after, limit=limit)
        except (Unavailable, BadSettings) as error:
            self._failed, self._again = error.message, time.monotonic() + GRAPH_PAUSE
            raise GraphUnavailable(error.message) from error

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _opened(self) -> GraphReader:
        if self._reader is None:
            self._reader = open_graph_reader(self._settings, self._db)
        return self._reader


def open_graph_store(settings: Settings, db: Database) -> GraphStore:
    """What the graph server holds of this installation, to be read. Raises BadSettings."""
    with db.everything() as conn:
        instance = instance_id(conn)
    password = settings.memgraph_password.get_secret_value()
    return GraphStore(Server(settings.memgraph_url, settings.memgraph_user, password), instance)


def open_graph_reader(settings: Settings, db: Database) -> GraphReader:
    """The graph server of these settings, as this installation sees it. Raises BadSettings."""
    with db.everything() as conn:
        instance = instance_id(conn)
    password = settings.memgraph_password.get_secret_value()
    server = Server(settings.memgraph_url, settings.memgraph_user, password, answer_seconds=5.0, retry_seconds=1.0)
    return GraphReader(server, instance)


def _open_rooms(settings: Settings, stack: ExitStack) -> OpenRooms:
    engine: EngineClient | None = None
    url = settings.database_url.get_secret_value()
    if settings.needs_engine:
        engine = EngineClient(settings)
        stack.callback(engine.close)
        url = engine.connect().database_url or url
    if not settings.embedded_postgres:
        url = settings.database_url.get_secret_value()
    _ensure_schema(url, RESTART_PATIENCE if settings.embedded_postgres else 0.0)
    db = Database(url, patience=RESTART_PATIENCE if settings.embedded_postgres else 0.0)
    stack.callback(db.close)
    embedder = _embedder(settings, engine)
    stack.callback(embedder.close)
    searcher: Searcher
    if engine is not None and settings.embedded_vectors:
        searcher = RemoteIndex(engine)
    else:
        searcher = _ServerSearcher(settings, embedder, db)
    graph_server: LazyGraphServer | None = None
    if settings.memgraph_url:
        graph_server = LazyGraphServer(settings, db)
        stack.callback(graph_server.close)
    return OpenRooms(
        settings=settings,
        db=db,
        embedder=embedder,
        searcher=searcher,
        wake=engine.wake if engine is not None else _nobody_to_wake,
        part_states=engine.status if engine is not None else lambda: {"target": vector_target(settings)},
        clock=lambda: datetime.now(UTC),
        engine=engine,
        graph_server=graph_server,
        graph_scanner=partial(open_graph_store, settings, db) if settings.memgraph_url else None,
        graph_consumer=graph_consumer(graph_target(settings)),
    )


def _ensure_schema(url: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            return ensure_schema(url)
        except DatabaseUnavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


def _embedder(settings: Settings, engine: EngineClient | None) -> Embedder:
    return RemoteEmbedder(engine) if engine is not None else open_embedder(settings)


def _nobody_to_wake() -> None:
    """The worker of the server profile hears PostgreSQL's NOTIFY."""
