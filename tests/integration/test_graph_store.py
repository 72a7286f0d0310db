"""The graph store over a real Bolt server: versions, the fence, faults on the wire, and other programs' data."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from neo4j import GraphDatabase

from pegas_memory.errors import BadSettings, GraphFenced, GraphUnavailable
from pegas_memory.memgraph_store import GraphReader, GraphStore, Server
from pegas_memory.memgraph_store import connection as wire
from pegas_memory.memgraph_store.connection import Transaction
from pegas_memory.memgraph_store.rows import BATCH_BYTES, BATCH_ROWS, batches
from pegas_memory.model import Edge, EdgeFilter, Node, NodeKind, NodeRef
from tests.support.bolt_peer import DATABASE, BoltPeer
from tests.support.tcp_proxy import TcpProxy

T = "default"


def node(kind: NodeKind = NodeKind.ENTITY, *, tenant: str = T, name: str = "n", revision: int = 1) -> Node:
    return Node(tenant, NodeRef(kind, uuid4()), revision, "concept", "", name, (name,))


def edge(src: Node, dst: Node, kind: str = "is", revision: int = 1) -> Edge:
    return Edge(src.tenant, uuid4(), src.ref, dst.ref, kind, 0.5, "stored", False, revision)


@pytest.fixture
def instance() -> UUID:
    return uuid4()


@pytest.fixture
def open_store(bolt_peer: BoltPeer, instance: UUID) -> Iterator[Callable[..., GraphStore]]:
    """Further stores of one installation; ``port`` leads through a proxy."""
    made: list[GraphStore] = []

    def make(port: int = 0, owner: UUID = instance) -> GraphStore:
        server = Server(bolt_peer.url_through(port or bolt_peer.port), bolt_peer.user, bolt_peer.password)
        made.append(GraphStore(server, owner))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., GraphStore]) -> GraphStore:
    opened = open_store()
    assert opened.open()
    return opened


@pytest.fixture
def raw(bolt_peer: BoltPeer) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Any statement, as another program would send it."""
    login = (bolt_peer.user, bolt_peer.password)
    with GraphDatabase.driver(f"bolt://127.0.0.1:{bolt_peer.port}", auth=login) as driver:

        def run(statement: str, **parameters: Any) -> list[dict[str, Any]]:
            found = driver.execute_query(statement, parameters, database_=DATABASE)  # type: ignore[arg-type]
            return [record.data() for record in found.records]

        yield run


def nodes_of(store: GraphStore) -> dict[UUID, int]:
    return {held.id: held.revision for held in store.scan_nodes("", 10_000)}


def edges_of(store: GraphStore) -> list[UUID]:
    """With repeats, if there were any."""
    return sorted(held.id for held in store.scan_edges("", 10_000))


# --- versions ---------------------------------------------------------------------------------------


def test_an_older_revision_never_replaces_a_newer_one(store: GraphStore, raw: Callable[..., Any]) -> None:
    a, b = node(revision=5), node(revision=1)
    link = edge(a, b, revision=3)
    new = store.put([a, b], [link], 1)
    assert new == {a.ref.id, b.ref.id}
    assert nodes_of(store) == {a.ref.id: 0, b.ref.id: 0}  # until their edges are known to be there
    store.settle(T, sorted(new))
    assert store.put([replace(a, revision=4, name="old")], [replace(link, revision=2, kind="old")], 1) == set()
    assert nodes_of(store) == {a.ref.id: 5, b.ref.id: 1}
    assert [held.kind for held in store.scan_edges("", 9)] == ["is"]
    store.put([replace(a, revision=6, name="new")], [replace(link, revision=4, kind="new")], 1)
    assert nodes_of(store)[a.ref.id] == 6
    assert [held.kind for held in store.scan_edges("", 9)] == ["new"]
    assert raw("MATCH (n {id: $id}) RETURN n.name AS name, labels(n) AS labels", id=str(a.ref.id)) == [
        {"name": "new", "labels": ["Entity", "PegasMemory"]}
    ]


