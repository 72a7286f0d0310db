"""PostgreSQL → the graph server: whatever order things come in, both hold the same in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from neo4j import GraphDatabase
from sqlalchemy import text

from pegas_memory.db import graph, links, outbox
from pegas_memory.db.outbox import Change
from pegas_memory.db.session import Database
from pegas_memory.errors import GraphUnavailable
from pegas_memory.memgraph_store import GraphStore, Server
from pegas_memory.memgraph_store.dialect import all_statements
from pegas_memory.outbox_sync import GraphProjection, Sync
from tests.support import graph_rows as rows
from tests.support.bolt_peer import DATABASE, BoltPeer
from tests.support.tcp_proxy import TcpProxy

T = "t"
CONSUMER = "graph:test"
NOBODY = UUID(int=0)


@pytest.fixture
def db(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()


@pytest.fixture
def store(bolt_peer: BoltPeer) -> Iterator[GraphStore]:
    kept = GraphStore(Server(bolt_peer.url, bolt_peer.user, bolt_peer.password), uuid4())
    kept.open()
    yield kept
    kept.close()


@pytest.fixture
def projection(db: Database, store: GraphStore) -> GraphProjection:
    return GraphProjection(db, store, CONSUMER, 1)


@pytest.fixture
def settle(db: Database, projection: GraphProjection) -> Callable[[], None]:
    sync = Sync(db, [projection])

    def run() -> None:
        while sync.step():
            continue

    return run


def in_tables(db: Database) -> tuple[dict[UUID, int], dict[UUID, int]]:
    """Nodes and edges by id with their revisions; an edge is one only between nodes that stand."""
    nodes: dict[UUID, int] = {}
    edges: dict[UUID, int] = {}
    with db.everything() as conn:
        tenants = conn.execute(text("SELECT DISTINCT tenant FROM pm_outbox")).scalars().all()
    for tenant in tenants:
        with db.tenant(tenant) as conn:
            ids = [
                found
                for table in ("pm_atom", "pm_episodic_trace", "pm_procedure", "pm_entity", "pm_code_symbol")
                for found in conn.execute(text(f"SELECT id FROM {table}")).scalars()
            ]
            nodes |= {key: node.revision for key, node in graph.nodes(conn, tenant, ids).items()}
            touching = graph.touching(conn, tenant, ids, limit=100_000)
            edges |= {
                key: edge.revision for key, edge in touching.items() if {edge.src.id, edge.dst.id} <= nodes.keys()
            }
    return nodes, edges


def in_server(store: GraphStore) -> tuple[dict[UUID, int], dict[UUID, int]]:
    nodes, edges = store.scan_nodes("", 100_000), store.scan_edges("", 100_000)
    assert len({held.id for held in edges}) == len(edges)
    return {held.id: held.revision for held in nodes}, {held.id: held.revision for held in edges}


def test_all_kinds_are_filled_and_followed(db: Database, store: GraphStore, settle: Callable[[], None]) -> None:
    with db.tenant(T) as conn:
        a, b = rows.entity(conn, T, "a"), rows.atom(conn, T, "before the filling")
        rows.link(conn, T, a, b, "x")
    settle()
    with db.tenant(T) as conn:
        run, stop = rows.symbol(conn, T, "run"), rows.symbol(conn, T, "stop")
        rows.dependency(conn, T, run, stop)
        links.put(conn, T, ("atom", b.id), ("symbol", run.id), "documents", 0.5)
    settle()
    with db.tenant(T) as conn:
        links.put(conn, T, ("atom", b.id), ("symbol", run.id), "documents", 0.9)
    settle()
    nodes, edges = in_server(store)
    assert (nodes, edges) == in_tables(db)
    assert (len(nodes), len(edges)) == (4, 3)
    assert 2 in edges.values()


def test_a_link_that_came_before_its_end_is_not_lost(
    db: Database, store: GraphStore, settle: Callable[[], None]
) -> None:
    later = uuid4()
    with db.tenant(T) as conn:
        a = rows.entity(conn, T, "a")
        link = rows.link(conn, T, a, rows.NodeRef(rows.NodeKind.SYMBOL, later), "mentions")
    settle()
    assert in_server(store)[1] == {}
    with db.tenant(T) as conn:
        rows.symbol(conn, T, "late", later)
    settle()
    assert in_server(store)[1] == {link: 1}


def test_a_symbol_that_is_stored_again_has_its_links_again(
    db: Database, store: GraphStore, settle: Callable[[], None]
) -> None:
    with db.tenant(T) as conn:
        a, run = rows.entity(conn, T, "a"), rows.symbol(conn, T, "run")
        link = rows.link(conn, T, a, run, "mentions")
    settle()
    with db.tenant(T) as conn:
        conn.execute(text("DELETE FROM pm_code_symbol WHERE id = :id"), {"id": run.id})
        outbox.enqueue(conn, T, "symbol", [run.id], op="delete")
    settle()
    assert in_server(store) == ({a.id: 1}, {})
    with db.tenant(T) as conn:
        rows.symbol(conn, T, "run", run.id)
    settle()
    assert in_server(store) == ({a.id: 1, run.id: 1}, {link: 1})


@pytest.mark.parametrize("cut_at", range(1, 14))
def test_a_new_node_brings_its_edges_even_when_cut_off_between_them(
    db: Database, bolt_peer: BoltPeer, cut_at: int
) -> None:
    later = uuid4()
    with db.tenant(T) as conn:
        ends = [rows.entity(conn, T, f"e{n}") for n in range(3)]
        target = rows.NodeRef(rows.NodeKind.SYMBOL, later)
        made = {rows.link(conn, T, end, target, "mentions") for end in ends}
    with TcpProxy(bolt_peer.port) as proxy:
        store = GraphStore(Server(bolt_peer.url_through(proxy.port), bolt_peer.user, bolt_peer.password), uuid4())
        store.open()
        projection = GraphProjection(db, store, CONSUMER, 1)
        projection.project([Change(T, "entity", end.id, "upsert") for end in ends])
        with db.tenant(T) as conn:
            rows.symbol(conn, T, "late", later)
        change = Change(T, "symbol", later, "upsert")
        proxy.drop_before_reply(after=cut_at)
        try:
            projection.project([change])
        except GraphUnavailable:
            pass
        projection.project([change])
        assert in_server(store)[1] == dict.fromkeys(made, 1)
        assert in_server(store)[0][later] == 1
        store.close()


@pytest.mark.fault(25)
def test_what_is_gone_from_the_tables_goes_from_the_server(
    db: Database, store: GraphStore, settle: Callable[[], None]
) -> None:
    with db.tenant(T) as conn:
        a, b = rows.entity(conn, T, "a"), rows.atom(conn, T, "b")
        rows.link(conn, T, a, b, "x")
        gone = rows.link(conn, T, b, a, "y")
    settle()
    with db.tenant(T) as conn:
        conn.execute(text("DELETE FROM pm_atom_link WHERE id = :id"), {"id": gone})
        outbox.enqueue(conn, T, "link", [gone], op="delete")
    settle()
    assert gone not in in_server(store)[1]
    with db.tenant(T) as conn:
        conn.execute(text("DELETE FROM pm_atom WHERE id = :id"), {"id": b.id})
        outbox.enqueue(conn, T, "atom", [b.id], op="delete")
    settle()
    assert in_server(store) == ({a.id: 1}, {})


def test_a_purged_tenant_starts_over(db: Database, store: GraphStore, settle: Callable[[], None]) -> None:
    for tenant in (T, "other"):
        with db.tenant(tenant) as conn:
            a, b = rows.entity(conn, tenant, "a"), rows.entity(conn, tenant, "b")
            rows.link(conn, tenant, a, b, "x")
    settle()
    with db.tenant(T) as conn:
        conn.execute(text("DELETE FROM pm_atom_link"))
        conn.execute(text("DELETE FROM pm_entity"))
        outbox.enqueue(conn, T, "tenant", [NOBODY], op="delete")
        c, d = rows.entity(conn, T, "since"), rows.entity(conn, T, "then")
        rows.link(conn, T, c, d, "new")
    settle()
    assert in_server(store) == in_tables(db)
    assert len(in_server(store)[0]) == 4


def test_a_wiped_server_is_filled_anew(
    db: Database, store: GraphStore, bolt_peer: BoltPeer, settle: Callable[[], None]
) -> None:
    with db.tenant(T) as conn:
        a, b = rows.entity(conn, T, "a"), rows.atom(conn, T, "b")
        rows.link(conn, T, a, b, "x")
    settle()
    login = (bolt_peer.user, bolt_peer.password)
    with GraphDatabase.driver(f"bolt://127.0.0.1:{bolt_peer.port}", auth=login) as driver:
        for label in ("PegasMemory", "PegasInstance"):
            query = f"MATCH (n:{label}) DETACH DELETE n"
            driver.execute_query(query, database_=DATABASE)  # type: ignore[arg-type]
    assert in_server(store) == ({}, {})
    assert store.open() is True
    with db.everything() as conn:
        generation = outbox.refill(conn, CONSUMER)
    sync = Sync(db, [GraphProjection(db, store, CONSUMER, generation)])
    while sync.step():
        continue
    assert in_server(store) == in_tables(db)
    assert len(in_server(store)[1]) == 1
    assert store.open() is False


@pytest.mark.fault(44)
def test_names_are_folded_before_they_are_sent(
    db: Database, store: GraphStore, bolt_peer: BoltPeer, settle: Callable[[], None]
) -> None:
    """Memgraph's toLower knows ASCII alone; nothing is ever left to it."""
    with db.tenant(T) as conn:
        found = rows.entity(conn, T, "МЕГАФОН Ёж")
    settle()
    login = (bolt_peer.user, bolt_peer.password)
    with GraphDatabase.driver(f"bolt://127.0.0.1:{bolt_peer.port}", auth=login) as driver:
        kept = driver.execute_query(
            "MATCH (n:PegasMemory {id: $id}) RETURN n.name, n.names", {"id": str(found.id)}, database_=DATABASE
        )
    assert [record.values() for record in kept.records] == [["МЕГАФОН Ёж", ["мегафон еж"]]]
    assert not any(word in text for text in all_statements().values() for word in ("toLower", "toUpper"))


