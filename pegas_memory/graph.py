"""Walks and paths over a graph, whichever store holds it: pure, over the one question of which edges
touch some nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from pegas_memory.model import Direction, Edge, EdgeFilter, NodeRef

MOST_READ = 20_000
"""Edges that one question may read: about a second from PostgreSQL (2 cores). One that needs more says so."""
LEAST_STEP = 100
FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)


class Graph(Protocol):
    """A store of nodes and edges. Thread-safe; raises ``Unavailable`` when it does not answer.

    It is only asked how nodes hang together. Names and counts are PostgreSQL's: it has indexes for them, where
    a graph server would read every node of the tenant, and it is never late."""

    @property
    def backend(self) -> str: ...

    def edges_at(
        self, tenant: str, refs: Sequence[NodeRef], where: EdgeFilter, *, after: UUID | None, limit: int
    ) -> list[Edge]:
        """Edges that touch any of ``refs`` in the filter's direction (OUT: their src is one of them), each
        once, ids ascending from after ``after``, ``limit`` at most."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page begins: after the edge ``after`` of ``level``.

    Edges newer than ``until`` are no part of the walk, so that what is written between two pages moves no
    node nearer: each edge that stands meanwhile is answered. One may be answered twice when others that led
    to it are deleted meanwhile."""

    level: int = 1
    after: UUID = FIRST
    until: UUID = LAST


@dataclass(frozen=True, slots=True)
class Step:
    """An edge, and how many edges away from the start it is; the start's own are 1."""

    level: int
    edge: Edge


@dataclass(frozen=True, slots=True)
class Walk:
    """``complete`` is False when the walk ended because it had read as many edges as one question may."""

    steps: tuple[Step, ...]
    following: Position | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Path:
    """Both empty when there is none; ``complete`` as of :class:`Walk`."""

    nodes: tuple[NodeRef, ...] = ()
    edges: tuple[Edge, ...] = ()
    complete: bool = True


class TooManyEdges(Exception):
    """The question has read as many edges as it may."""


class Reader:
    """Reads the edges of one question, ``most`` of them. ``checked`` keeps those that may be shown."""

    def __init__(
        self,
        graph: Graph,
        tenant: str,
        where: EdgeFilter,
        *,
        checked: Callable[[Sequence[Edge]], Iterable[Edge]] = lambda edges: edges,
        most: int = MOST_READ,
    ) -> None:
        self._graph, self._tenant, self._checked = graph, tenant, checked
        self.where = where
        self.left = most
        self.passed = FIRST
        """The last id up to which everything was read."""

    def edges(
        self, refs: Set[NodeRef], where: EdgeFilter, *, after: UUID = FIRST, until: UUID = LAST, step: int = 0
    ) -> Iterator[Edge]:
        """Edges at ``refs`` with ids above ``after`` up to ``until``, ascending, read ``step`` at a time.

        Raises TooManyEdges."""
        ordered, self.passed = sorted(refs), after
        while True:
            asked = min(step or MOST_READ, self.left + 1)
            read = self._graph.edges_at(self._tenant, ordered, where, after=self.passed, limit=asked)
            self.left -= len(read)
            if self.left < 0:
                raise TooManyEdges
            wanted = [edge for edge in read if edge.id <= until]
            yield from (edge for edge in self._checked(wanted) if _touches(edge, refs, where))
            if len(read) < asked or len(wanted) < len(read):
                return
            self.passed = read[-1].id


def _touches(edge: Edge, refs: Set[NodeRef], where: EdgeFilter) -> bool:
    """What was asked for, checked again: an edge may have changed since a server was told of it."""
    if (where.kinds and edge.kind not in where.kinds) or (edge.inferred and not where.include_inferred):
        return False
    return any(near in refs for near, _ in _ways(edge, where.direction))


def _ways(edge: Edge, direction: Direction) -> tuple[tuple[NodeRef, NodeRef], ...]:
    """(from, to) for each way in which the edge may be gone."""
    out, back = (edge.src, edge.dst), (edge.dst, edge.src)
    return {Direction.OUT: (out,), Direction.IN: (back,), Direction.BOTH: (out, back)}[direction]


