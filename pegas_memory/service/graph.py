"""Asking the graph: neighbours, paths, one link's proof.

A graph server only says where to look: every edge and node is read from PostgreSQL before it is shown.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from pegas_memory.db import graph as rows
from pegas_memory.db import graph_questions, links
from pegas_memory.errors import BadCursor, InvalidParameter, NotAvailableYet, NotFound, Unavailable
from pegas_memory.graph import LAST, Graph, Position, Reader, Step, neighbourhood, path
from pegas_memory.model import (
    Degraded,
    Edge,
    EdgeFilter,
    GraphAnswer,
    GraphEdge,
    GraphNode,
    GraphRequest,
    Node,
    NodeKind,
    NodeRef,
    ProofStep,
)
from pegas_memory.service.memory import KIND_LIMIT
from pegas_memory.service.rooms import OpenRooms
from pegas_memory.text import clean_name, clean_text, collapse, fold, sha256

MOST_LINKS, DEEPEST, LONGEST_PATH = 1_000, 20, 20
MOST_STARTS = 100
"""Nodes of one name that a walk starts at."""
ANSWER_ROOM = 400_000
"""Bytes of nodes and edges in one page: what a client takes is 512,000, and JSON has its own signs."""
EDGE_SIZE, NODE_SIZE = 220, 90
"""Bytes of one of them as JSON, without its texts."""
NEAR_ENOUGH = 0.6


@dataclass(frozen=True, slots=True)
class _Found:
    """What an answer shows: ``asked`` nodes first. ``following`` is where the next page begins; ``until``
    the newest edge of which its pages know."""

    steps: Sequence[Step] = ()
    asked: Sequence[NodeRef] = ()
    path: Sequence[NodeRef] = ()
    following: Position | None = None
    until: UUID = LAST
    degraded: tuple[Degraded, ...] = ()


def query(rooms: OpenRooms, tenant: str, request: GraphRequest) -> GraphAnswer:
    """The links around a node, a path between two, or the newest of all; with ``explain`` a link's proof.

    Raises:
        InvalidParameter, BadCursor, NotFound (no such node or link), NotAvailableYet (proof of an inferred one).
    """
    request = _checked(request)
    proven = _proven(rooms, tenant, request.explain) if request.explain else None
    if proven and not request.node:
        found, pending = _Found([Step(1, proven)], [proven.src, proven.dst]), 0
    else:
        found, pending = _found(rooms, tenant, request)
    answer = _shown(rooms, tenant, request, found)
    proof = (ProofStep(proven.id, "", ()),) if proven else ()
    return replace(answer, proof=proof, degraded=found.degraded, pending=pending)


def _checked(request: GraphRequest) -> GraphRequest:
    if not 1 <= request.limit <= MOST_LINKS:
        raise InvalidParameter(f"`limit` is {request.limit}; it must be from 1 to {MOST_LINKS}.")
    if request.depth is not None and not 1 <= request.depth <= DEEPEST:
        raise InvalidParameter(f"`depth` is {request.depth}; it must be from 1 to {DEEPEST}.")
    if request.to and not request.node:
        raise InvalidParameter("`to` needs `node`, where the path starts.", "Name both ends of the path.")
    return replace(
        request,
        node=clean_name(request.node, field="node") if request.node else "",
        to=clean_name(request.to, field="to") if request.to else "",
        kind=clean_text(request.kind, field="kind", max_characters=KIND_LIMIT, multiline=False),
    )


def _proven(rooms: OpenRooms, tenant: str, edge_id: UUID) -> Edge:
    with rooms.db.tenant(tenant) as conn:
        edge = graph_questions.edges(conn, tenant, [edge_id]).get(edge_id)
    if edge is None:
        raise NotFound("`explain` names no link of this memory.", "Take an edge_id from an answer of this tool.")
    if edge.inferred:
        raise NotAvailableYet("Proofs of inferred links come with memory_infer, which is not in this version.")
    return edge


def _found(rooms: OpenRooms, tenant: str, request: GraphRequest) -> tuple[_Found, int]:
    """From the graph server, else from PostgreSQL; and how many changes the one that answered lacks."""
    if not request.node:
        return _newest(rooms, tenant, request), 0
    server = rooms.graph_server
    if server is None:
        return _around(rooms, tenant, rooms.stored_graph, request), 0
    settled = rooms.written.settle_graph(tenant)
    if settled.degraded:
        reason = settled.degraded[0].reason
    else:
        try:
            return _around(rooms, tenant, server, request), settled.pending
        except Unavailable as error:
            reason = f"{error.code}: {error.message}"
    found = _around(rooms, tenant, rooms.stored_graph, request)
    said = Degraded(server.backend, f"{reason.rstrip('.')}; PostgreSQL answered instead")
    return replace(found, degraded=(said, *found.degraded)), 0


class _Truth:
    """Edges as PostgreSQL has them now, less those that lead to a node which is gone, retracted or
    superseded; nodes that were asked for themselves are shown in any state."""

    def __init__(self, rooms: OpenRooms, tenant: str, graph: Graph | None, asked: Iterable[NodeRef] = ()) -> None:
        self._db, self._tenant = rooms.db, tenant
        self._read_again = graph is not None and graph is not rooms.stored_graph
        self._stands = dict.fromkeys(asked, True)

    def __call__(self, edges: Sequence[Edge]) -> list[Edge]:
        if not edges:
            return []
        with self._db.tenant(self._tenant) as conn:
            if self._read_again:
                known = graph_questions.edges(conn, self._tenant, [edge.id for edge in edges])
                edges = [known[edge.id] for edge in edges if edge.id in known]
            ends = {end for edge in edges for end in (edge.src, edge.dst)}
            new = [end for end in ends if end not in self._stands]
            stand = graph_questions.standing(conn, self._tenant, new)
        self._stands |= {end: end in stand for end in new}
        return [edge for edge in edges if self._stands[edge.src] and self._stands[edge.dst]]


def _where(request: GraphRequest) -> EdgeFilter:
    kinds = frozenset({request.kind}) if request.kind else frozenset()
    return EdgeFilter(request.direction, kinds, request.include_inferred)


def _newest(rooms: OpenRooms, tenant: str, request: GraphRequest) -> _Found:
    before = _position(request).after if request.cursor else LAST
    checked = _Truth(rooms, tenant, None)
    steps: list[Step] = []
    while True:
        with rooms.db.tenant(tenant) as conn:
            read = graph_questions.newest(conn, tenant, _where(request), before=before, limit=request.limit + 1)
        steps += [Step(1, edge) for edge in checked(read)]
        if len(steps) > request.limit:
            shown = steps[: request.limit]
            return _Found(shown, following=Position(1, shown[-1].edge.id))
        if len(read) <= request.limit:
            return _Found(steps)
        before = read[-1].id


def _around(rooms: OpenRooms, tenant: str, graph: Graph, request: GraphRequest) -> _Found:
    starts, more = _nodes_of(rooms, tenant, request.node, "node")
    ends, more_ends = _nodes_of(rooms, tenant, request.to, "to") if request.to else (set(), False)
    reader = Reader(graph, tenant, _where(request), checked=_Truth(rooms, tenant, graph, starts | ends))
    asked = sorted(starts, key=_by_id) + sorted(ends - starts, key=_by_id)
    degraded = _too_many_starts() if more or more_ends else ()
    if request.to:
        way = path(reader, starts, ends, request.depth or LONGEST_PATH)
        steps = [Step(number, edge) for number, edge in enumerate(way.edges, 1)]
        found = _Found(steps, way.nodes or asked, way.nodes)
        complete = way.complete
    else:
        at = _position(request) if request.cursor else Position(until=_newest_id(rooms, tenant))
        walk = neighbourhood(reader, starts, request.depth or 1, request.limit, at)
        found, complete = _Found(walk.steps, asked, following=walk.following, until=at.until), walk.complete
    return replace(found, degraded=degraded if complete else (*degraded, *_stopped()))


def _by_id(ref: NodeRef) -> UUID:
    return ref.id


def _too_many_starts() -> tuple[Degraded, ...]:
    return (Degraded("nodes", f"more than {MOST_STARTS} nodes have that name; ask for one by its id"),)


def _stopped() -> tuple[Degraded, ...]:
    return (Degraded("walk", "it ended early, too many links lead on; narrow it by kind, direction or depth"),)


def _newest_id(rooms: OpenRooms, tenant: str) -> UUID:
    with rooms.db.tenant(tenant) as conn:
        newest = graph_questions.newest(conn, tenant, EdgeFilter(), before=None, limit=1)
    return newest[0].id if newest else LAST


def _nodes_of(rooms: OpenRooms, tenant: str, asked: str, field: str) -> tuple[set[NodeRef], bool]:
    """The node of an id, or all nodes of a name, and whether there are still more of them."""
    try:
        node_id = UUID(asked)
    except ValueError:
        return _nodes_named(rooms, tenant, asked, field)
    with rooms.db.tenant(tenant) as conn:
        kind = links.kind_of(conn, tenant, node_id)
    if kind is None:
        raise NotFound(
            f"`{field}` is an id that this memory does not hold.", "Give an id from memory_search, or a name."
        )
    return {NodeRef(NodeKind(kind), node_id)}, False


def _nodes_named(rooms: OpenRooms, tenant: str, name: str, field: str) -> tuple[set[NodeRef], bool]:
    folded = fold(collapse(name))
    with rooms.db.tenant(tenant) as conn:
        refs = graph_questions.named(conn, tenant, folded, MOST_STARTS + 1)
        near = {} if refs else graph_questions.names_beside(conn, tenant, folded)
    if refs:
        return set(refs[:MOST_STARTS]), len(refs) > MOST_STARTS
    close = [str(near[each]) for each in difflib.get_close_matches(folded, near, 3, NEAR_ENOUGH)]
    hint = f"Of a similar name are the nodes {', '.join(close)}." if close else ""
    raise NotFound(
        f"`{field}` names no node of this memory.",
        hint
        or "Claims have no names: give the id of one from memory_search. Without `node` the newest links are listed.",
    )


# --- what is shown ----------------------------------------------------------------------------------


def _shown(rooms: OpenRooms, tenant: str, request: GraphRequest, found: _Found) -> GraphAnswer:
    refs = dict.fromkeys([*found.asked, *(end for step in found.steps for end in _ends(step))])
    with rooms.db.tenant(tenant) as conn:
        known = rows.nodes(conn, tenant, [ref.id for ref in refs])
        counted = graph_questions.counters(conn, tenant)
    kept = _fitting(found, known)
    following = found.following
    if len(kept) < len(found.steps):
        following = Position(kept[-1].level, kept[-1].edge.id, found.until)
    shown = dict.fromkeys(ref.id for ref in (*found.asked, *(end for step in kept for end in _ends(step))))
    return GraphAnswer(
        nodes=tuple(GraphNode(each, known[each].ref.kind.value, known[each].name) for each in shown if each in known),
        edges=tuple(_edge(step.edge) for step in kept),
        path=tuple(ref.id for ref in found.path),
        proof=(),
        counters=counted,
        next_cursor=_cursor(request, following) if following else "",
    )


def _ends(step: Step) -> tuple[NodeRef, NodeRef]:
    return step.edge.src, step.edge.dst


def _fitting(found: _Found, known: Mapping[UUID, Node]) -> Sequence[Step]:
    """As many of the first steps as one message holds, at least one."""
    room = ANSWER_ROOM
    counted: set[NodeRef] = set()
    for number, step in enumerate(found.steps):
        new = {*_ends(step)} - counted
        counted |= new
        room -= EDGE_SIZE + len(step.edge.kind.encode())
        room -= sum(NODE_SIZE + len(known[ref.id].name.encode()) for ref in new if ref.id in known)
        if room < 0 and number:
            return found.steps[:number]
    return found.steps


def _edge(edge: Edge) -> GraphEdge:
    return GraphEdge(edge.id, edge.src.id, edge.dst.id, edge.kind, edge.confidence, edge.inferred, edge.source)


def _cursor(request: GraphRequest, at: Position) -> str:
    body = [at.level, at.after.hex, at.until.hex, _fingerprint(request)]
    return base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")


def _position(request: GraphRequest) -> Position:
    try:
        padded = request.cursor + "=" * (-len(request.cursor) % 4)
        level, after, until, fingerprint = json.loads(base64.urlsafe_b64decode(padded))
        at = Position(int(level), UUID(after), UUID(until))
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise BadCursor("`cursor` is not one that memory_query_graph gave out.") from error
    if fingerprint != _fingerprint(request) or not 1 <= at.level <= DEEPEST:
        raise BadCursor("`cursor` belongs to another question.")
    return at


def _fingerprint(request: GraphRequest) -> str:
    parts = [fold(collapse(request.node)), request.kind, request.direction, request.depth or 1]
    return sha256(*map(str, (*parts, request.include_inferred)))[:16]
