"""``scripts/faults``: rounds of work under faults, each followed by a comparison of everything with everything.

    scripts/faults --rounds 300                     # seeds are drawn and printed
    scripts/faults --seed 4711 --profile embedded   # that round again

A round that fails prints its seed, what was struck, what differs and the ends of the logs, and keeps its folder.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlalchemy import text

from pegas_memory.db import outbox
from pegas_memory.db.session import Connection, Database
from pegas_memory.embedding import open_embedder
from pegas_memory.errors import PegasError
from pegas_memory.outbox_sync import vector_consumer, vector_target
from pegas_memory.qdrant_store import edge_folder
from pegas_memory.qdrant_store.naming import alias_name
from pegas_memory.vectors import Vectors
from tests.faults import ledger
from tests.faults.compare import against_graph, against_vectors, in_collection, in_shard
from tests.faults.faults import STRIKES, Strike, full_disk, schedule
from tests.faults.truth import Promised, against_truth, promised
from tests.faults.world import ROOT, Profile, World

SECONDS = 12.0
"""How long the clients of a round work."""
CATCH_UP = 120.0
LEAVE = 90.0
"""Seconds after which a client that still waits for an answer is a finding; each call is bounded by less."""
TAIL = 2_500
PROFILES: tuple[Profile, ...] = ("embedded", "server", "workers")


@dataclass(slots=True)
class Round:
    seed: int
    profile: Profile
    strikes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    acknowledged: int = 0
    open: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    folder: str = ""

    def line(self) -> str:
        took = " ".join(f"{name} {seconds:.1f}" for name, seconds in self.seconds.items())
        result = "ok" if not self.problems else f"FAILED ({len(self.problems)})"
        return (
            f"seed {self.seed} {self.profile}: {result}; {self.acknowledged} acknowledged, {self.open} open;"
            f" {took} s; {', '.join(self.strikes)}"
        )


def run_round(seed: int, profile: Profile, seconds: float = SECONDS, *, keep: bool = False) -> Round:
    """One round on a folder of its own, which is removed when all is well, unless ``keep``."""
    rng = random.Random(f"{seed} {profile}")
    planned = schedule(profile, rng, seconds)
    done = Round(seed, profile)
    with _timed(done, "start"):
        world = World(profile, seed, small_disk=any(s.name == full_disk.__name__ for s in planned))
        done.folder = str(world.folder)
    try:
        with _timed(done, "engines"):
            world.revive()
        _play(world, done, planned, seconds)
    except Exception as error:  # what the harness itself meets is a finding as well
        done.problems.append(f"the round broke off: {type(error).__name__}: {error}")
        if os.environ.get("PEGAS_FAULTS_RAISE"):
            raise
    finally:
        if done.problems:
            done.problems += _tails(world)
        world.close(keep=keep or bool(done.problems))
    return done


class _timed:
    def __init__(self, done: Round, name: str) -> None:
        self._done, self._name = done, name

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._done.seconds[self._name] = time.monotonic() - self._began


def _play(world: World, done: Round, planned: list[Strike], seconds: float) -> None:
    with _timed(done, "work"):
        _work(world, done, planned, seconds)
    with _timed(done, "catch-up"):
        done.problems += _rebuilt(world)
        done.problems += caught_up(world)
    with _timed(done, "compare"):
        told = _told(world, done)
        world.stop_engines()
        done.problems += _differences(world, told)


def _work(world: World, done: Round, planned: list[Strike], seconds: float) -> None:
    """Clients that work, strikes once each of them has been answered, and the end of the clients."""
    for client in world.clients:
        world.start_client(client)
    _until(lambda: sum(path.stat().st_size > 0 for path in world.ledgers.iterdir()) == len(world.clients), 60)
    ends = time.monotonic() + seconds
    for number, strike in enumerate(planned):
        time.sleep(strike.after)
        before = len(world.said)
        STRIKES[strike.name](world, random.Random(f"{world.seed} strike {number}"), strike.seconds)
        said = "; ".join(world.said[before:])
        done.strikes.append(f"{strike.name} ({said})" if said else strike.name)
        for client in world.clients:  # one that was killed has another life
            if client.process is not None and client.process.poll() == -signal.SIGKILL:
                world.start_client(client)
    time.sleep(max(0.0, ends - time.monotonic()))
    world.stop.touch()
    for process in world.beside:
        try:
            process.wait(LEAVE)
        except subprocess.TimeoutExpired:
            done.problems.append(f"a rebuild hangs since {LEAVE:.0f} s")
            process.kill()
    for client in world.clients:
        process = client.process
        assert process is not None
        if not _until(lambda: process.poll() is not None, LEAVE):  # noqa: B023 - called at once
            done.problems.append(f"client {client.name} waits for an answer since {LEAVE:.0f} s")
            world.kill_client(client)
        elif process.returncode:
            done.problems.append(f"client {client.name} ended with {process.returncode}")


def _until(what: Callable[[], bool], seconds: float) -> bool:
    """False when it did not come to pass in that time."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _rebuilt(world: World) -> Iterator[str]:
    """End the rebuilds that were begun and not ended, and hear from the product that its index agrees."""
    world.revive()
    for home in range(len(world.homes)):
        db = Database(world.database_url)
        with db.everything() as conn:
            begun = any(state.consumer.endswith("#next") for state in outbox.states(conn))
        db.close()
        if begun and (code := world.run("rebuild", "--vector", home=home).wait(CATCH_UP)):
            yield f"the rebuild of home {home} cannot be ended: exit code {code}"


