"""The whole product in this process, for tests: a real PostgreSQL, a real Qdrant shard, real threads for
projection and jobs, and the hashed test embedder over HTTP. Only the process boundary is missing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pegas_memory.config import Settings, load_settings
from pegas_memory.db.session import Database
from pegas_memory.embedding import open_embedder
from pegas_memory.errors import VectorsUnavailable
from pegas_memory.model import ArmHits, Dense, SearchFilter, SparseVector
from pegas_memory.outbox_sync import EmbeddingProjection, Sync, VectorProjection, vector_consumer, vector_target
from pegas_memory.pipeline import JobRunner, Learner, late_dedup
from pegas_memory.pipeline.ingest_job import IngestWork
from pegas_memory.qdrant_store import EdgeIndex
from pegas_memory.reading import Reader
from pegas_memory.service.rooms import OpenRooms
from pegas_memory.vectors import Vectors
from pegas_memory.wiring import PegasMemory
from pegas_memory.worker import Worker


class LocalSearcher:
    """The shard of this process; ``broken`` makes it fail as one that is down does."""

    def __init__(self, index: EdgeIndex) -> None:
        self.index = index
        self.broken = False

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]:
        if self.broken:
            raise VectorsUnavailable("The vector index is down.")
        return self.index.search(where, dense=dense, sparse=sparse, limit=limit), ""


class LocalMemory(PegasMemory):
    searcher: LocalSearcher
    worker: Worker

    def as_tenant(self, tenant: str) -> LocalMemory:
        """The same parts, seen by another tenant."""
        settings = self.rooms.settings.model_copy(update={"tenant": tenant})
        other = LocalMemory(_rooms_like(self.rooms, settings), ExitStack())
        other.searcher, other.worker = self.searcher, self.worker
        return other


def _rooms_like(rooms: OpenRooms, settings: Settings) -> OpenRooms:
    return OpenRooms(
        settings=settings,
        db=rooms.db,
        embedder=rooms.embedder,
        searcher=rooms.searcher,
        wake=rooms.wake,
        part_states=rooms.part_states,
        clock=rooms.clock,
    )


@contextmanager
def local_memory(
    url: str,
    home: Path,
    embedder: str,
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    pool_size: int = 8,
    **overrides: object,
) -> Iterator[LocalMemory]:
    """``url``: a migrated database; ``embedder``: the setting, such as ``openai:hashed@http://…/v1``."""
    settings: Settings = load_settings(home=home, embedder=embedder, database_url=url, **overrides)
    with ExitStack() as stack:
        db = Database(url, pool_size=pool_size)
        stack.callback(db.close)
        inner = open_embedder(settings)
        stack.callback(inner.close)
        vectors = Vectors(db, inner)
        index = EdgeIndex(home / "vectors", inner.model, settings.qdrant_collection)
        index.ensure()
        stack.callback(index.close)
        searcher = LocalSearcher(index)
        consumer = vector_consumer(vector_target(settings), inner.model.name, inner.model.dimension)
        into_index = Sync(db, [VectorProjection(db, vectors, index, consumer)])
        into_cache = Sync(db, [EmbeddingProjection(db, vectors)])
        learner = Learner(db, vectors, searcher)
        reader = Reader()
        stack.callback(reader.close)

        def embed_step() -> bool:
            return into_cache.step() or late_dedup.settle(db, vectors, searcher, clock(), consumer) > 0

        worker = Worker(
            url,
            project={"vector": into_index.step, "embedding": embed_step},
            run_job=JobRunner(db, {"ingest": IngestWork(db, learner, reader, (home,))}).run_next,
        )
        stop = threading.Event()
        thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
        thread.start()

        def leave() -> None:
            stop.set()
            worker.wake()
            thread.join(20)

        stack.callback(leave)
        rooms = OpenRooms(
            settings=settings,
            db=db,
            embedder=inner,
            searcher=searcher,
            wake=worker.wake,
            part_states=worker.status,
            clock=clock,
        )
        memory = LocalMemory(rooms, ExitStack())
        memory.searcher = searcher
        memory.worker = worker
        yield memory
