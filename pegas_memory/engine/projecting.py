"""What the worker does in this process: fill the vector cache, fill the index, run jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Database
from pegas_memory.embedding import Embedder
from pegas_memory.engine.collection import KeptCollection
from pegas_memory.engine.consumer import Consumer
from pegas_memory.engine.graph_server import GraphLane
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
from pegas_memory.qdrant_store import ScannedPoint, VectorIndex
from pegas_memory.reading import Reader
from pegas_memory.vectors import Vectors
from pegas_memory.worker import JOB_LANES

log = logging.getLogger(__name__)

CATCH_UP_SECONDS = 3.0
_AGAIN = "Run `pegas-memory rebuild` again; it goes on from where it stands."


@dataclass(frozen=True, slots=True)
class _Opened:
    """All that depends on the embedding model, which an endpoint that is down cannot tell."""

    model: EmbeddingModel
    index: VectorIndex
    """What searches ask."""
    shard: KeptShard | None
    collection: KeptCollection | None
    vector: Consumer
    embedding: Consumer


class Projecting:
    """``steps`` and ``run_job`` are for the worker's lanes; ``search`` may be called by any thread."""

    def __init__(self, settings: Settings, db: Database, embedder: Embedder) -> None:
        self._settings = settings
        self._db = db
        self._embedder = embedder
        self._vectors = Vectors(db, embedder)
        self._opening = threading.Lock()
        self._stepping = threading.Lock()
        self._opened: _Opened | None = None
        self._trouble = ""
        self._jobs = JobRunner(db, {"ingest": self._ingest}, _sole_name(settings))
        self._ingest_work: Work | None = None
        self._reader = Reader(JOB_LANES)
        self._sources = Sources()
        self._graph = GraphLane(settings, db) if settings.memgraph_url else None

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
                with self._stepping:
                    while self._project(opened, opened.shard) and time.monotonic() < deadline:
                        continue
        except PegasError as error:
            log.warning("projection not open yet error=%s %s", error.code, error.message)

    def steps(self) -> Mapping[str, Callable[[], bool]]:
        lanes: dict[str, Callable[[], bool]] = {"vector": self._vector_step, "embedding": self._embedding_step}
        if self._graph is not None:
            lanes["graph"] = self._graph.step
        return lanes

    def run_job(self, stop: threading.Event) -> bool:
        return self._jobs.run_next(stop)

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]:
        """The hits, and why they may be incomplete.

        Raises:
            VectorsUnavailable, WrongDimension, DiskFull.
        """
        opened = self._ready()
        if opened.shard is not None and opened.shard.lacks_space:
            raise DiskFull("The disk of PEGAS_HOME is full; the vectors are not opened.")
        hits = opened.index.search(where, dense=dense, sparse=sparse, limit=limit)
        return hits, opened.shard.degraded if opened.shard else ""

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        """As ``VectorIndex.scan``. Raises as :meth:`search`."""
        return self._ready().index.scan(after, limit)

    def adopt(self, generation: int) -> None:
        """Serve the embedded shard of ``generation`` that a rebuild has filled; may be repeated.

        Raises:
            VectorsUnavailable: not now, or it cannot be used. DatabaseUnavailable, DiskFull.
        """
        opened = self._ready()
        if opened.shard is None:
            raise VectorsUnavailable("The vectors of this engine stand on a server.")
        building = outbox.building_name(opened.vector.name)

        def catch_up(built: VectorIndex) -> None:
            sync = Sync(self._db, [VectorProjection(self._db, self._vectors, built, building)])
            deadline = time.monotonic() + CATCH_UP_SECONDS  # what is left then waits for the new shard as for any
            while sync.step() and time.monotonic() < deadline:
                continue
            sync.settle()

        with self._stepping:
            if opened.shard.settle():
                opened.vector.restart()
            try:
                opened.shard.adopt(generation, catch_up)
            except outbox.PositionMoved as error:
                raise VectorsUnavailable("Nothing is being built under this generation.", _AGAIN) from error
            finally:
                opened.vector.restart()

    def _ready(self) -> _Opened:
        opened = self._opened
        if opened is None:
            raise VectorsUnavailable(f"The vectors are not open yet. {self._trouble}".strip())
        return opened

    def status(self) -> dict[str, object]:
        opened = self._opened
        if opened is None:
            return {"state": "closed", "trouble": self._trouble}
        if opened.shard is None:
            return {"state": "server", "url": self._settings.qdrant_url}
        return {
            "state": opened.shard.state,
            "degraded": opened.shard.degraded,
            "generation": opened.shard.generation,
        }

    def close(self) -> None:
        """End the reading processes, flush and release the index; the worker must have stopped."""
        self._reader.close()
        if self._graph is not None:
            self._graph.close()
        opened, self._opened = self._opened, None
        if opened is None:
            return
        try:
            opened.vector.settle()
        except PegasError as error:  # then the next process starts from an earlier position
            log.warning("projection not settled error=%s %s", error.code, error.message)
        finally:
            (opened.collection or opened.index).close()
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
        shard, collection = None, None
        index: VectorIndex

        def into(target: VectorIndex) -> Projection:
            return VectorProjection(self._db, self._vectors, target, consumer)

        if self._settings.embedded_vectors:
            folder = self._settings.home / "vectors"
            index = shard = KeptShard(folder, self._settings.qdrant_collection, model, self._db, consumer)

            def into_shard() -> Projection:
                shard.follow()
                return into(shard)

            vector = Consumer(self._db, consumer, into_shard)
        else:
            collection = KeptCollection(self._settings, model, self._db, consumer)
            index = collection.reading
            vector = Consumer(self._db, consumer, lambda: into(collection.writing()), collection.lost)
        embedding = EmbeddingProjection(self._db, self._vectors)
        return _Opened(
            model=model,
            index=index,
            shard=shard,
            collection=collection,
            vector=vector,
            embedding=Consumer(self._db, embedding.consumer, lambda: embedding),
        )

    def _vector_step(self) -> bool:
        opened = self._open()
        with self._stepping:
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

                learner = Learner(self._db, self._vectors, self)
                self._ingest_work = IngestWork(self._db, learner, self._reader, (self._settings.home,))
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
