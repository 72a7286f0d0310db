"""The embedded engine's own dangers: kill, damage, second opener, wrong model, odd folders."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import qdrant_edge

from pegas_memory.bm25 import encode_query
from pegas_memory.errors import DiskFull, PegasError, ShardDamaged, VectorsUnavailable, WrongDimension
from pegas_memory.model import EmbeddingModel
from pegas_memory.qdrant_store import EdgeIndex, VectorIndex, edge_folder
from pegas_memory.qdrant_store.edge import guarded
from pegas_memory.qdrant_store.payload import FORMAT, INDEXED
from tests.contract.vector_points import MODEL, direction, entity, everything, point, quick_folder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _short_panics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine prints its panics; naming every frame takes seconds."""
    monkeypatch.setenv("RUST_BACKTRACE", "0")


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as parent:
        yield edge_folder(parent / "vectors", "alicorn_atoms", MODEL)


def filled(folder: Path, count: int = 60) -> Path:
    index = EdgeIndex(folder, MODEL, "base")
    index.upsert([point(n, "слово текст") for n in range(count)])
    index.close()
    return folder


def opened(folder: Path, model: EmbeddingModel = MODEL) -> EdgeIndex:
    index = EdgeIndex(folder, model, "base")
    index.ensure()
    return index


def test_what_was_stored_is_there_after_closing_and_opening(folder: Path) -> None:
    index: VectorIndex = opened(filled(folder))
    assert index.count() == 60
    hits = index.search(everything(), dense=direction(700), sparse=encode_query("слово"), limit=60)
    assert hits.dense[0].entity_id == entity(7)
    assert len(hits.lexical) == 60
    index.close()


