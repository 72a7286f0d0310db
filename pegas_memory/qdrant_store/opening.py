"""The server's collections by the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegas_memory.config import Settings
from pegas_memory.model import EmbeddingModel

if TYPE_CHECKING:
    from pegas_memory.qdrant_store.server import ServerIndex


def server_index(
    settings: Settings, model: EmbeddingModel, instance: str, generation: int | None = None
) -> ServerIndex:
    """One generation, or by default what searches ask: whichever the alias leads to.

    Raises:
        BadSettings: the address is none.
    """
    from pegas_memory.qdrant_store.server import ServerIndex  # its client takes 0.7 s to import

    key = settings.qdrant_api_key.get_secret_value()
    return ServerIndex(
        settings.qdrant_url, key, model, settings.qdrant_collection, generation=generation, instance=instance
    )
