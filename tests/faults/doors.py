"""The two doors by which a client of the harness calls the tools: the library, and a real MCP server."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty
from threading import Event
from typing import Any, Protocol

from pegas_memory import PegasMemory
from pegas_memory.config import Settings
from pegas_memory.errors import InputError, PegasError
from pegas_memory.mcp_tools import tools_by_name
from pegas_memory.model import StoreRequest, to_json
from pegas_memory.tool_params import parse_arguments
from tests.support.mcp_client import CONSOLE, RawClient, server_environment, text_of

REFUSALS = frozenset(kind.code for kind in (InputError, *InputError.__subclasses__()))
PATIENCE = 120.0
"""Seconds; a tool call ends by itself long before."""


class CallFailed(Exception):
    """``refused``: nothing was done, and the same call would be refused again."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(f"{code}: {said}")
        self.code = code
        self.refused = code in REFUSALS


class ServerDied(Exception):
    """The MCP server ended although nobody killed it."""


class Door(Protocol):
    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The tool's structured answer. Raises CallFailed, ServerDied."""
        ...


class LibraryDoor:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._memory: PegasMemory | None = None

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        try:
            spec = tools_by_name()[tool]
            use = spec.call(parse_arguments(spec.params, arguments))
            if self._memory is None:
                self._memory = PegasMemory.open(self._settings)
            answer: dict[str, Any] = to_json(use(self._memory, Event()))
        except PegasError as error:
            raise CallFailed(error.code, error.message) from error
        return answer

    def made_and_deleted(self, tenant: str, claims: Sequence[str]) -> None:
        """Store ``claims`` for a tenant of their own, and delete that. Raises CallFailed."""
        try:
            with PegasMemory.open(self._settings.model_copy(update={"tenant": tenant})) as memory:
                for claim in claims:
                    memory.store(StoreRequest(claim=claim))
                memory.delete_tenant(tenant, "the harness asked for it")
        except PegasError as error:
            raise CallFailed(error.code, error.message) from error

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()


class McpDoor:
    def __init__(self, client: RawClient) -> None:
        self._client = client
        client.handshake()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        try:
            reply = self._client.reply(self._client.start_call(tool, **arguments), PATIENCE)
        except Empty as error:
            raise CallFailed("no_answer", f"{tool} did not answer within {PATIENCE:.0f} s") from error
        except (AssertionError, BrokenPipeError) as error:
            code = self._client.process.wait(10)
            raise ServerDied(f"exit code {code}: {self._client.stderr[-2000:]}") from error
        if "result" not in reply:
            raise CallFailed("protocol_error", str(reply.get("error")))
        result: dict[str, Any] = reply["result"]
        if result.get("isError"):
            code, _, said = text_of(result).partition(":")
            raise CallFailed(code, said)
        structured: dict[str, Any] = result["structuredContent"]
        return structured


@contextmanager
def opened(kind: str, settings: Settings) -> Iterator[Door]:
    """``kind``: library or mcp. Settings of an MCP server come from its environment."""
    if kind == "library":
        door = LibraryDoor(settings)
        try:
            yield door
        finally:
            door.close()
        return
    client = RawClient((sys.executable, *CONSOLE)[1:], server_environment())
    try:
        yield McpDoor(client)
    finally:
        if client.process.poll() is None:
            client.process.kill()
        client.process.wait(10)
