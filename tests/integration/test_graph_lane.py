"""The lane that keeps a graph server up to date: opens it, fills it, and begins again when it was emptied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from neo4j import GraphDatabase
from sqlalchemy import text

from pegas_memory.config import Settings, load_settings
from pegas_memory.db import outbox
from pegas_memory.db.instance import instance_id
from pegas_memory.db.session import Database
from pegas_memory.engine import graph_server
from pegas_memory.engine.graph_server import GraphLane
from pegas_memory.errors import PegasError
from pegas_memory.memgraph_store import GraphStore, Server
from pegas_memory.outbox_sync import graph_consumer, graph_target, sync
from tests.support import graph_rows as rows
from tests.support.bolt_peer import DATABASE, BoltPeer
from tests.support.engines import eventually

T = "t"


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
def lane(settings: Settings, db: Database, bolt_peer: BoltPeer) -> Iterator[GraphLane]:
    opened = GraphLane(settings, db)
    yield opened
    opened.close()
    wipe(bolt_peer)


def wipe(peer: BoltPeer) -> None:
    with GraphDatabase.driver(f"bolt://127.0.0.1:{peer.port}", auth=(peer.user, peer.password)) as driver:
        for label in ("PegasMemory", "PegasInstance"):
            query = f"MATCH (n:{label}) DETACH DELETE n"
            driver.execute_query(query, database_=DATABASE)  # type: ignore[arg-type]


def held(settings: Settings, db: Database) -> dict[UUID, int]:
    with db.everything() as conn:
        instance = instance_id(conn)
    password = settings.memgraph_password.get_secret_value()
    store = GraphStore(Server(settings.memgraph_url, settings.memgraph_user, password), instance)
    found = {row.id: row.revision for row in (*store.scan_nodes("", 10_000), *store.scan_edges("", 10_000))}
    store.close()
    return found


def seed(db: Database, name: str, count: int = 1) -> set[UUID]:
    with db.tenant(T) as conn:
        hub = rows.entity(conn, T, name)
        ids = {hub.id}
        for number in range(count):
            leaf = rows.entity(conn, T, f"{name} {number}")
            ids |= {leaf.id, rows.link(conn, T, leaf, hub, "part_of")}
    return ids


def settled(lane: GraphLane) -> None:
    while lane.step():
        continue


def test_a_server_is_filled_kept_and_filled_again_when_it_was_emptied(
    lane: GraphLane, settings: Settings, db: Database, bolt_peer: BoltPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = seed(db, "before")
    settled(lane)
    ids |= seed(db, "after")
    settled(lane)
    assert held(settings, db).keys() == ids
    monkeypatch.setattr(graph_server, "LOOK_SECONDS", 0.0)
    wipe(bolt_peer)
    settled(lane)  # nothing was written meanwhile
    assert held(settings, db).keys() == ids
    assert 0 not in held(settings, db).values()


def test_a_filling_goes_on_after_a_restart_and_from_the_beginning_after_a_wipe(
    lane: GraphLane, settings: Settings, db: Database, bolt_peer: BoltPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = seed(db, "hub", 40)
    monkeypatch.setattr(sync, "SLICE", 10)
    monkeypatch.setattr(sync, "DURABLE_EVERY", 0.0)
    name = graph_consumer(graph_target(settings))
    for _ in range(3):
        assert lane.step()
    lane.close()
    with db.everything() as conn:
        before = outbox.backfill_of(conn, name)
        generation = outbox.generation_of(conn, name)
    assert before is not None
    assert before.filled > 0
    again = GraphLane(settings, db)
    assert again.step()
    with db.everything() as conn:
        assert outbox.generation_of(conn, name) == generation
        after = outbox.backfill_of(conn, name)
    assert after is not None
    assert after.filled >= before.filled
    again.close()
    wipe(bolt_peer)
    last = GraphLane(settings, db)
    settled(last)
    with db.everything() as conn:
        assert outbox.generation_of(conn, name) == (generation or 0) + 1
    assert held(settings, db).keys() == ids
    last.close()


def test_a_second_worker_waits_for_its_turn_and_takes_over(lane: GraphLane, settings: Settings, db: Database) -> None:
    other = GraphLane(settings, db)
    settled(lane)
    ids = seed(db, "mine")
    assert not other.step()
    assert held(settings, db).keys() == set()
    lane.close()
    # PostgreSQL frees the turn a moment later.
    eventually(lambda: not other.step() and held(settings, db).keys() == ids, "the other has taken over")
    other.close()


def test_an_address_that_is_none_is_an_error_of_the_lane_alone(settings: Settings, db: Database) -> None:
    lane = GraphLane(settings.model_copy(update={"memgraph_url": "bolt://127.0.0.1:1"}), db)
    with pytest.raises(PegasError):
        lane.step()
    lane.close()


def test_a_rebuild_in_place_and_a_forgotten_consumer_sweep_what_postgresql_has_not(
    lane: GraphLane, settings: Settings, db: Database
) -> None:
    ids = seed(db, "kept")
    gone = seed(db, "gone")
    settled(lane)
    name = graph_consumer(graph_target(settings))
    with db.tenant(T) as conn:  # without a word in the outbox
        for table in ("pm_atom_link", "pm_entity"):
            conn.execute(text(f"DELETE FROM {table} WHERE id = ANY(:ids)"), {"ids": list(gone)})
    with db.everything() as conn:
        wanted = outbox.refill(conn, name)
    settled(lane)
    assert held(settings, db).keys() == ids
    with db.everything() as conn:
        assert outbox.generation_of(conn, name) == wanted
    lane.close()
    with db.tenant(T) as conn:
        conn.execute(text("DELETE FROM pm_atom_link WHERE id = ANY(:ids)"), {"ids": list(ids)})
    with db.everything() as conn:
        conn.execute(text("DELETE FROM pm_projection"))
    again = GraphLane(settings, db)
    settled(again)
    with db.everything() as conn:
        assert (outbox.generation_of(conn, name) or 0) > wanted
    assert len(held(settings, db)) == 2
    again.close()


def test_a_consumer_that_is_new_sweeps_what_an_earlier_one_left(
    lane: GraphLane, settings: Settings, db: Database
) -> None:
    """Of the very same generation, as after ``gc`` or in another database with a copy of the installation's id."""
    gone = seed(db, "gone")
    settled(lane)
    lane.close()
    with db.tenant(T) as conn:
        for table in ("pm_atom_link", "pm_entity"):
            conn.execute(text(f"DELETE FROM {table} WHERE id = ANY(:ids)"), {"ids": list(gone)})
    with db.everything() as conn:
        conn.execute(text("DELETE FROM pm_projection"))
        conn.execute(text("DELETE FROM pm_outbox"))
    again = GraphLane(settings, db)
    settled(again)
    assert held(settings, db) == {}
    again.close()
