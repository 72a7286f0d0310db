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
from pegas_memory.errors import PegasError, VectorsUnavailable
from pegas_memory.outbox_sync import Sync

ROOT = Path(__file__).resolve().parents[2]


class Target:
    """Remembers what it was given. ``down``: it does not answer; ``refused``: ids that it will not take;
    ``deadly``: ids over which its process ends."""

    fills = ("entity",)

    def __init__(self, consumer: str, *, refused: Sequence[UUID] = (), deadly: Sequence[UUID] = ()) -> None:
        self.consumer = consumer
        self.down = False
        self.refused, self.deadly = set(refused), set(deadly)
        self.given: list[UUID] = []
        self.complete = 0

    def project(self, changes: Sequence[Change]) -> None:
        if self.down:
            raise VectorsUnavailable("The target is down.")
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
    ill.down = True
    ids = [uuid4() for _ in range(600)]
    put(db, *ids)
    settled(db, mine)
    assert not other.step()
    assert well.given == ids
    ill.down = False
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


def test_a_change_over_which_processes_die_is_found_and_dies_alone(db: Database) -> None:
    deadly, ids = uuid4(), [uuid4() for _ in range(40)]
    with db.everything() as conn:
        outbox.register(conn, "vector:x")
        outbox.backfill_advance(conn, "vector:x", 1, None)
    put(db, *ids[:20], deadly, *ids[20:])
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
    with db.tenant("t") as conn:
        (failure,) = outbox.failures(conn, 10)
        assert (failure.entity_id, failure.dead) == (deadly, True)
        assert outbox.pending(conn, ["vector:x"]) == 0
    assert deaths <= outbox.MAX_ATTEMPTS + 3


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
