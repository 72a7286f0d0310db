"""The outbox: nothing is skipped, whatever the order of commits, and nobody is held up."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from pegas_memory.db import outbox
from pegas_memory.db.session import Database

CONSUMER = "vector:test"


@pytest.fixture
def db(any_postgres_url: str) -> Iterator[Database]:
    from pegas_memory.db.migrate import ensure_schema

    ensure_schema(any_postgres_url)
    database = Database(any_postgres_url, pool_size=12)
    with database.everything() as conn:
        outbox.register(conn, CONSUMER)
        outbox.backfill_advance(conn, CONSUMER, None)
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
        outbox.settle_durable(conn, CONSUMER)
    put(db, "t", second)
    assert drain(db) == [second]
    with db.everything() as conn:
        outbox.rewind(conn, CONSUMER)
    assert drain(db) == [second]


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


def test_a_failure_is_set_aside_tried_again_and_dies_in_the_end(db: Database) -> None:
    change = outbox.Change("t", "atom", uuid4(), "upsert")
    for attempt in range(outbox.MAX_ATTEMPTS):
        with db.everything() as conn:
            outbox.record_failure(conn, CONSUMER, change, f"attempt {attempt}")
            conn.execute(text("UPDATE pm_projection_failure SET next_try_at = clock_timestamp()"))
            due = outbox.due_failures(conn, CONSUMER, 10)
        assert due == ((change,) if attempt + 1 < outbox.MAX_ATTEMPTS else ())
    with db.tenant("t") as conn:
        state = {s.consumer: s for s in outbox.states(conn)}[CONSUMER]
        assert state.failed == 1
    with db.everything() as conn:
        outbox.clear_failures(conn, CONSUMER, [change])
        assert outbox.failed_count(conn, CONSUMER) == 0


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
        outbox.settle_durable(conn, CONSUMER)
        outbox.prune(conn)
        assert conn.execute(text("SELECT count(*) FROM pm_outbox")).scalar_one() <= 1


def test_taking_a_batch_uses_the_index(db: Database) -> None:
    with db.everything() as conn:
        conn.execute(
            text(
                "INSERT INTO pm_outbox (tenant, entity_type, entity_id)"
                " SELECT 't', 'atom', gen_random_uuid() FROM generate_series(1, 20000)"
            )
        )
    drain(db, limit=5000)
    put(db, "t", uuid4())
    with db.everything() as conn:
        conn.execute(text("ANALYZE pm_outbox"))
        position, opened = conn.execute(
            text("SELECT position::text, pg_current_snapshot()::text FROM pm_projection WHERE consumer = :c"),
            {"c": CONSUMER},
        ).one()
        plan = conn.execute(
            text(f"EXPLAIN (FORMAT TEXT) {outbox._SLICE.text}"),
            {"position": position, "window_end": opened, "xid": "0", "seq": 0, "limit": 256},
        ).scalars()
        assert "ix_pm_outbox_xid_seq" in "\n".join(plan)