def caught_up(world: World) -> Iterator[str]:
    """Bring everything back, and wait until nothing waits. What is stuck, if something is."""
    deadline = time.monotonic() + CATCH_UP
    waits = "nothing was heard of it"
    calm = 0
    while calm < 2:
        try:
            world.revive()
            db = Database(world.database_url)
            try:
                with db.everything() as conn:
                    waits = "; ".join(_waiting(conn, world))
            finally:
                db.close()
        except PegasError as error:
            waits = str(error)
        calm = 0 if waits else calm + 1
        if time.monotonic() > deadline:
            yield f"not caught up within {CATCH_UP:.0f} s: {waits}"
            return
        time.sleep(0.3)
    for home in range(len(world.homes)):
        if (running := len(world.engines(home))) != 1:
            yield f"{running} engines run on one home"


def _waiting(conn: Connection, world: World) -> Iterator[str]:
    states = outbox.states(conn)
    for state in states:
        if state.pending or state.backfilling or state.failed:
            yield (f"{state.consumer}: {state.pending} wait, {state.failed} failed ({state.dead} dead),"
                   f" filling {state.backfilling}: {state.last_error}")  # fmt: skip
    known = {state.consumer.split(":")[0] for state in states}
    wanted = {"vector", "embedding"} | ({"graph"} if world.peer is not None else set())
    if missing := wanted - known:
        yield f"no consumer {sorted(missing)}"
    open_jobs = conn.execute(text("SELECT count(*) FROM pm_job WHERE state IN ('queued', 'running')")).scalar_one()
    if open_jobs:
        yield f"{open_jobs} jobs"
    late = conn.execute(text("SELECT count(*) FROM pm_atom WHERE dedup_pending AND superseded_at IS NULL"
                             " AND retracted_at IS NULL")).scalar_one()  # fmt: skip
    if late:
        yield f"{late} atoms wait for a look for near duplicates"


def _told(world: World, done: Round) -> Promised:
    calls: list[ledger.Call] = []
    for path in sorted(world.ledgers.iterdir()):
        told = ledger.read(path)
        calls += told.calls
        done.problems += [f"an MCP server died: {death}" for death in told.deaths]
    told_all = promised(calls)
    done.acknowledged, done.open = told_all.acknowledged, told_all.open
    return told_all


def _differences(world: World, told: Promised) -> Iterator[str]:
    db = Database(world.database_url)
    try:
        yield from against_truth(db, told)
        yield from vector_differences(world, db)
        if world.peer is not None:
            yield from against_graph(db, world.peer)
    finally:
        db.close()


def vector_differences(world: World, db: Database) -> Iterator[str]:
    """PostgreSQL against the shard of each home, whose engine has left, or against the server's collection."""
    for home, settings in enumerate(world.settings if world.vectors is None else world.settings[:1]):
        embedder = open_embedder(settings)
        base, model = settings.qdrant_collection, embedder.model
        consumer = vector_consumer(vector_target(settings), model.name, model.dimension)
        with db.everything() as conn:
            generation = outbox.generation_of(conn, consumer) or 1
        if world.vectors is None:
            held = in_shard(edge_folder(world.homes[home] / "vectors", base, model, generation), model, base)
        else:
            held = in_collection(f"http://127.0.0.1:{world.vectors.port}", alias_name(base, model))
        for one in against_vectors(db, Vectors(db, embedder), held):
            yield f"home {home}: {one}"
        embedder.close()


def _tails(world: World) -> Iterator[str]:
    logs = [*(home / "logs" / "engine.log" for home in world.homes), *sorted((world.folder / "logs").iterdir())]
    for log in logs:
        if log.exists() and (said := log.read_text(errors="replace")[-TAIL:].strip()):
            yield f"--- end of {log.relative_to(world.folder)}\n{said}"


def main() -> int:
    os.environ["PYTHONPATH"] = str(ROOT)  # for the engines, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes of the round are ended
    parser = argparse.ArgumentParser(description="Rounds of work under faults.")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, help="of the first round; the next ones count up from it")
    parser.add_argument("--profile", choices=[*PROFILES, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of work in each round")
    parser.add_argument("--keep", action="store_true", help="keep every folder")
    options = parser.parse_args()
    first = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    failed: list[int] = []
    struck: Counter[str] = Counter()
    acknowledged = 0
    for number in range(options.rounds):
        profile: Profile = PROFILES[number % len(PROFILES)] if options.profile == "all" else options.profile
        done = run_round(first + number, profile, options.seconds, keep=options.keep)
        struck.update(strike.split(" ")[0] for strike in done.strikes)
        acknowledged += done.acknowledged
        print(done.line(), flush=True)
        if done.problems:
            failed.append(done.seed)
        if done.problems or options.keep:
            print("\n".join([f"kept: {done.folder}", *done.problems]), flush=True)
    print(f"{options.rounds} rounds, {len(failed)} failed {failed or ''}; {acknowledged} calls acknowledged;"
          f" struck: {dict(struck.most_common())}")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
