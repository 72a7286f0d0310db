"""Differences between PostgreSQL and a graph server, planted, found and mended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from neo4j import GraphDatabase
from sqlalchemy import text

from pegas_memory.config import Settings, load_settings
from pegas_memory.db.session import Database
from pegas_memory.engine.graph_server import GraphLane
from pegas_memory.errors import GraphUnavailable
from pegas_memory.outbox_sync import graph_consumer, graph_target
from pegas_memory.rebuilding.reconcile import Reconciled
from pegas_memory.rebuilding.reconcile_graph import reconcile_graph
from pegas_memory.wiring import open_graph_store
from tests.support import graph_rows as rows
from tests.support.bolt_peer import DATABASE, BoltPeer

T = "t"
Ask = Callable[..., None]


@pytest.fixture
def settings(bolt_peer: BoltPeer, migrated_url: str, tmp_path: Path) -> Settings:
    return load_settings(
        home=tmp_path,
        database_url=migrated_url,
        memgraph_url=bolt_peer.url,
        memgraph_user=bolt_peer.user,
        memgraph_password=bolt_peer.password,
    )


@pytest.fixture
def db(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()


@pytest.fixture
def ask(bolt_peer: BoltPeer) -> Iterator[Ask]:
    login = (bolt_peer.user, bolt_peer.password)
    with GraphDatabase.driver(f"bolt://127.0.0.1:{bolt_peer.port}", auth=login) as driver:
        yield lambda query, **values: driver.execute_query(query, values, database_=DATABASE)
        for label in ("PegasMemory", "PegasInstance"):
            driver.execute_query(f"MATCH (n:{label}) DETACH DELETE n", database_=DATABASE)  # type: ignore[arg-type]


@contextmanager
def working(settings: Settings, db: Database) -> Iterator[None]:
    """The lane that a worker runs."""
    lane, stop = GraphLane(settings, db), threading.Event()

    def run() -> None:
        while not stop.is_set():
            if not lane.step():
                stop.wait(0.02)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        lane.close()


def reconciled(settings: Settings, db: Database, *, mend: bool = True, tenant: str = "") -> Reconciled:
    store = open_graph_store(settings, db)
    try:
        return reconcile_graph(db, store, graph_consumer(graph_target(settings)), tenant=tenant, mend=mend)
    finally:
        store.close()


def counts(found: Reconciled) -> dict[str, tuple[int, int]]:
    return {kind.kind: (kind.found, kind.mended) for kind in found.kinds if kind.found}


def seed(db: Database, tenant: str, leaves: int) -> tuple[UUID, list[UUID], list[UUID]]:
    """A hub, its leaves, and the edges from them to it."""
    with db.tenant(tenant) as conn:
        hub = rows.entity(conn, tenant, "hub")
        ends = [rows.atom(conn, tenant, f"leaf number {n}") for n in range(leaves)]
        edges = [rows.link(conn, tenant, end, hub, "part_of") for end in ends]
    return hub.id, [end.id for end in ends], edges


def test_planted_differences_are_found_and_mended(settings: Settings, db: Database, ask: Ask) -> None:
    _, leaves, edges = seed(db, T, 12)
    seed(db, "other", 3)
    with working(settings, db):
        assert counts(reconciled(settings, db)) == {}
        with db.tenant(T) as conn:  # without a word in the outbox
            conn.execute(text("UPDATE pm_atom SET revision = revision + 1 WHERE id = :id"), {"id": leaves[0]})
            conn.execute(text("DELETE FROM pm_atom_link WHERE id = ANY(:ids)"), {"ids": edges[1:3]})
        ask("MATCH ()-[e:RELATES {id: $id}]->() DELETE e", id=str(edges[4]))
        ask("MATCH (n:PegasMemory {id: $id}) DETACH DELETE n", id=str(leaves[5]))
        dry = reconciled(settings, db, mend=False)
        # the node that is gone took its edge with it
        assert counts(dry) == {"missing": (3, 0), "behind": (1, 0), "orphaned": (2, 0)}
        assert reconciled(settings, db, mend=False, tenant="other").left == 0
        mended = reconciled(settings, db)
        assert counts(mended) == {"missing": (3, 3), "behind": (1, 1), "orphaned": (2, 2)}
        assert mended.left == 0
        assert counts(reconciled(settings, db)) == {}


def test_what_a_version_guard_would_keep_is_made_anew(settings: Settings, db: Database, ask: Ask) -> None:
    _, leaves, edges = seed(db, T, 4)
    with working(settings, db):
        assert counts(reconciled(settings, db)) == {}
        ask("MATCH (n:PegasMemory {id: $id}) SET n.revision = 9", id=str(leaves[0]))
        ask("MATCH (a)-[e:RELATES {id: $id}]->(b) CREATE (a)-[f:RELATES]->(b) SET f = properties(e)", id=str(edges[1]))
        found = reconciled(settings, db)
        assert counts(found) == {"ahead": (1, 1), "doubled": (1, 1)}
        assert counts(reconciled(settings, db)) == {}


def test_edges_of_another_revision_or_of_nobody(settings: Settings, db: Database, ask: Ask) -> None:
    _, leaves, edges = seed(db, T, 5)
    gone = uuid4()
    with working(settings, db):
        assert counts(reconciled(settings, db)) == {}
        ask("MATCH ()-[e:RELATES {id: $id}]->() SET e.revision = 0", id=str(edges[0]))
        ask("MATCH ()-[e:RELATES {id: $id}]->() SET e.revision = 9", id=str(edges[1]))
        ask(
            "MATCH (n:PegasMemory {id: $id}) CREATE (m:PegasMemory:Atom) SET m = properties(n),"
            " m.id = $gone, m.uid = n.instance + '/' + n.tenant + '/' + $gone",
            id=str(leaves[2]),
            gone=str(gone),
        )
        found = reconciled(settings, db)
        assert counts(found) == {"behind": (1, 1), "ahead": (1, 1), "orphaned": (1, 1)}
        assert next(kind.ids for kind in found.kinds if kind.kind == "orphaned") == (gone,)
        assert counts(reconciled(settings, db)) == {}


def test_it_is_right_while_others_write(settings: Settings, db: Database, ask: Ask) -> None:
    _, leaves, _ = seed(db, T, 30)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.01):
            number += 1
            with db.tenant(T) as conn:
                end = rows.atom(conn, T, f"written meanwhile {number}")
                rows.link(conn, T, end, rows.entity(conn, T, f"other {number % 5}"), "about")

    with working(settings, db):
        assert counts(reconciled(settings, db)) == {}
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        ask("MATCH (n:PegasMemory {id: $id}) DETACH DELETE n", id=str(leaves[3]))
        found = reconciled(settings, db)
        stop.set()
        writer.join(10)
        assert counts(found) == {"missing": (2, 2)}
        assert reconciled(settings, db).left == 0


def test_a_server_that_is_down_is_said(settings: Settings, db: Database, ask: Ask) -> None:
    seed(db, T, 1)
    with working(settings, db):
        reconciled(settings, db)
    gone = settings.model_copy(update={"memgraph_url": "bolt://127.0.0.1:1"})
    store = open_graph_store(gone, db)
    with pytest.raises(GraphUnavailable):
        reconcile_graph(db, store, graph_consumer(graph_target(settings)))
    store.close()


def test_another_installation_is_nobody_s_orphan(settings: Settings, db: Database, ask: Ask) -> None:
    seed(db, T, 1)
    with working(settings, db):
        assert counts(reconciled(settings, db)) == {}
        other = str(uuid4())
        ask("CREATE (n:PegasMemory {uid: $uid, instance: $i, tenant: 't', id: $id, revision: 1, generation: 1})",
            uid=f"{other}/t/{other}", i=other, id=other)  # fmt: skip
        assert counts(reconciled(settings, db)) == {}
