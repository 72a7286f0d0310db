"""Reported faults that need real processes to be killed at one precise moment."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from sqlalchemy import text

from pegas_memory import PegasMemory, ingest
from pegas_memory.db import atoms, links, outbox
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.session import Database
from pegas_memory.errors import Unavailable
from pegas_memory.model import AtomType, Distill, IngestRequest, JobState, LinkRequest, StoreRequest
from tests.faults.compare import against_graph
from tests.faults.runner import caught_up, vector_differences
from tests.faults.world import Profile, World, kill
from tests.support.bolt_peer import installed
from tests.support.engines import eventually

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(420)]
GATE = 7_105
T = TypeVar("T")
needs_peer = pytest.mark.skipif(installed() is None, reason="arcadedb-embedded is not installed")


@contextmanager
def world_of(profile: Profile) -> Iterator[World]:
    world = World(profile, seed=0)
    try:
        world.revive()
        yield world
    finally:
        world.close()


@contextmanager
def database(world: World) -> Iterator[Database]:
    db = Database(world.database_url)
    try:
        yield db
    finally:
        db.close()


def check(world: World) -> None:
    """Everything is projected, and both projections equal PostgreSQL."""
    assert list(caught_up(world)) == []
    world.stop_engines()
    with database(world) as db:
        assert list(vector_differences(world, db)) == []
        if world.peer is not None:
            assert list(against_graph(db, world.peer)) == []


@contextmanager
def held_before_done(db: Database, consumer: str) -> Iterator[Callable[[], bool]]:
    """A projection of that kind writes to its target and then waits with the line in PostgreSQL that says so.
    Gives a function: whether one waits there now."""
    with db.everything() as conn:
        conn.execute(
            text(
                f"""CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NEW; END $$;
                CREATE TRIGGER gate BEFORE UPDATE ON pm_projection FOR EACH ROW
                    WHEN (OLD.consumer LIKE '{consumer}:%' AND OLD.attempts > 0 AND NEW.attempts = 0)
                    EXECUTE FUNCTION wait_at_gate()"""
            )
        )
    with db.everything() as conn:
        conn.execute(text(f"SELECT pg_advisory_lock({GATE})"))

        def waits() -> bool:
            found = conn.execute(
                text(f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {GATE} AND NOT granted")
            )
            return bool(found.scalar_one())

        try:
            yield waits
        finally:
            conn.execute(text(f"SELECT pg_advisory_unlock({GATE})"))
    with db.everything() as conn:
        conn.execute(text("DROP FUNCTION wait_at_gate CASCADE"))


def store_some(memory: PegasMemory, some: range) -> None:
    for n in some:
        links = (LinkRequest(f"Hub {n % 3}", "part_of"),)
        memory.store(StoreRequest(claim=f"Gauge {n} of the weir reads {n * 13 + 7} millimetres.", links=links))


@pytest.mark.fault(18)
@pytest.mark.parametrize(
    ("profile", "consumer"), [("embedded", "vector"), pytest.param("server", "graph", marks=needs_peer)]
)
def test_killed_between_the_write_and_the_line_that_says_it_is_done(profile: Profile, consumer: str) -> None:
    """What was written twice is there once."""
    with world_of(profile) as world, database(world) as db, PegasMemory.open(world.settings[0]) as memory:
        store_some(memory, range(20))
        for killed in range(3):
            assert list(caught_up(world)) == []
            with held_before_done(db, consumer) as waits:
                store_some(memory, range(20 + 5 * killed, 25 + 5 * killed))
                eventually(waits, "the projection has written and waits to say so")
                kill_engines(world)
        with db.everything() as conn:
            assert conn.execute(text("SELECT count(*) FROM pm_atom")).scalar_one() == 35
        check(world)


def kill_engines(world: World) -> None:
    for home in range(len(world.homes)):
        kill(*world.engines(home))


PASSAGES = 2_000


def passage(n: int) -> str:
    """About a chunk, and nothing in it stands in another one."""
    return f"Passage {n} says {n * 7}: {' '.join(f'word{k}of{n}' for k in range(60))}."


@pytest.mark.fault(19)
def test_a_long_ingest_goes_on_after_kills_with_every_chunk_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(19)
    with world_of("embedded") as world, PegasMemory.open(world.settings[0]) as memory:
        path = world.docs / "long.txt"
        path.write_text("\n\n".join(map(passage, range(PASSAGES))))
        document, _ = ingest.load_file(path, None)
        wanted = [chunk.text for chunk in ingest.chunk(document)]
        assert len(wanted) >= PASSAGES
        job = memory.ingest(IngestRequest(source=str(path), distill=Distill.OFF, wait=False)).job_id
        for share in (0.1, 0.3, 0.5, 0.8):
            eventually(lambda share=share: atoms_of(memory) > share * len(wanted), "the ingest moves on")
            if rng.random() < 0.5:
                kill_engines(world)
            else:
                kill(*world.postgres_pids())
        done = patiently(lambda: memory.wait_job(job, 120))
        assert done.state is JobState.DONE
        assert (done.atoms.created, done.atoms.duplicate, done.atoms.failed) == (len(wanted), 0, 0)
        check(world)
        with database(world) as db, db.everything() as conn:
            chunks = conn.execute(text("SELECT position, text FROM pm_chunk ORDER BY position")).all()
            assert [tuple(row) for row in chunks] == list(enumerate(wanted))
            cited = conn.execute(text("SELECT count(*), count(DISTINCT chunk_id) FROM pm_citation")).one()
            assert tuple(cited) == (len(wanted), len(wanted))
            assert conn.execute(text("SELECT revision FROM pm_document")).scalar_one() == 1


def atoms_of(memory: PegasMemory) -> int:
    return patiently(lambda: memory.stats().atoms.total)


def patiently(work: Callable[[], T]) -> T:
    """Call until the part that was killed is back."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return work()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.fault(21)
