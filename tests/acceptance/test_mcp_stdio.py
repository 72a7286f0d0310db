"""The product over stdio, nothing recorded: real PostgreSQL, real vectors, the SDK's client and a raw one.

Embeddings come from the hashing test server, so that a test costs no model.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

from pegas_memory.mcp_tools import TOOLS
from tests.homes import temporary_home
from tests.support.embedding_server import HashedEmbeddingServer, hashed_embedding_server
from tests.support.mcp_client import CONSOLE, RawClient, raw_client, sdk_client, server_environment, text_of

WORKING = (
    "memory_search", "memory_get_context", "memory_stats", "memory_store", "memory_ingest", "memory_add_gap",
    "memory_list_gaps", "memory_query_graph",
)  # fmt: skip
LATER = {
    "memory_verify": {},
    "memory_store_code": {"code": "x = 1", "language": "python"},
    "memory_search_code": {"query": "x"},
    "memory_code_graph": {"symbol": "x"},
    "memory_infer": {"rules": [{"if": "part_of", "then": "part_of"}]},
}
DOCUMENT = """# Heron Point

The tower at Heron Point was first lit on 14 October 1871. The lens weighs 640 kilograms.

## Пасека

Пасека у Дальнего ручья основана в 1966 году. В 2019 году пасека дала 1350 килограммов мёда.
"""


@pytest.fixture(scope="module")
def embeddings() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=64) as server:
        yield server


@pytest.fixture(scope="module")
def settings(embeddings: HashedEmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One home for the module: its engine starts once."""
    roots = tmp_path_factory.mktemp("roots")
    (roots / "heron.md").write_text(DOCUMENT, encoding="utf-8")
    (roots / "empty.txt").write_text(" \n")
    (roots / "broken.pdf").write_bytes(b"%PDF-1.4 nothing else")
    with temporary_home() as home:
        yield {
            "PEGAS_HOME": str(home),
            "PEGAS_EMBEDDER": f"openai:hashed@{embeddings.openai_url}",
            "PEGAS_INGEST_ROOTS": str(roots),
            "PEGAS_ENGINE_IDLE_SECONDS": "60",
        }


@pytest.fixture(scope="module", autouse=True)
def raw(settings: dict[str, str]) -> Iterator[RawClient]:
    """The first server on the home: until its first tool call it must leave the home untouched."""
    with raw_client(**settings) as client:
        client.handshake()
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping"):
            assert "result" in client.request(method)
        assert not list(Path(settings["PEGAS_HOME"]).iterdir())
        yield client
        assert client.close() == 0


def fits(tool: str, result: dict[str, Any]) -> dict[str, Any]:
    """The structured answer, checked against the schema that the tool declares."""
    assert not result.get("isError"), text_of(result)
    answer: dict[str, Any] = result["structuredContent"]
    (spec,) = [spec for spec in TOOLS if spec.name == tool]
    jsonschema.validate(answer, spec.output_schema())
    assert len(text_of(result).encode()) <= 20_000
    return answer


def ask(raw: RawClient, tool: str, **arguments: Any) -> dict[str, Any]:
    return fits(tool, raw.call(tool, **arguments))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_sdk_client_drives_every_working_tool(settings: dict[str, str], mode: str) -> None:
    async def drive() -> None:
        async with sdk_client(mode=mode, **settings) as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                assert result.structured_content is not None
                return result.structured_content

            ingested = await call("memory_ingest", source=f"{settings['PEGAS_INGEST_ROOTS']}/heron.md")
            assert ingested["state"] == "done"
            assert ingested["atoms"]["created"] + ingested["atoms"]["duplicate"] >= 3
            claim = f"The {mode} client saw a heron on the tower."
            stored = await call("memory_store", claim=claim, source={"uri": "https://example.org", "quote": "a heron"})
            found = await call("memory_search", query=claim, mode="lexical", limit=3)
            assert stored["atom_id"] in [result["atom_id"] for result in found["results"]]
            context = await call("memory_get_context", question="The tower at Heron Point was first lit on")
            assert "1871" in context["context"]
            gap = await call("memory_add_gap", question=f"Who painted the tower for {mode}?")
            gaps = await call("memory_list_gaps", limit=50)
            assert gap["gap_id"] in [listed["gap_id"] for listed in gaps["gaps"]]
            stats = await call("memory_stats", detail=True)
            assert stats["documents"] >= 2
            for uri in (
                f"pegas://atom/{stored['atom_id']}",
                f"pegas://document/{ingested['doc_id']}",
                f"pegas://gap/{gap['gap_id']}",
                "pegas://stats",
            ):
                assert json.loads((await client.read_resource(uri)).contents[0].text)  # type: ignore[union-attr]

    anyio.run(drive)


