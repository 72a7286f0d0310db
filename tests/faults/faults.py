"""What strikes a round, and when: drawn from the seed. Times are approximate, as the machine has its own."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pegas_memory.db import atoms
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.session import Database
from pegas_memory.engine_client.place import Place
from pegas_memory.errors import PegasError
from pegas_memory.model import AtomType
from tests.faults.ledger import DONE, DOUBT, Ledger
from tests.faults.world import World, kill, relaunch, send
from tests.support.tcp_proxy import TcpProxy

FREE_LEFT = 64_000
"""Bytes that a full disk has left."""


@dataclass(frozen=True, slots=True)
class Strike:
    """``after``: seconds of peace before it; ``seconds``: how long it lasts, where it lasts."""

    name: str
    after: float
    seconds: float


def kill_engine(world: World, rng: random.Random, seconds: float) -> None:
    """Or a worker, which its service manager then starts again; an engine is started by whoever needs it."""
    kill(*world.engines(rng.randrange(len(world.homes))))
    if world.profile == "workers":
        time.sleep(seconds / 2)
        world.revive()


def kill_postmaster(world: World, rng: random.Random, seconds: float) -> None:
    """Its backends go on for a moment and end by themselves."""
    kill(*world.postgres_pids()[:1])
    time.sleep(seconds / 3)
    _postgres_is_back(world)


def kill_postgres(world: World, rng: random.Random, seconds: float) -> None:
    kill(*world.postgres_pids())
    time.sleep(seconds / 3)
    _postgres_is_back(world)


def kill_backend(world: World, rng: random.Random, seconds: float) -> None:
    """PostgreSQL then ends every session and recovers."""
    if running := world.postgres_pids()[1:]:
        kill(rng.choice(running))


def kill_engine_and_postgres(world: World, rng: random.Random, seconds: float) -> None:
    engines = [pid for home in range(len(world.homes)) for pid in world.engines(home)]
    kill(*engines, *world.postgres_pids())
    _postgres_is_back(world)
    if world.profile == "workers":
        world.revive()


def _postgres_is_back(world: World) -> None:
    """The embedded one is its engine's affair."""
    if world.server is not None:
        relaunch(world.server)


def kill_client(world: World, rng: random.Random, seconds: float) -> None:
    """The runner gives it another life."""
    world.kill_client(rng.choice(world.clients))


def pause_engine(world: World, rng: random.Random, seconds: float) -> None:
    _paused(world.engines(rng.randrange(len(world.homes))), seconds)


def pause_postgres(world: World, rng: random.Random, seconds: float) -> None:
    _paused(world.postgres_pids(), seconds)


def pause_client(world: World, rng: random.Random, seconds: float) -> None:
    process = rng.choice(world.clients).process
    if process is not None and process.poll() is None:
        _paused([process.pid], seconds)


def _paused(pids: list[int], seconds: float) -> None:
    for pid in pids:
        send(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        send(pid, signal.SIGCONT)


def embedder_down(world: World, rng: random.Random, seconds: float) -> None:
    world.embedder_fails(rng.choice(["down", "http_503", "truncated"]), rng.randrange(2, 12))


def held_transaction(world: World, rng: random.Random, seconds: float) -> None:
    """A transaction that writes early and commits late, while others commit and are projected."""
    number = rng.randrange(10**6)
    threading.Thread(target=_hold, args=(world, number, seconds * 2), daemon=True).start()


def _hold(world: World, number: int, seconds: float) -> None:
    ledger = Ledger(world.ledgers / f"held{number}.jsonl")
    token = f"zqheld{number}"
    claim = f"The ledger {token} was open for {number} seconds."
    call = ledger.begin("store", tenant="faults", token=token, claim=claim, content="", links=[])
    db = Database(world.database_url)
    try:
        with db.tenant("faults") as conn:
            (atom_id,) = atoms.insert_many(conn, "faults", [NewAtom(AtomType.FACT, claim, terms=(token,))])
            time.sleep(seconds)
    except PegasError as error:
        ledger.end(call, DOUBT, error=str(error))
    else:
        ledger.end(call, DONE, atom_id=str(atom_id))
    finally:
        db.close()


def left_in_the_way(world: World, rng: random.Random, seconds: float) -> None:
    """What stands where the engine's socket belongs is no socket, or one where nobody listens."""
    home = rng.randrange(len(world.homes))
    with world.engine_down(home):
        address = Place(world.homes[home]).socket
        address.unlink(missing_ok=True)
        if rng.random() < 0.5:
            address.write_bytes(b"no socket")
        else:
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(address))


