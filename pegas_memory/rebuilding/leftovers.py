"""Indexes and positions of models that are not used any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.db.instance import instance_id
from pegas_memory.db.session import Database
from pegas_memory.model import EmbeddingModel
from pegas_memory.outbox_sync import embedding_consumer, vector_consumer, vector_target
from pegas_memory.qdrant_store import EdgeIndex, ServerIndex, edge_folder, server_index, shard_folders


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Names of shard folders or collections, and of consumers."""

    indexes: tuple[str, ...]
    consumers: tuple[str, ...]


def leftovers(db: Database, settings: Settings, model: EmbeddingModel) -> Leftovers:
    """What stands of this installation beside the index in use and the one that is being built for it."""
    target = vector_target(settings)
    mine = vector_consumer(target, model.name, model.dimension)
    kept = {mine, outbox.building_name(mine), embedding_consumer(model)}
    with db.everything() as conn:
        names = [state.consumer for state in outbox.states(conn)]
        generations = {outbox.generation_of(conn, name) or 1 for name in kept if name.startswith("vector:")}
    consumers = [n for n in names if n.startswith((f"vector:{target}:", "embedding:")) and n not in kept]
    if settings.embedded_vectors:
        parent, base = settings.home / "vectors", settings.qdrant_collection
        used = {edge_folder(parent, base, model, generation).name for generation in generations}
        indexes = [name for name in shard_folders(parent, base) if name not in used]
    else:
        with _server(db, settings, model) as index:
            indexes = index.others(generations)
    return Leftovers(tuple(sorted(indexes)), tuple(sorted(consumers)))


def remove(db: Database, settings: Settings, model: EmbeddingModel, found: Leftovers) -> None:
    """Raises VectorsUnavailable: one of them is in use."""
    with db.everything() as conn:
        for consumer in found.consumers:
            outbox.forget(conn, consumer)
    if settings.embedded_vectors:
        for name in found.indexes:
            EdgeIndex.remove(settings.home / "vectors" / name)
        return
    with _server(db, settings, model) as index:
        index.drop_others(found.indexes)


@contextmanager
def _server(db: Database, settings: Settings, model: EmbeddingModel) -> Iterator[ServerIndex]:
    with db.everything() as conn:
        instance = str(instance_id(conn))
    index = server_index(settings, model, instance)
    try:
        yield index
    finally:
        index.close()
