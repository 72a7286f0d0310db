"""The graph server's lane: opened by the step that has the turn, and again after it was lost."""

from __future__ import annotations

import time

from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.db.instance import instance_id
from pegas_memory.db.session import Database
from pegas_memory.engine.consumer import Consumer
from pegas_memory.memgraph_store import GraphStore, Server
from pegas_memory.outbox_sync import GraphProjection, graph_consumer, graph_target

LOOK_SECONDS = 10.0


class GraphLane:
    """``step`` is for one thread; a server that is down, or an address that is none, is an error of each step
    and of nobody else."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self._settings = settings
        self._db = db
        self._store: GraphStore | None = None
        self._looked = 0.0
        self._consumer = Consumer(db, graph_consumer(graph_target(settings)), self._open, self._lost)

    def step(self) -> bool:
        """Raises GraphUnavailable, BadSettings, DatabaseUnavailable."""
        return self._consumer.step()

    def _lost(self) -> bool:
        """Another process has opened the server since, or it was emptied; the latter is seen within
        ``LOOK_SECONDS`` even when nothing is written."""
        if self._store is None or not self._store.is_open:
            return True
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        self._looked = time.monotonic()
        return not self._store.stands()

    def _open(self) -> GraphProjection:
        name = self._consumer.name
        if self._store is None:
            with self._db.everything() as conn:
                instance = instance_id(conn)
            password = self._settings.memgraph_password.get_secret_value()
            server = Server(self._settings.memgraph_url, self._settings.memgraph_user, password)
            self._store = GraphStore(server, instance)
        incomplete = self._store.open()
        self._looked = time.monotonic()
        with self._db.everything() as conn:
            new = outbox.register(conn, name)
            generation = outbox.serving_generation(conn, name)
            at = outbox.backfill_of(conn, name)
            starts = at is not None and not at.kind and generation > self._store.filling
            goes_on = not new and generation == self._store.filling and (at is not None or not incomplete)
            if not starts and not goes_on:
                # The server was emptied, or PostgreSQL went back to a backup, or has forgotten the consumer.
                generation, starts = outbox.refill(conn, name, above=self._store.filling), True
        if starts:
            self._store.begin(generation)
        return GraphProjection(self._db, self._store, name, generation)

    def close(self) -> None:
        self._consumer.close()
        if self._store is not None:
            self._store.close()
