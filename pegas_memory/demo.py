"""The demonstration: a real MCP client over stdio against a server of its own in an empty home.

It ingests the bundled documents, asks about them, stores, notes a gap, and checks that every quote
that came back stands in the document that it names.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import TextContent
from pypdf import PdfReader

from pegas_memory.config import Settings, child_environment, load_settings
from pegas_memory.engine_client import EngineClient
from pegas_memory.errors import PegasError

DOCUMENTS = Path(__file__).resolve().parent / "demo_documents"
SOURCES = ("heron_point_light.md", "vetrovka_mill.md", "bee_garden.html", "ember_kiln.pdf")
QUESTIONS = (
    ("When was the lighthouse at Heron Point first lit?", "1871"),
    ("Кто построил мельницу в Ветровке?", "Саблин"),
    ("Сколько мёда дала пасека в 2019 году?", "1350"),
    ("How hot must the first chamber of the kiln get?", "1280"),
    ("What is celadon?", "glaze"),
)
TOP = 3
CALL_SECONDS = 180.0
SETTLE_SECONDS = 180.0

Say = Callable[[str], None]


@dataclass
class Outcome:
    """What was seen, for the verdict at the end."""

    titles: dict[str, str] = field(default_factory=dict)
    """Document id → file."""
    quotes: list[tuple[str, str]] = field(default_factory=list)
    """(Document id, quote) of every citation shown."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.failures.append(what)


@dataclass
class Call:
    text: str
    data: dict[str, Any]
    failed: bool


class Agent:
    """The client's side: calls a tool and shows what a model would read."""

    def __init__(self, client: Client, say: Say) -> None:
        self._client = client
        self.say = say

    async def call(self, tool: str, **arguments: Any) -> Call:
        result = await self._client.call_tool(tool, arguments)
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        return Call(text, dict(result.structured_content or {}), bool(result.is_error))

    async def show(self, tool: str, **arguments: Any) -> Call:
        asked = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
        self.say(f"\n→ {tool}({asked})")
        answer = await self.call(tool, **arguments)
        self.say("\n".join(f"  {line}" for line in answer.text.splitlines()))
        return answer


def run(say: Say, *, home: Path | None = None, as_json: bool = False) -> int:
    """Run it; 0 when every check held. Without ``home`` everything is deleted at the end."""
    folder = (home or Path(tempfile.mkdtemp(prefix="pegas-demo-"))).absolute()
    settings = _settings(folder)
    shown: Say = (lambda _: None) if as_json else say
    outcome = Outcome()
    try:
        anyio.run(_demonstrate, settings, shown, outcome)
    finally:
        _stop_engine(settings)
        if home is None:
            shutil.rmtree(folder, ignore_errors=True)
    _verdict(outcome, shown)
    if as_json:
        checked = {"quotes_checked": len(outcome.quotes), "failures": outcome.failures}
        say(json.dumps({"ok": not outcome.failures, "answers": outcome.answers, **checked}, ensure_ascii=False))
    return 1 if outcome.failures else 0


def _settings(home: Path) -> Settings:
    """The embedded profile, whatever the caller's own settings are."""
    return load_settings(
        home=home, database_url="", qdrant_url="", embedder="bundled", llm="", tenant="demo", ingest_roots=(DOCUMENTS,)
    )


def _server(settings: Settings) -> StdioServerParameters:
    inherited = {
        name: value for name, value in child_environment(settings).items() if not name.startswith(("PEGAS_", "PROXY_"))
    }
    package_root = str(Path(__file__).resolve().parent.parent)
    own = {
        "PEGAS_HOME": str(settings.home),
        "PEGAS_TENANT": settings.tenant,
        "PEGAS_INGEST_ROOTS": str(DOCUMENTS),
        "PYTHONPATH": package_root,
    }
    return StdioServerParameters(
        command=sys.executable, args=["-m", "pegas_memory.cli", "mcp"], env={**inherited, **own}, cwd=DOCUMENTS
    )


async def _demonstrate(settings: Settings, say: Say, outcome: Outcome) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(_server(settings), read_timeout_seconds=CALL_SECONDS))
        tools = await client.list_tools()
        say(f"Connected over stdio, protocol {client.protocol_version}, {len(tools.tools)} tools.")
        outcome.expect(len(tools.tools) == 13, "thirteen tools are listed")
        agent = Agent(client, say)
        await _ingest(agent, outcome)
        stored = await _store(agent, outcome)
        await _settle(agent, outcome)
        for question, expected in QUESTIONS:
            await _ask(agent, outcome, question, expected)
        await _context(agent, outcome)
        await _gap(agent, outcome)
        await _judge(agent, outcome, stored)
        await _graph(agent, outcome, stored)
        await _later(agent, outcome)
        await agent.show("memory_stats")