def test_a_newer_generation_is_right_and_sweeps_the_rest(store: GraphStore) -> None:
    a, b, gone = node(revision=5), node(), node()
    kept, lost = edge(a, b), edge(a, gone)
    store.put([a, b, gone], [kept, lost], 1)
    store.put([replace(a, revision=2), b], [kept], 2)
    store.put([replace(b, revision=2)], [], 1)  # the consumer that still serves, while the next one is filled
    store.settle(T, [a.ref.id, b.ref.id])
    store.complete(2)
    assert nodes_of(store) == {a.ref.id: 2, b.ref.id: 2}
    assert edges_of(store) == [kept.id]


def test_an_edge_whose_ends_changed_is_moved(store: GraphStore, open_store: Any, instance: UUID) -> None:
    a, b, c = node(), node(), node()
    link = edge(a, b)
    store.put([a, b, c], [link], 1)
    store.put([], [replace(link, dst=c.ref, revision=2)], 1)
    store.put([], [link], 1)
    store.complete(1)
    reader = GraphReader(store._server, instance)
    (found,) = reader.edges_at(T, [a.ref], EdgeFilter(), after=None, limit=9)
    assert found.dst == c.ref
    assert edges_of(store) == [link.id]


def test_an_edge_without_both_ends_is_left_out(store: GraphStore) -> None:
    a, absent = node(), node()
    store.put([a], [edge(a, absent)], 1)
    assert edges_of(store) == []
    assert set(nodes_of(store)) == {a.ref.id}


def test_drops(store: GraphStore) -> None:
    hub, others = node(), [node() for _ in range(30)]
    spokes = [edge(hub, other) for other in others]
    ring = [edge(one, two) for one, two in pairwise(others)]
    store.put([hub, *others], spokes + ring, 1)
    store.drop(T, [], [ring[0].id, uuid4()])
    assert len(edges_of(store)) == len(spokes) + len(ring) - 1
    store.drop(T, [hub.ref.id, uuid4()], [])
    assert edges_of(store) == sorted(link.id for link in ring[1:])
    other = node(tenant=f"{T}/x")
    store.put([other], [], 1)
    store.drop_tenant(T)
    assert set(nodes_of(store)) == {other.ref.id}
    assert edges_of(store) == []


def test_texts_of_any_kind_and_size(store: GraphStore, raw: Callable[..., Any]) -> None:
    strange = "'\"`\\ \u2028 🦔 X`) DETACH DELETE n // $uid {x} \t\n"
    a, b = node(name=strange), node(NodeKind.SYMBOL, name="я" * 5_000)
    store.put([a, b], [], 1)
    found = raw("MATCH (n:PegasMemory) WHERE n.id IN $ids RETURN n.name AS name", ids=[str(a.ref.id), str(b.ref.id)])
    assert {row["name"] for row in found} == {a.name, b.name}


