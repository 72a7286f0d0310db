"""What the consumers of the outbox are called: one name for one physical target."""

from __future__ import annotations

from urllib.parse import urlsplit

from pegas_memory.config import Settings
from pegas_memory.engine_client.place import Place
from pegas_memory.memgraph_store import FORMAT as GRAPH_FORMAT
from pegas_memory.model import EmbeddingModel
from pegas_memory.qdrant_store import FORMAT
from pegas_memory.text import sha256


def embedding_consumer(model: EmbeddingModel) -> str:
    """The dimension is part of it: an endpoint may come to serve another model under the same name."""
    return f"embedding:{model.name}:{model.dimension}"


def vector_consumer(target: str, model_name: str, dimension: int) -> str:
    """``target`` names one physical index: a server collection or one embedded shard."""
    return f"vector:{target}:{model_name}:{dimension}"


def vector_target(settings: Settings) -> str:
    """The physical index of these settings: a server's collections, or the shard of one PEGAS_HOME.

    A shard says its own format; that of a collection is part of the name, so that a new one fills it again."""
    if settings.embedded_vectors:
        return f"edge-{Place(settings.home).identity()}"
    return f"server-{sha256(settings.qdrant_url, settings.qdrant_collection, str(FORMAT))[:12]}"


def graph_consumer(target: str) -> str:
    return f"graph:{target}"


def graph_target(settings: Settings) -> str:
    """The graph server of these settings; who logs in there makes no difference. What nodes and edges hold is
    part of the name, so that another form of them fills it again."""
    parts = urlsplit(settings.memgraph_url)
    where = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return f"bolt-{sha256(where, str(GRAPH_FORMAT))[:12]}"
