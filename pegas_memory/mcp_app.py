"""The MCP server itself, for any transport: tools, resources and prompts over one lazily opened memory.

Nothing is opened while clients connect, probe and list: some start a server only to ask its name.
The first tool call opens the memory, in a thread, once for all callers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import mcp_types as types
from anyio.to_thread import run_sync
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from pegas_memory import mcp_resources, model
from pegas_memory.door_log import incident
from pegas_memory.errors import InputError, PegasError
from pegas_memory.mcp_tools import TOOLS, ToolSpec, tools_by_name, wire_form
from pegas_memory.tool_calls import Caller, Memory
from pegas_memory.tool_params import closest, parse_arguments
from pegas_memory.tool_schema import NOT_SHOWN
from pegas_memory.tool_text import fitted, render, without_places
from pegas_memory.tool_wire import fitted_structure

log = logging.getLogger("pegas_memory.mcp")

PARALLEL_CALLS = 8
"""Service calls at a time; others wait outside the threads that read and write the transport."""
PROGRESS_SECONDS = 0.5
STATIC = CacheHint(ttl_ms=3_600_000, scope="public")

AnswerT = TypeVar("AnswerT")


class LazyMemory:
    """Opens on first need, once, from any thread; a failed opening is tried again by the next caller."""

    def __init__(self, open_memory: Callable[[], AbstractContextManager[Memory]]) -> None:
        self._open = open_memory
        self._lock = threading.Lock()
        self._attempt: Future[Memory] | None = None
        self._context: AbstractContextManager[Memory] | None = None

    def get(self) -> Memory:
        """The open memory. Callers that come during an attempt share how it ends."""
        with self._lock:
            attempt, mine = self._attempt or Future(), self._attempt is None
            self._attempt = attempt
        if mine:
            self._try(attempt)
        return attempt.result()

    def _try(self, attempt: Future[Memory]) -> None:
        try:
            context = self._open()
            memory = context.__enter__()
        except BaseException as error:  # noqa: BLE001 -- whatever it was, those who wait must hear of it
            with self._lock:
                self._attempt = None
            attempt.set_exception(error)
        else:
            self._context = context
            attempt.set_result(memory)

    def close(self, seconds: float) -> None:
        """Close what is open; a part that hangs is left behind after ``seconds``."""
        context, self._context = self._context, None
        if context is not None:
            closing = threading.Thread(target=context.__exit__, args=(None, None, None), daemon=True)
            closing.start()
            closing.join(seconds)


class Listening(Caller):
    """A client that may have sent a progress token; the SDK sends nothing to one that has not."""

    def __init__(self, session: ServerSession) -> None:
        super().__init__()
        self._session = session
        self._told = 0.0
        self._again = 0.0

    def hear(self, answer: model.IngestAnswer) -> None:
        """From the call's own thread. What is told only grows, and not more than twice a second."""
        done, now = round(answer.percent, 1), time.monotonic()
        if done > self._told and now >= self._again:
            self._told, self._again = done, now + PROGRESS_SECONDS
            anyio.from_thread.run(self._session.report_progress, done, 100.0, answer.stage)


@dataclass
class Traffic:
    """Requests that are being answered: a transport that ends waits a moment for them."""

    in_flight: int = 0


