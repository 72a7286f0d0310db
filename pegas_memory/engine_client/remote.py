"""The engine's embedder and index behind the faces that local ones have."""

from __future__ import annotations

from collections.abc import Sequence

from pegas_memory.engine_client.client import EngineClient
from pegas_memory.model import ArmHits, Dense, EmbeddingModel, Role, SearchFilter, SparseVector


class RemoteEmbedder:
    """An ``embedding.Embedder`` whose model lives in the engine."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    @property
    def model(self) -> EmbeddingModel:
        return self._client.model()

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        return self._client.embed(texts, role)

    def close(self) -> None:
        """Nothing of its own to release: the client belongs to whoever opened it."""


class RemoteIndex:
    """Searches the engine's shard. Writing to it is the engine's own affair."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]:
        """As :meth:`EngineClient.search`: the hits, and why they may be incomplete."""
        return self._client.search(where, dense=dense, sparse=sparse, limit=limit)
