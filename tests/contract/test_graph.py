"""What every graph answers, whichever store holds it: PostgreSQL, and a Bolt server that it was projected to."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from pegas_memory.db.graph_questions import PostgresGraph
from pegas_memory.db.session import Database
from pegas_memory.graph import Graph
from pegas_memory.memgraph_store import GraphReader, GraphStore, Server
from pegas_memory.model import Direction, EdgeFilter, NodeRef
from pegas_memory.outbox_sync import GraphProjection, Sync
from tests.support import graph_rows as rows
from tests.support.bolt_peer import BoltPeer

TENANTS = ("default", "a", "a/b", "a|b", "%", "../x", "Ёлка")


class Peerless:
    """PostgreSQL answers from the tables: there is nothing to bring up to date."""

    def __init__(self, db: Database) -> None:
        self.graph: Graph = PostgresGraph(db)

    def settle(self) -> None: ...

    def close(self) -> None: ...


class Projected:
    def __init__(self, db: Database, peer: BoltPeer) -> None:
        server = Server(peer.url, peer.user, peer.password)
        instance = uuid4()
        store = GraphStore(server, instance)
        store.open()
        self.graph: Graph = GraphReader(server, instance)
        self._sync = Sync(db, [GraphProjection(db, store, "graph:test", 1)])
        self.close = store.close

    def settle(self) -> None:
        while self._sync.step():
            continue


@pytest.fixture
def db(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()


@pytest.fixture(params=["postgresql", "bolt"])
def kept(request: pytest.FixtureRequest, db: Database) -> Iterator[Peerless | Projected]:
    if request.param == "postgresql":
        yield Peerless(db)
        return
    projected = Projected(db, request.getfixturevalue("bolt_peer"))
    yield projected
    projected.close()


ANY = EdgeFilter()


def test_edges_by_direction_kind_and_inference(kept: Peerless | Projected, db: Database) -> None:
    with db.tenant("t") as conn:
        a, b, c = (rows.entity(conn, "t", name) for name in "abc")
        ab = rows.link(conn, "t", a, b, "works_in")
        ba = rows.link(conn, "t", b, a, "owns")
        ac = rows.link(conn, "t", a, c, "works_in", inferred=True)
        rows.link(conn, "t", b, c, "far")
    kept.settle()

    def ids(refs: list[NodeRef], where: EdgeFilter) -> set[object]:
        return {edge.id for edge in kept.graph.edges_at("t", refs, where, after=None, limit=100)}

    assert ids([a], ANY) == {ab, ba, ac}
    assert ids([a], EdgeFilter(Direction.OUT)) == {ab, ac}
    assert ids([a], EdgeFilter(Direction.IN)) == {ba}
    assert ids([a], EdgeFilter(kinds=frozenset({"owns", "none"}))) == {ba}
    assert ids([a], EdgeFilter(include_inferred=False)) == {ab, ba}
    assert ids([], ANY) == set()
    assert ids([NodeRef(a.kind, uuid4())], ANY) == set()


def test_an_edge_comes_back_as_it_was_written(kept: Peerless | Projected, db: Database) -> None:
    with db.tenant("t") as conn:
        claim = rows.atom(conn, "t", "Kilns are hot")
        run = rows.symbol(conn, "t", "Run")
        link = rows.link(conn, "t", claim, run, "documents")
        call = rows.dependency(conn, "t", run, run)
    kept.settle()
    (edge,) = kept.graph.edges_at("t", [claim], ANY, after=None, limit=9)
    assert (edge.id, edge.tenant, edge.src, edge.dst) == (link, "t", claim, run)
    assert (edge.kind, edge.confidence, edge.source, edge.inferred, edge.revision) == (
        "documents",
        0.5,
        "stored",
        False,
        1,
    )
    (own,) = [edge for edge in kept.graph.edges_at("t", [run], ANY, after=None, limit=9) if edge.id == call]
    assert (own.src, own.dst, own.source, own.confidence) == (run, run, "code", 0.75)


def test_pages_by_id_show_each_edge_once(kept: Peerless | Projected, db: Database) -> None:
    with db.tenant("t") as conn:
        hub = rows.entity(conn, "t", "hub")
        spokes = [rows.entity(conn, "t", f"spoke {n}") for n in range(25)]
        made = {rows.link(conn, "t", hub, spoke, "has") for spoke in spokes}
    kept.settle()
    seen: list[object] = []
    after = None
    while page := kept.graph.edges_at("t", [hub, *spokes], ANY, after=after, limit=7):
        seen += [edge.id for edge in page]
        after = page[-1].id
    assert len(seen) == 25
    assert set(seen) == made
    assert seen == sorted(seen)  # type: ignore[type-var]


@pytest.mark.fault(50)
@pytest.mark.parametrize(
    "kind", ["работает-в", "a.b", "x`y", "R…", "к" * 300, "1st", "X`) DETACH DELETE n //", "$kinds", "' OR 1=1 --"]
)
def test_any_text_is_a_kind(kept: Peerless | Projected, db: Database, kind: str) -> None:
    with db.tenant("t") as conn:
        a, b = rows.entity(conn, "t", f"a {kind}"), rows.entity(conn, "t", "b \\ ' \" ` \n 🦔")
        rows.link(conn, "t", a, b, kind)
    kept.settle()
    (edge,) = kept.graph.edges_at("t", [a], EdgeFilter(kinds=frozenset({kind})), after=None, limit=9)
    assert (edge.kind, edge.src, edge.dst) == (kind, a, b)


@pytest.mark.fault(65)
def test_a_tenant_sees_its_own_alone(kept: Peerless | Projected, db: Database) -> None:
    made = {}
    for tenant in TENANTS:
        with db.tenant(tenant) as conn:
            a, b = rows.entity(conn, tenant, "same"), rows.entity(conn, tenant, "other")
            made[tenant] = (a, rows.link(conn, tenant, a, b, "is"))
    kept.settle()
    for tenant in TENANTS:
        edge_id = made[tenant][1]
        refs = [ref for ref, _ in made.values()]
        assert [e.id for e in kept.graph.edges_at(tenant, refs, ANY, after=None, limit=99)] == [edge_id]
    assert kept.graph.edges_at("", refs, ANY, after=None, limit=99) == []