class MemoryApp:
    """Handlers of one server. ``open_memory`` is called at most once at a time, in a worker thread."""

    def __init__(self, open_memory: Callable[[], AbstractContextManager[Memory]]) -> None:
        self.memory = LazyMemory(open_memory)
        self.traffic = Traffic()
        self._limiter = anyio.CapacityLimiter(PARALLEL_CALLS)
        self._running: set[threading.Event] = set()

    def cancel_all(self) -> None:
        """Tell every running call to stop; those that cannot are left to their threads."""
        for flag in tuple(self._running):
            flag.set()

    async def _in_thread(
        self, work: Callable[[threading.Event], AnswerT], flag: threading.Event | None = None
    ) -> AnswerT:
        flag = flag or threading.Event()
        self._running.add(flag)
        try:
            return await run_sync(lambda: work(flag), limiter=self._limiter, abandon_on_cancel=True)
        finally:
            flag.set()
            self._running.discard(flag)

    async def count(self, ctx: ServerRequestContext[Any], call_next: Callable[[Any], Any]) -> Any:
        """Middleware: keeps ``traffic``; a listening stream is not work in flight."""
        work = ctx.request_id is not None and ctx.method != "subscriptions/listen"
        self.traffic.in_flight += work
        try:
            return await call_next(ctx)
        finally:
            self.traffic.in_flight -= work

    async def list_tools(self, _ctx: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool.model_validate(wire_form(spec)) for spec in TOOLS])

    async def call_tool(
        self, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        spec = tools_by_name().get(params.name)
        if spec is None:
            nearest = closest(params.name[:100], tools_by_name())
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool {params.name[:100]!r}. Did you mean {nearest}?")
        return await self.run_tool(spec, params.arguments or {}, Listening(ctx.session))

    async def run_tool(self, spec: ToolSpec, given: Mapping[str, Any], caller: Caller) -> types.CallToolResult:
        """Parse, one service call in a thread, render; every failure becomes a tool error."""
        try:
            arguments = parse_arguments(spec.params, given)
            use = spec.call(arguments)
        except InputError as error:
            log.info("tool=%s refused=%s", spec.name, error.code)
            return error_result(str(error))
        whole = bool(arguments.get("ids"))

        def work(cancelled: threading.Event) -> types.CallToolResult:
            return answered(spec.name, sorted(given), lambda: use(self.memory.get(), cancelled), whole=whole)

        return await self._in_thread(work, caller)

    async def list_resources(self, _ctx: Any, _params: Any) -> types.ListResourcesResult:
        return mcp_resources.resources()

    async def list_templates(self, _ctx: Any, _params: Any) -> types.ListResourceTemplatesResult:
        return mcp_resources.templates()

    async def read_resource(self, _ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = params.uri
        try:
            read = mcp_resources.reader(uri)
            text = await self._in_thread(lambda _: read(self.memory.get()))
        except InputError as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from error
        except PegasError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error), {"uri": uri}) from error
        except Exception as error:
            raise MCPError(types.INTERNAL_ERROR, incident(error, "resource"), {"uri": uri}) from error
        return mcp_resources.contents(uri, text)

    async def list_prompts(self, _ctx: Any, _params: Any) -> types.ListPromptsResult:
        return mcp_resources.prompts()

    async def get_prompt(self, _ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        try:
            return mcp_resources.prompt(params.name, params.arguments or {})
        except InputError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error


def answered(tool: str, names: list[str], call: Callable[[], Any], *, whole: bool = False) -> types.CallToolResult:
    """The outcome of ``call`` as a tool result. Logs the tool, argument names and time, never values."""
    began = time.monotonic()
    try:
        answer = call()
        result = _success(answer, whole)
        outcome = "error" if result.is_error else "ok"
    except PegasError as error:
        outcome = error.code
        result = error_result(str(error))
        log.info("tool=%s failed", tool, exc_info=error)
    except BaseException as error:  # noqa: BLE001 -- the boundary: native engines raise past Exception
        outcome = "internal_error"
        result = error_result(incident(error, tool))
    log.info("tool=%s args=%s outcome=%s seconds=%.3f", tool, ",".join(names), outcome, time.monotonic() - began)
    return result


def _success(answer: Any, whole: bool) -> types.CallToolResult:
    structured = {name: value for name, value in model.to_json(answer).items() if name not in NOT_SHOWN}
    if isinstance(answer, model.StatsAnswer):
        structured["detail"] = without_places(structured["detail"])
    failed = isinstance(answer, model.IngestAnswer) and answer.state == model.JobState.FAILED
    return types.CallToolResult(
        content=[types.TextContent(text=render(answer, whole=whole))],
        structured_content=fitted_structure(structured),
        is_error=failed,
    )


def error_result(text: str) -> types.CallToolResult:
    """A tool error. A file name in it may be no Unicode, and the SDK's writer would end of that."""
    sendable = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return types.CallToolResult(content=[types.TextContent(text=fitted(sendable))], is_error=True)


def build_server(app: MemoryApp, version: str) -> Server[Any]:
    """A low-level server: it hands arguments over as they came, where MCPServer would decode strings
    that look like JSON, drop unknown names and build a pydantic model for each tool."""
    server: Server[Any] = Server(
        "pegas-memory",
        version=version,
        title="Pegas Memory",
        description="Long-term memory with sources: store, ingest, search and cite.",
        instructions=mcp_resources.INSTRUCTIONS,
        cache_hints={"tools/list": STATIC, "prompts/list": STATIC, "resources/templates/list": STATIC},
        on_list_tools=app.list_tools,
        on_call_tool=app.call_tool,
        on_list_resources=app.list_resources,
        on_list_resource_templates=app.list_templates,
        on_read_resource=app.read_resource,
        on_list_prompts=app.list_prompts,
        on_get_prompt=app.get_prompt,
        on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()),
    )
    server.middleware.append(app.count)
    return server
