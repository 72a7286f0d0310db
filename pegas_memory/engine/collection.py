"""The server's collection of the consumer's generation, and what becomes of it when it is gone."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.db.instance import instance_id
from pegas_memory.db.session import Connection, Database
from pegas_memory.errors import PegasError
from pegas_memory.model import EmbeddingModel
from pegas_memory.qdrant_store import ServerIndex, server_index

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""Between two looks whether the collection is there, holds anything, and is what searches ask."""


class KeptCollection:
    """Searches go through the alias; writes go to the generation that the consumer has when it starts."""

    def __init__(self, settings: Settings, model: EmbeddingModel, db: Database, consumer: str) -> None:
        with db.everything() as conn:
            self._instance = str(instance_id(conn))
        self._settings = settings
        self._model = model
        self._db = db
        self._consumer = consumer
        self._writing: ServerIndex | None = None
        self._looked = 0.0
        self.reading = server_index(settings, model, self._instance)

    def writing(self) -> ServerIndex:
        """Where the consumer writes. A collection that has to be made is an empty one, so that the consumer is
        sent back to the beginning first; for whoever has the consumer's turn.

        Raises:
            ForeignCollection, WrongDimension, BadSettings, VectorsUnavailable, DatabaseUnavailable.
        """
        with self._db.everything() as conn:
            outbox.register(conn, self._consumer)
            generation = outbox.serving_generation(conn, self._consumer)
            index = server_index(self._settings, self._model, self._instance, generation)
            if not index.stands() or self._emptied(conn, index):
                log.warning("collection made anew consumer=%s", self._consumer)
                outbox.reset_position(conn, self._consumer)
        index.ensure()
        before, self._writing = self._writing, index
        if before is not None:
            before.close()
        self._look_again(index, generation)
        return index

    def lost(self) -> bool:
        """Whether :meth:`writing` has to be asked again: seen after ``LOOK_SECONDS`` at most. Raises as it does."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        index = self._writing
        if index is None:
            return True
        with self._db.everything() as conn:
            generation = outbox.serving_generation(conn, self._consumer)
            if generation != index.generation or not index.stands() or self._emptied(conn, index):
                return True
        self._look_again(index, generation)
        return False

    def _look_again(self, index: ServerIndex, generation: int) -> None:
        """The alias follows the consumer once its collection is complete, or when there is none to follow; a
        switch of another process waits meanwhile."""
        with self._db.everything() as conn:
            mine = outbox.serving_generation(conn, self._consumer) == generation == index.generation
            if mine and (outbox.backfill_of(conn, self._consumer) is None or not index.has_alias()):
                index.switch()
        self._looked = time.monotonic()

    def _emptied(self, conn: Connection, index: ServerIndex) -> bool:
        """Somebody took the points out of the collection: nothing waits, nothing failed, and there is none."""
        return (
            index.count() == 0
            and outbox.backfill_of(conn, self._consumer) is None
            and not outbox.pending(conn, [self._consumer], at_most=1)
            and not outbox.failed_count(conn, self._consumer)
            and outbox.to_be_filled(conn, ("atom",)) > 0
        )

    def close(self) -> None:
        for index in (self.reading, self._writing):
            if index is not None:
                with suppress(PegasError):  # only the connection is let go
                    index.close()
