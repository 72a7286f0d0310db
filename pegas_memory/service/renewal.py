"""Changing to another embedding model, and removing what nothing uses any more."""

from __future__ import annotations

from dataclasses import dataclass

from pegas_memory.config import chosen_outside, write_setting
from pegas_memory.db import embeddings, outbox
from pegas_memory.embedding import open_embedder
from pegas_memory.errors import InvalidParameter
from pegas_memory.model import EmbeddingModel
from pegas_memory.outbox_sync import embedding_consumer
from pegas_memory.rebuilding.leftovers import Leftovers, leftovers, remove
from pegas_memory.rebuilding.rebuild import Rebuilt, rebuild_vectors
from pegas_memory.rebuilding.reembed import embed_everything
from pegas_memory.service.rooms import OpenRooms
from pegas_memory.service.upkeep import OnFilled, target_of
from pegas_memory.vectors import Vectors


@dataclass(frozen=True, slots=True)
class ReembedAnswer:
    """``next_step`` says what has happened, or what is to be done, so that the new model is used."""

    model: str
    dimension: int
    embedded: int
    failed: int
    built: Rebuilt
    switched: bool
    next_step: str


@dataclass(frozen=True, slots=True)
class Collected:
    indexes: tuple[str, ...]
    consumers: tuple[str, ...]
    vectors: int
    outbox: int
    removed: bool


def reembed(rooms: OpenRooms, embedder: str, *, switch: bool, on_rows: OnFilled | None) -> ReembedAnswer:
    """Embed everything with ``embedder`` (a value of PEGAS_EMBEDDER), build its index beside the one that serves,
    and, with ``switch``, set it in config.toml and stop the engine, so that the next caller starts with it.

    Raises:
        BadSettings: no such embedder. InvalidParameter: it is the one in use.
        EmbedderUnavailable, VectorsUnavailable, RebuildRunning, DatabaseUnavailable, DiskFull: run it again.
    """
    if embedder == rooms.settings.embedder:
        raise InvalidParameter("That model is the one in use.", "`pegas-memory rebuild` makes its index anew.")
    inner = open_embedder(rooms.settings.model_copy(update={"embedder": embedder}))
    try:
        vectors = Vectors(rooms.db, inner)
        model = inner.model
        consumer = embedding_consumer(model)
        with rooms.db.everything() as conn:
            outbox.register(conn, consumer)
        embedded = embed_everything(rooms.db, vectors, on_rows)
        with rooms.db.everything() as conn:  # what came since it was registered reaches it through the outbox
            outbox.backfill_advance(conn, consumer, 1, None)
        built = rebuild_vectors(rooms.db, vectors, target_of(rooms, model))
    finally:
        inner.close()
    switched, said = _switch(rooms, embedder) if switch else (False, f"Set PEGAS_EMBEDDER={embedder} to use it.")
    return ReembedAnswer(model.name, model.dimension, embedded.atoms, embedded.failed, built, switched, said)


def _switch(rooms: OpenRooms, embedder: str) -> tuple[bool, str]:
    if where := chosen_outside("embedder"):
        return False, f"{where} sets PEGAS_EMBEDDER, which wins: set it to {embedder} there, then restart what uses it."
    write_setting(rooms.settings.home, "embedder", embedder)
    if rooms.engine is not None:
        rooms.engine.shutdown()
        return True, f"config.toml of PEGAS_HOME names {embedder} now; the engine starts with it at the next call."
    return True, f"config.toml of PEGAS_HOME names {embedder} now; restart `pegas-memory worker` and the agents."


def gc(rooms: OpenRooms, *, remove_it: bool) -> Collected:
    """What no model in the settings and no atom uses; removed with ``remove_it``.

    Raises:
        EmbedderUnavailable: the model in use is not known. VectorsUnavailable, DatabaseUnavailable.
    """
    model: EmbeddingModel = rooms.embedder.model
    found: Leftovers = leftovers(rooms.db, rooms.settings, model)
    with rooms.db.everything() as conn:
        unused = embeddings.unused(conn, model.name, model.dimension)
    pruned = 0
    if remove_it:
        remove(rooms.db, rooms.settings, model, found)
        with rooms.db.everything() as conn:
            embeddings.drop_unused(conn, model.name, model.dimension)
            outbox.give_up_on_abandoned(conn)
        while some := _prune(rooms):
            pruned += some
    return Collected(found.indexes, found.consumers, unused, pruned, remove_it)


def _prune(rooms: OpenRooms) -> int:
    with rooms.db.everything() as conn:
        return outbox.prune(conn)
