"""Engines that do not answer, listeners that are none, full disks: every call ends soon and says what it is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pegas_memory.engine.sources import Sources, source_of
from pegas_memory.engine_client import EngineClient, client
from pegas_memory.engine_client.launch import exit_code
from pegas_memory.engine_client.place import FileLock, Place
from pegas_memory.errors import (
    BadSettings,
    Cancelled,
    DatabaseUnavailable,
    DiskFull,
    EngineUnavailable,
    HomeNotWritable,
    PegasError,
    Unavailable,
)
from pegas_memory.model import Role, SearchFilter
from tests.support.embedding_server import HashedEmbeddingServer, hashed_embedding_server
from tests.support.engines import engines_of, eventually, gone, kill, postgres_pid, settings_for

TOOL_CALL = 25.0
"""Seconds: the longest that one tool call may take when a part is silent."""


@pytest.fixture(scope="module")
def embeddings() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=64) as server:
        yield server


def _client(home: Path, url: str, embeddings: HashedEmbeddingServer) -> EngineClient:
    return EngineClient(settings_for(home, database_url=url, embedder=f"openai:hashed@{embeddings.openai_url}"))


def _seconds(work: object) -> float:
    assert callable(work)
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def test_a_stopped_engine_costs_a_call_some_seconds_and_is_used_again_when_it_goes_on(
    home: Path, migrated_url: str, embeddings: HashedEmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "QUIET", 4.0)
    with _client(home, migrated_url, embeddings) as engine:
        pid = engine.connect().pid
        engine.embed(["warm"], Role.QUERY)
        kill(pid, signal.SIGSTOP)
        try:
            assert _seconds(engine.wake) < TOOL_CALL / 2  # and raises nothing

            def tool_call() -> None:
                with pytest.raises(EngineUnavailable):
                    engine.embed(["question"], Role.QUERY)
                for _ in range(50):
                    engine.wake()
                    with pytest.raises(EngineUnavailable):
                        engine.search(SearchFilter("default"), dense=None, sparse=None, limit=1)

            assert _seconds(tool_call) < TOOL_CALL
        finally:
            kill(pid, signal.SIGCONT)

        def answers() -> bool:
            try:
                return engine.embed(["again"], Role.QUERY).shape == (1, 64)
            except EngineUnavailable:
                return False

        eventually(answers, "the engine is used again")
        assert engine.connect().pid == pid


def test_a_listener_that_is_no_engine_is_put_aside(
    home: Path, migrated_url: str, embeddings: HashedEmbeddingServer
) -> None:
    place = Place(home)
    place.prepare()
    with socket.socket(socket.AF_UNIX) as listener, _client(home, migrated_url, embeddings) as engine:
        listener.bind(str(place.socket))
        listener.listen(8)
        assert engine.connect(TOOL_CALL).pid == engines_of(home)[0]


def test_the_holder_of_the_lock_is_not_put_aside_however_silent(home: Path) -> None:
    place = Place(home)
    place.prepare()
    lock = FileLock(place.engine_lock)
    assert lock.take()
    with closing(place.listen(8)), EngineClient(settings_for(home)) as engine:
        with pytest.raises(EngineUnavailable, match="did not answer"):
            engine.connect(TOOL_CALL)
        assert place.socket.is_socket()
    lock.release()


def test_a_folder_in_the_place_of_the_socket_is_named(home: Path) -> None:
    Place(home).prepare()
    Place(home).socket.mkdir()
    with EngineClient(settings_for(home)) as engine, pytest.raises(HomeNotWritable, match=r"run/engine\.sock"):
        engine.connect(TOOL_CALL)


def test_a_start_that_failed_a_moment_ago_starts_no_further_process(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FAILED", 600.0)
    nowhere = settings_for(home, database_url="postgresql+psycopg://nobody@127.0.0.1:9/nothing")
    with EngineClient(nowhere) as engine:
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                engine.embed(["text"], Role.QUERY)
            eventually(lambda: not engines_of(home), "the engine that failed left")


@pytest.mark.parametrize(
    ("error", "code"), [(DiskFull(""), 3), (HomeNotWritable(""), 4), (BadSettings(""), 2), (DatabaseUnavailable(""), 1)]
)
def test_an_exit_code_says_what_a_full_disk_cannot_take(error: PegasError, code: int) -> None:
    assert exit_code(error) == code


@pytest.fixture
def small_disk(home: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=320m", "tmpfs", str(home)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount")
    yield home
    subprocess.run(["umount", "--lazy", str(home)], check=True)


def _fill(disk: Path) -> Path:
    path = disk / "fill"
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 4096):
            with suppress(OSError):
                while file.write(b"\1" * size) == size:
                    continue
    return path


def test_an_engine_killed_on_a_full_disk_is_followed_by_one_that_says_it(small_disk: Path) -> None:
    home = small_disk / "home"
    with EngineClient(settings_for(home)) as engine:
        pid = engine.connect().pid
        filler = _fill(small_disk)

        def ask() -> None:
            kill(pid)
            assert engine.embed(["question"], Role.QUERY).shape[0] == 1
            with pytest.raises(DiskFull, match="full"):
                engine.search(SearchFilter("default"), dense=None, sparse=None, limit=1)

        assert _seconds(ask) < TOOL_CALL
        (pid,) = engines_of(home)
        kill(pid)
        kill(postgres_pid(home))
        with pytest.raises(DiskFull) as full:
            engine.embed(["question"], Role.QUERY)
        assert "Free some disk space" in full.value.hint
        filler.unlink()

        def recovered() -> bool:
            try:
                engine.search(SearchFilter("default"), dense=None, sparse=None, limit=1)
            except Unavailable:
                return False
            return True

        eventually(recovered, "it works again once there is room")
        engine.shutdown()


def test_postgresql_ends_with_its_home(home: Path) -> None:
    with EngineClient(settings_for(home)) as engine:
        info = engine.connect()
        database = postgres_pid(home)
        while home.exists():  # PostgreSQL and the engine write into it meanwhile
            shutil.rmtree(home, ignore_errors=True)
        eventually(lambda: gone(database) and gone(info.pid), "PostgreSQL and the engine ended")


# --- sources -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tenant", "source", "waits"),
    [("a", "/x/one", True), ("a", "/x", True), ("a", "/x/one/part", True), ("a", "/x/one2", False),
     ("b", "/x/one", False)],
)  # fmt: skip
def test_jobs_on_one_source_take_turns_and_hear_their_cancel(tenant: str, source: str, waits: bool) -> None:
    sources, stop, entered = Sources(), threading.Event(), threading.Event()

    def other() -> str:
        try:
            with sources.alone(tenant, source, stop):
                entered.set()
        except Cancelled:
            return "cancelled"
        return "done"

    with ThreadPoolExecutor(1) as pool:
        with sources.alone("a", "/x/one", threading.Event()):
            answer = pool.submit(other)
            if waits:
                assert not entered.wait(0.3)
                stop.set()
            assert answer.result(30) == ("cancelled" if waits else "done")
        stop.clear()
        assert pool.submit(other).result(30) == "done"


def test_texts_are_the_same_source_when_they_are_equal() -> None:
    assert source_of({"text": "ёж"}) == source_of({"text": "ёж", "title": "other"}) != source_of({"text": "уж"})
    assert source_of({"source": "/x/file.md"}) == "/x/file.md"