CHILD = """
import os, sys
from pathlib import Path
from pegas_memory.qdrant_store import EdgeIndex
from tests.contract.vector_points import MODEL, entity, point
index = EdgeIndex(Path(sys.argv[1]), MODEL, "base")
index.upsert([point(n, "слово") for n in range(50)])
index.flush()
index.upsert([point(n, "позже", revision=2) for n in range(25, 80)])
index.delete_entities("default", [entity(n) for n in range(10)])
print("unflushed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child(folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "unflushed\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_killed_process_leaves_the_shard_at_its_last_flush(folder: Path, child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.wait()
    index = opened(folder)
    rows = index.scan(None, 200)
    assert {(row[1], row[2], row[3]) for row in rows} == {(entity(n), 1, True) for n in range(50)}
    assert len(index.search(everything(), dense=None, sparse=encode_query("слово"), limit=99).lexical) == 50
    assert not index.search(everything(), dense=None, sparse=encode_query("позже"), limit=99).lexical
    index.upsert([point(n, "позже", revision=2) for n in range(25, 80)])  # the replay
    index.delete_entities("default", [entity(n) for n in range(10)])
    assert index.count() == 70
    index.close()


def test_a_second_process_is_refused_while_the_first_lives(folder: Path, child: subprocess.Popen[str]) -> None:
    with pytest.raises(VectorsUnavailable, match="in use by another process") as caught:
        opened(folder)
    assert not isinstance(caught.value, ShardDamaged)
    with pytest.raises(VectorsUnavailable, match="in use"):
        EdgeIndex.wipe(folder)
    child.kill()
    child.wait()
    opened(folder).close()


def test_a_second_index_of_one_process_is_refused_too(folder: Path) -> None:
    first = opened(folder)
    with pytest.raises(VectorsUnavailable, match="in use"):
        opened(folder)
    first.upsert([point(1)])
    first.close()
    second = opened(folder)
    assert second.count() == 1
    second.close()


@pytest.mark.parametrize("model", [EmbeddingModel("test:other", 16, 1000), EmbeddingModel("test:hashed", 32, 1000)])
def test_another_model_or_dimension_is_refused_and_harms_nothing(folder: Path, model: EmbeddingModel) -> None:
    filled(folder)
    with pytest.raises(WrongDimension, match=model.name):
        opened(folder, model)
    index = opened(folder)
    assert index.count() == 60
    index.close()


@pytest.mark.parametrize("name", ["папка с пробелом 'и' $знаками; &", "д" * 120, "a" * 240])
def test_any_folder_name_serves(name: str) -> None:
    with quick_folder() as parent:
        index = opened(filled(parent / name / ("длинный путь " * 5).strip() / name))
        assert index.count() == 60
        index.close()


def test_only_the_owner_can_read_the_folder(folder: Path) -> None:
    filled(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.with_name(folder.name + ".lock").stat().st_mode) == 0o600


def the(folder: Path, pattern: str) -> Path:
    return next(path for path in sorted(folder.rglob("*")) if path.match(pattern))


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)


DAMAGE: list[tuple[str, Callable[[Path], None]]] = [
    ("manifest.json", cut),
    ("manifest.json", Path.unlink),
    ("shard/edge_config.json", flipped),
    ("segment.json", Path.unlink),
    ("mutable_id_tracker.mappings", emptied),
    ("mutable_id_tracker.versions", emptied),
    ("vectors/status.dat", emptied),
    ("vectors/chunk_0.mmap", emptied),
    ("payload_storage/page_0.dat", emptied),
    ("store/tracker.dat", emptied),
]


@pytest.mark.parametrize(("name", "harm"), DAMAGE, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_damaged_shard_is_known_by_its_error_or_by_its_count(
    folder: Path, name: str, harm: Callable[[Path], None]
) -> None:
    """The engine keeps no checksums: losing its id tracker, it opens as empty without a word. So the
    owner compares the count, the rows of a scan and one search with the truth."""
    filled(folder)
    harm(the(folder, name))
    index = EdgeIndex(folder, MODEL, "base")
    said = ""
    try:
        index.ensure()
        hits = index.search(everything(), dense=direction(0), sparse=None, limit=60).dense
        assert (index.count(), len(index.scan(None, 100)), len(hits)) != (60, 60, 60)
    except ShardDamaged as error:
        said = str(error)
    assert str(folder.parent) not in said
    index.close()
    EdgeIndex.wipe(folder)
    again = opened(folder)
    assert again.count() == 0
    again.upsert([point(1)])
    again.close()


def test_a_shard_of_another_format_is_to_be_rebuilt(folder: Path) -> None:
    filled(folder)
    manifest = folder / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace(f'"format": {FORMAT}', '"format": 99'), encoding="utf-8")
    with pytest.raises(ShardDamaged, match="format 99"):
        opened(folder)


def test_a_wiped_shard_waits_aside_once(folder: Path) -> None:
    aside = folder.with_name(folder.name + ".damaged")
    for _ in range(2):
        EdgeIndex.wipe(filled(folder))
        assert not folder.exists()
        assert (aside / "manifest.json").exists()
    EdgeIndex.wipe(folder)  # nothing there: nothing happens
    assert aside.exists()
    EdgeIndex.wipe(filled(folder), keep=False)
    assert not folder.exists()
    assert not aside.exists()


def test_a_panic_of_the_engine_is_named_and_the_index_not_trusted_again(folder: Path) -> None:
    index = opened(filled(folder))
    broken = qdrant_edge.Point(1, {"bm25": qdrant_edge.SparseVector([5, 6], [1.0])}, {})
    with pytest.raises(ShardDamaged, match="PanicException") as caught:
        index._update(qdrant_edge.UpdateOperation.upsert_points([broken]))
    assert not isinstance(caught.value.__cause__, Exception)
    for call in (index.count, index.ensure, index.flush, lambda: index.upsert([point(1)])):
        with pytest.raises(ShardDamaged):
            call()
    index.close()
    again = opened(folder)
    assert again.count() == 60
    again.close()


def test_failures_of_the_disk_are_not_called_damage() -> None:
    def fail(error: BaseException) -> Callable[[], None]:
        def call() -> None:
            raise error

        return call

    with pytest.raises(DiskFull):
        guarded(fail(Exception("IO Error: No space left on device (os error 28)")))
    with pytest.raises(VectorsUnavailable) as caught:
        guarded(fail(Exception("IO Error: Too many open files (os error 24)")))
    assert not isinstance(caught.value, ShardDamaged)
    with pytest.raises(ShardDamaged) as damaged:
        guarded(fail(Exception("cannot read /home/someone/secret")))
    assert "/home" not in str(damaged.value)
    for passing in (KeyboardInterrupt(), SystemExit(), GeneratorExit()):
        with pytest.raises(type(passing)):
            guarded(fail(passing))


def test_small_shards_are_searched_exactly_and_optimize_only_reclaims(folder: Path) -> None:
    index = opened(folder)
    index.upsert([point(n, "слово") for n in range(1500)])
    index.delete_entities("default", [entity(n) for n in range(1000)])
    assert index.optimize()
    assert index.count() == 500
    hits = index.search(everything(), dense=direction(120_000), sparse=encode_query("слово"), limit=2000)
    assert hits.dense[0].entity_id == entity(1200)
    assert (len(hits.dense), len(hits.lexical)) == (500, 500)
    index.close()
    for segment in folder.rglob("segment.json"):
        config = json.loads(segment.read_text(encoding="utf-8"))["config"]
        assert config["vector_data"]["dense"]["index"]["type"] == "plain"
    shard = qdrant_edge.EdgeShard.load(str(folder / "shard"))
    info = shard.info()
    assert set(info.payload_schema) == set(INDEXED)
    tenant = info.payload_schema["tenant"].params
    assert isinstance(tenant, qdrant_edge.KeywordIndexParams)
    assert tenant.is_tenant
    shard.close()


def test_threads_take_turns(folder: Path) -> None:
    index = opened(folder)
    failures: list[PegasError] = []

    def work(start: int) -> None:
        try:
            for n in range(start, start + 10):
                index.replace("default", [entity(n)], [point(n, "слово", part=p) for p in range(3)])
                index.search(everything(), dense=direction(n), sparse=encode_query("слово"), limit=10)
                index.scan(None, 20)
        except PegasError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(t * 10,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert index.count() == 120
    index.close()
