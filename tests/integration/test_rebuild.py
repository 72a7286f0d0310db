"""A vector index made anew beside the one that serves: complete, resumable, and never seen half done."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pegas_memory import PegasMemory
from pegas_memory.config import Settings
from pegas_memory.db import outbox
from pegas_memory.db.outbox import Backfill
from pegas_memory.errors import VectorsUnavailable
from pegas_memory.model import EmbeddingModel, SearchRequest, StoreRequest
from pegas_memory.rebuilding import fill
from pegas_memory.rebuilding.pages import Page
from pegas_memory.service.upkeep import target_of
from tests.support.embedding_server import hashed_embedding_server
from tests.support.engines import engines_of, eventually, gone, kill, settings_for
from tests.support.indexed import differences, seed

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def embedder() -> Iterator[str]:
    with hashed_embedding_server(dimension=64) as server:
        yield f"openai:hashed@{server.openai_url}"


@pytest.fixture
def settings(home: Path, embedder: str) -> Settings:
    return settings_for(home, embedder=embedder)


def caught_up(memory: PegasMemory) -> bool:
    with memory.rooms.db.everything() as conn:
        states = outbox.states(conn)
    return bool(states) and all(s.pending == 0 and not s.backfilling and s.failed == 0 for s in states)


def equal(memory: PegasMemory) -> bool:
    try:
        return caught_up(memory) and differences(memory.rooms.db, target_of(memory.rooms).scan) == []
    except VectorsUnavailable:
        return False


def consumer_generation(memory: PegasMemory) -> int | None:
    with memory.rooms.db.everything() as conn:
        return outbox.generation_of(conn, target_of(memory.rooms).consumer)


def test_a_rebuild_equals_postgresql(settings: Settings) -> None:
    with PegasMemory.open(settings) as memory:
        seed(memory.rooms.db, memory.rooms.embedder.model, 700)
        seed(memory.rooms.db, memory.rooms.embedder.model, 50, "other")
        eventually(lambda: caught_up(memory), "all is projected")
        target = target_of(memory.rooms)
        assert differences(memory.rooms.db, target.scan) == []
        answer = memory.rebuild()
        assert answer.vector is not None
        assert (answer.vector.generation, answer.vector.rows, answer.vector.resumed) == (2, 750, False)
        assert consumer_generation(memory) == 2
        assert differences(memory.rooms.db, target.scan) == []
        folders = [path.name for path in (settings.home / "vectors").iterdir() if path.is_dir()]
        assert [name.endswith("__64__2") for name in folders] == [True]
        seed(memory.rooms.db, memory.rooms.embedder.model, 20, first=10_000)
        eventually(lambda: caught_up(memory), "the new one follows")
        assert differences(memory.rooms.db, target.scan) == []


def command(settings: Settings, *arguments: str) -> subprocess.Popen[str]:
    """One ``pegas-memory`` command for the home of ``settings``."""
    environment = {
        **os.environ, "PEGAS_HOME": str(settings.home), "PEGAS_EMBEDDER": settings.embedder,
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "pegas_memory.cli", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (out, err)
    return json.loads(out)


@contextmanager
def meanwhile(work: Callable[[int], None]) -> Iterator[list[BaseException]]:
    """Do ``work`` again and again beside the block; what it raised."""
    stop, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        number = 0
        while not stop.is_set():
            try:
                work(number)
            except Exception as error:  # noqa: BLE001 - the test looks at them
                failures.append(error)
            number += 1
            stop.wait(0.02)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join()


def building(memory: PegasMemory) -> int:
    """How many rows the rebuild under way has durably filled; -1 when there is none."""
    with memory.rooms.db.everything() as conn:
        states = {state.consumer: state for state in outbox.states(conn)}
    found = states.get(outbox.building_name(target_of(memory.rooms).consumer))
    return found.filled if found else -1


@pytest.mark.fault(28)
def test_killed_and_resumed_while_writes_and_searches_go_on(settings: Settings) -> None:
    with PegasMemory.open(settings) as memory:
        db, model = memory.rooms.db, memory.rooms.embedder.model
        seed(db, model, 15_000)
        eventually(lambda: caught_up(memory), "all is projected")
        old = memory.store(StoreRequest(claim="The kettle of the north tower whistles at noon.")).atom_id
        eventually(lambda: caught_up(memory), "all is projected")
        changed: list[UUID] = []

        def write(number: int) -> None:
            stored = memory.store(StoreRequest(claim=f"Written during it: number {number} of shelf {number}."))
            changed.append(stored.atom_id)

        def search(_number: int) -> None:
            answer = memory.search(SearchRequest(query="kettle of the north tower whistles", limit=5))
            assert answer.results[0].atom_id == old
            assert not [d for d in answer.degraded if d.part == "vector index"]

        with meanwhile(write) as written, meanwhile(search) as searched:
            first = command(settings, "rebuild", "--json")
            eventually(lambda: building(memory) > 0, "a part is durable")
            first.send_signal(signal.SIGKILL)
            first.communicate()
            standing = building(memory)
            assert standing > 0
            second = command(settings, "rebuild", "--json")
            eventually(lambda: building(memory) > standing, "it goes on")
            third = command(settings, "rebuild", "--json")
            out, _ = third.communicate(timeout=60)
            if building(memory) >= 0:  # else the second was over before the third began
                assert json.loads(out)["error"]["code"] == "rebuild_running"
            answer = ended(second)["vector"]
        assert (answer["generation"], answer["resumed"]) == (2, True)
        assert answer["rows"] <= 15_000 + len(changed) - standing + 1
        assert written == []
        assert searched == []
        eventually(lambda: caught_up(memory), "the rest is projected")
        assert differences(db, target_of(memory.rooms).scan) == []


@pytest.mark.slow
def test_many_rows_are_read_by_another_process(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    fed, asked = fill.fed, list[int]()

    def noted(url: str, model: EmbeddingModel, at: Backfill) -> Generator[Page, None, None]:
        asked.append(at.filled)
        return fed(url, model, at)

    monkeypatch.setattr(fill, "fed", noted)
    with PegasMemory.open(settings) as memory:
        count = fill.FED_FROM + 500
        seed(memory.rooms.db, memory.rooms.embedder.model, count)
        eventually(lambda: caught_up(memory), "all is projected")

        def write(number: int) -> None:
            memory.store(StoreRequest(claim=f"Written during it: number {number} of shelf {number}."))

        with meanwhile(write) as failures:
            answer = memory.rebuild()
        assert failures == []
        assert asked == [0]
        assert answer.vector is not None
        assert answer.vector.rows >= count
        eventually(lambda: caught_up(memory), "the rest is projected")
        assert differences(memory.rooms.db, target_of(memory.rooms).scan) == []


def test_the_engine_killed_after_the_switch_opens_the_new_shard(settings: Settings) -> None:
    with PegasMemory.open(settings) as memory:
        seed(memory.rooms.db, memory.rooms.embedder.model, 300)
        eventually(lambda: caught_up(memory), "all is projected")
        memory.rebuild()
        [engine] = engines_of(settings.home)
        kill(engine)
        eventually(lambda: gone(engine), "it is dead")
        seed(memory.rooms.db, memory.rooms.embedder.model, 10, first=1000)
        memory.search(SearchRequest(query="anything"))
        eventually(lambda: caught_up(memory), "the next one projects")
        assert differences(memory.rooms.db, target_of(memory.rooms).scan) == []


@pytest.mark.parametrize("lost", ["row", "folder", "damaged"])
def test_a_half_built_shard_that_lost_its_other_half_starts_over(
    settings: Settings, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PegasMemory.open(settings) as memory:
        rooms = memory.rooms
        seed(rooms.db, rooms.embedder.model, 1200)
        eventually(lambda: caught_up(memory), "all is projected")
        monkeypatch.setattr("pegas_memory.rebuilding.fill.FLUSH_SECONDS", 0.0)

        def stop_half_way(done: int, _total: int) -> None:
            if done >= 500:
                raise VectorsUnavailable("interrupted")

        with pytest.raises(VectorsUnavailable, match="interrupted"):
            memory.rebuild(on_rows=stop_half_way)
        assert building(memory) == 500
        folder = settings.home / "vectors" / next(p.name for p in (settings.home / "vectors").glob("*__2"))
        match lost:
            case "row":
                with rooms.db.everything() as conn:
                    outbox.discard_building(conn, target_of(rooms).consumer)
            case "folder":
                shutil.rmtree(folder)
            case "damaged":
                (folder / "manifest.json").write_text("{")
        answer = memory.rebuild()
        assert answer.vector is not None
        assert (answer.vector.rows, answer.vector.resumed) == (1200, False)
        assert differences(rooms.db, target_of(rooms).scan) == []


def test_a_removed_shard_heals_by_itself(settings: Settings) -> None:
    with PegasMemory.open(settings) as memory:
        seed(memory.rooms.db, memory.rooms.embedder.model, 300)
        eventually(lambda: caught_up(memory), "all is projected")
        shutil.rmtree(settings.home / "vectors")
        eventually(lambda: (settings.home / "vectors").exists() and equal(memory), "it is there again")
        [engine] = engines_of(settings.home)
        kill(engine)
        eventually(lambda: gone(engine), "it is dead")
        shutil.rmtree(settings.home / "vectors")
        memory.search(SearchRequest(query="anything"))
        eventually(lambda: equal(memory), "it is filled again")


def test_stray_shards_go_at_the_start(settings: Settings) -> None:
    with PegasMemory.open(settings) as memory:
        seed(memory.rooms.db, memory.rooms.embedder.model, 30)
        eventually(lambda: caught_up(memory), "all is projected")
        vectors = settings.home / "vectors"
        [folder] = [path for path in vectors.iterdir() if path.is_dir()]
        stray, foreign = vectors / f"{folder.name}__7", vectors / "something else"
        shutil.copytree(folder, stray)
        foreign.mkdir()
        [engine] = engines_of(settings.home)
        kill(engine)
        eventually(lambda: gone(engine), "it is dead")
        memory.search(SearchRequest(query="anything"))
        eventually(lambda: not stray.exists(), "the stray one is gone")
        assert foreign.exists()
        assert folder.exists()
