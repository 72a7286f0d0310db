"""What the engine holds, in the order in which it opens and the reverse in which it closes."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING
from uuid import UUID

from pegas_memory.config import Settings
from pegas_memory.embedding import Embedder, open_embedder
from pegas_memory.errors import DatabaseUnavailable, PegasError, VectorsUnavailable
from pegas_memory.model import ArmHits, Dense, EmbeddingModel, Role, SearchFilter, SparseVector

if TYPE_CHECKING:
    from pegas_memory.db.embedded import EmbeddedPostgres
    from pegas_memory.db.session import Database
    from pegas_memory.engine.projecting import Projecting
    from pegas_memory.qdrant_store import ScannedPoint
    from pegas_memory.worker import Worker

log = logging.getLogger(__name__)

STARTS = 3
"""Of the embedded PostgreSQL, before the engine gives up."""


class Rooms:
    """Nothing is opened before :meth:`open`; :meth:`close` closes what was, also after a failed ``open``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.phase = "starting"
        self.database_url = settings.database_url.get_secret_value()
        self._postgres: EmbeddedPostgres | None = None
        self._db: Database | None = None
        self._embedder: Embedder | None = None
        self._projecting: Projecting | None = None
        self._worker: Worker | None = None
        self._working: threading.Thread | None = None
        self._stop = threading.Event()
        self._restarts = 0
        self._missed = False

    def open(self) -> None:
        """Raises PegasError: the first part that cannot be opened, as it said it."""
        self.phase = "settings"
        self._embedder = open_embedder(self._settings)
        if self._settings.embedded_postgres:
            self.phase = "starting PostgreSQL"
            self._start_postgres()
        self.phase = "checking the schema"
        self._open_database()
        self.phase = "starting the worker"
        self._start_worker()
        self.phase = "open"

    def _start_postgres(self) -> None:
        from pegas_memory.db.embedded import EmbeddedPostgres

        self._postgres = EmbeddedPostgres(self._settings.home)
        importing = threading.Thread(target=_import_ahead, name="engine-imports", daemon=True)
        importing.start()
        try:
            self._postgres.start()
        finally:
            importing.join()  # two threads that import one package can get into each other's way
        self.database_url = self._postgres.url

    def _open_database(self) -> None:
        from pegas_memory.db.migrate import ensure_schema
        from pegas_memory.db.session import Database

        for attempt in range(1, STARTS + 1):
            try:
                ensure_schema(self.database_url)
                break
            except DatabaseUnavailable:
                if self._postgres is None or attempt == STARTS:
                    raise
            # It was killed between its start and now; nobody else would start it again.
            self._postgres.start()
            self.database_url = self._postgres.url
        self._db = Database(self.database_url)

    def _start_worker(self) -> None:
        from pegas_memory.engine.projecting import Projecting
        from pegas_memory.worker import JOB_LANES, Worker

        assert self._db is not None
        assert self._embedder is not None
        self._projecting = Projecting(self._settings, self._db, self._embedder)
        self._projecting.try_to_open()
        self._worker = Worker(
            self.database_url,
            project=self._projecting.steps(),
            run_job=self._projecting.run_job,
            job_lanes=JOB_LANES,
        )
        self._working = threading.Thread(target=self._worker.run, args=(self._stop,), name="worker-listen", daemon=True)
        self._working.start()

    # --- calls ------------------------------------------------------------------------------------

    @property
    def known_model(self) -> EmbeddingModel | None:
        """The embedding model when it is known without asking anybody."""
        return self._projecting.known_model if self._projecting else None

    def model(self) -> EmbeddingModel:
        """Raises EmbedderUnavailable, EmbedderMisbehaved."""
        assert self._embedder is not None
        return self._embedder.model

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        assert self._embedder is not None
        return self._embedder.embed(texts, role)

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]:
        """The hits, and why they may be incomplete."""
        assert self._projecting is not None
        try:
            return self._projecting.search(where, dense=dense, sparse=sparse, limit=limit)
        except VectorsUnavailable:
            self.wake()  # the projecting thread mends the shard, if that is what it is
            raise

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        """As ``VectorIndex.scan``."""
        assert self._projecting is not None
        return self._projecting.scan(after, limit)

    def adopt(self, generation: int) -> None:
        """As ``Projecting.adopt``."""
        assert self._projecting is not None
        self._projecting.adopt(generation)

    def wake(self) -> None:
        if self._worker is not None:
            self._worker.wake()

    def status(self) -> dict[str, object]:
        return {
            "postgres": self._postgres.describe() if self._postgres else {"state": "external"},
            "postgres_restarts": self._restarts,
            "vectors": self._projecting.status() if self._projecting else {},
            "embedder": {"name": self._settings.embedder, "model": _named(self.known_model)},
            "worker": self._worker.status() if self._worker else {},
        }

    # --- tending ----------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._worker is not None and self._worker.busy

    def tend(self) -> None:
        """Called about every second: PostgreSQL is started again when it died."""
        if self._postgres is None or self._postgres.alive():
            self._missed = False
            return
        if not self._postgres.made() and not self._missed:
            self._missed = True  # the whole home may be in the course of removal: no new cluster amid that
            return
        log.warning("PostgreSQL is gone; starting it again")
        try:
            self._postgres.start()
        except PegasError as error:
            log.warning("PostgreSQL not started error=%s %s", error.code, error.message)
            return
        self._restarts += 1
        self.database_url = self._postgres.url
        self.wake()

    def abandon(self) -> None:
        """The home was removed: end PostgreSQL at once, or it acknowledges what nobody will ever read."""
        self._stop.set()
        if self._postgres is not None:
            self._postgres.abandon()

    def close(self) -> None:
        with ExitStack() as stack:  # whatever one of them raises, PostgreSQL is not left behind
            stack.callback(self._stop_postgres)
            for room in (self._embedder, self._db, self._projecting):
                if room is not None:
                    stack.callback(room.close)
            self._stop.set()
            if self._working is not None:
                self._working.join(15)
        self.phase = "closed"

    def _stop_postgres(self) -> None:
        if self._postgres is None:
            return
        try:
            self._postgres.stop()
        except PegasError as error:
            log.warning("PostgreSQL not stopped error=%s %s", error.code, error.message)


def _import_ahead() -> None:
    """What the next phases import, while PostgreSQL starts."""
    importlib.import_module("pegas_memory.db.migrate")
    importlib.import_module("pegas_memory.engine.projecting")
    importlib.import_module("pegas_memory.qdrant_store.edge")


def _named(model: EmbeddingModel | None) -> dict[str, object] | None:
    return {"name": model.name, "dimension": model.dimension} if model else None