@pytest.mark.fault(1)
@pytest.mark.fault(14)
def test_every_tool_answers_and_stdout_stays_pure(raw: RawClient) -> None:
    listed = raw.request("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in listed] == [spec.name for spec in TOOLS]
    arguments: dict[str, dict[str, Any]] = {
        "memory_get_context": {"question": "What is there?"},
        "memory_store": {"claim": "Every tool was called once."},
        "memory_ingest": {"text": "A text that was sent whole. It has two sentences.", "title": "Sent"},
        "memory_add_gap": {"question": "Was every tool called?"},
    }
    for tool in WORKING:
        ask(raw, tool, **arguments.get(tool, {}))
    for tool, given in LATER.items():
        result = raw.call(tool, **given)
        assert result["isError"]
        assert text_of(result).startswith("not_available_yet: ")
    for line in raw.lines:
        assert json.loads(line)["jsonrpc"] == "2.0"


def test_what_was_stored_is_found_at_once_and_byte_for_byte(raw: RawClient) -> None:
    claim = 'Привет, ёжик 🦔 — «кавычки» & <b>разметка</b>, \\ и "; й.'
    stored = ask(raw, "memory_store", claim=claim, content='{"a":1}', tags='["ёж","тест"]', metadata='{"ключ": [1]}')
    assert stored["created"] is True
    for arguments in ({"ids": stored["atom_id"]}, {"query": "ёжик", "limit": "5"}):
        results = ask(raw, "memory_search", **arguments)["results"]
        (found,) = [result for result in results if result["atom_id"] == stored["atom_id"]]
        assert (found["claim"], found["content"]) == (claim, '{"a":1}')
        assert (found["tags"], found["metadata"]) == (["ёж", "тест"], {"ключ": [1]})
    again = ask(raw, "memory_store", claim=claim, content='{"a":1}')
    assert again["created"] is False
    assert again["atom_id"] == stored["atom_id"]


@pytest.mark.parametrize("text", ["null", '{"a":1}', "[1, 2]", "true"])
def test_text_that_looks_like_json_is_text(raw: RawClient, text: str) -> None:
    stored = ask(raw, "memory_store", claim=f"{text}", content=text)
    found = ask(raw, "memory_search", ids=[stored["atom_id"]])["results"][0]
    assert (found["claim"], found["content"]) == (text, text)


@pytest.mark.fault(10)
@pytest.mark.parametrize("tags", ['["a","b"]', "a,b", ["a", "b"], None, ""])
def test_list_parameters_over_the_wire(raw: RawClient, tags: Any) -> None:
    stored = ask(raw, "memory_store", claim=f"A claim with tags sent as {tags!r}.", tags=tags)
    found = ask(raw, "memory_search", ids=stored["atom_id"], tags=None)["results"][0]
    assert sorted(found["tags"]) == (["a", "b"] if tags else [])


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("memory_store", {"claim": ""}, "empty_text"),
        ("memory_store", {"claim": "x" * 5_000_000}, "text_too_long"),
        ("memory_store", {"claim": "c", "type": "opinion"}, "invalid_parameter"),
        ("memory_store", {"claim": "c", "replaces": "01890a5d-ac96-774b-bcce-b302099a8057"}, "not_found"),
        ("memory_search", {"ids": "not-an-id"}, "invalid_parameter"),
        ("memory_search", {"cursor": "nonsense"}, "bad_cursor"),
        ("memory_search", {"query": "x", "limit": 1_000_000}, "invalid_parameter"),
        ("memory_get_context", {"question": "x", "max_tokens": 1_000_000}, "invalid_parameter"),
        ("memory_ingest", {"source": "/etc/passwd"}, "path_not_allowed"),
        ("memory_ingest", {"source": "../../etc/passwd"}, "path_not_allowed"),
        ("memory_ingest", {"text": "  "}, "empty_text"),
        ("memory_ingest", {"job_id": "01890a5d-ac96-774b-bcce-b302099a8057"}, "not_found"),
        ("memory_add_gap", {"gap_id": "01890a5d-ac96-774b-bcce-b302099a8057", "status": "closed"}, "not_found"),
        ("memory_list_gaps", {"cursor": "nonsense"}, "bad_cursor"),
        ("memory_stats", {"job_id": "01890a5d-ac96-774b-bcce-b302099a8057"}, "not_found"),
    ],
)
def test_bad_input_has_a_code_and_a_next_step(raw: RawClient, tool: str, arguments: dict[str, Any], code: str) -> None:
    result = raw.call(tool, **arguments)
    said = text_of(result)
    assert result["isError"]
    assert "structuredContent" not in result
    assert said.startswith(f"{code}: ")
    assert len(said.split(". ")) >= 2 or said.count(".") >= 2
    for inside in ("Traceback", "SELECT", "psycopg", "sqlalchemy", "/tmp/"):
        assert inside not in said