@pytest.mark.parametrize("profile", ["embedded", pytest.param("server", marks=needs_peer)])
def test_what_commits_late_reaches_every_projection(profile: Profile) -> None:
    with world_of(profile) as world, database(world) as db, PegasMemory.open(world.settings[0]) as memory:
        store_some(memory, range(3))
        with db.tenant("faults") as conn:
            (late,) = atoms.insert_many(conn, "faults", [NewAtom(AtomType.FACT, "The sluice of 1904 opened late.")])
            assert late is not None
            entity = links.entity_named(conn, "faults", "Sluice of 1904")
            links.put(conn, "faults", ("atom", late), ("entity", entity), "part_of", 1.0)
            for n in range(3, 12, 3):  # committed later begun, and projected while the first is open
                store_some(memory, range(n, n + 3))
                assert list(caught_up(world)) == []
        check(world)


@needs_peer
@pytest.mark.fault(23)
def test_a_graph_server_that_stalls_makes_the_vector_index_neither_wait_nor_repeat() -> None:
    with world_of("server") as world, database(world) as db, PegasMemory.open(world.settings[0]) as memory:
        proxy = world.proxies["graph"]
        store_some(memory, range(10))
        assert list(caught_up(world)) == []
        with db.everything() as conn:
            conn.execute(text(LOG_OF_TAKES))
        proxy.pause()
        begun = time.monotonic()
        for n in range(10, 40, 5):
            store_some(memory, range(n, n + 5))
            eventually(lambda: waiting(db)["vector"] == 0, "the vector index goes on")
        took = time.monotonic() - begun
        assert waiting(db)["graph"] > 0
        assert took < 20, "six stores of five atoms, each projected before the next"
        proxy.resume()
        assert list(caught_up(world)) == []
        with db.everything() as conn:
            taken = conn.execute(text("SELECT consumer, at FROM taken WHERE consumer LIKE 'vector:%'")).all()
            assert len(set(taken)) == len(taken) > 0, "a slice was taken twice"
            conn.execute(text("DROP FUNCTION note_take CASCADE; DROP TABLE taken"))
        check(world)


LOG_OF_TAKES = """CREATE TABLE taken (consumer text, at text);
    CREATE FUNCTION note_take() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO taken VALUES (NEW.consumer, NEW.window_xid::text || ' ' || NEW.window_seq::text
            || ' ' || NEW.position::text); RETURN NEW; END $$;
    CREATE TRIGGER takes AFTER UPDATE ON pm_projection FOR EACH ROW WHEN (NEW.attempts > OLD.attempts)
        EXECUTE FUNCTION note_take()"""


def waiting(db: Database) -> dict[str, int]:
    """Most changes that wait for a projection of each kind."""
    found: dict[str, int] = {}
    with db.everything() as conn:
        for state in outbox.states(conn):
            kind = state.consumer.partition(":")[0]
            found[kind] = max(found.get(kind, 0), state.pending)
    return found


def test_an_embedder_that_fails_for_a_moment_leaves_no_atom_without_its_vector() -> None:
    """Whoever is the first to get the vector tells the index."""
    with world_of("embedded") as world, PegasMemory.open(world.settings[0]) as memory:
        for times in range(1, 9):
            world.embedder_fails("down", times)
            store_some(memory, range(times, times + 1))
            assert list(caught_up(world)) == []
        check(world)
