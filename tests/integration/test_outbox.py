"""The outbox: nothing is skipped, whatever the order of commits, and nobody is held up."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from pegas_memory.db import outbox
from pegas_memory.db.session import Connection, Database

CONSUMER = "vector:test"


@pytest.fixture
def db(any_postgres_url: str) -> Iterator[Database]:
    from pegas_memory.db.migrate import ensure_schema

    ensure_schema(any_postgres_url)
    database = Database(any_postgres_url, pool_size=12)
    with database.everything() as conn:
        outbox.register(conn, CONSUMER)
        outbox.backfill_advance(conn, CONSUMER, 1, None)
    yield database
    database.close()


def drain(db: Database, limit: int = 7) -> list[UUID]:
    taken: list[UUID] = []
    while True:
        with db.everything() as conn:
            batch = outbox.take(conn, CONSUMER, limit)
            if batch.end is None:
                return taken
            taken += [change.entity_id for change in batch.changes]
            outbox.advance(conn, CONSUMER, batch)


def put(db: Database, tenant: str, entity_id: UUID) -> None:
    with db.tenant(tenant) as conn:
        outbox.enqueue(conn, tenant, "atom", [entity_id])


@pytest.mark.fault(21)
def test_an_older_transaction_that_commits_later_is_not_skipped(db: Database) -> None:
    first, second = uuid4(), uuid4()
    with db.tenant("t") as slow:
        outbox.enqueue(slow, "t", "atom", [first])
        put(db, "t", second)
        assert drain(db) == [second]
        assert drain(db) == []
    assert drain(db) == [first]
    assert drain(db) == []


def test_an_open_transaction_holds_nobody_up(db: Database) -> None:
    with db.tenant("t") as idle:
        idle.execute(text("SELECT pg_current_xact_id()"))
        for _ in range(3):
            entity = uuid4()
            put(db, "t", entity)
            assert drain(db) == [entity]


def test_a_rolled_back_write_never_appears(db: Database) -> None:
    def fail_after_writing() -> None:
        with db.tenant("t") as conn:
            outbox.enqueue(conn, "t", "atom", [uuid4()])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_writing()
    assert drain(db) == []


def test_a_batch_that_was_not_acknowledged_comes_again(db: Database) -> None:
    entities = [uuid4() for _ in range(5)]
    for entity in entities:
        put(db, "t", entity)
    with db.everything() as conn:
        lost = outbox.take(conn, CONSUMER, 3)
    assert [c.entity_id for c in lost.changes] == entities[:3]
    assert drain(db) == entities


def test_eight_writers_with_random_pauses_lose_nothing(db: Database) -> None:
    written: list[UUID] = []
    lock = threading.Lock()
    seed = random.SystemRandom().randrange(10**6)

    def write(number: int) -> None:
        rng = random.Random(seed + number)
        for _ in range(25):
            entity = uuid4()
            with db.tenant(f"t{number % 2}") as conn:
                outbox.enqueue(conn, f"t{number % 2}", "atom", [entity])
                time.sleep(rng.random() * 0.004)
            with lock:
                written.append(entity)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for writer in writers:
        writer.start()
    seen: list[UUID] = []
    while any(writer.is_alive() for writer in writers):
        seen += drain(db, limit=5)
    seen += drain(db)
    assert sorted(seen) == sorted(written), f"seed {seed}"


def test_a_restart_goes_back_to_what_is_durable(db: Database) -> None:
    first, second = uuid4(), uuid4()
    put(db, "t", first)
    drain(db)
    with db.everything() as conn:
        outbox.settle_durable(conn, CONSUMER, 1)
    put(db, "t", second)
    assert drain(db) == [second]
    with db.everything() as conn:
        outbox.rewind(conn, CONSUMER)
    assert drain(db) == [second]


def test_a_restart_in_the_middle_of_a_window_goes_on_there(db: Database) -> None:
    entities = [uuid4() for _ in range(10)]
    for entity in entities:
        put(db, "t", entity)
    with db.everything() as conn:
        outbox.advance(conn, CONSUMER, outbox.take(conn, CONSUMER, 4))
        outbox.settle_durable(conn, CONSUMER, 1)
        outbox.advance(conn, CONSUMER, outbox.take(conn, CONSUMER, 3))
    with db.everything() as conn:
        outbox.rewind(conn, CONSUMER)
    assert drain(db) == entities[4:]


def test_a_slice_behind_others_is_counted_though_they_are_repeated(db: Database) -> None:
    for _ in range(9):
        put(db, "t", uuid4())
    seen = []
    for _ in range(4):  # each time the process dies over the third slice
        with db.everything() as conn:
            outbox.rewind(conn, CONSUMER)
        for _ in range(2):
            with db.everything() as conn:
                batch = outbox.take(conn, CONSUMER, 3)
                assert batch.attempts == 1
                outbox.advance(conn, CONSUMER, batch)
        with db.everything() as conn:
            seen.append(outbox.take(conn, CONSUMER, 3).attempts)
    assert seen == [1, 2, 3, 4]


def test_passed_and_pending_follow_the_position(db: Database) -> None:
    with db.tenant("t") as conn:
        outbox.enqueue(conn, "t", "atom", [uuid4(), uuid4()])
        xid = outbox.current_xid(conn)
    put(db, "other", uuid4())
    with db.tenant("t") as conn:
        assert not outbox.passed(conn, [CONSUMER], xid)
        assert outbox.pending(conn, [CONSUMER]) == 2
    with db.everything() as conn:
        batch = outbox.take(conn, CONSUMER, 1)
        outbox.advance(conn, CONSUMER, batch)
    with db.tenant("t") as conn:
        assert outbox.pending(conn, [CONSUMER]) == 1
    drain(db)
    with db.tenant("t") as conn:
        assert outbox.passed(conn, [CONSUMER], xid)
        assert outbox.pending(conn, [CONSUMER]) == 0


def test_a_failure_is_set_aside_tried_again_dies_and_is_replayed(db: Database) -> None:
    change = outbox.Change("t", "atom", uuid4(), "upsert")
    with db.everything() as conn:
        assert outbox.take_one(conn, CONSUMER, change)
        outbox.note_failure(conn, CONSUMER, change, "it will not go in")
    for attempt in range(2, outbox.MAX_ATTEMPTS + 1):
        with db.everything() as conn:
            assert outbox.due_failures(conn, CONSUMER, 10) == ()  # not before its time
            conn.execute(text("UPDATE pm_projection_failure SET next_try_at = clock_timestamp()"))
            assert outbox.due_failures(conn, CONSUMER, 10) == (change,), attempt
            assert outbox.take_one(conn, CONSUMER, change)
    with db.everything() as conn:
        conn.execute(text("UPDATE pm_projection_failure SET next_try_at = clock_timestamp()"))
        assert outbox.due_failures(conn, CONSUMER, 10) == ()
        assert not outbox.take_one(conn, CONSUMER, change)
    with db.tenant("t") as conn:
        state = {s.consumer: s for s in outbox.states(conn)}[CONSUMER]
        assert (state.failed, state.dead) == (1, 1)
        (failure,) = outbox.failures(conn, 10)
        assert (failure.entity_id, failure.dead, failure.attempts) == (change.entity_id, True, outbox.MAX_ATTEMPTS)
        assert failure.last_error == "it will not go in"
        assert outbox.replay(conn, uuid4()) == 0
        assert outbox.replay(conn, change.entity_id) == 1
    with db.everything() as conn:
        assert outbox.due_failures(conn, CONSUMER, 10) == (change,)
        outbox.clear_failures(conn, CONSUMER, [change])
        assert outbox.failed_count(conn, CONSUMER) == 0


def test_a_target_that_is_down_is_no_fault_of_the_change(db: Database) -> None:
    change = outbox.Change("t", "atom", uuid4(), "upsert")
    for _ in range(3 * outbox.MAX_ATTEMPTS):
        with db.everything() as conn:
            assert outbox.take_one(conn, CONSUMER, change)
            outbox.forgive(conn, CONSUMER, change)
    with db.everything() as conn:
        assert [(f.attempts, f.dead) for f in outbox.failures(conn, 5)] == [(0, False)]


def test_a_slice_counts_how_often_it_was_taken(db: Database) -> None:
    put(db, "t", uuid4())
    for attempt in (1, 2, 3):
        with db.everything() as conn:
            batch = outbox.take(conn, CONSUMER, 5)
            assert batch.attempts == attempt
    with db.everything() as conn:
        outbox.advance(conn, CONSUMER, batch)
    put(db, "t", uuid4())
    with db.everything() as conn:
        assert outbox.take(conn, CONSUMER, 5).attempts == 1


def test_what_one_model_embedded_is_no_news_that_hides_the_change_from_another(db: Database) -> None:
    entity = uuid4()
    put(db, "t", entity)
    with db.tenant("t") as conn:
        outbox.enqueue(conn, "t", "atom", [entity], op="embedded")
    with db.everything() as conn:
        assert [(c.entity_id, c.op) for c in outbox.take(conn, CONSUMER, 5).changes] == [(entity, "upsert")]


def test_who_lost_the_consumer_cannot_move_its_position(db: Database) -> None:
    entities = [uuid4() for _ in range(4)]
    for entity in entities:
        put(db, "t", entity)
    with db.everything() as conn:
        slow = outbox.take(conn, CONSUMER, 2)
    assert drain(db, limit=3) == entities  # another process, meanwhile
    with pytest.raises(outbox.PositionMoved), db.everything() as conn:
        outbox.advance(conn, CONSUMER, slow)
    late = uuid4()
    put(db, "t", late)
    assert drain(db) == [late]


def test_a_built_consumer_takes_the_serving_ones_place(db: Database) -> None:
    put(db, "t", uuid4())
    with db.everything() as conn:
        assert outbox.begin_building(conn, CONSUMER) == (2, True)
    with db.everything() as conn:
        assert outbox.begin_building(conn, CONSUMER) == (2, False)
    next_one = outbox.building_name(CONSUMER)
    entity = uuid4()
    put(db, "t", entity)
    with pytest.raises(outbox.PositionMoved), db.everything() as conn:
        outbox.promote(conn, CONSUMER)  # not filled yet
    with db.everything() as conn:
        outbox.backfill_advance(conn, next_one, 2, None)
        batch = outbox.take(conn, CONSUMER, 1)  # the serving one is behind
    with db.everything() as conn:
        assert outbox.promote(conn, CONSUMER) == 2
        assert outbox.generation_of(conn, next_one) is None
    with pytest.raises(outbox.PositionMoved), db.everything() as conn:
        outbox.advance(conn, CONSUMER, batch)
    assert drain(db) == [entity]


def test_a_restore_into_a_younger_cluster_is_mended(db: Database) -> None:
    entity = uuid4()
    put(db, "t", entity)
    with db.everything() as conn:
        far = "(pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1000000)::text"
        conn.execute(text(f"UPDATE pm_outbox SET xid = CAST({far} AS xid8)"))
        conn.execute(text(f"UPDATE pm_projection SET position = CAST({far} || ':' || {far} || ':' AS pg_snapshot)"))
    assert drain(db) == []  # this is what would be lost
    with db.everything() as conn:
        assert outbox.mend_foreign_xids(conn) == [CONSUMER]
        assert outbox.backfill_of(conn, CONSUMER) is not None
    with db.everything() as conn:
        assert outbox.mend_foreign_xids(conn) == []
    assert drain(db) == [entity]  # the row is this cluster's now, so nobody can miss it


def test_pages_go_through_every_kind_in_order(db: Database) -> None:
    with db.tenant("t") as conn:
        for n in range(5):
            conn.execute(
                text("INSERT INTO pm_entity (tenant, id, name, normal_form) VALUES ('t', :i, :n, :n)"),
                {"i": uuid4(), "n": f"e{n}"},
            )
    kinds, at, seen = ("atom", "entity", "link"), outbox.Backfill("", "", None), []
    with db.everything() as conn:
        assert outbox.to_be_filled(conn, kinds) == 5
        while page := outbox.backfill_page(conn, at, kinds, 2):
            seen += [(c.entity_type, c.entity_id) for c in page]
            at = at.moved_to(page[-1], len(page))
    assert len(set(seen)) == 5
    assert at.filled == 5


def test_pruning_keeps_what_some_consumer_has_not_passed(db: Database) -> None:
    with db.everything() as conn:
        outbox.register(conn, "vector:slow")
    put(db, "t", uuid4())
    drain(db)
    with db.everything() as conn:
        assert outbox.prune(conn) == 0
        conn.execute(text("DELETE FROM pm_projection WHERE consumer = 'vector:slow'"))
    put(db, "t", uuid4())
    drain(db)
    with db.everything() as conn:
        assert outbox.prune(conn) == 0
        outbox.settle_durable(conn, CONSUMER, 1)
        outbox.prune(conn)
        assert conn.execute(text("SELECT count(*) FROM pm_outbox")).scalar_one() <= 1


def test_no_statement_reads_the_whole_outbox(db: Database) -> None:
    """Also not while a transaction stays open from before all of it, and not in the middle of a long window."""
    with db.tenant("t") as idle:
        idle.execute(text("SELECT pg_current_xact_id()"))
        with db.everything() as conn:
            conn.execute(
                text(
                    "INSERT INTO pm_outbox (tenant, entity_type, entity_id)"
                    " SELECT 't', 'atom', gen_random_uuid() FROM generate_series(1, 20000)"
                )
            )
            conn.execute(text("ANALYZE pm_outbox"))
        with db.everything() as conn:
            batch = outbox.take(conn, CONSUMER, 19_000)
            outbox.advance(conn, CONSUMER, batch)
        assert _rows_read(db, lambda conn: outbox.take(conn, CONSUMER, 256)) < 600
        assert _rows_read(db, lambda conn: outbox.lag(conn, CONSUMER)) < 10
        drain(db, limit=5000)
        put(db, "t", uuid4())
        for ask in (
            lambda conn: outbox.take(conn, CONSUMER, 256),
            lambda conn: outbox.pending(conn, [CONSUMER]),
            lambda conn: outbox.lag(conn, CONSUMER),
            lambda conn: outbox.passed(conn, [CONSUMER], outbox.current_xid(conn)),
        ):
            assert _rows_read(db, ask) < 10


def _rows_read(db: Database, ask: Callable[[Connection], object]) -> int:
    """Outbox rows and index entries that PostgreSQL touched for it."""
    count = text(
        "SELECT pg_stat_get_xact_tuples_returned(c.oid) + pg_stat_get_xact_tuples_fetched(c.oid) + coalesce((SELECT"
        " sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) FROM pg_index i WHERE i.indrelid = c.oid), 0)"
        " FROM pg_class c WHERE c.relname = 'pm_outbox'"
    )
    with db.everything() as conn:
        before = conn.execute(count).scalar_one()
        ask(conn)
        return int(conn.execute(count).scalar_one() - before)
