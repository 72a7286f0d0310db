"""Where a vector index is built beside the one that serves, and how it takes that one's place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from uuid import UUID

from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.db.instance import instance_id
from pegas_memory.db.session import Database
from pegas_memory.engine_client import EngineClient
from pegas_memory.errors import ShardDamaged, WrongDimension
from pegas_memory.model import EmbeddingModel
from pegas_memory.outbox_sync import vector_consumer, vector_target
from pegas_memory.qdrant_store import EdgeIndex, ScannedPoint, ServerIndex, VectorIndex, edge_folder, server_index


class Target(Protocol):
    """The vector index of one model."""

    @property
    def consumer(self) -> str: ...

    def stands(self, generation: int) -> bool:
        """Whether something usable of this generation, which is being built, is there."""
        ...

    def drop(self, generation: int) -> None:
        """Remove what stands of a generation that is being built."""
        ...

    def building(self, generation: int) -> VectorIndex:
        """Open it, and make it when it is not there."""
        ...

    def take_over(self, generation: int) -> None:
        """Let it serve; it is complete, and closed by whoever built it.

        Raises:
            PositionMoved: it is not the one that is being built, or not complete.
        """
        ...

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        """What serves now, as ``VectorIndex.scan``."""
        ...


class EmbeddedTarget:
    """Shards below PEGAS_HOME. The engine serves one of its own model; of another nobody does."""

    def __init__(self, settings: Settings, model: EmbeddingModel, db: Database, engine: EngineClient | None) -> None:
        """``engine``: the one that serves this model; None when none does."""
        self._model = model
        self._parent = settings.home / "vectors"
        self._base = settings.qdrant_collection
        self._db = db
        self._engine = engine
        self.consumer = vector_consumer(vector_target(settings), model.name, model.dimension)

    def _index(self, generation: int) -> EdgeIndex:
        folder = edge_folder(self._parent, self._base, self._model, generation)
        return EdgeIndex(folder, self._model, self._base)

    def stands(self, generation: int) -> bool:
        index = self._index(generation)
        try:
            if index.stands():
                index.ensure()
                return True
        except (ShardDamaged, WrongDimension):
            pass  # it is made anew
        finally:
            index.close()
        return False

    def drop(self, generation: int) -> None:
        EdgeIndex.remove(edge_folder(self._parent, self._base, self._model, generation))

    def building(self, generation: int) -> VectorIndex:
        index = self._index(generation)
        index.ensure()
        return index

    def take_over(self, generation: int) -> None:
        if self._engine is not None:
            self._engine.adopt(generation)
            return
        with self._db.everything() as conn:
            before = outbox.serving_generation(conn, self.consumer)
            outbox.promote(conn, self.consumer)
        if before != generation:
            self.drop(before)

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        assert self._engine is not None
        return [ScannedPoint(*row) for row in self._engine.scan(after, limit)]


class ServerTarget:
    """Collections of a Qdrant server, which several processes may write to."""

    def __init__(self, settings: Settings, model: EmbeddingModel, db: Database) -> None:
        self._settings = settings
        self._model = model
        self._db = db
        self.consumer = vector_consumer(vector_target(settings), model.name, model.dimension)
        with db.everything() as conn:
            self._instance = str(instance_id(conn))
        self._serving = server_index(settings, model, self._instance)

    @contextmanager
    def _index(self, generation: int) -> Iterator[ServerIndex]:
        index = server_index(self._settings, self._model, self._instance, generation)
        try:
            yield index
        finally:
            index.close()

    def stands(self, generation: int) -> bool:
        with self._index(generation) as index:
            return index.stands()

    def drop(self, generation: int) -> None:
        with self._index(generation) as index:
            index.drop()

    def building(self, generation: int) -> VectorIndex:
        index = server_index(self._settings, self._model, self._instance, generation)
        index.ensure()
        return index

    def take_over(self, generation: int) -> None:
        with self._index(generation) as index:
            with self._db.everything() as conn:  # whoever writes to the old one waits until this is over
                outbox.promote(conn, self.consumer)
                index.switch()
            index.drop_older()

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        return self._serving.scan(after, limit)
