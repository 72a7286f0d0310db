"""What Ollama and OpenAI-compatible endpoints have in common: prompts, batches, the learned
dimension, bounded retries, and one reading of HTTP failures."""

from __future__ import annotations

import ipaddress
import logging
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from pegas_memory.embedding.checks import prepared, unit_vectors
from pegas_memory.embedding.prompts import family_of
from pegas_memory.errors import BadSettings, EmbedderMisbehaved, EmbedderUnavailable, PegasError, WrongDimension
from pegas_memory.model import Dense, EmbeddingModel, Role

logger = logging.getLogger(__name__)

ATTEMPTS = 3
FIRST_WAIT = 0.2
LONGEST_WAIT = 2.0
# Halvings of a text that the model's window still refuses: 4,000 characters end at 250.
SMALLEST_SHARE = 16
# Idle connections are dropped before the other side does it (uvicorn: 5 s) and a request meets the gap.
KEEP_CONNECTION = 2.0

_TOO_LONG = re.compile(
    r"context length|context size|too (?:large|long)|maximum .{0,40}tokens|less than \d+ tokens", re.IGNORECASE
)


class EndpointBusy(EmbedderUnavailable):
    """429 or 503: worth another try in a moment."""


class TextTooLongForModel(EmbedderMisbehaved):
    """The model's window is smaller than its family's; ours to cut, not the caller's to see."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds of silence after which a request is given up. Documents may have to wait for a model
    to load; somebody is waiting for a query."""

    connect: float = 5.0
    query: float = 20.0
    document: float = 120.0


class EndpointEmbedder(ABC):
    """An :class:`~pegas_memory.embedding.Embedder` over HTTP; a subclass sends one batch."""

    batch_size: int

    def __init__(self, name: str, model: str, source: str) -> None:
        """``name`` is the EmbeddingModel's, ``model`` the server's, ``source`` names the endpoint in messages."""
        self._name = name
        self._model = model
        self._source = source
        self._family = family_of(model)
        self._learning = threading.Lock()
        self._dimension: int | None = None
        self._closed = False
        self._retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(multiplier=FIRST_WAIT, max=LONGEST_WAIT),
            retry=retry_if_exception_type(EndpointBusy),
            reraise=True,
        )

    @property
    def model(self) -> EmbeddingModel:
        dimension = self._dimension
        if dimension is None:
            dimension = self.embed(["dimension"], Role.QUERY).shape[1]
        return EmbeddingModel(self._name, dimension, self._family.max_characters)

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        ready = [self._family.prompted(text, role) for text in prepared(texts, self._family.max_characters)]
        if not ready:
            return np.empty((0, self.model.dimension), dtype=np.float32)
        batches = [ready[start : start + self.batch_size] for start in range(0, len(ready), self.batch_size)]
        return np.concatenate([self._embed_batch(batch, role) for batch in batches])

    def close(self) -> None:
        self._closed = True
        self._disconnect()

    @abstractmethod
    def _request(self, texts: list[str], role: Role) -> object:
        """The endpoint's vectors for one batch, unchecked. Raises the errors of the room only."""

    @abstractmethod
    def _disconnect(self) -> None: ...

    def _embed_batch(self, texts: list[str], role: Role) -> Dense:
        try:
            rows = self._send(texts, role)
        except TextTooLongForModel:
            return np.concatenate([self._embed_cut(text, role) for text in texts])
        return self._checked(rows, len(texts))

    def _embed_cut(self, text: str, role: Role) -> Dense:
        """One text, halved until the model takes it: the servers' own truncation is not relied upon
        (Ollama from 0.13.5 refuses instead, whatever ``truncate`` says: ollama issue 14186)."""
        share = 1
        while True:
            try:
                rows = self._send([text[: len(text) // share]], role)
            except TextTooLongForModel:
                if share == SMALLEST_SHARE:
                    raise
                share *= 2
                continue
            if share > 1:
                logger.warning("embedded the first 1/%d of a text that %s found too long", share, self._name)
            return self._checked(rows, 1)

    def _send(self, texts: list[str], role: Role) -> object:
        if self._closed:
            raise EmbedderUnavailable(f"The connection to {self._source} has been closed.", "Open the embedder again.")
        return self._retrying(self._request, texts, role)

    def _checked(self, rows: object, texts: int) -> Dense:
        vectors = unit_vectors(rows, texts=texts, source=self._source)
        found = vectors.shape[1]
        with self._learning:
            if self._dimension is None:
                self._dimension = found
            expected = self._dimension
        if found != expected:
            raise WrongDimension(
                f"{self._source} answered vectors of {found} dimensions; {self._name} had {expected} before.",
                "The model behind the endpoint has changed: restore it, or name the new one in PEGAS_EMBEDDER.",
            )
        return vectors

    def _unreachable(self, how: str, hint: str) -> EmbedderUnavailable:
        return EmbedderUnavailable(f"{self._source} {how}.", hint)

    def _failure(self, status: int, said: str, *, missing: str, refused: str) -> PegasError:
        """The error for an HTTP ``status``. What the server ``said`` is read and never repeated: it may
        echo a key or a text. ``missing`` and ``refused`` are the hints for 404 and for 401/403."""
        if status in {429, 503}:
            return EndpointBusy(f"{self._source} is busy (HTTP {status}).", "Try again in a moment.")
        if status in {401, 403}:
            return EmbedderUnavailable(f"{self._source} refuses access (HTTP {status}).", refused)
        if status in {400, 413, 422, 500} and _TOO_LONG.search(said):
            return TextTooLongForModel(f"{self._source} finds the text too long for its model.")
        if status == 404:
            return EmbedderUnavailable(f"{self._source} does not have this model or route (HTTP 404).", missing)
        if status >= 500:
            return EmbedderUnavailable(f"{self._source} failed (HTTP {status}).", "Look at that server's log.")
        return EmbedderMisbehaved(f"{self._source} refused the request (HTTP {status}); is it an embedding model?")


def shown(url: str, setting: str) -> str:
    """``scheme://host:port`` of ``url``: all of it that a message may hold.

    Raises:
        BadSettings: no address, or one with a user and password in it.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadSettings(f"{setting} holds an unreadable address.", "Write it as http://host:port.") from error
    if not host or parts.scheme.lower() not in {"http", "https"}:
        raise BadSettings(f"{setting} holds an address that is not http(s).", "Write it as http://host:port.")
    if "@" in parts.netloc:
        raise BadSettings(f"{setting} holds a user or password in its address.", "Use PEGAS_OPENAI_API_KEY for a key.")
    address = f"[{host}]" if ":" in host else host
    return f"{parts.scheme.lower()}://{address}" + (f":{port}" if port else "")


def is_loopback(url: str) -> bool:
    """True for this machine, where the environment's proxies must not be asked."""
    host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
