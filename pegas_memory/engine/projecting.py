"""What the worker does in this process: fill the vector cache, fill the index, run jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Database
from pegas_memory.db.turns import Turn
from pegas_memory.embedding import Embedder
from pegas_memory.engine.shard import KeptShard
from pegas_memory.engine.sources import Sources, source_of
from pegas_memory.engine_client.place import Place
from pegas_memory.errors import DiskFull, PegasError, VectorsUnavailable
from pegas_memory.model import ArmHits, Dense, EmbeddingModel, SearchFilter, SparseVector
from pegas_memory.outbox_sync import (
    EmbeddingProjection,
    Projection,
    Sync,
    VectorProjection,
    vector_consumer,
    vector_target,
)
from pegas_memory.pipeline import JobRunner, Learner, late_dedup
from pegas_memory.pipeline.jobs import Progress, Work
from pegas_memory.qdrant_store import VectorIndex
from pegas_memory.vectors import Vectors

log = logging.getLogger(__name__)

CATCH_UP_SECONDS = 3.0


class _Consumer:
    """One projection's Sync, made by the thread that steps it, and made anew after :meth:`restart`."""

    def __init__(self, db: Database, projection: Projection) -> None:
        self._db = db
        self._projection = projection
        self.name = projection.consumer
        self._sync: Sync | None = None
        self._turn = Turn(db.url, projection.consumer)

    def step(self) -> bool:
        """False also while another process has this consumer's turn (a server target has several)."""
        if not self._turn.mine():
            self._sync = None
            return False
        try:
            if self._sync is None:
                self._sync = Sync(self._db, [self._projection])
            return self._sync.step()
        except outbox.PositionMoved:
            self._sync = None
            return True

    def restart(self) -> None:
        """Forget what was remembered of a target that is gone."""
        self._sync = None

    def settle(self) -> None:
        if self._sync is not None:
            self._sync.settle()

    def close(self) -> None:
        self._turn.close()


@dataclass(frozen=True, slots=True)
class _Opened:
    """All that depends on the embedding model, which an endpoint that is down cannot tell."""

    model: EmbeddingModel
    index: VectorIndex
    shard: KeptShard | None
    vector: _Consumer
    embedding: _Consumer


class Projecting:
    """``steps`` and ``run_job`` are for the worker's lanes; ``search`` may be called by any thread."""

    def __init__(self, settings: Settings, db: Database, embedder: Embedder) -> None:
        self._settings = settings
        self._db = db
        self._embedder = embedder
        self._vectors = Vectors(db, embedder)
        self._opening = threading.Lock()
        self._opened: _Opened | None = None
        self._trouble = ""
        self._jobs = JobRunner(db, {"ingest": self._ingest}, _sole_name(settings))
        self._ingest_work: Work | None = None
        self._sources = Sources()

    @property
    def known_model(self) -> EmbeddingModel | None:
        return self._opened.model if self._opened else None

    def try_to_open(self) -> None:
        """Open now what the first step would open, and bring back what a crash took from the shard, for
        at most ``CATCH_UP_SECONDS``; the steps go on from there and try again what cannot be opened."""
        deadline = time.monotonic() + CATCH_UP_SECONDS
        try:
            opened = self._open()
            if opened.shard is not None:
                while self._project(opened, opened.shard) and time.monotonic() < deadline:
                    continue
        except PegasError as error:
            log.warning("projection not open yet error=%s %s", error.code, error.message)

    def steps(self) -> Mapping[str, Callable[[], bool]]:
        return {"vector": self._vector_step, "embedding": self._embedding_step}

    def run_job(self, stop: threading.Event) -> bool:
        return self._jobs.run_next(stop)

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]:
        """The hits, and why they may be incomplete.

        Raises:
            VectorsUnavailable, WrongDimension, DiskFull.
        """
        opened = self._opened
        if opened is not None and opened.shard is not None and opened.shard.lacks_space:
            raise DiskFull("The disk of PEGAS_HOME is full; the vectors are not opened.")
        if opened is None:
            raise VectorsUnavailable(f"The vectors are not open yet. {self._trouble}".strip())
        hits = opened.index.search(where, dense=dense, sparse=sparse, limit=limit)
        return hits, opened.shard.degraded if opened.shard else ""

    def status(self) -> dict[str, object]:
        opened = self._opened
        if opened is None:
            return {"state": "closed", "trouble": self._trouble}
        if opened.shard is None:
            return {"state": "server", "url": self._settings.qdrant_url}
        return {"state": opened.shard.state, "degraded": opened.shard.degraded}

    def close(self) -> None:
        """Flush and release the index; the worker must have stopped."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        try:
            opened.vector.settle()
        except PegasError as error:  # then the next process starts from an earlier position
            log.warning("projection not settled error=%s %s", error.code, error.message)
        finally:
            opened.index.close()
            opened.vector.close()
            opened.embedding.close()

    def _open(self) -> _Opened:
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = self._make()
                except PegasError as error:
                    self._trouble = error.message
                    raise
            return self._opened

    def _make(self) -> _Opened:
        model = self._embedder.model
        consumer = vector_consumer(vector_target(self._settings), model.name, model.dimension)
        shard = None
        index: VectorIndex
        if self._settings.embedded_vectors:
            folder = self._settings.home / "vectors"
            index = shard = KeptShard(folder, self._settings.qdrant_collection, model, self._db, consumer)
        else:
            from pegas_memory.qdrant_store import ServerIndex  # its client takes half a second to import

            key = self._settings.qdrant_api_key.get_secret_value()
            index = ServerIndex(self._settings.qdrant_url, key, model, self._settings.qdrant_collection)
        return _Opened(
            model=model,
            index=index,
            shard=shard,
            vector=_Consumer(self._db, VectorProjection(self._db, self._vectors, index, consumer)),
            embedding=_Consumer(self._db, EmbeddingProjection(self._db, self._vectors)),
        )

    def _vector_step(self) -> bool:
        opened = self._open()
        if opened.shard is None:
            return opened.vector.step()
        if self._project(opened, opened.shard):
            return True
        opened.shard.caught_up()
        return opened.shard.state == "damaged"

    def _project(self, opened: _Opened, shard: KeptShard) -> bool:
        if shard.settle():
            opened.vector.restart()
        more = opened.vector.step()
        if not more:
            shard.up_to_date()
        return more

    def _ingest(self, job: JobRow, progress: Progress, stop: threading.Event) -> dict[str, Any]:
        with self._opening:
            if self._ingest_work is None:
                # Imported at the first job: the readers of all kinds would delay every start of an engine.
                from pegas_memory.pipeline.ingest_job import IngestWork

                self._ingest_work = IngestWork(self._db, Learner(self._db, self._vectors, self))
            work = self._ingest_work
        with self._sources.alone(job.tenant, source_of(job.payload), stop):
            return work(job, progress, stop)

    def _embedding_step(self) -> bool:
        opened = self._open()
        if opened.embedding.step():
            return True
        return late_dedup.settle(self._db, self._vectors, self, datetime.now(UTC), opened.vector.name) > 0


def _sole_name(settings: Settings) -> str:
    """The engine of a home exists once; the workers of the server profile are many."""
    return f"engine {Place(settings.home).identity()}" if settings.needs_engine else ""
