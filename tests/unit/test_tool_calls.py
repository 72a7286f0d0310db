from __future__ import annotations

from threading import Event
from typing import Any
from uuid import UUID

import pytest

from pegas_memory import model
from pegas_memory.errors import Cancelled, InvalidParameter, NotAvailableYet
from pegas_memory.mcp_tools import tools_by_name
from pegas_memory.tool_params import parse_arguments
from tests.support.recording_memory import ATOM, RecordingMemory


def ask(tool: str, **given: Any) -> Any:
    """The request that the service gets."""
    memory = RecordingMemory()
    spec = tools_by_name()[tool]
    spec.call(parse_arguments(spec.params, given))(memory, Event())
    (request,) = memory.requests
    return request


def test_search() -> None:
    request = ask("memory_search", query="q", types="fact", statuses=["stale"], tags="a,b", ids=str(ATOM), mode="dense")
    assert request == model.SearchRequest(
        query="q", types=frozenset({model.AtomType.FACT}), statuses=frozenset({model.ShownAs.STALE}),
        tags=frozenset({"a", "b"}), ids=(ATOM,), mode=model.SearchMode.DENSE,
    )  # fmt: skip
    assert ask("memory_search") == model.SearchRequest()


def test_context() -> None:
    assert ask("memory_get_context", question="q") == model.ContextRequest("q")


def test_store() -> None:
    request = ask(
        "memory_store", claim="c", type="table", source={"uri": "u"}, links={"dst": "d", "kind": "cause"},
        metadata={"k": 1}, replaces=str(ATOM), valid_from="2026-05-01",
    )  # fmt: skip
    assert request.type is model.AtomType.TABLE
    assert request.source == model.SourceRef(uri="u")
    assert request.links == (model.LinkRequest("d", "cause"),)
    assert request.metadata == {"k": 1}
    assert request.replaces == ATOM
    assert ask("memory_store", claim="c") == model.StoreRequest(claim="c")


def test_other_memories_come_later() -> None:
    for given in ({"memory": "episode"}, {"memory": "procedure"}, {"trace": {"kind": "plan"}}):
        with pytest.raises(NotAvailableYet):
            ask("memory_store", claim="c", **given)


def test_ingest() -> None:
    assert ask("memory_ingest", text="t", kind="pdf") == model.IngestRequest(text="t", kind=model.DocumentKind.PDF)
    assert ask("memory_ingest", source="a.md") == model.IngestRequest(source="a.md")
    job = UUID(str(ATOM))
    assert ask("memory_ingest", job_id=str(ATOM)) == ("job", job)
    assert ask("memory_ingest", job_id=str(ATOM), action="cancel") == ("cancel_job", job)
    assert ask("memory_ingest", job_id=str(ATOM), action="retry") == ("retry_job", job)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"source": "a", "text": "b"},
        {"source": "  "},
        {"action": "cancel"},
        {"job_id": str(ATOM), "source": "a"},
    ],
)
def test_ingest_wants_one_thing(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        ask("memory_ingest", **given)


def test_a_cancelled_ingest_ends_its_wait() -> None:
    memory, flag = RecordingMemory(), Event()
    flag.set()
    spec = tools_by_name()["memory_ingest"]
    with pytest.raises(Cancelled):
        spec.call(parse_arguments(spec.params, {"text": "slow 30"}))(memory, flag)
    assert memory.stopped == 1


def test_the_graph_is_asked() -> None:
    assert ask("memory_query_graph") == model.GraphRequest()
    request = ask(
        "memory_query_graph", node="Мегафон", kind="a,b", direction="IN", depth="3", to="x", limit=5, explain=""
    )
    assert request == model.GraphRequest("Мегафон", "a,b", model.Direction.IN, 3, "x", limit=5)
    request = ask("memory_query_graph", node="null", include_inferred=False, explain=str(ATOM), cursor="c")
    assert request == model.GraphRequest("null", include_inferred=False, explain=ATOM, cursor="c")


def test_gaps() -> None:
    assert ask("memory_add_gap", question="q") == model.GapRequest(question="q")
    changed = ask("memory_add_gap", gap_id=str(ATOM), status="closed", answered_by=str(ATOM))
    assert changed == model.GapRequest(gap_id=ATOM, status=model.GapStatus.CLOSED, answered_by=(ATOM,))
    assert changed.priority is None, "what the caller did not say is not changed"
    assert ask("memory_add_gap", gap_id=str(ATOM), priority=0.5).priority == 0.5
    assert ask("memory_list_gaps", tags="a") == (model.GapStatus.OPEN, 20, ("a",), "")
    for given in ({}, {"question": " "}, {"question": "q", "status": "closed"}):
        with pytest.raises(InvalidParameter):
            ask("memory_add_gap", **given)


def test_verdicts() -> None:
    request = ask("memory_verify", atom_ids=str(ATOM), verdict="purge", reason="asked to")
    assert request == model.VerifyRequest(model.Verdict.PURGE, "asked to", (ATOM,))
    request = ask("memory_verify", doc_id=str(ATOM), verdict="restore", reason="right after all")
    assert request == model.VerifyRequest(model.Verdict.RESTORE, "right after all", doc_id=ATOM)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("memory_verify", {}),
        ("memory_verify", {"atom_ids": str(ATOM)}),
        ("memory_store_code", {"code": "x = 1"}),
        ("memory_search_code", {"query": "x"}),
        ("memory_code_graph", {"symbol": "x"}),
        ("memory_infer", {"rules": '[{"if": ["a", "b"], "then": "c"}]'}),
    ],
)
def test_some_tools_come_later(tool: str, given: dict[str, Any]) -> None:
    with pytest.raises(NotAvailableYet):
        ask(tool, **given)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("memory_verify", {"limit": 0}),
        ("memory_verify", {"atom_ids": str(ATOM), "verdict": "stale"}),
        ("memory_verify", {"verdict": "stale", "reason": "old"}),
        ("memory_store_code", {}),
        ("memory_search_code", {}),
        ("memory_code_graph", {"ask": "path", "symbol": "x"}),
        ("memory_infer", {"rules": [{"if": "a"}]}),
        ("memory_query_graph", {"to": "x"}),
    ],
)
def test_their_parameters_are_checked_already(tool: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        ask(tool, **given)