def test_what_it_does_not_know_is_no_trouble(projection: GraphProjection, store: GraphStore) -> None:
    projection.project([Change(T, "document", uuid4(), "upsert"), Change(T, "link", uuid4(), "upsert")])
    assert in_server(store) == ({}, {})


@pytest.mark.slow
def test_a_server_that_is_killed_comes_back_with_all_of_it(db: Database) -> None:
    with BoltPeer() as peer:
        store = GraphStore(Server(peer.url, peer.user, peer.password), uuid4())
        assert store.open()
        projection = GraphProjection(db, store, CONSUMER, 1)
        changes = []
        for n in range(40):
            with db.tenant(T) as conn:
                a, b = rows.entity(conn, T, f"a{n}"), rows.atom(conn, T, f"b{n}")
                link = rows.link(conn, T, a, b, "x")
            changes.append([Change(T, "entity", a.id, ""), Change(T, "atom", b.id, ""), Change(T, "link", link, "")])
        for change in changes[:20]:
            projection.project(change)
        peer.kill()
        with pytest.raises(GraphUnavailable):
            projection.project(changes[20])
        peer.start()
        for change in changes[20:]:
            projection.project(change)
        projection.filled(1)
        assert in_server(store) == in_tables(db)
        assert len(in_server(store)[1]) == 40
        assert store.open() is False
        store.close()
