"""Texts to vectors through the cache in PostgreSQL (each text is embedded once per model), and the face of
searching them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pegas_memory.db import embeddings
from pegas_memory.db.session import Connection, Database
from pegas_memory.embedding import EMBED_TEXT_VERSION, PART_LENGTHS, Embedder, parts_of
from pegas_memory.model import ArmHits, Dense, EmbeddingModel, Role, SearchFilter, SparseVector
from pegas_memory.text import sha256


def embedded_text(claim: str, content: str) -> str:
    """What of an atom is embedded: claim, then content (version EMBED_TEXT_VERSION)."""
    return f"{claim}\n{content}" if content and content != claim else claim


def cache_keys(claim: str, content: str) -> set[str]:
    """The keys under which the cache may hold an atom's text, whatever the model that embedded it."""
    whole = embedded_text(claim, content)
    return {sha256(part) for length in PART_LENGTHS for part in parts_of(whole, length)}


class Searcher(Protocol):
    """The read side of the vector index; the string says why an answer may be incomplete, else ''."""

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]: ...


class Vectors:
    """Vectors of document texts; thread-safe."""

    def __init__(self, db: Database, embedder: Embedder) -> None:
        self._db = db
        self._embedder = embedder

    @property
    def model(self) -> EmbeddingModel:
        return self._embedder.model

    @property
    def model_name(self) -> str:
        return self._embedder.model.name

    def parts(self, text: str) -> list[str]:
        """The pieces in which a text is embedded; one for all but long ones."""
        return parts_of(text, self._embedder.model.max_characters)

    def cached(self, tenant: str, texts: Sequence[str]) -> dict[str, Dense]:
        """Vectors that are known already, by text; never calls the model."""
        with self._db.tenant(tenant) as conn:
            return self.cached_in(conn, tenant, texts)

    def cached_in(self, conn: Connection, tenant: str, texts: Sequence[str]) -> dict[str, Dense]:
        hashes = {sha256(text): text for text in texts}
        model = self._embedder.model
        found = embeddings.fetch(conn, tenant, model.name, EMBED_TEXT_VERSION, model.dimension, list(hashes))
        return {hashes[h]: vector for h, vector in found.items()}

    def known_in(self, conn: Connection, tenant: str, texts: Sequence[str]) -> set[str]:
        """Those of ``texts`` whose vectors are cached."""
        hashes = {sha256(text): text for text in texts}
        model = self._embedder.model
        found = embeddings.known(conn, tenant, model.name, EMBED_TEXT_VERSION, model.dimension, list(hashes))
        return {hashes[h] for h in found}

    def cached_since(self, conn: Connection, tenant: str, texts: Sequence[str], consumer: str) -> dict[str, str | None]:
        """As ``embeddings.since``, by text."""
        hashes = {sha256(text): text for text in texts}
        model = self._embedder.model
        found = embeddings.since(conn, tenant, model.name, EMBED_TEXT_VERSION, model.dimension, list(hashes), consumer)
        return {hashes[h]: xid for h, xid in found.items()}

    def made(self, texts: Sequence[str]) -> dict[str, Dense]:
        """A fresh vector for each distinct text, not cached yet. No connection is held meanwhile.

        Raises:
            EmbedderUnavailable, EmbedderMisbehaved, WrongDimension.
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return {}
        return dict(zip(distinct, self._embedder.embed(distinct, Role.DOCUMENT), strict=True))

    def keep_in(self, conn: Connection, tenant: str, vectors: Mapping[str, Dense]) -> None:
        """Cache vectors by text, in the caller's transaction."""
        hashed = {sha256(text): vector for text, vector in vectors.items()}
        embeddings.put(conn, tenant, self.model_name, EMBED_TEXT_VERSION, hashed)

    def of(self, tenant: str, texts: Sequence[str]) -> dict[str, Dense]:
        """A vector for each distinct text; what is not cached is made and cached. Raises as ``made``."""
        known = self.cached(tenant, texts)
        fresh = self.made([text for text in texts if text not in known])
        if fresh:
            with self._db.tenant(tenant) as conn:
                self.keep_in(conn, tenant, fresh)
        return known | fresh
