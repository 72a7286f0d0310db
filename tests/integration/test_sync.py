"""Sync: one target's trouble is its own, one change's trouble too, and a process may die over either."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from pegas_memory.db import outbox
from pegas_memory.db.migrate import ensure_schema
from pegas_memory.db.outbox import Change
from pegas_memory.db.session import Database
from pegas_memory.errors import BadSettings, PegasError, VectorsUnavailable
from pegas_memory.outbox_sync import Sync

ROOT = Path(__file__).resolve().parents[2]


class Target:
    """Remembers what it was given. ``down``: it does not answer; ``refused``: ids that it will not take;
    ``deadly``: ids over which its process ends."""

    fills = ("entity",)

    def __init__(self, consumer: str, *, refused: Sequence[UUID] = (), deadly: Sequence[UUID] = ()) -> None:
        self.consumer = consumer
        self.down: PegasError | None = None
        self.refused, self.deadly = set(refused), set(deadly)
        self.given: list[UUID] = []
        self.complete = 0

    def project(self, changes: Sequence[Change]) -> None:
        if self.down is not None:
            raise self.down
        ids = [change.entity_id for change in changes]
        if self.deadly & set(ids):
            os._exit(9)
        if self.refused & set(ids):
            raise PegasError("It will not take this.")
        self.given += ids

    def make_durable(self) -> None: ...

    def filled(self, generation: int) -> None:
        self.complete = generation


@pytest.fixture
def db(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()


@pytest.fixture
def migrated_url(any_postgres_url: str) -> str:
    ensure_schema(any_postgres_url)
    return any_postgres_url


def settled(db: Database, sync: Sync, rounds: int = 30) -> None:
    while sync.step() and rounds:
        rounds -= 1
    assert rounds


def put(db: Database, *ids: UUID) -> None:
    with db.tenant("t") as conn:
        outbox.enqueue(conn, "t", "atom", ids)


@pytest.mark.fault(23)
def test_a_target_that_is_down_neither_delays_the_other_nor_repeats_its_work(db: Database) -> None:
    well, ill = Target("vector:well"), Target("graph:ill")
    mine, other = Sync(db, [well]), Sync(db, [ill])
    settled(db, mine)
    settled(db, other)
    ill.down = VectorsUnavailable("The target is down.")
    ids = [uuid4() for _ in range(600)]
    put(db, *ids)
    settled(db, mine)
    assert not other.step()
    assert well.given == ids
    ill.down = None
    with db.everything() as conn:
        states = {s.consumer: s for s in outbox.states(conn)}
    assert states["graph:ill"].pending == 600
    assert states["graph:ill"].last_error
    assert (states["graph:ill"].failed, states["vector:well"].pending) == (0, 0)
    settled(db, Sync(db, [ill]))
    assert ill.given == ids
    assert well.given == ids


def test_a_change_that_is_refused_blocks_nobody_and_is_found_by_its_id(db: Database) -> None:
    stuck = uuid4()
    target = Target("vector:x", refused=[stuck])
    sync = Sync(db, [target])
    settled(db, sync)
    ids = [uuid4() for _ in range(5)]
    put(db, ids[0], stuck, *ids[1:])
    settled(db, sync)
    assert target.given == ids
    with db.tenant("t") as conn:
        (failure,) = outbox.failures(conn, 10)
    assert (failure.entity_id, failure.last_error) == (stuck, str(PegasError("It will not take this.")))
    target.refused.clear()
    put(db, stuck)  # it was changed, and goes in now
    settled(db, sync)
    with db.everything() as conn:
        assert outbox.failed_count(conn, "vector:x") == 0


def _deaths(db: Database, deadly: UUID) -> int:
    """How many processes end over it until one ends its work."""
    script = (
        "import sys; from uuid import UUID; from pegas_memory.db.session import Database;"
        "from pegas_memory.outbox_sync import Sync; from tests.integration.test_sync import Target;"
        "sync = Sync(Database(sys.argv[1]), [Target('vector:x', deadly=[UUID(sys.argv[2])])]);\n"
        "while sync.step(): pass"
    )
    deaths = 0
    for _ in range(20):
        with db.everything() as conn:
            conn.execute(text("UPDATE pm_projection_failure SET next_try_at = clock_timestamp()"))
        ended = subprocess.run(
            [sys.executable, "-c", script, db.url, str(deadly)], cwd=ROOT, check=False, capture_output=True, timeout=60
        )
        if ended.returncode == 0:
            break
        assert ended.returncode == 9, ended.stderr.decode()
        deaths += 1
    return deaths


def test_a_change_over_which_processes_die_is_found_and_dies_alone(db: Database) -> None:
    deadly, ids = uuid4(), [uuid4() for _ in range(40)]
    with db.everything() as conn:
        outbox.register(conn, "vector:x")
        outbox.backfill_advance(conn, "vector:x", 1, None)
    put(db, *ids[:20], *(uuid4() for _ in range(300)), deadly, *ids[20:])  # behind a first slice that goes well
    deaths = _deaths(db, deadly)
    with db.tenant("t") as conn:
        (failure,) = outbox.failures(conn, 10)
        assert (failure.entity_id, failure.dead) == (deadly, True)
        assert outbox.pending(conn, ["vector:x"]) == 0
    assert deaths <= outbox.MAX_ATTEMPTS + 3


def test_a_row_over_which_a_filling_dies_is_found_as_well(db: Database) -> None:
    with db.tenant("t") as conn:
        ids = sorted(uuid4() for _ in range(600))
        conn.execute(
            text(
                "INSERT INTO pm_entity (tenant, id, name, normal_form)"
                " SELECT 't', id, id::text, id::text FROM unnest(CAST(:ids AS uuid[])) AS x (id)"
            ),
            {"ids": ids},
        )
    deaths = _deaths(db, ids[400])
    assert 0 < deaths <= outbox.MAX_ATTEMPTS + 3
    with db.tenant("t") as conn:
        (failure,) = outbox.failures(conn, 10)
        assert (failure.entity_id, failure.dead) == (ids[400], True)
        assert outbox.progress(conn, ["vector:x"]) == (0, True)


def test_one_that_kills_takes_no_others_that_are_due_with_it(db: Database) -> None:
    deadly, ids = uuid4(), [uuid4() for _ in range(20)]
    with db.everything() as conn:
        outbox.register(conn, "vector:x")
        outbox.backfill_advance(conn, "vector:x", 1, None)
        for entity in (*ids[:10], deadly, *ids[10:]):
            outbox.take_one(conn, "vector:x", Change("t", "atom", entity, "upsert"))
    _deaths(db, deadly)
    with db.tenant("t") as conn:
        assert [failure.entity_id for failure in outbox.failures(conn, 30)] == [deadly]


def test_a_refused_login_is_no_fault_of_the_changes(db: Database) -> None:
    target = Target("graph:x")
    sync = Sync(db, [target])
    settled(db, sync)
    ids = [uuid4() for _ in range(5)]
    put(db, *ids)
    target.down = BadSettings("The login is refused.")
    assert not sync.step()
    with db.everything() as conn:
        assert outbox.failures(conn, 5) == []
    target.down = None
    settled(db, Sync(db, [target]))
    assert target.given == ids


def test_who_was_overtaken_notes_again_what_it_wrote_late(db: Database) -> None:
    """It may have written over what the other had brought up to date meanwhile."""
    fast = Target("vector:x")

    class Slow(Target):
        def project(self, changes: Sequence[Change]) -> None:
            settled(db, Sync(db, [fast]))
            super().project(changes)

    slow = Slow("vector:x")
    with db.everything() as conn:
        outbox.register(conn, "vector:x")
        outbox.backfill_advance(conn, "vector:x", 1, None)
    sync, entity = Sync(db, [slow]), uuid4()
    put(db, entity)
    with pytest.raises(outbox.PositionMoved):
        sync.step()
    settled(db, Sync(db, [fast]))
    assert fast.given == [entity, entity]


def test_a_filling_goes_through_the_kinds_and_says_when_it_is_done(db: Database) -> None:
    with db.tenant("t") as conn:
        ids = [uuid4() for _ in range(700)]
        conn.execute(
            text(
                "INSERT INTO pm_entity (tenant, id, name, normal_form)"
                " SELECT 't', id, id::text, id::text FROM unnest(CAST(:ids AS uuid[])) AS x (id)"
            ),
            {"ids": ids},
        )
    target = Target("graph:x")
    settled(db, Sync(db, [target]))
    assert sorted(target.given) == sorted(ids)
    assert target.complete == 1


def test_who_was_overtaken_is_told(db: Database) -> None:
    slow, fast = Target("vector:x"), Target("vector:x")
    first = Sync(db, [slow])
    settled(db, first)
    put(db, uuid4())
    with db.everything() as conn:
        outbox.begin_building(conn, "vector:x")
        outbox.backfill_advance(conn, outbox.building_name("vector:x"), 2, None)
        outbox.promote(conn, "vector:x")
    with pytest.raises(outbox.PositionMoved):
        first.step()
    put(db, uuid4())
    settled(db, Sync(db, [fast]))
    assert len(fast.given) == 1