def damaged_shard(world: World, rng: random.Random, seconds: float) -> None:
    """Files of the embedded vectors are cut, flipped or missing when the next engine opens them."""
    home = rng.randrange(len(world.homes))
    with world.engine_down(home):
        shard = world.homes[home] / "vectors"
        files = sorted(path for path in shard.rglob("*") if path.is_file() and path.stat().st_size)
        for path in rng.sample(files, min(len(files), rng.randrange(1, 4))):
            world.said.append(_damage(path, rng))


def _damage(path: Path, rng: random.Random) -> str:
    size = path.stat().st_size
    how = rng.choice(["cut", "flipped", "gone"])
    if how == "cut":
        os.truncate(path, rng.randrange(size))
    elif how == "gone":
        path.unlink()
    else:
        with path.open("r+b") as file:
            for _ in range(8):
                file.seek(rng.randrange(size))
                file.write(bytes([rng.randrange(256)]))
    return f"{path.name} {how}"


def full_disk(world: World, rng: random.Random, seconds: float) -> None:
    """Nothing is left on the disk of the homes for a while."""
    if not world.small_disk:
        return
    filler = world.homes[0].parent / "filler"
    with filler.open("wb") as file:
        free = os.statvfs(filler).f_bavail * os.statvfs(filler).f_bsize
        with suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, free - FREE_LEFT))
        time.sleep(seconds * 1.5)
    filler.unlink()


def rebuild_killed(world: World, rng: random.Random, seconds: float) -> None:
    """The runner goes on with it at the end, as an operator does."""
    process = world.run(*_rebuild(world, rng))
    time.sleep(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def rebuild_beside(world: World, rng: random.Random, seconds: float) -> None:
    """Other strikes fall on it."""
    world.beside.append(world.run(*_rebuild(world, rng)))


def _rebuild(world: World, rng: random.Random) -> list[str]:
    return ["rebuild", "--graph" if world.peer is not None and rng.random() < 0.5 else "--vector"]


def target_killed(world: World, rng: random.Random, seconds: float) -> None:
    """The stand-in of Qdrant has no files: it comes back empty."""
    kill(_target(world, rng)[1])
    time.sleep(seconds / 2)
    world.revive()


def target_paused(world: World, rng: random.Random, seconds: float) -> None:
    _paused([_target(world, rng)[1]], seconds)


def target_stalls(world: World, rng: random.Random, seconds: float) -> None:
    proxy, _ = _target(world, rng)
    proxy.pause()
    time.sleep(seconds)
    proxy.resume()


def target_refuses(world: World, rng: random.Random, seconds: float) -> None:
    proxy, _ = _target(world, rng)
    proxy.refuse()
    time.sleep(seconds)
    proxy.accept()


def target_s_answers_get_lost(world: World, rng: random.Random, seconds: float) -> None:
    """It has written, and whoever asked is not told."""
    proxy, _ = _target(world, rng)
    for _ in range(rng.randrange(1, 6)):
        proxy.drop_before_reply(after=rng.randrange(4))
        proxy.lost.wait(seconds / 2)


def _target(world: World, rng: random.Random) -> tuple[TcpProxy, int]:
    """The proxy before one of the projections' servers, and its process."""
    name = rng.choice(sorted(world.proxies))
    world.said.append(name)
    server = world.peer if name == "graph" else world.vectors
    assert server is not None
    return world.proxies[name], server.pid


Work = Callable[[World, random.Random, float], None]
ANYWHERE: dict[Work, int] = {
    kill_engine: 6,
    kill_postmaster: 3,
    kill_postgres: 4,
    kill_backend: 2,
    kill_engine_and_postgres: 2,
    kill_client: 5,
    pause_engine: 2,
    pause_postgres: 2,
    pause_client: 1,
    embedder_down: 2,
    held_transaction: 5,
    rebuild_killed: 3,
    rebuild_beside: 2,
}
ON_HOMES: dict[Work, int] = {left_in_the_way: 2, damaged_shard: 4, full_disk: 2}
ON_SERVERS: dict[Work, int] = {
    target_killed: 3, target_paused: 2, target_stalls: 4, target_refuses: 3, target_s_answers_get_lost: 7
}  # fmt: skip
STRIKES = {work.__name__: work for work in (*ANYWHERE, *ON_HOMES, *ON_SERVERS)}


def schedule(profile: str, rng: random.Random, seconds: float) -> list[Strike]:
    """The strikes of a round whose clients work for ``seconds``."""
    weights = ANYWHERE | {"embedded": ON_HOMES, "server": ON_HOMES | ON_SERVERS, "workers": ON_SERVERS}[profile]
    found: list[Strike] = []
    spent = 0.0
    while True:
        (work,) = rng.choices(list(weights), list(weights.values()))
        strike = Strike(work.__name__, 0.2 + rng.random() * 2.0, 0.5 + rng.random() * 2.5)
        spent += strike.after + strike.seconds / 2
        if spent > seconds:
            return found
        found.append(strike)
