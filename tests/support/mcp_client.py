"""Two clients of a stdio server: the SDK's, and one of raw lines that sees every byte of stdout."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (str(ROOT / "mcp_server.py"),)
CONSOLE = ("-m", "pegas_memory.cli", "mcp")
RECORDING = ("-m", "tests.support.recording_memory")
WHOLE = ("-m", "tests.support.whole_memory")
HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


def server_environment(**settings: str) -> dict[str, str]:
    """This process's environment with the checkout importable and ``settings`` on top."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **settings}


@asynccontextmanager
async def sdk_client(command: tuple[str, ...] = PRODUCT, mode: str = "auto", **settings: str) -> AsyncIterator[Client]:
    """The SDK's client with a server of its own."""
    server = StdioServerParameters(command=sys.executable, args=list(command), env=server_environment(**settings))
    async with Client(server, mode=mode, read_timeout_seconds=90) as client:
        yield client


class RawClient:
    """Writes JSON lines and reads them back; a line that is not JSON-RPC fails the test at ``close``."""

    def __init__(self, command: tuple[str, ...], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        self.lines: list[bytes] = []
        self._errors: list[bytes] = []
        self._replies: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.kept: dict[Any, dict[str, Any]] = {}
        self._number = 0
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            try:
                self._replies.put(json.loads(line))
            except ValueError:
                continue
        self._replies.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors.extend(self.process.stderr)

    @property
    def stderr(self) -> str:
        return b"".join(self._errors).decode("utf-8", "replace")

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request without waiting; its number is for ``reply``."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params or {}})
        return self._number

    def reply(self, number: int, seconds: float = 60) -> dict[str, Any]:
        while number not in self.kept:
            message = self._replies.get(timeout=seconds)
            assert message is not None, f"the server closed its output; stderr: {self.stderr[-2000:]}"
            if "id" in message and "method" not in message:
                self.kept[message["id"]] = message
        return self.kept.pop(number)

    def request(self, method: str, params: dict[str, Any] | None = None, seconds: float = 60) -> dict[str, Any]:
        return self.reply(self.ask(method, params), seconds)

    def handshake(self) -> dict[str, Any]:
        answer = self.request("initialize", HANDSHAKE)
        self.send({"method": "notifications/initialized"})
        return answer

    def start_call(self, tool: str, **arguments: Any) -> int:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.reply(self.start_call(tool, **arguments), 90)["result"]
        return result

    def close(self, seconds: float = 10) -> int:
        """Close stdin, wait for the end, and check that stdout held nothing but JSON-RPC."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.ended(seconds)

    def ended(self, seconds: float = 10) -> int:
        code = self.process.wait(seconds)
        for thread in self._threads:
            thread.join(seconds)
        for line in self.lines:
            assert json.loads(line)["jsonrpc"] == "2.0", line
        return code


@contextmanager
def raw_client(command: tuple[str, ...] = PRODUCT, **settings: str) -> Iterator[RawClient]:
    """A raw client; at the end its server is killed if it still runs."""
    client = RawClient(command, server_environment(**settings))
    try:
        yield client
    finally:
        if client.process.poll() is None:
            client.process.kill()
            client.process.wait(10)
        for stream in (client.process.stdin, client.process.stdout, client.process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"])
