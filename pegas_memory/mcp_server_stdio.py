"""MCP over stdio: the process around the server. Imports nothing heavy until the wire is safe.

The wire is the process's first stdin and stdout. Before anything else is imported they move to
descriptors of their own; descriptor 1 becomes stderr and 0 the null device, so that no print, no
progress bar and no child process can reach the client's JSON.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pegas_memory.mcp_app import MemoryApp
    from pegas_memory.tool_calls import Memory

STDERR_LIMIT = 32_000
"""Characters this process ever writes to stderr: a client that does not read it has 64 KiB of pipe,
and a full pipe would stop the server."""
GRACE_SECONDS = 1.5
"""How long requests in flight may go on after the client has closed its side."""
CLOSE_SECONDS = 1.0
PARENT_CHECK_SECONDS = 1.0

_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = re.compile(rf"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}")


class BoundedStderr(io.TextIOBase):
    """Text to descriptor 2 until the limit is spent; what comes later is only in the log file."""

    encoding = "utf-8"

    def __init__(self, limit: int = STDERR_LIMIT) -> None:
        self._left = limit

    def write(self, text: str) -> int:
        if self._left > 0:
            shown = text[: self._left] if len(text) <= self._left else text[: self._left] + "\n[stderr limit reached]\n"
            self._left -= len(text)
            try:
                os.write(2, shown.encode("utf-8", "replace"))
            except OSError:
                self._left = 0
        return len(text)

    def writable(self) -> bool:
        return True


class WireOut(io.TextIOWrapper):
    """The client's side of our output: UTF-8 whatever the locale, one writer at a time."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(os.fdopen(descriptor, "wb", closefd=False), encoding="utf-8", newline="\n")
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        with self._lock:
            written = super().write(text)
            super().flush()
            return written


class WireIn(io.TextIOWrapper):
    """The client's lines. Answers by itself the one kind that the SDK would drop without a reply
    (JSON with a lone surrogate), and holds back the end until requests in flight are answered."""

    def __init__(self, descriptor: int, out: WireOut) -> None:
        super().__init__(os.fdopen(descriptor, "rb", closefd=False), encoding="utf-8", errors="replace")
        self._out = out
        self.app: MemoryApp | None = None

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        while line := super().readline(size):
            refusal = _refusal(line)
            if refusal is None:
                return line
            self._out.write(refusal)
        self._drain()
        return ""

    def _drain(self) -> None:
        """`printf … | server` closes its side at once; it is answered all the same."""
        until = time.monotonic() + GRACE_SECONDS
        time.sleep(0.05)
        while self.app is not None and self.app.traffic.in_flight and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.05)


def _refusal(line: str) -> str | None:
    """The error reply to a request that holds a lone surrogate, else None."""
    if not _LONE_SURROGATE.search(line):
        return None
    try:
        message = json.loads(line)
        json.dumps(message, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        said = "invalid_parameter: The message holds a lone surrogate, which is not Unicode. Decode the text first."
        known = message.get("id") if isinstance(message, dict) else None
        reply = {"jsonrpc": "2.0", "id": known, "error": {"code": -32602, "message": said}}
        return json.dumps(reply) + "\n" if known is not None else None
    except (ValueError, RecursionError):
        return None
    return None


def claim_wire() -> tuple[WireIn, WireOut]:
    """Take descriptors 0 and 1 for the protocol and divert everything else. Once, first of all."""
    out = WireOut(os.dup(1))
    wire = WireIn(os.dup(0), out)
    for moved in (wire.fileno(), out.fileno()):
        os.set_inheritable(moved, False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    sys.stdout = sys.stderr = BoundedStderr()
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 -- lives as long as the process
    return wire, out


def open_memory() -> AbstractContextManager[Memory]:
    """The product's memory for the settings of this process; also starts its log file."""
    from pegas_memory.config import load_settings
    from pegas_memory.door_log import log_to

    settings = load_settings()
    log_to(settings.home, "mcp")

    from pegas_memory import PegasMemory

    return PegasMemory.open(settings)


class _OneLine(logging.Formatter):
    """Tracebacks belong to the file: on stderr each record is one short line."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname} {record.name}: {record.getMessage()}".replace("\n", " ")[:500]


def _configure_logging() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_OneLine())
    logging.raiseExceptions = False
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _leave(app: MemoryApp) -> NoReturn:
    """Close what is open, within bounds, and end. Not ``sys.exit``: the thread that reads the wire
    and calls that cannot be stopped would keep the process."""
    threading.Thread(target=_force_exit, daemon=True).start()
    app.cancel_all()
    app.memory.close(CLOSE_SECONDS)
    logging.shutdown()
    os._exit(0)


def _force_exit() -> None:
    time.sleep(CLOSE_SECONDS + 0.5)
    os._exit(0)


def _watch_parent(app: MemoryApp, parent: int) -> None:
    """The end of stdin tells of most deaths; not of one whose pipe another child holds open."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    _leave(app)


async def _serve(wire: WireIn, out: WireOut, app: MemoryApp, parent: int) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    from pegas_memory.mcp_app import build_server
    from pegas_memory.version import VERSION

    async def end_on_signal() -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for _ in signals:
                _leave(app)

    threading.Thread(target=_watch_parent, args=(app, parent), name="parent-watch", daemon=True).start()
    server = build_server(app, VERSION)
    async with anyio.create_task_group() as group:
        group.start_soon(end_on_signal)
        async with stdio_server(anyio.wrap_file(wire), anyio.wrap_file(out)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


def main() -> NoReturn:
    """Serve on stdin and stdout until the client, the parent or a signal ends it. Never returns."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    wire, out = claim_wire()
    run(wire, out, parent)


def run(wire: WireIn, out: WireOut, parent: int, opener: Any = open_memory) -> NoReturn:
    """Serve the memory that ``opener`` opens on first need."""
    _configure_logging()
    import anyio

    from pegas_memory.mcp_app import MemoryApp

    app = MemoryApp(opener)
    wire.app = app
    try:
        anyio.run(_serve, wire, out, app, parent)
    except* (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        logging.getLogger("pegas_memory.mcp").info("the client closed the connection")
    _leave(app)
