"""The composition root: settings → open rooms → the product's one face."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pegas_memory.config import Settings, load_settings
from pegas_memory.db.migrate import ensure_schema
from pegas_memory.db.session import Database
from pegas_memory.embedding import Embedder, open_embedder
from pegas_memory.engine_client import EngineClient, RemoteEmbedder, RemoteIndex
from pegas_memory.errors import DatabaseUnavailable, NotAvailableYet
from pegas_memory.model import (
    ArmHits,
    Check,
    ContextAnswer,
    ContextRequest,
    Dense,
    GapAnswer,
    GapChange,
    GapPage,
    GapRequest,
    GapStatus,
    IngestAnswer,
    IngestRequest,
    SearchAnswer,
    SearchFilter,
    SearchRequest,
    SparseVector,
    StatsAnswer,
    StoreAnswer,
    StoreRequest,
)
from pegas_memory.outbox_sync import vector_target
from pegas_memory.qdrant_store import VectorIndex
from pegas_memory.service import context, gaps, health, library, memory
from pegas_memory.service.library import LONGEST_WAIT, OnProgress
from pegas_memory.service.rooms import OpenRooms
from pegas_memory.vectors import Searcher

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

    def doctor(self) -> list[Check]:
        return health.doctor(self.rooms)


class _ServerSearcher:
    """A Qdrant server, whose collection is ensured at the first search that reaches it."""

    def __init__(self, settings: Settings, embedder: Embedder) -> None:
        self._settings = settings
        self._embedder = embedder
        self._index: VectorIndex | None = None

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]:
        if self._index is None:
            index = open_server_index(self._settings, self._embedder)
            index.ensure()
            self._index = index
        return self._index.search(where, dense=dense, sparse=sparse, limit=limit), ""


def open_server_index(settings: Settings, embedder: Embedder) -> VectorIndex:
    """The collection of a Qdrant server; its client takes 0.7 s to import, so only on need."""
    from pegas_memory.qdrant_store import ServerIndex

    return ServerIndex(
        settings.qdrant_url,
        settings.qdrant_api_key.get_secret_value(),
        embedder.model,
        settings.qdrant_collection,
    )


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
        searcher = _ServerSearcher(settings, embedder)
    return OpenRooms(
        settings=settings,
        db=db,
        embedder=embedder,
        searcher=searcher,
        wake=engine.wake if engine is not None else _nobody_to_wake,
        part_states=engine.status if engine is not None else lambda: {"target": vector_target(settings)},
        clock=lambda: datetime.now(UTC),
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
