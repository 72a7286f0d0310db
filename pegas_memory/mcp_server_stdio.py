"""MCP over stdio: the process around the server. Imports nothing heavy until the wire is safe.

The wire is the process's first stdin and stdout. Before anything else is imported they move to
descriptors of their own; descriptor 1 becomes stderr and 0 the null device, so that no print, no
progress bar and no child process can reach the client's JSON.
"""

from __future__ import annotations

import io
import json
import logging
import math
import os
import re
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
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

LINE_BYTES = 64 * 1024 * 1024
"""A longer line is thrown away as it comes in, and refused."""
EDGE = 64 * 1024
"""So much of either end of a broken line is looked through for the id of its request."""

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32602, -32603
TOO_LONG = f"invalid_parameter: The message is longer than {LINE_BYTES // 2**20} MiB. Ingest a file instead."
TOO_DEEP = (
    "invalid_parameter: The message is nested too deep (at most 200 levels) or holds a number that is too long "
    "(at most 4300 digits). Pass such data as text."
)
SURROGATE = "invalid_parameter: The message holds a lone surrogate, which is not Unicode. Decode the text first."
BATCH = "invalid_request: MCP has no batches. Send each message as a line of its own."

_STRING = r'"(?:[^"\\]|\\.)*"'
_ID = rf'"id"\s*:\s*({_STRING}|-?\d{{1,400}}(?:\.\d{{1,400}})?(?:[eE][+-]?\d{{1,3}})?)'
_FIRST_ID = re.compile(rf"{_ID}(?=\s*(?:[,}}\]]|$))", re.DOTALL)
_TOKEN = re.compile(rf'{_FIRST_ID.pattern}|"(?:[^"\\]|\\.?)*(?:"|$)|[\[\]{{}}]', re.DOTALL)
_LAST_ID = re.compile(rf'{_ID}(?:\s*,\s*"(?:jsonrpc|method)"\s*:\s*{_STRING})*\s*\}}$', re.DOTALL)


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
    """The client's lines. Answers by itself those that the SDK would drop without a reply, whatever
    their bytes, and holds back the end until requests in flight are answered."""

    def __init__(self, descriptor: int, out: WireOut) -> None:
        self._bytes = os.fdopen(descriptor, "rb", closefd=False)
        super().__init__(self._bytes, encoding="utf-8")
        self._out = out
        self.app: MemoryApp | None = None

    def readline(self, _size: int = -1, /) -> str:  # type: ignore[override]
        while data := self._bytes.readline(LINE_BYTES):
            if len(data) == LINE_BYTES and not data.endswith(b"\n"):
                self._refuse_long(data[:EDGE])
                continue
            line = data.decode("utf-8", "replace")
            if not self._answered(line):
                return line
        self._drain()
        return ""

    def _answered(self, line: str) -> bool:
        """Whether the line needs no more answer. No line may end the thread that reads them."""
        try:
            replies = refusals(line)
            for reply in replies or ():
                self._out.write(reply)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 -- the boundary: the next line must still be read
            from pegas_memory.door_log import incident

            self._out.write(_reply(find_id(line[:EDGE], line[-EDGE:]), INTERNAL_ERROR, incident(error, "message")))
            return True
        return replies is not None

    def _refuse_long(self, head: bytes) -> None:
        tail = b""
        while more := self._bytes.readline(EDGE):
            tail = (tail + more)[-EDGE:]
            if more.endswith(b"\n"):
                break
        known = find_id(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"))
        self._out.write(_reply(known, INVALID_PARAMS, TOO_LONG))

    def _drain(self) -> None:
        """`printf … | server` closes its side at once; it is answered all the same."""
        until = time.monotonic() + GRACE_SECONDS
        time.sleep(0.05)
        while self.app is not None and self.app.traffic.in_flight and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.05)


def refusals(line: str) -> Iterable[str] | None:
    """The replies to a line that the SDK would drop without one; None for a line that it handles."""
    from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

    try:
        if isinstance(jsonrpc_message_adapter.validate_json(line, by_name=False), JSONRPCRequest):
            return None
        message = json.loads(line)
        if "id" not in message or "method" not in message or str(message["method"]).startswith("notifications/"):
            return None
    except (ValueError, RecursionError):
        return _refused(line) if line.strip() else ()
    return [_envelope_fault(message)]