@pytest.mark.parametrize("name", ["empty.txt", "broken.pdf", "missing.md"])
def test_files_without_usable_text_are_failures(raw: RawClient, settings: dict[str, str], name: str) -> None:
    result = raw.call("memory_ingest", source=f"{settings['PEGAS_INGEST_ROOTS']}/{name}")
    assert result["isError"]
    assert ": " in text_of(result)
    assert settings["PEGAS_INGEST_ROOTS"] not in text_of(result)


def test_a_job_is_asked_for_by_its_id(raw: RawClient, settings: dict[str, str]) -> None:
    queued = ask(raw, "memory_ingest", source=f"{settings['PEGAS_INGEST_ROOTS']}/heron.md", wait=False)
    while (state := ask(raw, "memory_ingest", job_id=queued["job_id"]))["state"] in ("queued", "running"):
        assert state["job_id"] == queued["job_id"]
    assert state["state"] == "done"
    assert ask(raw, "memory_stats", job_id=queued["job_id"])["jobs"][0]["state"] == "done"


def test_pages_follow_their_cursor(raw: RawClient) -> None:
    ids = [ask(raw, "memory_store", claim=f"Numbered heron claim {n}.", tags="paged")["atom_id"] for n in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = ask(raw, "memory_search", tags="paged", limit=2, cursor=cursor)
        seen += [result["atom_id"] for result in page["results"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
        assert len(seen) < 20
    assert sorted(seen) == sorted(ids)


@pytest.mark.fault(44)
def test_the_graph_is_walked(raw: RawClient) -> None:
    """What was stored a moment before, by a name in any case, a page at a time, and as a path."""
    links = [{"dst": "Мегафон", "kind": "работает-в"}, {"dst": "R… `x`) DETACH DELETE n //", "kind": "a.b"}]
    stored = ask(raw, "memory_store", claim="Оператор работает в порту.", links=links)
    for name in ("мегафон", "МЕГАФОН", "Мегафон"):
        result = raw.call("memory_query_graph", node=name)
        (edge,) = fits("memory_query_graph", result)["edges"]
        assert (edge["src"], edge["kind"], edge["source"]) == (stored["atom_id"], "работает-в", "stored")
        assert "—работает-в→" in text_of(result)
        assert stored["atom_id"] in text_of(result)
    first = ask(raw, "memory_query_graph", node=stored["atom_id"], limit=1)
    second = ask(raw, "memory_query_graph", node=stored["atom_id"], limit=1, cursor=first["next_cursor"])
    assert [edge["kind"] for edge in first["edges"] + second["edges"]] == ["работает-в", "a.b"]
    assert second["next_cursor"] == ""
    found = ask(raw, "memory_query_graph", node="мегафон", to=links[1]["dst"])
    assert found["path"][1] == stored["atom_id"]
    assert found["counters"]["edges"] >= 2
    proof = ask(raw, "memory_query_graph", explain=first["edges"][0]["edge_id"])["proof"]
    assert proof == [{"edge_id": first["edges"][0]["edge_id"], "rule": "", "premises": []}]
    unknown = raw.call("memory_query_graph", node="nobody")
    assert unknown["isError"]
    assert text_of(unknown).startswith("not_found: ")


def test_gaps_are_changed(raw: RawClient) -> None:
    gap = ask(raw, "memory_add_gap", question="Which gap is closed?", priority="0.9")
    answer = ask(raw, "memory_store", claim="The gap that was closed is this one.")
    closed = ask(raw, "memory_add_gap", gap_id=gap["gap_id"], status="closed", answered_by=answer["atom_id"])
    assert closed["status"] == "closed"
    listed = ask(raw, "memory_list_gaps", status="closed")["gaps"]
    (found,) = [entry for entry in listed if entry["gap_id"] == gap["gap_id"]]
    assert found["answered_by"] == [answer["atom_id"]]
    assert found["priority"] == 0.9, "what the caller did not say stays"
    ask(raw, "memory_add_gap", gap_id=gap["gap_id"], question="Which gap was changed?", priority=0.5, tags="changed")
    (changed,) = ask(raw, "memory_list_gaps", status="closed", tags="changed")["gaps"]
    assert (changed["question"], changed["priority"]) == ("Which gap was changed?", 0.5)
    assert changed["gap_id"] == gap["gap_id"]


def test_a_gap_without_a_priority_has_the_default(raw: RawClient) -> None:
    gap = ask(raw, "memory_add_gap", question="How urgent is a gap of which nobody says it?")
    (found,) = [one for one in ask(raw, "memory_list_gaps", limit=100)["gaps"] if one["gap_id"] == gap["gap_id"]]
    assert found["priority"] == 0.5


@pytest.mark.parametrize("detail", [True, False])
def test_statistics_show_no_place_of_the_machine(raw: RawClient, settings: dict[str, str], detail: bool) -> None:
    result = raw.call("memory_stats", detail=detail)
    answer = fits("memory_stats", result)
    assert (answer["detail"] is not None) is detail
    if detail:
        assert answer["detail"]["parts"]["postgres"]["state"].startswith("running")
    for said in (text_of(result), json.dumps(answer)):
        assert settings["PEGAS_HOME"] not in said
        assert "/tmp/" not in said


@pytest.mark.parametrize("tool", ["memory_search", "memory_list_gaps"])
def test_tags_mean_any_of_them(raw: RawClient, tool: str) -> None:
    for n, tag in enumerate(("ebb", "flood")):
        ask(raw, "memory_store", claim=f"The tide of pier {n} is {tag}.", tags=tag)
        ask(raw, "memory_add_gap", question=f"When is the {tag} of pier {n}?", tags=tag)
    answer = ask(raw, tool, tags=["ebb", "flood", "neither"])
    found = answer["results"] if tool == "memory_search" else answer["gaps"]
    assert len(found) == 2


def test_a_second_server_finds_what_the_first_stored(raw: RawClient, settings: dict[str, str]) -> None:
    with raw_client(CONSOLE, **settings) as second:
        second.handshake()
        stored = ask(second, "memory_store", claim="The second server stored a cormorant.")
        found = ask(raw, "memory_search", query="cormorant", mode="lexical")
        assert stored["atom_id"] in [result["atom_id"] for result in found["results"]]
        assert second.close() == 0


def test_the_log_is_private_and_holds_no_stored_text(raw: RawClient, settings: dict[str, str]) -> None:
    ask(raw, "memory_store", claim="A guillemot is what the log must not know.")
    raw.call("memory_store", claim="guillemot", type="guillemot")
    log = Path(settings["PEGAS_HOME"]) / "logs" / "mcp.log"
    assert log.stat().st_mode & 0o777 == 0o600
    assert "tool=memory_store args=claim outcome=ok" in log.read_text()
    assert "guillemot" not in log.read_text()


def test_settings_that_do_not_fit_are_a_tool_error(settings: dict[str, str]) -> None:
    with raw_client(**{**settings, "PEGAS_PORT": "many"}) as wrong:
        wrong.handshake()
        result = wrong.call("memory_stats")
        assert result["isError"]
        assert text_of(result).startswith("bad_settings: ")
        assert "PEGAS_PORT" in text_of(result)
        assert wrong.close() == 0


def test_a_dead_database_is_a_tool_error(settings: dict[str, str]) -> None:
    dead = {"PEGAS_DATABASE_URL": "postgresql+psycopg://nobody:secret@127.0.0.1:1/none"}
    with temporary_home() as home, raw_client(**{**settings, **dead, "PEGAS_HOME": str(home)}) as client:
        client.handshake()
        result = client.call("memory_stats")
        assert result["isError"]
        assert text_of(result).startswith("database_unavailable: ")
        assert "secret" not in text_of(result)
        assert client.close() == 0


def test_the_library_finds_it_too(raw: RawClient, settings: dict[str, str]) -> None:
    stored = ask(raw, "memory_store", claim="A gannet was stored over the wire.")
    program = (
        "from pegas_memory import PegasMemory\nfrom pegas_memory.model import SearchRequest\n"
        "with PegasMemory.open() as memory:\n"
        "    print([str(r.atom_id) for r in memory.search(SearchRequest('gannet')).results])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=server_environment(**settings), timeout=60
    )
    assert stored["atom_id"] in ran.stdout, ran.stderr
