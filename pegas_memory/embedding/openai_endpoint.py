"""Any server with OpenAI's ``/v1/embeddings``: llama.cpp, vLLM, LM Studio, TEI, OpenAI itself."""

from __future__ import annotations

from typing import Any

import httpx

from pegas_memory.embedding.choice import EmbedderChoice
from pegas_memory.embedding.endpoint import KEEP_CONNECTION, EndpointEmbedder, Timeouts, is_loopback, shown
from pegas_memory.errors import BadSettings, EmbedderMisbehaved
from pegas_memory.model import Role


class OpenAIEmbedder(EndpointEmbedder):
    batch_size = 32

    def __init__(self, choice: EmbedderChoice, *, api_key: str = "", timeouts: Timeouts | None = None) -> None:
        """``api_key`` empty sends none. Raises ``BadSettings`` for an address that cannot be one."""
        super().__init__(choice.name, choice.model, f"The embedding endpoint at {shown(choice.url, 'PEGAS_EMBEDDER')}")
        if not all("!" <= letter <= "~" for letter in api_key):
            # The HTTP library would repeat the key in its own complaint.
            raise BadSettings("PEGAS_OPENAI_API_KEY holds letters that a key cannot have.", "Copy the key again.")
        limits = timeouts or Timeouts()
        self._url = embeddings_url(choice.url)
        self._timeouts = {
            Role.QUERY: httpx.Timeout(limits.query, connect=limits.connect),
            Role.DOCUMENT: httpx.Timeout(limits.document, connect=limits.connect),
        }
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            limits=httpx.Limits(keepalive_expiry=KEEP_CONNECTION),
            trust_env=not is_loopback(choice.url),
        )

    def _request(self, texts: list[str], role: Role) -> object:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            response = self._client.post(self._url, json=body, timeout=self._timeouts[role])
        except httpx.TimeoutException as error:
            raise self._unreachable("did not answer in time", "It may be loading the model; try again.") from error
        except (httpx.HTTPError, RuntimeError) as error:
            raise self._unreachable(
                "cannot be reached or broke off", "Start it, or check the BASE_URL in PEGAS_EMBEDDER."
            ) from error
        if response.status_code != 200:
            raise self._failure(
                response.status_code,
                response.text,
                missing="Check MODEL and BASE_URL in PEGAS_EMBEDDER.",
                refused="Set PEGAS_OPENAI_API_KEY to a key that this endpoint takes.",
            )
        return self._in_order(response, len(texts))

    def _in_order(self, response: httpx.Response, texts: int) -> list[Any]:
        """The vectors by their ``index``: the order of ``data`` is not promised."""
        try:
            rows = {item["index"]: item["embedding"] for item in response.json()["data"]}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise EmbedderMisbehaved(f"{self._source} answered something that is not an embeddings reply.") from error
        if rows.keys() != set(range(texts)):
            raise EmbedderMisbehaved(f"{self._source} answered {len(rows)} vectors for {texts} texts.")
        return [rows[index] for index in range(texts)]

    def _disconnect(self) -> None:
        self._client.close()


def embeddings_url(base: str) -> httpx.URL:
    """``BASE_URL`` with or without ``/v1``, ``/embeddings`` or a final slash → the address to post to."""
    try:
        url = httpx.URL(base)
        path = url.path.rstrip("/").removesuffix("/embeddings") or "/v1"
        return url.copy_with(path=f"{path}/embeddings")
    except httpx.InvalidURL as error:
        raise BadSettings("PEGAS_EMBEDDER holds an unreadable address.", "Write it as http://host:port/v1.") from error
