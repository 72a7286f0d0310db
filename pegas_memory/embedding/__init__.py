"""Text → vectors: the bundled model, Ollama, or any OpenAI-compatible endpoint behind one face.

A vector that leaves this room came from the model it is said to come from: what cannot be embedded
is a named error, never a substitute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pegas_memory.config import Settings
from pegas_memory.embedding.choice import EmbedderChoice, choose_embedder
from pegas_memory.embedding.parts import MAX_PARTS, parts_of
from pegas_memory.embedding.prompts import PART_LENGTHS
from pegas_memory.model import Dense, EmbeddingModel, Role

__all__ = [
    "EMBED_TEXT_VERSION",
    "MAX_PARTS",
    "PART_LENGTHS",
    "Embedder",
    "EmbedderChoice",
    "choose_embedder",
    "open_embedder",
    "parts_of",
]

EMBED_TEXT_VERSION = 1
"""Part of a cached vector's key. Raise it when prompts, character limits or ``parts_of`` change what
a model is given for the same text."""


class Embedder(Protocol):
    """Thread-safe. ``embed`` answers float32 of shape (len(texts), dimension), each row of length 1,
    in the order of ``texts``."""

    @property
    def model(self) -> EmbeddingModel:
        """May ask the endpoint once for its dimension.

        Raises:
            EmbedderUnavailable, EmbedderMisbehaved: as ``embed``.
        """
        ...

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        """Texts longer than ``model.max_characters`` are cut there: split them first (``parts_of``).

        Raises:
            EmptyText: a text without a visible character.
            InvalidParameter: a text that is not valid Unicode.
            EmbedderUnavailable: down, too slow, busy, key refused, model missing.
            EmbedderMisbehaved: fewer vectors than texts, NaN, zero vectors, an unreadable answer.
            WrongDimension: the dimension is not the one this model had at first use.
        """
        ...

    def close(self) -> None:
        """Let go of connections and memory. Later calls raise ``EmbedderUnavailable``."""
        ...


def open_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings name. Connects to nothing and loads nothing yet.

    Raises:
        BadSettings: the form of PEGAS_EMBEDDER, or an address that cannot be one.
    """
    choice = choose_embedder(settings.embedder)
    # Imported on choice: an HTTP client costs a start-up that the other embedders need not pay.
    if choice.provider == "ollama":
        from pegas_memory.embedding.ollama_endpoint import OllamaEmbedder

        return OllamaEmbedder(choice, settings.ollama_url, keep_alive=settings.ollama_keep_alive)
    if choice.provider == "openai":
        from pegas_memory.embedding.openai_endpoint import OpenAIEmbedder

        return OpenAIEmbedder(choice, api_key=settings.openai_api_key.get_secret_value())
    from pegas_memory.embedding.bundled import BundledEmbedder

    return BundledEmbedder()
