"""The front door: the declarations of the thirteen MCP tools, in the order clients list them.

Their texts are the product's words for a model: what, when, when not and which tool instead, the
first sentence carrying it. They never hold stored text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from pegas_memory import model
from pegas_memory import tool_calls as calls
from pegas_memory.tool_params import Choice, Flag, Id, ListOf, Number, Param, Record, Schema, Text, When, input_schema
from pegas_memory.tool_schema import output_schema


@dataclass(frozen=True, slots=True)
class Hints:
    """The four annotations of MCP, none left to a client's guess."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class ToolSpec:
    name: str
    title: str
    description: str
    params: tuple[Param, ...]
    hints: Hints
    answer: type
    call: calls.Call

    def input_schema(self) -> Schema:
        return input_schema(self.params)

    def output_schema(self) -> Schema:
        return output_schema(self.answer)


READ = Hints(read_only=True)
UNIT = Number(0, 1)
TEXTS = ListOf(Text())
TYPES = ListOf(Choice(tuple(model.AtomType)))
MEMORIES = ListOf(Choice(tuple(model.MemoryKind)))
DIRECTION = Choice(("both", "in", "out"))
CURSOR = Param("cursor", Text(), "next_cursor of the page before", "")
TAGS_ANY = Param("tags", TEXTS, "Only those with any of these tags", ())
TAGS_SET = Param("tags", TEXTS, "Labels to find it by", ())
METADATA = Param("metadata", Record(), "Free JSON object kept with it", None)
DOC_ID = Param("doc_id", Id(), "Only what this document supports", None)
AS_OF = Param("as_of", When(), "What was held true at this time", None)

SOURCE = Record(
    (
        Param("uri", Text(), "Address", ""),
        Param("title", Text(), "Title", ""),
        Param("quote", Text(), "Exact words that support the claim", ""),
        Param("locator", Text(), "Place: page, section", ""),
        Param("authority", UNIT, "Trust in it", None),
    )
)
LINK = Record(
    (
        Param("dst", Text(), "Id or name (a name becomes an entity)"),
        Param("kind", Text(), "inference, cause, reference, contradicts, depends_on, calls, defines or own token"),
        Param("confidence", UNIT, "Certainty", 1.0),
    )
)
TRACE = Record(
    (
        Param("kind", Choice(("plan", "action", "observation", "reflection")), "What it was", "observation"),
        Param("session", Text(), "Session name", ""),
        Param("speaker", Text(), "Who", ""),
        Param("context", Text(), "Circumstances", ""),
        Param("occurred_at", When(), "When", None),
        Param("outcome", Text(), "Result", ""),
    )
)
PROCEDURE = Record(
    (
        Param("preconditions", TEXTS, "Needed before", ()),
        Param("postconditions", TEXTS, "True after", ()),
        Param("code", Text(), "Steps or code", ""),
        Param("outcome", Choice(("success", "failure")), "How this run ended", None),
    )
)

TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "memory_search",
        "Search memory",
        "Find stored claims with their status, confidence and citations; use it to look something up or to fetch "
        "by id. To answer a question use memory_get_context; for code names memory_search_code. An empty query "
        "lists the newest.",
        (
            Param("query", Text(), "Words or a question, any language", ""),
            Param("limit", Number(1, 100, whole=True), "Results in a page", 10),
            Param("types", TYPES, "Only these types", ()),
            Param("statuses", ListOf(Choice(tuple(model.ShownAs))), "Default: candidate, verified, contested", ()),
            TAGS_ANY,
            DOC_ID,
            Param("memory", MEMORIES, "Kinds of memory", ("knowledge",)),
            Param("since", When(), "From this time (ISO 8601; a date is 00:00 UTC)", None),
            Param("until", When(), "Up to this time", None),
            AS_OF,
            Param("min_confidence", UNIT, "Least confidence", None),
            Param("mode", Choice(tuple(model.SearchMode)), "By words and meaning, meaning, or words", "hybrid"),
            Param("ids", ListOf(Id(), 100), "Fetch these in any state; no query needed", ()),
            Param("explain", Flag(), "Show ranks and factors", False),
            CURSOR,
        ),
        READ,
        model.SearchAnswer,
        calls.search,
    ),
    ToolSpec(
        "memory_get_context",
        "Context for an answer",
        "Call this before answering a question: it returns numbered, cited excerpts that fit a token budget, open "
        "gaps, and whether they are enough. To browse or filter use memory_search. When `enough` is false, say so "
        "and call memory_add_gap.",
        (
            Param("question", Text(), "The question in full"),
            Param("max_tokens", Number(50, 32_000, whole=True), "Budget of the context", 2000),
            Param("memory", MEMORIES, "Kinds of memory", ("knowledge", "episode", "procedure")),
            Param("types", TYPES, "Only these types", ()),
            TAGS_ANY,
            DOC_ID,
            AS_OF,
        ),
        Hints(),
        model.ContextAnswer,
        calls.context,
    ),
    ToolSpec(
        "memory_stats",
        "Memory statistics",
        "Count what memory holds and show jobs, pending work and the models in use; use it to check health or "
        "size. It finds no content: use memory_search.",
        (
            Param("detail", Flag(), "Add sizes and recent activity", False),
            Param("job_id", Id(), "Show this job alone", None),
        ),
        READ,
        model.StatsAnswer,
        calls.stats,
    ),
    ToolSpec(
        "memory_store",
        "Store one memory",
        "Store one self-contained claim with its source after you learned it; storing it again adds its source, "
        "links and tags. For whole documents and source code use memory_ingest, for open questions "
        "memory_add_gap.",
        (
            Param("claim", Text(), "One sentence understood alone; default: first sentence of content", ""),
            Param("type", Choice(tuple(model.AtomType)), "Type of claim", "fact"),
            Param("content", Text(), "Details, code or table", ""),
            Param("memory", Choice(tuple(model.MemoryKind)), "Kind of memory", "knowledge"),
            Param("confidence", UNIT, "How sure", None),
            Param("importance", UNIT, "How much it matters", None),
            Param("source", SOURCE, "Where it comes from", None),
            Param("links", ListOf(LINK), "Relations to other memories", ()),
            TAGS_SET,
            METADATA,
            Param("valid_from", When(), "True from (ISO 8601)", None),
            Param("valid_to", When(), "True until", None),
            Param("replaces", Id(), "Id of the atom that this corrects", None),
            Param("trace", TRACE, "For memory=episode", None),
            Param("procedure", PROCEDURE, "For memory=procedure", None),
        ),
        Hints(idempotent=False),
        model.StoreAnswer,
        calls.store,
    ),
    ToolSpec(
        "memory_ingest",
        "Ingest a document",
        "Read whole documents (URL, file, folder, source code, pattern or text) into cited memory; use it for "
        "anything longer than a claim. For one claim use memory_store. Long work answers with a job_id; pass it back "
        "alone to ask again.",
        (
            Param("source", Text(), "URL, file, folder, repository or pattern (docs/**/*.md)", ""),
            Param("text", Text(), "The document itself, instead of source", ""),
            Param("title", Text(), "Title", ""),
            Param("kind", Choice(("auto", *model.DocumentKind)), "web: main text; html: all; code_repo: code", "auto"),
            Param("authority", UNIT, "Trust in the source", None),
            TAGS_SET,
            METADATA,
            Param("occurred_at", When(), "Date of the document (ISO 8601)", None),
            Param("distill", Choice(tuple(model.Distill)), "How claims are made; off: one per chunk", "auto"),
            Param("snippet", Text(), "Text to use if the page cannot be fetched", ""),
            Param("wait", Flag(), "False: answer with a job_id at once", True),
            Param("job_id", Id(), "Job to ask about or act on", None),
            Param("action", Choice(("cancel", "retry")), "With job_id", ""),
        ),
        Hints(open_world=True),
        model.IngestAnswer,
        calls.ingest,
    ),
    ToolSpec(
        "memory_verify",
        "Verify memories",
        "Check claims against memory and sources, or set a verdict: verified, contested, stale, retract (hide), "
        "restore (undo) or purge (delete for good). To correct a claim use memory_store with replaces.",
        (
            Param("atom_ids", ListOf(Id()), "Default: the next unverified", ()),
            Param("doc_id", Id(), "Judge a document and what only it supports", None),
            Param("limit", Number(1, 100, whole=True), "How many without atom_ids", 20),
            Param(
                "verdict",
                Choice(tuple(model.Verdict)),
                "Your judgement; default: check only",
                "",
            ),
            Param("reason", Text(), "Why; needed with verdict", ""),
        ),
        Hints(destructive=True, idempotent=False),
        model.VerifyAnswer,
        calls.verify,
    ),
    ToolSpec(
        "memory_add_gap",
        "Note a gap",
        "Note a question that memory cannot answer, or with gap_id change one; use it when memory_get_context says "
        "`enough: false`. To store an answer use memory_store, then close the gap.",
        (
            Param("question", Text(), "The open question", ""),
            Param("reason", Text(), "Why it matters", ""),
            Param("priority", UNIT, "Urgency", None, shown=0.5),
            TAGS_SET,
            Param("gap_id", Id(), "The gap to change", None),
            Param("status", Choice(tuple(model.GapStatus)), "New status, with gap_id", ""),
            Param("answered_by", ListOf(Id()), "Ids of the atoms that answer it", ()),
        ),
        Hints(),
        model.GapChange,
        calls.add_gap,
    ),
    ToolSpec(
        "memory_list_gaps",
        "List gaps",
        "List questions that memory could not answer, most urgent first; use it to choose what to research. For "
        "known facts use memory_search.",
        (
            Param("status", Choice(tuple(model.GapStatus)), "State of the gaps", "open"),
            Param("limit", Number(1, 100, whole=True), "Gaps in a page", 20),
            TAGS_ANY,
            CURSOR,
        ),
        READ,
        model.GapPage,
        calls.list_gaps,
    ),
    ToolSpec(
        "memory_store_code",
        "Store code symbols",
        "Index the functions, classes and methods of a file, a folder or inline code; files gone since are removed. "
        "For prose use memory_ingest; for the relations run memory_code_graph after.",
        (
            Param("path", Text(), "File or folder", ""),
            Param("code", Text(), "Code inline, instead of path", ""),
            Param("language", Text(), "Default: by file name", ""),
            Param("repo", Text(), "Name of the code base", ""),
            Param("file_path", Text(), "File name of inline code", ""),
        ),
        Hints(destructive=True),
        model.CodeStoredAnswer,
        calls.store_code,
    ),
    ToolSpec(
        "memory_search_code",
        "Search code symbols",
        "Find functions, classes and methods by name (part, camelCase or snake_case word, small typo). For callers "
        "and callees use memory_code_graph, for prose memory_search.",
        (
            Param("query", Text(), "Name or part of it"),
            Param("kind", Text(), "function, class, method, …", ""),
            Param("language", Text(), "Language", ""),
            Param("repo", Text(), "Code base", ""),
            Param("path", Text(), "Files below this path", ""),
            Param("limit", Number(1, 100, whole=True), "Symbols in a page", 20),
            CURSOR,
        ),
        READ,
        model.SymbolAnswer,
        calls.search_code,
    ),
    ToolSpec(
        "memory_code_graph",
        "Code graph",
        "Build calls, imports and inheritance from a path, or ask the graph about a symbol: neighbours, impact of a "
        "change, path, unused, cycles. To find a symbol by name use memory_search_code.",
        (
            Param("path", Text(), "Build from this file or folder", ""),
            Param("repo", Text(), "Code base", ""),
            Param("symbol", Text(), "Name or id to start at", ""),
            Param("to", Text(), "End of the path", ""),
            Param("ask", Choice(("neighbours", "impact", "path", "unused", "cycles")), "Question", "neighbours"),
            Param("direction", DIRECTION, "Which edges", "both"),
            Param("kinds", TEXTS, "Only these kinds of edge", ()),
            Param("depth", Number(1, 20, whole=True), "Steps away", 1),
            Param("limit", Number(1, 1000, whole=True), "Edges in a page", 200),
            CURSOR,
        ),
        Hints(destructive=True),
        model.CodeGraphAnswer,
        calls.code_graph,
    ),
    ToolSpec(
        "memory_infer",
        "Infer new links",
        "Derive new links from stored ones by rules, to a fixpoint, each with its proof; use it after links or "
        "rules changed. To read the result use memory_query_graph with explain.",
        (
            Param("rules", ListOf(Record()), '{"if": kind or [kinds], "then": kind}; default: stored rules', ()),
            Param("dry_run", Flag(), "Count only", False),
            Param("max_derived", Number(1, 10_000_000, whole=True), "Stop after so many", None),
            Param("kinds", TEXTS, "Only rules that conclude these", ()),
        ),
        Hints(),
        model.InferAnswer,
        calls.infer,
    ),
    ToolSpec(
        "memory_query_graph",
        "Query the graph",
        "Walk the links between memories, entities and symbols: neighbours, a path, or the proof of an edge. For "
        "text use memory_search, for code structure memory_code_graph.",
        (
            Param("node", Text(), "Id or name, any case", ""),
            Param("kind", Text(), "Only this kind of link", ""),
            Param("direction", DIRECTION, "Which links", "both"),
            Param("depth", Number(1, 20, whole=True), "Steps away (with `to`: 20)", None, shown=1),
            Param("to", Text(), "Find a path to this id or name", ""),
            Param("include_inferred", Flag(), "Inferred links too", True),
            Param("explain", Id(), "edge_id to prove", None),
            Param("limit", Number(1, 1000, whole=True), "Links in a page", 100),
            CURSOR,
        ),
        READ,
        model.GraphAnswer,
        calls.query_graph,
    ),
)


@cache
def tools_by_name() -> dict[str, ToolSpec]:
    return {spec.name: spec for spec in TOOLS}


NOT_YET = frozenset(
    {
        "memory_store_code",
        "memory_search_code",
        "memory_code_graph",
        "memory_infer",
    }
)
"""Declared with their final schemas, built in later versions; a model is told so before it tries."""
PARTLY = {"memory_verify": "[Needs a `verdict`: checking alone is not in this version yet.]"}
"""What of a tool is not built yet."""


def wire_form(spec: ToolSpec) -> dict[str, Any]:
    """The tool as MCP's ``tools/list`` carries it."""
    not_yet = "[Not in this version yet.]" if spec.name in NOT_YET else PARTLY.get(spec.name, "")
    return {
        "name": spec.name,
        "title": spec.title,
        "description": f"{not_yet} {spec.description}".lstrip(),
        "inputSchema": spec.input_schema(),
        "outputSchema": spec.output_schema(),
        "annotations": {
            "readOnlyHint": spec.hints.read_only,
            "destructiveHint": spec.hints.destructive,
            "idempotentHint": spec.hints.idempotent,
            "openWorldHint": spec.hints.open_world,
        },
    }
