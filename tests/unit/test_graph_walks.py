"""Walks and paths against a naive reference, on random graphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from pegas_memory.graph import Position, Reader, Walk, neighbourhood, path
from pegas_memory.model import Direction, Edge, EdgeFilter, NodeKind, NodeRef

NODES = [NodeRef(NodeKind.ENTITY, UUID(int=n)) for n in range(8)]
KINDS = ("a", "b")


class ListedGraph:
    """The protocol, as plainly as it can be written."""

    backend = "list"

    def __init__(self, edges: Sequence[Edge]) -> None:
        self.edges = list(edges)

    def edges_at(
        self, tenant: str, refs: Sequence[NodeRef], where: EdgeFilter, *, after: UUID | None, limit: int
    ) -> list[Edge]:
        found = [e for e in self.edges if allowed(e, where) and any(near in refs for near, _ in ways(e, where))]
        return sorted((e for e in found if after is None or e.id > after), key=lambda e: e.id)[:limit]


def edge(number: int, src: int, dst: int, kind: str = "a", inferred: bool = False) -> Edge:
    return Edge("t", UUID(int=number + 1), NODES[src], NODES[dst], kind, 1.0, "stored", inferred, 1)


def allowed(one: Edge, where: EdgeFilter) -> bool:
    return (not where.kinds or one.kind in where.kinds) and (where.include_inferred or not one.inferred)


def ways(one: Edge, where: EdgeFilter) -> list[tuple[NodeRef, NodeRef]]:
    out, back = (one.src, one.dst), (one.dst, one.src)
    return {"out": [out], "in": [back], "both": [out, back]}[where.direction]


def distances(edges: Sequence[Edge], where: EdgeFilter, starts: set[NodeRef]) -> dict[NodeRef, int]:
    """Relaxed until nothing changes."""
    known = dict.fromkeys(starts, 0)
    changed = True
    while changed:
        changed = False
        for one in edges:
            for near, far in ways(one, where) if allowed(one, where) else ():
                if near in known and known.get(far, 99) > known[near] + 1:
                    known[far] = known[near] + 1
                    changed = True
    return known


def expected(edges: Sequence[Edge], where: EdgeFilter, starts: set[NodeRef], depth: int) -> list[tuple[int, UUID]]:
    known = distances(edges, where, starts)
    found = []
    for one in edges:
        nearest = [known[near] for near, _ in ways(one, where) if near in known] if allowed(one, where) else []
        if nearest and min(nearest) < depth:
            found.append((min(nearest) + 1, one.id))
    return sorted(found)


def pages(
    edges: list[Edge], where: EdgeFilter, starts: set[NodeRef], depth: int, limit: int, until: UUID
) -> list[tuple[int, UUID]]:
    seen: list[tuple[int, UUID]] = []
    at: Position | None = Position(until=until)
    while at is not None:
        walk = neighbourhood(Reader(ListedGraph(edges), "t", where), starts, depth, limit, at)
        assert len(walk.steps) <= limit
        assert walk.complete
        assert walk.steps or walk.following is None
        seen += [(step.level, step.edge.id) for step in walk.steps]
        at = walk.following
    return seen


ends = st.integers(0, len(NODES) - 1)
graphs = st.lists(st.tuples(ends, ends, st.sampled_from(KINDS), st.booleans()), max_size=24).map(
    lambda drawn: [edge(number, *each) for number, each in enumerate(drawn)]
)
filters = st.builds(
    EdgeFilter,
    st.sampled_from(Direction),
    st.sampled_from([frozenset(), frozenset({"a"}), frozenset({"b", "c"})]),
    st.booleans(),
)
some = st.sets(st.sampled_from(NODES), min_size=1, max_size=3)


@given(graphs, filters, some, st.integers(1, 5), st.integers(1, 30))
@settings(max_examples=400, deadline=None)
def test_every_edge_within_reach_once_by_level_and_id(
    edges: list[Edge], where: EdgeFilter, starts: set[NodeRef], depth: int, limit: int
) -> None:
    assert pages(edges, where, starts, depth, limit, UUID(int=999)) == expected(edges, where, starts, depth)


@given(graphs, graphs, filters, some, st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_edges_written_between_two_pages_hide_none_of_the_others(
    edges: list[Edge], added: list[Edge], where: EdgeFilter, starts: set[NodeRef], depth: int, limit: int
) -> None:
    until = UUID(int=len(edges))
    later = [Edge(e.tenant, UUID(int=500 + n), *(e.src, e.dst, e.kind, 1.0, "stored", e.inferred, 1))
             for n, e in enumerate(added)]  # fmt: skip
    graph = ListedGraph(edges)
    seen: list[tuple[int, UUID]] = []
    at: Position | None = Position(until=until)
    while at is not None:
        walk = neighbourhood(Reader(graph, "t", where), starts, depth, limit, at)
        seen += [(step.level, step.edge.id) for step in walk.steps]
        at = walk.following
        graph.edges += later[:2]
        later = later[2:]
    assert seen == expected(edges, where, starts, depth)


@given(graphs, filters, some, some, st.integers(0, 8))
@settings(max_examples=400, deadline=None)
def test_a_path_is_a_shortest_one(
    edges: list[Edge], where: EdgeFilter, start: set[NodeRef], end: set[NodeRef], longest: int
) -> None:
    known = distances(edges, where, start)
    shortest = min((known[node] for node in end if node in known), default=99)
    found = path(Reader(ListedGraph(edges), "t", where), start, end, longest)
    assert found.complete
    if shortest > longest:
        assert found.nodes == found.edges == ()
        return
    assert len(found.edges) == shortest
    assert found.nodes[0] in start
    assert found.nodes[-1] in end
    for (src, dst), one in zip(pairwise(found.nodes), found.edges, strict=True):
        assert allowed(one, where)
        assert (src, dst) in ways(one, where)
    again = path(Reader(ListedGraph(edges[::-1]), "t", where), start, end, longest)
    assert again == found, "the order in which edges stand changes nothing"


def star(leaves: int) -> list[Edge]:
    return [Edge("t", UUID(int=n + 1), NODES[0], NodeRef(NodeKind.ENTITY, UUID(int=100 + n)), "a", 1.0, "s", False, 1)
            for n in range(leaves)]  # fmt: skip


def test_a_question_that_reads_too_much_says_so() -> None:
    graph, hub = ListedGraph(star(300)), {NODES[0]}
    near = neighbourhood(Reader(graph, "t", EdgeFilter(), most=200), hub, 1, 50)
    assert (len(near.steps), near.complete, near.following is not None) == (50, True, True)
    far = neighbourhood(Reader(graph, "t", EdgeFilter(), most=200), hub, 2, 50, Position(1, UUID(int=280)))
    assert (len(far.steps), far.complete, far.following) == (20, False, None), "what lies beyond is not known"
    assert not path(Reader(graph, "t", EdgeFilter(), most=200), hub, {NODES[1]}, 5).complete


def test_a_page_on_which_most_may_not_be_shown_goes_on_where_it_stopped() -> None:
    graph, hub = ListedGraph(star(1_000)), {NODES[0]}
    at: Position | None = Position()
    seen: list[UUID] = []
    calls = 0
    while at is not None:
        reader = Reader(graph, "t", EdgeFilter(), checked=lambda e: [one for one in e if one.id.int > 950], most=300)
        walk: Walk = neighbourhood(reader, hub, 1, 20, at)
        assert walk.complete
        seen += [step.edge.id for step in walk.steps]
        at, calls = walk.following, calls + 1
    assert seen == [UUID(int=n) for n in range(951, 1_001)]
    assert calls < 10


def test_an_edge_that_changed_since_the_server_was_told_is_left_out() -> None:
    moved = edge(0, 4, 5)
    reader = Reader(ListedGraph([edge(0, 0, 1)]), "t", EdgeFilter(), checked=lambda edges: [moved for _ in edges])
    assert neighbourhood(reader, {NODES[0]}, 1, 10).steps == ()