async def _ingest(agent: Agent, outcome: Outcome) -> None:
    for name in SOURCES:
        answer = await agent.show("memory_ingest", source=name)
        outcome.expect(not answer.failed and answer.data.get("state") == "done", f"{name} is ingested")
        outcome.expect(answer.data.get("atoms", {}).get("created", 0) > 0, f"{name} gives claims")
        outcome.titles[str(answer.data.get("doc_id"))] = name
    again = await agent.show("memory_ingest", source=SOURCES[0])
    outcome.expect(again.data.get("atoms", {}).get("created", -1) == 0, "the same document again adds nothing")


async def _store(agent: Agent, outcome: Outcome) -> str:
    source = {"uri": "https://example.org/sorrel", "title": "Harbour log", "quote": "Sorrel struck the spur at dusk."}
    claim = "The brig Sorrel was wrecked on the spur of Heron Point in the winter of 1873."
    links = [{"dst": "Heron Point", "kind": "located_at"}]
    answer = await agent.show("memory_store", claim=claim, source=source, links=links, tags=["heron point"])
    outcome.expect(answer.data.get("created") is True, "a claim is stored")
    return str(answer.data.get("atom_id"))


async def _settle(agent: Agent, outcome: Outcome) -> None:
    """Wait until what was ingested is in the index; the bundled model embeds about twelve claims a second."""
    until = time.monotonic() + SETTLE_SECONDS
    pending = -1
    while pending and time.monotonic() < until:
        pending = (await agent.call("memory_stats")).data.get("pending", -1)
        await anyio.sleep(0.3)
    outcome.expect(pending == 0, "every change reached the index")


async def _ask(agent: Agent, outcome: Outcome, question: str, expected: str) -> None:
    answer = await agent.show("memory_search", query=question, limit=TOP)
    results = answer.data.get("results", [])
    for result in results:
        outcome.quotes += [
            (cited["doc_id"], cited["quote"]) for cited in result["citations"] if cited["doc_id"] in outcome.titles
        ]
    found = [result["claim"] for result in results if expected in f"{result['claim']} {result['content']}"]
    outcome.expect(bool(found), f"{question} → {expected}")
    outcome.answers.append({"question": question, "answer": found[0] if found else None})


async def _context(agent: Agent, outcome: Outcome) -> None:
    question = "What happened at the mill in Vetrovka in 1931? Что случилось с мельницей в 1931 году?"
    answer = await agent.show("memory_get_context", question=question, max_tokens=600)
    outcome.expect(answer.data.get("enough") is True and "1931" in answer.data.get("context", ""), "context is found")
    outcome.expect(answer.data.get("tokens", 601) <= 600, "context keeps its budget")


async def _gap(agent: Agent, outcome: Outcome) -> None:
    question = "Which ship brought the lens to Heron Point?"
    answer = await agent.show("memory_add_gap", question=question, reason="No document names it.")
    outcome.expect(not answer.failed, "a gap is noted")
    listed = await agent.show("memory_list_gaps")
    outcome.expect(question in [gap["question"] for gap in listed.data.get("gaps", [])], "the gap is listed")


async def _judge(agent: Agent, outcome: Outcome, atom_id: str) -> None:
    reason = "The harbour log was read."
    answer = await agent.show("memory_verify", atom_ids=[atom_id], verdict="verified", reason=reason)
    judged = answer.data.get("results", [{}])
    outcome.expect([one.get("status_after") for one in judged] == ["verified"], "the claim is verified")


async def _graph(agent: Agent, outcome: Outcome, atom_id: str) -> None:
    answer = await agent.show("memory_query_graph", node="HERON POINT")
    ends = [(edge["src"], edge["kind"]) for edge in answer.data.get("edges", [])]
    outcome.expect((atom_id, "located_at") in ends, "the place, in any case, leads to the claim")


async def _later(agent: Agent, outcome: Outcome) -> None:
    agent.say("\nA step that arrives in a later version; the tool says so itself:")
    answer = await agent.show("memory_infer")
    outcome.expect(not answer.failed or "not_available_yet" in answer.text, "memory_infer answers plainly")


def _stop_engine(settings: Settings) -> None:
    """The engine would leave by itself after some idle minutes; its home may be gone by then."""
    client = EngineClient(settings)
    try:
        client.shutdown()
    except PegasError:
        return  # it never started, or has left already
    finally:
        client.close()


def _verdict(outcome: Outcome, say: Say) -> None:
    for doc_id, quote in outcome.quotes:
        name = outcome.titles[doc_id]
        outcome.expect(bool(quote) and _letters(quote) in _letters(_read(DOCUMENTS / name)), f"a quote is in {name}")
    outcome.expect(len(outcome.quotes) >= len(QUESTIONS), "answers carry quotes")
    say(f"\n{len(outcome.quotes)} quotes checked against the documents that they name.")
    if outcome.failures:
        say("FAILED: " + "; ".join(dict.fromkeys(outcome.failures)))
    else:
        say("All checks held.")


def _read(path: Path) -> str:
    """The document read without any part of the product: the check must not trust what it checks."""
    if path.suffix == ".pdf":
        return "\n".join(page.extract_text() for page in PdfReader(path).pages)
    return re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8"))


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", text)