def _refused(line: str) -> Iterable[str]:
    try:
        message = json.loads(line)
        json.dumps(message, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        fault = INVALID_PARAMS, SURROGATE
    except json.JSONDecodeError as error:
        fault = PARSE_ERROR, f"parse_error: The line is not JSON: {error.msg} at character {error.pos + 1}."
    except (ValueError, RecursionError):
        fault = INVALID_PARAMS, TOO_DEEP
    else:
        return _batch(message) if isinstance(message, list) else [_envelope_fault(message)]
    return [_reply(find_id(line[:EDGE], line[-EDGE:]), *fault)]


def _batch(messages: list[Any]) -> Iterator[str]:
    """One refusal for each request, one without id when there is none."""
    known = [number for number in map(_request_id, messages) if number is not None]
    if not known:
        return iter([_reply(None, INVALID_REQUEST, BATCH)])
    return (_reply(number, INVALID_REQUEST, BATCH) for number in known)


def _envelope_fault(message: Any) -> str:
    """The refusal of JSON that is no request. Whatever is well formed can only be too deep."""
    code, said = INVALID_REQUEST, ""
    if not isinstance(message, dict):
        said = "The message must be a JSON object."
    elif message.get("jsonrpc") != "2.0":
        said = 'The field "jsonrpc" must be "2.0".'
    elif not isinstance(message.get("method"), str):
        said = 'The field "method" must be a string.'
    elif "id" in message and (isinstance(message["id"], bool) or not isinstance(message["id"], str | int)):
        said = 'The field "id" must be a string or an integer.'
    elif not isinstance(message.get("params", {}), dict | None):
        said = 'The field "params" must be an object.'
    elif message.keys() & {"result", "error"}:
        said = 'A request has neither "result" nor "error".'
    else:
        code = INVALID_PARAMS
    return _reply(_request_id(message), code, f"invalid_request: {said}" if said else TOO_DEEP)


def _request_id(message: Any) -> str | float | None:
    """The id that a client waits for. That of an answer is not: it is a number of ours."""
    if not isinstance(message, dict) or ("method" not in message and message.keys() & {"result", "error"}):
        return None
    return _usable(message.get("id"))


def _usable(value: Any) -> str | float | None:
    if isinstance(value, str):
        return value
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf else None


def find_id(head: str, tail: str) -> str | float | None:
    """The id of a request whose line is not JSON, from the first and last characters of the line: one
    at the top level of the head, else, where quotes or brackets do not match, one that stands before
    the parameters or closes the tail."""
    depth = 0
    found = None
    for token in _TOKEN.finditer(head):
        if token[1] is not None and depth <= 1:
            found = token[1]
            break
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
    if found is None:
        plain = _FIRST_ID.search(head.partition('"params"')[0]) or _LAST_ID.search(tail.rstrip().removesuffix("]"))
        found = plain and plain[1]
    try:
        return _usable(json.loads(found, strict=False)) if found else None
    except ValueError:
        return None


def _reply(known: str | float | None, code: int, said: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": said}}) + "\n"


def claim_wire() -> tuple[WireIn, WireOut]:
    """Take descriptors 0 and 1 for the protocol and divert everything else. Once, first of all."""
    out = WireOut(os.dup(1))
    wire = WireIn(os.dup(0), out)
    for moved in (wire.fileno(), out.fileno()):
        os.set_inheritable(moved, False)
        os.set_blocking(moved, True)
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


def _leave(app: MemoryApp, status: int = 0) -> NoReturn:
    """Close what is open, within bounds, and end. Not ``sys.exit``: the thread that reads the wire
    and calls that cannot be stopped would keep the process."""
    threading.Thread(target=_force_exit, args=(status,), daemon=True).start()
    app.cancel_all()
    app.memory.close(CLOSE_SECONDS)
    logging.shutdown()
    os._exit(status)


def _force_exit(status: int) -> None:
    time.sleep(CLOSE_SECONDS + 0.5)
    os._exit(status)


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

    from pegas_memory.door_log import incident
    from pegas_memory.mcp_app import MemoryApp

    app = MemoryApp(opener)
    wire.app = app
    status = 0
    try:
        anyio.run(_serve, wire, out, app, parent)
    except* (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError) as gone:
        logging.getLogger("pegas_memory.mcp").info("the connection ended: %r", gone.exceptions)
    except* Exception as error:  # noqa: BLE001 -- the boundary: told as an incident and by the status
        incident(error, "server")
        status = 1
    _leave(app, status)