def test_batches_are_limited_by_rows_and_bytes() -> None:
    assert [len(batch) for batch in batches({"x": "y"} for _ in range(2 * BATCH_ROWS + 1))] == [
        BATCH_ROWS,
        BATCH_ROWS,
        1,
    ]
    big = [{"x": "я" * (BATCH_BYTES // 4)} for _ in range(3)]
    assert [len(batch) for batch in batches(big)] == [1, 1, 1]
    assert list(batches([])) == []


# --- several writers --------------------------------------------------------------------------------


@pytest.mark.fault(34)
def test_eight_workers_on_one_hub_lose_no_edge(open_store: Callable[..., GraphStore], store: GraphStore) -> None:
    hub, others = node(), [node() for _ in range(80)]
    store.put([hub, *others], [], 1)
    spokes = [edge(hub, other) for other in others]
    workers = [open_store() for _ in range(8)]
    for worker in workers:
        worker.open(7)

    def write(n: int) -> None:
        for link in spokes[n::8]:
            workers[n].put([hub], [link], 1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert edges_of(workers[0]) == sorted(link.id for link in spokes)


@pytest.mark.fault(49)
def test_eight_projections_of_one_edge_make_one_edge(open_store: Callable[..., GraphStore], store: GraphStore) -> None:
    """All with one token, so that the fence lets each of them write, as if no lock held any of them back."""
    a, b = node(), node()
    link = edge(a, b)
    workers = [open_store() for _ in range(8)]
    for worker in workers:
        worker.open(7)
    at_once = threading.Barrier(8)

    def write(n: int) -> None:
        at_once.wait(20)
        workers[n].put([a, b], [link], 1)

    for _ in range(2):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(8)))
        assert edges_of(workers[0]) == [link.id]
        assert len(workers[0].scan_nodes("", 9)) == 2


@pytest.mark.fault(49)
def test_who_opens_last_fences_the_others_off(open_store: Callable[..., GraphStore], store: GraphStore) -> None:
    a, b = node(), node()
    later = open_store()
    assert later.open()
    with pytest.raises(GraphFenced):
        store.put([a], [], 1)
    assert not store.is_open
    with pytest.raises(GraphFenced):
        store.put([a], [], 1)
    later.put([b], [], 1)
    assert set(nodes_of(later)) == {b.ref.id}
    with pytest.raises(GraphFenced):
        store.open(1)
    store.open()
    store.put([a], [], 1)
    with pytest.raises(GraphFenced):
        later.complete(1)


# --- the wire ---------------------------------------------------------------------------------------


@pytest.fixture
def proxy(bolt_peer: BoltPeer) -> Iterator[TcpProxy]:
    with TcpProxy(bolt_peer.port) as between:
        yield between


@pytest.mark.fault(18)
@pytest.mark.parametrize("lost_at", range(8))
def test_a_lost_acknowledgement_doubles_nothing(
    open_store: Callable[..., GraphStore], proxy: TcpProxy, lost_at: int
) -> None:
    """The server did the work and its word for it never came; whatever message that was, the replay is harmless."""
    through = open_store(proxy.port)
    through.open()
    a, b = node(), node()
    link = edge(a, b)
    proxy.drop_before_reply(after=lost_at)
    deadline = time.monotonic() + 30
    while not proxy.lost.is_set() and time.monotonic() < deadline:
        try:
            through.put([a, b], [link], 1)
        except GraphUnavailable:
            continue
    assert proxy.lost.is_set()
    through.put([a, b], [link], 1)
    assert edges_of(through) == [link.id]
    assert set(nodes_of(through)) == {a.ref.id, b.ref.id}


def test_a_dead_server_is_said_soon(open_store: Callable[..., GraphStore], proxy: TcpProxy) -> None:
    through = open_store(proxy.port)
    through.open()
    proxy.refuse()
    began = time.monotonic()
    with pytest.raises(GraphUnavailable):
        through.put([node()], [], 1)
    assert time.monotonic() - began < 2 * wire.RETRY_SECONDS
    proxy.accept()
    through.put([node()], [], 1)


def test_a_stalled_server_does_not_hold_the_thread(bolt_peer: BoltPeer, proxy: TcpProxy) -> None:
    server = Server(bolt_peer.url_through(proxy.port), bolt_peer.user, bolt_peer.password, answer_seconds=1.0)
    with closing(GraphStore(server, uuid4())) as through:
        through.open()
        proxy.pause()
        began = time.monotonic()
        with pytest.raises(GraphUnavailable):
            through.put([node()], [], 1)
        assert time.monotonic() - began < 30
        proxy.resume()
        through.put([node()], [], 1)


def test_refused_logins_and_addresses(bolt_peer: BoltPeer) -> None:
    for server in (
        Server(bolt_peer.url, bolt_peer.user, "wrong"),
        Server(bolt_peer.url.replace("//", "//root:wrong@")),
    ):
        with closing(server), pytest.raises(BadSettings, match="login"):
            GraphStore(server, uuid4()).open()
    for url in ("http://127.0.0.1:7687", "127.0.0.1:7687", "bolt://", "bolt://[::1", "bolt://h:x"):
        with pytest.raises(BadSettings, match="PEGAS_MEMGRAPH_URL"):
            Server(url)


# --- what others have in the server ------------------------------------------------------------------


def test_foreign_data_is_never_touched(
    store: GraphStore, open_store: Callable[..., GraphStore], raw: Callable[..., Any]
) -> None:
    mark = str(uuid4())
    raw("CREATE (:Atom {uid: $m, name: 'theirs'})-[:RELATES {uid: $m}]->(:Entity {name: $m})", m=mark)
    neighbour = open_store(owner=uuid4())
    neighbour.open()
    theirs = [node(), node()]
    neighbour.put(theirs, [edge(*theirs)], 1)
    neighbour.complete(1)
    a, b = node(NodeKind.ATOM), node()
    store.put([a, b], [edge(a, b)], 1)
    raw("MATCH (n:PegasMemory {id: $id}) CREATE (n)<-[:SEEN {by: $m}]-(:Reader {name: $m})", id=str(a.ref.id), m=mark)

    store.complete(2)
    store.drop_tenant(T)
    store.drop(T, [theirs[0].ref.id], [])

    assert nodes_of(store) == {}
    assert set(nodes_of(neighbour)) == {one.ref.id for one in theirs}
    assert len(edges_of(neighbour)) == 1
    assert raw("MATCH (n {uid: $m})-[e:RELATES {uid: $m}]->(:Entity {name: $m}) RETURN n.name AS name", m=mark) == [
        {"name": "theirs"}
    ]
    (tied,) = raw("MATCH (n)<-[e:SEEN {by: $m}]-(:Reader {name: $m}) RETURN properties(n) AS left", m=mark)
    assert tied == {"left": {}}


def test_a_wiped_server_is_noticed_and_must_be_filled(
    store: GraphStore, raw: Callable[..., Any], instance: UUID
) -> None:
    store.complete(1)
    assert store.open() is False
    raw("MATCH (f:PegasInstance {uid: $uid}) DETACH DELETE f", uid=str(instance))
    with pytest.raises(GraphFenced):
        store.put([node()], [], 1)
    assert store.open() is True


# --- reading ----------------------------------------------------------------------------------------


def test_a_server_that_is_being_filled_answers_nothing(store: GraphStore, instance: UUID) -> None:
    reader = GraphReader(store._server, instance)
    a, b = node(), node()
    store.put([a, b], [edge(a, b)], 1)
    with pytest.raises(GraphUnavailable, match="being filled"):
        reader.edges_at(T, [a.ref], EdgeFilter(), after=None, limit=9)
    store.complete(1)
    assert len(reader.edges_at(T, [a.ref], EdgeFilter(), after=None, limit=9)) == 1


def _run(statement: str, transaction: Transaction, **parameters: Any) -> list[dict[str, Any]]:
    return transaction.run(statement, **parameters)


@pytest.mark.fault(51)
def test_a_reader_cannot_write(bolt_peer: BoltPeer, instance: UUID) -> None:
    """Memgraph refuses a write in a transaction that was begun as a reading one; the test peer does not look at
    that, so here the login may only read: in both it is the server that refuses."""
    with closing(Server(bolt_peer.url, *bolt_peer.reader)) as server:
        for statement in ("make_fence", "create_atom"):
            with pytest.raises((GraphUnavailable, BadSettings)):
                server.read(partial(_run, statement, instance=str(instance), rows=[{"uid": "x"}]))


@pytest.mark.fault(51)
def test_a_question_is_begun_as_a_reading_transaction(
    store: GraphStore, instance: UUID, bolt_peer: BoltPeer, proxy: TcpProxy
) -> None:
    store.complete(1)
    sent = proxy.record()
    with closing(Server(bolt_peer.url_through(proxy.port), bolt_peer.user, bolt_peer.password)) as server:
        GraphReader(server, instance).edges_at(T, [node().ref], EdgeFilter(), after=None, limit=9)
    assert b"\x84mode\x81r" in b"".join(sent)
