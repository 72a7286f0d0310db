from __future__ import annotations

import json
import re
from threading import Event
from typing import Any

import jsonschema
import pytest

from pegas_memory.mcp_tools import TOOLS, ToolSpec, wire_form
from pegas_memory.model import to_json
from pegas_memory.tool_calls import Memory
from pegas_memory.tool_params import parse_arguments
from pegas_memory.tool_schema import NOT_SHOWN, output_schema
from tests.support.recording_memory import ATOM, RecordingMemory, result

NAMES = [
    "memory_search", "memory_get_context", "memory_stats", "memory_store", "memory_ingest", "memory_verify",
    "memory_add_gap", "memory_list_gaps", "memory_store_code", "memory_search_code", "memory_code_graph",
    "memory_infer", "memory_query_graph",
]  # fmt: skip
SIGNATURES = {
    "memory_search": "query limit types statuses tags doc_id memory since until as_of min_confidence mode ids explain "
    "cursor",
    "memory_get_context": "question max_tokens memory types tags doc_id as_of",
    "memory_stats": "detail job_id",
    "memory_store": "claim type content memory confidence importance source links tags metadata valid_from valid_to "
    "replaces trace procedure",
    "memory_ingest": "source text title kind authority tags metadata occurred_at distill snippet wait job_id action",
    "memory_verify": "atom_ids doc_id limit verdict reason",
    "memory_add_gap": "question reason priority tags gap_id status answered_by",
    "memory_list_gaps": "status limit tags cursor",
    "memory_store_code": "path code language repo file_path",
    "memory_search_code": "query kind language repo path limit cursor",
    "memory_code_graph": "path repo symbol to ask direction kinds depth limit cursor",
    "memory_infer": "rules dry_run max_derived kinds",
    "memory_query_graph": "node kind direction depth to include_inferred explain limit cursor",
}
MODEL_SEES_BYTES = 15_500
LISTED_BYTES = 23_000


def compact(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def test_the_thirteen_in_their_order() -> None:
    assert [spec.name for spec in TOOLS] == NAMES


@pytest.mark.parametrize("spec", TOOLS, ids=NAMES)
def test_parameters_are_named_and_described(spec: ToolSpec) -> None:
    assert [param.name for param in spec.params] == SIGNATURES[spec.name].split()
    schema = spec.input_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    for name, declared in schema["properties"].items():
        assert len(declared["description"]) >= 4, name
        assert "type" in declared, name


def test_defaults_are_those_of_the_contract() -> None:
    required = {"memory_get_context": {"question": "q"}, "memory_search_code": {"query": "q"}}
    defaults = {spec.name: parse_arguments(spec.params, required.get(spec.name, {})) for spec in TOOLS}
    assert defaults["memory_search"]["limit"] == 10
    assert defaults["memory_search"]["memory"] == ("knowledge",)
    assert defaults["memory_search"]["mode"] == "hybrid"
    assert defaults["memory_store"]["type"] == "fact"
    assert defaults["memory_ingest"]["wait"] is True
    assert defaults["memory_ingest"]["kind"] == defaults["memory_ingest"]["distill"] == "auto"
    assert defaults["memory_verify"]["limit"] == 20
    (add_gap,) = [spec for spec in TOOLS if spec.name == "memory_add_gap"]
    assert add_gap.input_schema()["properties"]["priority"]["default"] == 0.5
    assert defaults["memory_add_gap"]["priority"] is None, "a gap that exists keeps the priority it has"
    assert defaults["memory_list_gaps"]["status"] == "open"
    assert defaults["memory_code_graph"]["limit"] == 200
    assert defaults["memory_query_graph"]["include_inferred"] is True


@pytest.mark.parametrize("spec", TOOLS, ids=NAMES)
def test_descriptions_say_when_and_which_tool_instead(spec: ToolSpec) -> None:
    others = [name for name in NAMES if name != spec.name and name in spec.description]
    assert others, "names the tool to use instead"
    assert len(spec.description) < 500
    assert re.match(r"[A-Z][^.]{20,}", spec.description)


def test_all_four_annotations_are_explicit() -> None:
    read_only = {spec.name for spec in TOOLS if spec.hints.read_only}
    destructive = {spec.name for spec in TOOLS if spec.hints.destructive}
    assert read_only == {
        "memory_search", "memory_stats", "memory_list_gaps", "memory_search_code", "memory_query_graph",
    }  # fmt: skip
    assert destructive == {"memory_verify", "memory_store_code", "memory_code_graph"}
    for spec in TOOLS:
        hints = wire_form(spec)["annotations"]
        assert set(hints) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert all(isinstance(value, bool) for value in hints.values())


def test_the_list_stays_small() -> None:
    listed = [wire_form(spec) for spec in TOOLS]
    seen = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in listed]
    assert compact(seen) < MODEL_SEES_BYTES
    assert compact(listed) < LISTED_BYTES


@pytest.mark.parametrize("spec", TOOLS, ids=NAMES)
def test_output_schemas_are_plain(spec: ToolSpec) -> None:
    schema = spec.output_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert {"degraded", "pending"} <= set(schema["properties"])
    assert not re.search(r'"(\$ref|\$defs|anyOf|oneOf|allOf)"', json.dumps(schema))
    assert schema == output_schema.__wrapped__(spec.answer)


def test_answers_fit_their_output_schemas() -> None:
    memory: Memory = RecordingMemory()
    calls: dict[str, dict[str, Any]] = {
        "memory_search": {}, "memory_get_context": {"question": "q"}, "memory_stats": {},
        "memory_store": {"claim": "c"},
        "memory_ingest": {"text": "t"}, "memory_add_gap": {"question": "q"}, "memory_list_gaps": {},
        "memory_verify": {"atom_ids": [str(ATOM)], "verdict": "stale", "reason": "old"},
    }  # fmt: skip
    for spec in TOOLS:
        if spec.name in calls:
            answer = spec.call(parse_arguments(spec.params, calls[spec.name]))(memory, Event())
            shown = {name: value for name, value in to_json(answer).items() if name not in NOT_SHOWN}
            jsonschema.validate(shown, spec.output_schema())


def test_results_have_the_fields_of_the_contract() -> None:
    fields = set(to_json(result("A claim.")))
    assert fields >= {
        "atom_id", "memory", "type", "claim", "content", "status", "confidence", "score", "strength", "tags",
        "metadata", "occurred_at", "created_at", "citations",
    }  # fmt: skip
    assert set(to_json(result("A claim."))["citations"][0]) == {"doc_id", "title", "uri", "locator", "quote"}
