"""Ollama, by its official client."""

from __future__ import annotations

import httpx
import ollama

from pegas_memory.embedding.choice import EmbedderChoice
from pegas_memory.embedding.endpoint import KEEP_CONNECTION, EndpointEmbedder, Timeouts, is_loopback, shown
from pegas_memory.errors import BadSettings, EmbedderMisbehaved
from pegas_memory.model import Role


class OllamaEmbedder(EndpointEmbedder):
    # Between two small requests Ollama serves whoever else shares the GPU.
    batch_size = 16

    def __init__(
        self, choice: EmbedderChoice, url: str, *, keep_alive: str = "5m", timeouts: Timeouts | None = None
    ) -> None:
        """``keep_alive`` is how long Ollama holds the model loaded: a duration (``5m``) or seconds
        (``-1`` for ever, ``0`` not at all). Raises ``BadSettings`` for an address that cannot be one."""
        super().__init__(choice.name, choice.model, f"Ollama at {shown(url, 'PEGAS_OLLAMA_URL')}")
        self._keep_alive = _duration(keep_alive)
        limits = timeouts or Timeouts()
        # The client takes its timeout once, so each role has a client of its own.
        self._clients = {
            Role.QUERY: _client(url, limits.query, limits.connect),
            Role.DOCUMENT: _client(url, limits.document, limits.connect),
        }

    def _request(self, texts: list[str], role: Role) -> object:
        try:
            answer = self._clients[role].embed(
                model=self._model, input=texts, truncate=False, keep_alive=self._keep_alive
            )
        except ollama.ResponseError as error:
            raise self._failure(
                error.status_code,
                str(error.error),
                missing=f"Run `ollama pull {self._model}`, or check PEGAS_OLLAMA_URL.",
                refused="Check PEGAS_OLLAMA_URL; a proxy before Ollama may ask for a key.",
            ) from error
        except httpx.TimeoutException as error:
            raise self._unreachable("did not answer in time", "It may be loading the model; try again.") from error
        except (ConnectionError, httpx.HTTPError, RuntimeError) as error:
            raise self._unreachable(
                "cannot be reached or broke off", "Start it (`ollama serve`) or check PEGAS_OLLAMA_URL."
            ) from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            # The client's own reading fails in any of these ways on a body that is not Ollama's.
            raise EmbedderMisbehaved(f"{self._source} answered something that is not an Ollama reply.") from error
        return answer.embeddings

    def _disconnect(self) -> None:
        for client in self._clients.values():
            client.close()  # type: ignore[no-untyped-call]


def _client(url: str, seconds: float, connect: float) -> ollama.Client:
    try:
        return ollama.Client(
            host=url,
            timeout=httpx.Timeout(seconds, connect=connect),
            limits=httpx.Limits(keepalive_expiry=KEEP_CONNECTION),
            trust_env=not is_loopback(url),
        )
    except (ValueError, httpx.InvalidURL) as error:
        raise BadSettings("PEGAS_OLLAMA_URL cannot be read.", "Write it as http://host:port.") from error


def _duration(text: str) -> float | str:
    """Ollama reads a bare number as seconds only when it is a JSON number."""
    try:
        return float(text)
    except ValueError:
        return text
