"""What each tool does: parsed arguments → one request to the service. Nothing is opened here.

Each function takes the parsed arguments and gives back a *use*: the call to make once the memory is
open. So whatever is wrong with the arguments is said before any part is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Protocol
from uuid import UUID

from pegas_memory import model
from pegas_memory.errors import Cancelled, InvalidParameter, NotAvailableYet

Arguments = Mapping[str, Any]


class Memory(Protocol):
    """The part of ``PegasMemory`` that the tools and the CLI call."""

    def store(self, request: model.StoreRequest) -> model.StoreAnswer: ...
    def search(self, request: model.SearchRequest) -> model.SearchAnswer: ...
    def context(self, request: model.ContextRequest) -> model.ContextAnswer: ...
    def ingest(
        self, request: model.IngestRequest, *, on_progress: Callable[[model.IngestAnswer], None] | None = None
    ) -> model.IngestAnswer: ...
    def job(self, job_id: UUID) -> model.IngestAnswer: ...
    def cancel_job(self, job_id: UUID) -> model.IngestAnswer: ...
    def retry_job(self, job_id: UUID) -> model.IngestAnswer: ...
    def stats(self, detail: bool = False, job_id: UUID | None = None) -> model.StatsAnswer: ...
    def add_gap(self, request: model.GapRequest) -> model.GapChange: ...
    def gap(self, gap_id: UUID) -> model.GapAnswer: ...
    def list_gaps(
        self, status: model.GapStatus, limit: int, tags: tuple[str, ...] = (), cursor: str = ""
    ) -> model.GapPage: ...
    def document(self, doc_id: UUID) -> Mapping[str, Any]: ...
    def opened(self, some_id: UUID) -> model.OpenedMemory: ...
    def verify(self, request: model.VerifyRequest) -> model.VerifyAnswer: ...
    def query_graph(self, request: model.GraphRequest) -> model.GraphAnswer: ...
    def doctor(self) -> Sequence[model.Check]: ...
    def tenants(self) -> Sequence[model.TenantState]: ...
    def delete_tenant(self, name: str, reason: str) -> model.TenantDeleted: ...


class Caller(Event):
    """Who waits for an answer; set when it gave up. ``hear`` is told how far long work has come."""

    def hear(self, answer: model.IngestAnswer) -> None: ...


Use = Callable[[Memory, Event], Any]
Call = Callable[[Arguments], Use]


def search(args: Arguments) -> Use:
    request = model.SearchRequest(
        query=args["query"],
        limit=args["limit"],
        types=frozenset(map(model.AtomType, args["types"])),
        statuses=frozenset(map(model.ShownAs, args["statuses"])),
        tags=frozenset(args["tags"]),
        doc_id=args["doc_id"],
        memory=frozenset(map(model.MemoryKind, args["memory"])),
        since=args["since"],
        until=args["until"],
        as_of=args["as_of"],
        min_confidence=args["min_confidence"],
        mode=model.SearchMode(args["mode"]),
        ids=args["ids"],
        explain=args["explain"],
        cursor=args["cursor"],
    )
    return lambda memory, _: memory.search(request)


def context(args: Arguments) -> Use:
    request = model.ContextRequest(
        question=args["question"],
        max_tokens=args["max_tokens"],
        memory=frozenset(map(model.MemoryKind, args["memory"])),
        types=frozenset(map(model.AtomType, args["types"])),
        tags=frozenset(args["tags"]),
        doc_id=args["doc_id"],
        as_of=args["as_of"],
    )
    return lambda memory, _: memory.context(request)


def stats(args: Arguments) -> Use:
    return lambda memory, _: memory.stats(detail=args["detail"], job_id=args["job_id"])


def store(args: Arguments) -> Use:
    if args["memory"] != model.MemoryKind.KNOWLEDGE or args["trace"] or args["procedure"]:
        raise NotAvailableYet(
            "Only memory=knowledge can be stored in this version; `trace` and `procedure` come with the others.",
            "Store a fact instead, or wait for the version that CHANGELOG.md names.",
        )
    request = model.StoreRequest(
        claim=args["claim"],
        type=model.AtomType(args["type"]),
        content=args["content"],
        memory=model.MemoryKind(args["memory"]),
        confidence=args["confidence"],
        importance=args["importance"],
        source=model.SourceRef(**args["source"]) if args["source"] else None,
        links=tuple(model.LinkRequest(**link) for link in args["links"]),
        tags=args["tags"],
        metadata=args["metadata"] or {},
        valid_from=args["valid_from"],
        valid_to=args["valid_to"],
        replaces=args["replaces"],
    )
    return lambda memory, _: memory.store(request)


def ingest(args: Arguments) -> Use:
    job_id = args["job_id"]
    if job_id:
        return _job(job_id, args)
    if args["action"]:
        raise InvalidParameter("`action` needs the `job_id` that it acts on.", "Pass the job_id of an earlier answer.")
    request = ingest_request(args)
    return lambda memory, caller: memory.ingest(request, on_progress=_told(caller))


def ingest_request(args: Arguments) -> model.IngestRequest:
    if bool(args["source"].strip()) == bool(args["text"]):
        raise InvalidParameter(
            "Give either `source` or `text`." if not args["text"] else "`source` and `text` cannot be combined.",
            "`source` is a URL, file or folder; `text` is the document itself.",
        )
    return model.IngestRequest(
        source=args["source"],
        text=args["text"],
        title=args["title"],
        kind=None if args["kind"] == "auto" else model.DocumentKind(args["kind"]),
        authority=args["authority"],
        tags=args["tags"],
        metadata=args["metadata"] or {},
        occurred_at=args["occurred_at"],
        distill=model.Distill(args["distill"]),
        snippet=args["snippet"],
        wait=args["wait"],
    )


def _told(caller: Event) -> Callable[[model.IngestAnswer], None]:
    """Tells the caller of the job. One that gave up ends the wait, not the job: it can ask for that later."""

    def look(answer: model.IngestAnswer) -> None:
        if caller.is_set():
            raise Cancelled("The call was cancelled; its job goes on.", f"Ask with job_id={answer.job_id}.")
        if isinstance(caller, Caller):
            caller.hear(answer)

    return look


def _job(job_id: UUID, args: Arguments) -> Use:
    if args["source"] or args["text"]:
        raise InvalidParameter(
            "`job_id` asks about an earlier job; it cannot be combined with `source` or `text`.",
            "Pass `job_id` alone, or with `action`.",
        )
    return lambda memory, _: _METHODS[args["action"]](memory, job_id)


_METHODS: dict[str, Callable[[Memory, UUID], model.IngestAnswer]] = {
    "": lambda memory, job_id: memory.job(job_id),
    "cancel": lambda memory, job_id: memory.cancel_job(job_id),
    "retry": lambda memory, job_id: memory.retry_job(job_id),
}


def add_gap(args: Arguments) -> Use:
    if not args["gap_id"] and not args["question"].strip():
        raise InvalidParameter("`question` is required for a new gap.", "Or pass `gap_id` to change one that exists.")
    if args["status"] and not args["gap_id"]:
        raise InvalidParameter("`status` needs the `gap_id` of the gap to change.", "A new gap is always open.")
    request = model.GapRequest(
        question=args["question"],
        reason=args["reason"],
        priority=args["priority"],
        tags=args["tags"],
        gap_id=args["gap_id"],
        status=model.GapStatus(args["status"]) if args["status"] else None,
        answered_by=args["answered_by"],
    )
    return lambda memory, _: memory.add_gap(request)


def list_gaps(args: Arguments) -> Use:
    status = model.GapStatus(args["status"])
    return lambda memory, _: memory.list_gaps(
        status=status, limit=args["limit"], tags=args["tags"], cursor=args["cursor"]
    )


def verify(args: Arguments) -> Use:
    if args["verdict"] and not args["reason"].strip():
        raise InvalidParameter("A `verdict` needs a `reason`.", "Say in one sentence why; it is kept for the audit.")
    if args["verdict"] and not (args["atom_ids"] or args["doc_id"]):
        raise InvalidParameter("A `verdict` needs `atom_ids` or `doc_id`.", "Name what the verdict falls on.")
    if not args["verdict"]:
        raise NotAvailableYet(
            "memory_verify without a `verdict` checks claims; that is not built in this version. Verdicts are.",
            "Give a `verdict` with a `reason`, and `atom_ids` or `doc_id`.",
        )
    request = model.VerifyRequest(
        verdict=model.Verdict(args["verdict"]),
        reason=args["reason"],
        atom_ids=args["atom_ids"],
        doc_id=args["doc_id"],
    )
    return lambda memory, _: memory.verify(request)


def store_code(args: Arguments) -> Use:
    if bool(args["path"].strip()) == bool(args["code"].strip()):
        raise InvalidParameter("Give either `path` or `code`.", "`path` is a file or folder; `code` is source text.")
    raise NotAvailableYet("memory_store_code is declared, but not built in this version.")


def search_code(_: Arguments) -> Use:
    raise NotAvailableYet("memory_search_code is declared, but not built in this version.")


def code_graph(args: Arguments) -> Use:
    if args["ask"] == "path" and not args["path"] and not (args["symbol"] and args["to"]):
        raise InvalidParameter("ask=path needs `symbol` and `to`.", "Name both ends of the path.")
    raise NotAvailableYet("memory_code_graph is declared, but not built in this version.")


def infer(args: Arguments) -> Use:
    for number, rule in enumerate(args["rules"], 1):
        if set(rule) != {"if", "then"}:
            raise InvalidParameter(
                f"Rule {number} must have `if` and `then` and nothing else.",
                'For example {"if": ["part_of", "part_of"], "then": "part_of"}.',
            )
    raise NotAvailableYet("memory_infer is declared, but not built in this version.")


def query_graph(args: Arguments) -> Use:
    if args["to"] and not args["node"]:
        raise InvalidParameter("`to` needs `node`, where the path starts.", "Name both ends of the path.")
    request = model.GraphRequest(
        node=args["node"],
        kind=args["kind"],
        direction=model.Direction(args["direction"]),
        depth=args["depth"],
        to=args["to"],
        include_inferred=args["include_inferred"],
        explain=args["explain"],
        limit=args["limit"],
        cursor=args["cursor"],
    )
    return lambda memory, _: memory.query_graph(request)