def neighbourhood(reader: Reader, starts: Set[NodeRef], depth: int, limit: int, at: Position | None = None) -> Walk:
    """The edges up to ``depth`` steps away, by level and id, each once: a page of ``limit`` of them at most.

    An edge is of the level at which the walk first meets it. For a later page the levels before it are
    walked again, which costs reading them, and no memory between two calls."""
    at = at or Position()
    steps: list[Step] = []
    near: set[NodeRef] = set()
    frontier = set(starts)
    for level in range(1, depth + 1):
        reached: set[NodeRef] = set()
        listed = level >= at.level
        after = at.after if level == at.level else FIRST
        try:
            if listed:
                step = max(limit - len(steps) + 1, LEAST_STEP)
                for edge in _met(reader, frontier, near, after, at.until, step):
                    if len(steps) == limit:
                        return Walk(tuple(steps), Position(steps[-1].level, steps[-1].edge.id, at.until))
                    steps.append(Step(level, edge))
                    reached |= {edge.src, edge.dst}
            if level < depth and not (listed and after == FIRST):
                for edge in _met(reader, frontier, near, FIRST, after if listed else at.until, 0):
                    reached |= {edge.src, edge.dst}
        except TooManyEdges:
            more = listed and reader.passed > after
            return Walk(tuple(steps), Position(level, reader.passed, at.until) if more else None, complete=more)
        near |= frontier
        frontier = reached - near
        if not frontier:
            break
    return Walk(tuple(steps))


def _met(
    reader: Reader, frontier: Set[NodeRef], near: Set[NodeRef], after: UUID, until: UUID, step: int
) -> Iterator[Edge]:
    """The edges at the frontier that no nearer level had."""
    both = reader.where.direction is Direction.BOTH
    for edge in reader.edges(frontier, reader.where, after=after, until=until, step=step):
        if not (both and (edge.src in near or edge.dst in near)):
            yield edge


_BACKWARDS = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT, Direction.BOTH: Direction.BOTH}


class _Side:
    """One end of a path, growing: which node each node was reached from, and by which edge."""

    def __init__(self, starts: Set[NodeRef], where: EdgeFilter) -> None:
        self.where = where
        self.depth = 0
        self.frontier = set(starts)
        self.came: dict[NodeRef, tuple[NodeRef, Edge] | None] = dict.fromkeys(starts)

    def grow(self, reader: Reader) -> None:
        """One level further. Edges come by id, so that of several ways the oldest edge is taken."""
        fresh: dict[NodeRef, tuple[NodeRef, Edge] | None] = {}
        for edge in reader.edges(self.frontier, self.where):
            for near, far in _ways(edge, self.where.direction):
                if near in self.frontier and far not in self.came:
                    fresh.setdefault(far, (near, edge))
        self.came |= fresh
        self.frontier = set(fresh)
        self.depth += 1

    def way_to(self, node: NodeRef) -> tuple[list[NodeRef], list[Edge]]:
        """From ``node`` back to the start, without ``node`` itself."""
        nodes: list[NodeRef] = []
        edges: list[Edge] = []
        while (step := self.came[node]) is not None:
            node = step[0]
            nodes.append(node)
            edges.append(step[1])
        return nodes, edges


def path(reader: Reader, start: Set[NodeRef], end: Set[NodeRef], longest: int) -> Path:
    """A shortest path of at most ``longest`` edges from any of ``start`` to any of ``end``; among equals
    always the same one. Grown from both ends, the smaller first."""
    ahead = _Side(start, reader.where)
    behind = _Side(end, replace(reader.where, direction=_BACKWARDS[reader.where.direction]))
    met = start & end
    try:
        while not met and ahead.frontier and behind.frontier and ahead.depth + behind.depth < longest:
            side, other = (ahead, behind) if len(ahead.frontier) <= len(behind.frontier) else (behind, ahead)
            side.grow(reader)
            met = side.frontier & other.came.keys()
    except TooManyEdges:
        return Path(complete=False)
    if not met:
        return Path()
    middle = min(met)
    before, edges_before = ahead.way_to(middle)
    beyond, edges_beyond = behind.way_to(middle)
    return Path((*reversed(before), middle, *beyond), (*reversed(edges_before), *edges_beyond))
