"""Asking the graph over real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from threading import Event
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from pegas_memory import model
from pegas_memory.db import graph_questions, outbox
from pegas_memory.db.ids import new_id
from pegas_memory.errors import (
    BadCursor,
    EmptyText,
    InvalidParameter,
    NotAvailableYet,
    NotFound,
    TextTooLong,
    Unavailable,
)
from pegas_memory.graph import LAST
from pegas_memory.mcp_tools import tools_by_name
from pegas_memory.memgraph_store import GraphReader, GraphStore, Server
from pegas_memory.model import Direction, EdgeFilter, GraphAnswer, GraphRequest, LinkRequest, NodeKind, StoreRequest
from pegas_memory.outbox_sync import GraphProjection, Sync
from pegas_memory.text import fold
from pegas_memory.tool_params import parse_arguments
from pegas_memory.tool_text import render
from pegas_memory.tool_wire import STRUCTURE_LIMIT_BYTES, fitted_structure
from pegas_memory.wiring import LazyGraphServer, PegasMemory
from tests.support.bolt_peer import BoltPeer
from tests.support.local_memory import LocalMemory

Triple = tuple[str, str, str]


def ask(memory: PegasMemory, node: str = "", **more: object) -> GraphAnswer:
    return memory.query_graph(GraphRequest(node=str(node), **more))  # type: ignore[arg-type]


def tool(memory: PegasMemory, **given: object) -> GraphAnswer:
    """As an agent calls it, arguments parsed."""
    spec = tools_by_name()["memory_query_graph"]
    answer: GraphAnswer = spec.call(parse_arguments(spec.params, given))(memory, Event())  # type: ignore[arg-type]
    return answer


def triples(answer: GraphAnswer) -> list[Triple]:
    names = {node.id: node.name for node in answer.nodes}
    return [(names[edge.src], edge.kind, names[edge.dst]) for edge in answer.edges]


def relate(memory: PegasMemory, *wanted: Triple, inferred: bool = False) -> dict[str, UUID]:
    """Entities and links between them, in the order given. Returns the entities by name."""
    names = list(dict.fromkeys(name for src, _, dst in wanted for name in (src, dst)))
    with memory.rooms.db.tenant(memory.tenant) as conn:
        entities = [{"t": memory.tenant, "i": new_id(), "n": name, "f": fold(name)} for name in names]
        conn.execute(
            text(
                "INSERT INTO pm_entity (tenant, id, name, normal_form) VALUES (:t, :i, :n, :f) ON CONFLICT DO NOTHING"
            ),
            entities,
        )
        found = conn.execute(
            text("SELECT name, id FROM pm_entity WHERE tenant = :t AND name = ANY(:n)"),
            {"t": memory.tenant, "n": names},
        )
        ids = {row[0]: row[1] for row in found}
        rows = [{"t": memory.tenant, "i": new_id(), "s": ids[src], "d": ids[dst], "k": kind, "x": inferred}
                for src, kind, dst in wanted]  # fmt: skip
        conn.execute(
            text(
                "INSERT INTO pm_atom_link (tenant, id, src_kind, src_id, dst_kind, dst_id, kind, inferred)"
                " VALUES (:t, :i, 'entity', :s, 'entity', :d, :k, :x)"
            ),
            rows,
        )
    return ids


def everything(memory: PegasMemory, node: str = "", **more: object) -> list[UUID]:
    """The edge ids of all pages."""
    seen: list[UUID] = []
    cursor = ""
    while True:
        answer = ask(memory, node, cursor=cursor, **more)
        seen += [edge.edge_id for edge in answer.edges]
        cursor = answer.next_cursor
        if not cursor:
            return seen


def put(memory: PegasMemory, claim: str, *links: tuple[str, str]) -> UUID:
    wanted = tuple(LinkRequest(dst, kind) for dst, kind in links)
    return memory.store(StoreRequest(claim=claim, links=wanted)).atom_id


@pytest.mark.fault(52)
@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("out", [("b", "acquired", "c"), ("b", "sold", "a")]),
        ("in", [("a", "acquired", "b"), ("b", "sold", "b")]),
        ("both", [("a", "acquired", "b"), ("b", "acquired", "c"), ("b", "sold", "a"), ("b", "sold", "b")]),
    ],
)
def test_what_was_stored_from_a_to_b_is_answered_so(
    memory: LocalMemory, direction: str, expected: list[Triple]
) -> None:
    relate(memory, ("a", "acquired", "b"), ("b", "acquired", "c"), ("b", "sold", "a"), ("b", "sold", "b"))
    loop = [("b", "sold", "b")] if direction != "both" else []
    assert sorted(triples(ask(memory, "b", direction=Direction(direction)))) == sorted({*expected, *loop})


def test_depth_cycles_loops_and_parallel_kinds(memory: LocalMemory) -> None:
    ring = [("a", "part_of", "b"), ("b", "part_of", "c"), ("c", "part_of", "d"), ("d", "part_of", "a")]
    relate(memory, *ring, ("a", "knows", "b"), ("a", "knows", "a"))
    out = Direction.OUT
    assert len(triples(ask(memory, "a", direction=out))) == 3
    assert triples(ask(memory, "a", direction=out, depth=2))[-1] == ring[1]
    whole = ask(memory, "a", direction=out, depth=20)
    assert len(whole.edges) == len({edge.edge_id for edge in whole.edges}) == 6
    assert triples(ask(memory, "a", direction=out, depth=20, kind="part_of")) == ring
    assert {node.name for node in whole.nodes} == set("abcd")
    assert whole.nodes[0].name == "a"
    assert (whole.counters.nodes, whole.counters.edges, whole.counters.inferred) == (4, 6, 0)
    assert dict(whole.counters.by_kind) == {"part_of": 4, "knows": 2}


def test_inferred_links_can_be_left_out(memory: LocalMemory) -> None:
    relate(memory, ("a", "part_of", "b"))
    relate(memory, ("a", "part_of", "c"), inferred=True)
    assert len(ask(memory, "a").edges) == 2
    assert triples(ask(memory, "a", include_inferred=False)) == [("a", "part_of", "b")]
    assert triples(ask(memory, include_inferred=False)) == [("a", "part_of", "b")]
    assert ask(memory, "a").counters.inferred == 1


@pytest.mark.fault(12)
@pytest.mark.parametrize("depth", [1, 2])
def test_a_hub_of_five_thousand_is_paged_to_its_end(memory: LocalMemory, depth: int) -> None:
    relate(memory, *(("hub", "has", f"leaf {n}") for n in range(5_000)), ("leaf 7", "near", "leaf 8"))
    seen = everything(memory, "hub", depth=depth, limit=997)
    assert len(seen) == len(set(seen)) == 5_000 + (depth - 1)
    assert seen[:5_000] == sorted(seen[:5_000])
    assert sorted(everything(memory, limit=1_000), reverse=True) == everything(memory, limit=333)


def test_links_written_between_two_pages_hide_none_of_the_others(memory: LocalMemory) -> None:
    relate(
        memory,
        *(("hub", "has", f"leaf {n}") for n in range(30)),
        *((f"leaf {n}", "has", f"twig {n}") for n in range(30)),
    )
    before = set(everything(memory, "hub", depth=2))
    seen: list[UUID] = []
    cursor, page = "", 0
    while page == 0 or cursor:
        answer = ask(memory, "hub", depth=2, limit=7, cursor=cursor)
        seen += [edge.edge_id for edge in answer.edges]
        cursor, page = answer.next_cursor, page + 1
        relate(memory, ("hub", "has", f"twig {page}"), ("hub", "has", f"new {page}"))
    assert len(seen) == len(set(seen))
    assert set(seen) == before


def test_paths(memory: LocalMemory) -> None:
    ids = relate(memory, ("a", "x", "b"), ("b", "x", "c"), ("c", "y", "d"), ("a", "z", "d"), ("e", "x", "f"))
    assert triples(ask(memory, "a", to="c")) == [("a", "x", "b"), ("b", "x", "c")]
    found = ask(memory, "a", to="d", direction=Direction.OUT)
    assert found.path == (ids["a"], ids["d"])
    assert [node.id for node in found.nodes] == list(found.path)
    assert ask(memory, "d", to="a", direction=Direction.OUT).path == ()
    assert ask(memory, "d", to="a", direction=Direction.IN).path == (ids["d"], ids["a"])
    assert ask(memory, "a", to="c", depth=1).path == ()
    assert ask(memory, "a", to="a").path == (ids["a"],)
    none = ask(memory, "a", to="f")
    assert (none.path, none.edges) == ((), ())
    assert [node.name for node in none.nodes] == ["a", "f"]


@pytest.mark.fault(44)
@pytest.mark.parametrize("asked", ["Мегафон", "мегафон", "МЕГАФОН", "  мегаФон "])
def test_a_name_in_any_case(memory: LocalMemory, asked: str) -> None:
    put(memory, "Сигнал подали мегафоном.", ("Мегафон", "упоминает"))
    answer = tool(memory, node=asked)
    assert triples(answer) == [("Сигнал подали мегафоном.", "упоминает", "Мегафон")]


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("Ёлка", "елка"),
        ("STRASSE", "Straße"),
        ("e\u0301clair", "ÉCLAIR"),
        ("日本 語", "日本  語"),
        ("🦔", "🦔"),
        ("a\x00b", "AB"),
    ],
)
def test_names_of_any_script(memory: LocalMemory, stored: str, asked: str) -> None:
    put(memory, "It has a link.", (stored, "names"))
    assert len(tool(memory, node=asked).edges) == 1


def test_several_nodes_of_one_name_are_all_starts(memory: LocalMemory) -> None:
    ids = relate(memory, ("Run", "is", "verb"))
    symbols = [new_id(), new_id(), new_id()]
    with memory.rooms.db.tenant(memory.tenant) as conn:
        for symbol, name in zip(symbols, ("job.run", "Worker.run", "stop"), strict=True):
            conn.execute(
                text(
                    "INSERT INTO pm_code_symbol"
                    " (tenant, id, repo, path, language, name, qualified_name, kind, name_folded) VALUES"
                    " (:t, :i, 'r', 'p.py', 'python', :n, :n, 'function', :f)"
                ),
                {"t": memory.tenant, "i": symbol, "n": name, "f": name.rpartition(".")[2]},
            )
        conn.execute(
            text(
                "INSERT INTO pm_code_dependency (tenant, id, repo, src_id, dst_id, dst_name, kind, certainty)"
                " VALUES (:t, :i, 'r', :s, :d, 'stop', 'calls', 0.8), (:t, :j, 'r', :s, NULL, 'print', 'calls', 1)"
            ),
            {"t": memory.tenant, "i": new_id(), "j": new_id(), "s": symbols[1], "d": symbols[2]},
        )
        conn.execute(text("UPDATE pm_entity SET aliases = '{бег}' WHERE id = :i"), {"i": ids["Run"]})
    answer = ask(memory, "RUN")
    assert {node.id for node in answer.nodes} == {*symbols, *ids.values()}
    (call,) = [edge for edge in answer.edges if edge.source == "code"]
    assert (call.src, call.dst, call.kind, call.confidence) == (symbols[1], symbols[2], "calls", 0.8)
    assert [node.id for node in ask(memory, "worker.RUN").nodes][:1] == [symbols[1]]
    assert len(ask(memory, "worker.RUN").edges) == 1
    assert len(ask(memory, "Бег").edges) == 1, "by an alias"
    assert ask(memory, symbols[2], kind="calls", direction=Direction.IN).edges == (call,)
    assert ask(memory).counters.edges == 2, "a call of what is not known joins no two nodes"


KINDS = [
    "работает-в",
    "a.b",
    "x`y",
    "R…",
    "2nd",
    "k" * 60,
    "К" * 60,
    "'; DROP",
    '"]->()',
    "🦔",
    "%",
    "null",
    "=~",
    "a,b",
]
INJECTIONS = [
    "X`) DETACH DELETE n //", "'; DROP TABLE pm_atom_link; --", "x' OR '1'='1", "MATCH (n) DETACH DELETE n",
    "CALL db.labels()", "LOAD CSV FROM 'file:///etc/passwd' AS x RETURN x", ":param", "%s", "{tenant}", "a]->(b",
]  # fmt: skip


@pytest.mark.fault(50)
def test_kinds_of_any_token(memory: LocalMemory) -> None:
    kinds = [kind.replace(" ", "_") for kind in KINDS]
    for kind in kinds:
        put(memory, f"Its link is of the kind {kind}.", ("one end", kind))
    answer = tool(memory, node="one end")
    assert [edge.kind for edge in answer.edges] == kinds
    assert set(answer.counters.by_kind) == set(kinds)
    for kind in kinds:
        assert [edge.kind for edge in tool(memory, node="One End", kind=kind).edges] == [kind]
        assert [edge.kind for edge in tool(memory, kind=kind).edges] == [kind]
    assert render(answer).count("\n") < 30, "no kind starts a line"


@pytest.mark.fault(51)
@pytest.mark.parametrize("text_", INJECTIONS)
def test_what_looks_like_a_query_is_a_name(memory: LocalMemory, text_: str) -> None:
    put(memory, "It has a link with a strange name.", (text_, text_.replace(" ", "_")))
    assert len(tool(memory, node=text_, kind=text_.replace(" ", "_")).edges) == 1
    assert tool(memory, node=text_, kind=text_.replace(" ", "-") + "x").edges == ()
    with pytest.raises(NotFound):
        tool(memory, node=text_ + "x")
    assert tool(memory, to=text_, node=text_).path
    assert tool(memory).counters.edges == 1


@pytest.mark.fault(65)
def test_two_tenants_of_the_same_names_never_meet(memory: LocalMemory) -> None:
    other = memory.as_tenant(memory.tenant + "|b")
    mine = put(memory, "The mill grinds.", ("Mill", "mentions"), ("Ivan", "mentions"))
    theirs = put(other, "The mill stands still.", ("mill", "mentions"))
    for asker, own, edges in ((memory, mine, 2), (other, theirs, 1)):
        assert {edge.src for edge in ask(asker, "MILL", depth=3).edges} == {own}
        assert {edge.src for edge in ask(asker).edges} == {own}
        assert ask(asker).counters.edges == edges
        assert len(everything(asker, limit=1)) == edges
    (edge,) = ask(other).edges
    for foreign in ({"node": str(theirs)}, {"explain": str(edge.edge_id)}, {"node": "mill", "to": str(theirs)}):
        with pytest.raises(NotFound):
            tool(memory, **foreign)
    with pytest.raises(NotFound) as caught:
        tool(other, node="Ivam")
    assert "-" not in caught.value.hint.replace("memory_search", ""), "no id of another tenant"
    page = ask(memory, "mill", depth=3, limit=1)
    assert {e.src for e in ask(other, "mill", depth=3, limit=1, cursor=page.next_cursor).edges} <= {theirs}


def test_hidden_atoms_are_left_out_with_their_links(memory: LocalMemory) -> None:
    old = put(memory, "The mill is red.", ("Mill", "mentions"))
    new = memory.store(StoreRequest(claim="The mill is blue.", replaces=old, links=(LinkRequest("Mill", "mentions"),)))
    gone = put(memory, "The mill is in ruins.", ("Mill", "mentions"), ("Ruins", "mentions"))
    with memory.rooms.db.tenant(memory.tenant) as conn:
        conn.execute(text("UPDATE pm_atom SET retracted_at = now() WHERE id = :i"), {"i": gone})
    assert [edge.src for edge in ask(memory, "mill").edges] == [new.atom_id]
    assert [edge.src for edge in ask(memory).edges] == [new.atom_id]
    assert ask(memory, "mill", to="ruins").path == (), "no way through what was retracted"
    assert {edge.src for edge in ask(memory, old).edges} == {old}
    assert len(ask(memory, gone).edges) == 2
    assert ask(memory, gone, depth=2).nodes[0].id == gone
    assert len(ask(memory, gone, to=str(new.atom_id)).path) == 3


def test_a_proof(memory: LocalMemory) -> None:
    relate(memory, ("a", "part_of", "b"))
    relate(memory, ("a", "part_of", "c"), inferred=True)
    stated, inferred = ask(memory, "a").edges
    proven = tool(memory, explain=str(stated.edge_id))
    assert proven.edges == (stated,)
    assert proven.proof == (model.ProofStep(stated.edge_id, "", ()),)
    assert {node.name for node in proven.nodes} == {"a", "b"}
    assert "was stated" in render(proven)
    both = tool(memory, node="a", explain=str(stated.edge_id))
    assert (len(both.edges), both.proof) == (2, proven.proof)
    with pytest.raises(NotAvailableYet):
        tool(memory, explain=str(inferred.edge_id))
    with pytest.raises(NotFound):
        tool(memory, explain=str(uuid4()))


def test_an_unknown_node(memory: LocalMemory) -> None:
    ids = relate(memory, ("Heron Point", "near", "Mill"))
    with pytest.raises(NotFound) as caught:
        tool(memory, node="heron pont")
    assert str(ids["Heron Point"]) in caught.value.hint
    assert "Heron" not in str(caught.value), "an error holds no stored text"
    for node in ("nothing alike", str(uuid4())):
        with pytest.raises(NotFound, match="memory_search"):
            tool(memory, node=node)
    with pytest.raises(NotFound, match="`to`"):
        tool(memory, node="mill", to="nowhere")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"to": "mill"}, InvalidParameter),
        ({"depth": 0}, InvalidParameter),
        ({"depth": 21, "node": "a"}, InvalidParameter),
        ({"limit": 1_001}, InvalidParameter),
        ({"direction": "up"}, InvalidParameter),
        ({"node": "\ud83d"}, InvalidParameter),
        ({"node": "x" * 501}, TextTooLong),
        ({"kind": "x" * 300}, TextTooLong),
        ({"node": "  "}, EmptyText),
        ({"cursor": "nonsense"}, BadCursor),
        ({"cursor": "WzEsMl0"}, BadCursor),
        ({"explain": "no-id"}, InvalidParameter),
    ],
)
def test_bad_input(memory: LocalMemory, given: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        tool(memory, **given)


def test_a_cursor_belongs_to_its_question(memory: LocalMemory) -> None:
    relate(memory, *(("hub", "has", f"leaf {n}") for n in range(5)))
    cursor = ask(memory, "hub", limit=2).next_cursor
    assert len(ask(memory, "HUB", limit=3, cursor=cursor).edges) == 3
    for other in ({"node": "leaf 1"}, {"node": ""}, {"node": "hub", "kind": "has"}, {"node": "hub", "depth": 2}):
        with pytest.raises(BadCursor):
            tool(memory, cursor=cursor, **other)


def test_nothing_stored(memory: LocalMemory) -> None:
    answer = tool(memory)
    assert (answer.nodes, answer.edges, answer.next_cursor, answer.counters.edges) == ((), (), "", 0)
    assert "No links found" in render(answer)


@pytest.mark.fault(12)
@pytest.mark.parametrize("letter", ["x", "ж", "🦔"])
def test_big_answers_stay_within_their_limits(memory: LocalMemory, letter: str) -> None:
    wanted = [(f"{n} {letter * 450}", letter * 60, f"{n + 2_000} {letter * 450}") for n in range(1_200)]
    relate(memory, *wanted)
    answer = ask(memory, limit=1_000)
    structure = model.to_json(answer)
    assert fitted_structure(structure) is structure
    assert len(json.dumps(structure, ensure_ascii=False).encode()) < STRUCTURE_LIMIT_BYTES
    assert len(render(answer).encode()) <= 20_000
    seen = everything(memory, limit=1_000)
    assert len(seen) == len(set(seen)) == 1_200


def test_many_kinds_are_counted_together(memory: LocalMemory) -> None:
    relate(memory, *(("a", f"kind{n}", "b") for n in range(150)))
    counted = ask(memory, "a", limit=1).counters
    assert (counted.edges, len(counted.by_kind)) == (150, 101)
    assert counted.by_kind[graph_questions.OTHER_KINDS] == 50


# --- which store answers ------------------------------------------------------------------------------


class ListedServer:
    """A graph server that answers from the tables, or not at all."""

    backend = "memgraph"

    def __init__(self, memory: LocalMemory) -> None:
        self.inner = memory.rooms.stored_graph
        self.asked = 0
        self.down = False

    def edges_at(
        self, tenant: str, refs: Sequence[model.NodeRef], where: EdgeFilter, *, after: UUID | None, limit: int
    ) -> list[model.Edge]:
        self.asked += 1
        if self.down:
            raise Unavailable("The graph server does not answer.")
        return self.inner.edges_at(tenant, refs, where, after=after, limit=limit)


@pytest.fixture
def server(memory: LocalMemory) -> Iterator[ListedServer]:
    memory.rooms.graph_server = ListedServer(memory)
    memory.rooms.graph_consumer = f"graph:{memory.tenant}"
    with memory.rooms.db.everything() as conn:
        outbox.register(conn, memory.rooms.graph_consumer)
    yield memory.rooms.graph_server
    with memory.rooms.db.everything() as conn:
        conn.execute(text("DELETE FROM pm_projection WHERE consumer = :c"), {"c": memory.rooms.graph_consumer})


def filled(memory: LocalMemory) -> None:
    with memory.rooms.db.everything() as conn:
        conn.execute(
            text("UPDATE pm_projection SET backfilling = false WHERE consumer = :c"),
            {"c": memory.rooms.graph_consumer},
        )


def test_a_server_answers_when_it_is_filled(memory: LocalMemory, server: ListedServer) -> None:
    relate(memory, ("a", "x", "b"))
    early = ask(memory, "a")
    assert (len(early.edges), server.asked) == (1, 0)
    assert [(part.part, "filled" in part.reason) for part in early.degraded] == [("memgraph", True)]
    filled(memory)
    answer = ask(memory, "a")
    assert (len(answer.edges), answer.degraded, answer.pending, server.asked > 0) == (1, (), 0, True)


def test_what_waits_for_the_server_is_said(memory: LocalMemory, server: ListedServer) -> None:
    filled(memory)
    put(memory, "It waits.", ("Mill", "mentions"))
    assert ask(memory, "mill").pending > 0


def test_postgresql_answers_for_a_server_that_is_down(memory: LocalMemory, server: ListedServer) -> None:
    relate(memory, ("a", "x", "b"))
    filled(memory)
    server.down = True
    answer = ask(memory, "a")
    assert (len(answer.edges), answer.pending) == (1, 0)
    assert [part.part for part in answer.degraded] == ["memgraph"]
    assert "PostgreSQL answered" in answer.degraded[0].reason


def test_what_a_server_says_is_read_again(memory: LocalMemory, server: ListedServer) -> None:
    ids = relate(memory, ("a", "x", "b"), ("a", "x", "c"), ("a", "x", "d"))
    filled(memory)
    told = [memory.rooms.stored_graph.edges_at(memory.tenant, [model.NodeRef(NodeKind.ENTITY, ids["a"])], EdgeFilter(),
                                               after=None, limit=10)]  # fmt: skip
    server.inner = type("Late", (), {"edges_at": lambda *_, **__: told.pop() if told else []})()  # type: ignore[assignment]
    with memory.rooms.db.tenant(memory.tenant) as conn:
        conn.execute(text("DELETE FROM pm_atom_link WHERE dst_id = :d"), {"d": ids["b"]})
        conn.execute(text("UPDATE pm_atom_link SET src_id = :s WHERE dst_id = :d"), {"s": ids["c"], "d": ids["d"]})
    assert triples(ask(memory, str(ids["a"]))) == [("a", "x", "c")]


def test_a_bolt_server_that_was_projected_to(memory: LocalMemory, bolt_peer: BoltPeer) -> None:
    """The whole way: stored, projected, asked of the server, read again from PostgreSQL."""
    put(memory, "Сигнал подали мегафоном.", ("Мегафон", "работает-в"), ("X`) DETACH DELETE n //", "R…"))
    instance = uuid4()
    server = Server(bolt_peer.url, bolt_peer.user, bolt_peer.password)
    store = GraphStore(server, instance)
    store.open()
    consumer = f"graph:{memory.tenant}"
    sync = Sync(memory.rooms.db, [GraphProjection(memory.rooms.db, store, consumer, 1)])
    try:
        while sync.step():
            continue
        memory.rooms.graph_server, memory.rooms.graph_consumer = GraphReader(server, instance), consumer
        for name in ("мегафон", "МЕГАФОН"):
            answer = ask(memory, name, depth=2)
            assert (answer.degraded, answer.pending) == ((), 0)
            assert [edge.kind for edge in answer.edges] == ["работает-в", "R…"]
        assert len(ask(memory, "мегафон", to="x`) detach delete n //").path) == 3
        put(memory, "It came later.", ("Мегафон", "names"))
        assert ask(memory, "мегафон").pending > 0
        while sync.step():
            continue
        assert len(ask(memory, "мегафон").edges) == 2
    finally:
        store.close()
        with memory.rooms.db.everything() as conn:
            conn.execute(text("DELETE FROM pm_projection WHERE consumer = :c"), {"c": consumer})


@pytest.mark.parametrize("url", ["bolt://127.0.0.1:1", "http://no-bolt"])
def test_a_server_that_cannot_be_reached_costs_one_try(memory: LocalMemory, server: ListedServer, url: str) -> None:
    relate(memory, ("a", "x", "b"))
    filled(memory)
    settings = memory.rooms.settings.model_copy(update={"memgraph_url": url})
    memory.rooms.graph_server = lazy = LazyGraphServer(settings, memory.rooms.db)
    answers = [ask(memory, "a") for _ in range(2)]
    lazy.close()
    for answer in answers:
        assert len(answer.edges) == 1
        assert [part.part for part in answer.degraded] == ["memgraph"]
        assert "graph_unavailable" in answer.degraded[0].reason


# --- plans --------------------------------------------------------------------------------------------


class Spy:
    """Keeps the statements that go through a connection."""

    def __init__(self, conn: object) -> None:
        self._conn = conn
        self.statements: list[tuple[str, dict[str, object]]] = []

    def execute(self, statement: object, values: dict[str, object]) -> object:
        self.statements.append((str(statement), values))
        return self._conn.execute(statement, values)  # type: ignore[attr-defined]


@pytest.mark.parametrize("analyzed", [False, True])
def test_questions_use_the_indexes(memory: LocalMemory, analyzed: bool) -> None:
    """Whether or not the planner has counted the rows of the tenant."""
    relate(memory, *((f"n{n}", f"k{n % 7}", f"n{(n * 7) % 4_000}") for n in range(4_000)))
    with memory.rooms.db.tenant(memory.tenant) as conn:
        if analyzed:
            conn.execute(text("ANALYZE pm_atom_link, pm_entity"))
        spy = Spy(conn)
        ref = model.NodeRef(NodeKind.ENTITY, new_id())
        for where in (EdgeFilter(), EdgeFilter(Direction.IN, frozenset({"k1"}), False)):
            graph_questions.edges_at(spy, memory.tenant, [ref] * 3, where, after=None, limit=100)  # type: ignore[arg-type]
        graph_questions.newest(spy, memory.tenant, EdgeFilter(), before=LAST, limit=100)  # type: ignore[arg-type]
        graph_questions.named(spy, memory.tenant, "n5", 10)  # type: ignore[arg-type]
        graph_questions.names_beside(spy, memory.tenant, "n5")  # type: ignore[arg-type]
        plans = [[*conn.execute(text(f"EXPLAIN {said}"), bound).scalars()] for said, bound in spy.statements]
    for plan in plans:
        scans = [line for line in plan if "Seq Scan" in line and "pm_code" not in line]
        allowed = [line for line in plan if "ANY (aliases)" in line]  # no index under row level security
        assert len(scans) <= len(allowed), "\n".join(plan)
    text_of_edges = "\n".join(plans[0])
    assert "ix_pm_atom_link_src" in text_of_edges
    assert "ix_pm_atom_link_dst" in text_of_edges
