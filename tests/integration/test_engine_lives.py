"""Beginnings and ends of engines: odd homes, leftovers, wrong settings, idleness, damaged shards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from pegas_memory import bm25
from pegas_memory.config import Settings
from pegas_memory.db import atoms, outbox
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.session import Database
from pegas_memory.engine_client import EngineClient
from pegas_memory.engine_client.launch import start_process
from pegas_memory.engine_client.place import Place
from pegas_memory.errors import (
    BadSettings,
    DatabaseUnavailable,
    HomeNotWritable,
    VectorsUnavailable,
)
from pegas_memory.model import AtomType, Role, SearchFilter
from tests.support.embedding_server import HashedEmbeddingServer, hashed_embedding_server
from tests.support.engines import engines_of, eventually, gone, kill, postgres_runs, settings_for


@pytest.fixture(scope="module")
def embeddings() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=64) as server:
        yield server


@pytest.fixture
def odd_home(home: Path) -> Path:
    """Too long for a Unix socket's address, Cyrillic, with a space and a quote in it."""
    return home / ("память агента " * 6).strip() / 'it\'s "здесь"'


def test_a_long_cyrillic_home_with_leftovers_works_and_an_idle_engine_leaves(
    odd_home: Path, embeddings: HashedEmbeddingServer
) -> None:
    place = Place(odd_home)
    place.prepare()
    place.socket.write_bytes(b"a file, no socket")
    place.engine_lock.write_text("999999999")
    place.spawn_lock.touch()
    settings = settings_for(odd_home, embedder=f"openai:hashed@{embeddings.openai_url}", engine_idle_seconds=1)
    with EngineClient(settings) as client:
        info = client.connect()
        assert client.embed(["ёжик"], Role.QUERY).shape == (1, 64)
        time.sleep(2)  # a client that stays keeps the engine, however little it says
        assert client.connect().pid == info.pid
    eventually(lambda: gone(info.pid), "the idle engine left")
    assert not postgres_runs(odd_home)
    assert not client.is_running()
    assert [path.name for path in odd_home.parent.iterdir()] == [odd_home.name]


def test_what_keeps_an_engine_from_starting_is_what_its_callers_read(home: Path) -> None:
    nowhere = settings_for(home, database_url="postgresql+psycopg://nobody@127.0.0.1:9/nothing")
    for _ in range(2):
        with EngineClient(nowhere) as client, pytest.raises(DatabaseUnavailable):
            client.connect()
    with EngineClient(settings_for(home, embedder="wrong")) as client, pytest.raises(BadSettings, match="three forms"):
        client.connect()


def test_a_home_that_is_a_file_is_named(home: Path) -> None:
    file = home / "file"
    file.touch()
    with EngineClient(settings_for(file)) as client, pytest.raises(HomeNotWritable):
        client.connect()


def server_settings(home: Path, url: str, embeddings: HashedEmbeddingServer, model: str = "hashed") -> Settings:
    return settings_for(home, database_url=url, embedder=f"openai:{model}@{embeddings.openai_url}")


def test_other_settings_are_refused_while_others_work_and_replace_the_engine_when_alone(
    home: Path, migrated_url: str, embeddings: HashedEmbeddingServer
) -> None:
    with EngineClient(server_settings(home, migrated_url, embeddings)) as first:
        pid = first.connect().pid
        with EngineClient(server_settings(home, migrated_url, embeddings, "other")) as second:
            with pytest.raises(BadSettings, match="PEGAS_EMBEDDER"):
                second.connect()
            assert first.connect().pid == pid
            first.close()
            info = second.connect()
            assert info.pid != pid
            assert info.model is not None
            assert info.model.name == "openai:other"
            assert engines_of(home) == [info.pid]


def test_a_start_that_is_interrupted_at_once_harms_nobody(
    home: Path, migrated_url: str, embeddings: HashedEmbeddingServer
) -> None:
    settings = server_settings(home, migrated_url, embeddings)
    place = Place(home)
    place.prepare()
    for seconds in (0.045, 0.5):
        child = start_process(place, settings)
        time.sleep(seconds)
        child.send_signal(signal.SIGTERM)
        with EngineClient(settings) as client:
            assert client.status()["state"] == "ready"
            client.shutdown()
        child.wait(timeout=30)
        eventually(lambda: not engines_of(home), "every engine left")


def test_an_engine_whose_home_was_removed_leaves(
    home: Path, migrated_url: str, embeddings: HashedEmbeddingServer
) -> None:
    with EngineClient(server_settings(home, migrated_url, embeddings)) as client:
        pid = client.connect().pid
        shutil.rmtree(home)
        eventually(lambda: gone(pid), "the engine left")


# --- the shard ---------------------------------------------------------------------------------------

QUESTION = "агент хранит знания"
CLAIMS = [f"Запись номер {n}: агент {n * 7} хранит знания" for n in range(60)]


def learn(db: Database, claims: list[str]) -> None:
    with db.tenant("default") as conn:
        for claim in claims:
            atoms.insert_many(conn, "default", [NewAtom(AtomType.FACT, claim)])


def nothing_waits(db: Database) -> bool:
    with db.everything() as conn:
        durable = conn.execute(text("SELECT bool_and(position::text = durable::text) FROM pm_projection")).scalar_one()
        return bool(durable) and all(state.pending == 0 for state in outbox.states(conn))


def found(client: EngineClient, query: str) -> tuple[int, str]:
    """How many entities both arms find, and the warning."""
    dense = client.embed([query], Role.QUERY)[0]
    try:
        hits, degraded = client.search(
            SearchFilter("default"), dense=dense, sparse=bm25.encode_query(query), limit=len(CLAIMS)
        )
    except VectorsUnavailable as error:
        return 0, error.message
    return len({hit.entity_id for hit in hits.dense} & {hit.entity_id for hit in hits.lexical}), degraded


def lose(home: Path, what: str) -> None:
    vectors = home / "vectors"
    match what:
        case "bits":
            for path in vectors.rglob("*"):
                if path.is_file() and path.name != "manifest.json" and path.stat().st_size:
                    with path.open("r+b") as file:
                        file.write(os.urandom(min(4096, path.stat().st_size)))
        case "files":
            shutil.rmtree(vectors)
        case "points":
            shutil.rmtree(vectors)
            shutil.copytree(home / "before", vectors)
        case "format":  # left by an older version
            (manifest,) = vectors.rglob("manifest.json")
            manifest.write_text(json.dumps({**json.loads(manifest.read_bytes()), "format": 1}), encoding="utf-8")


@pytest.mark.parametrize("loss", ["bits", "files", "points", "format"])
def test_a_shard_that_lost_something_is_rebuilt_from_postgresql(
    home: Path, migrated_url: str, embeddings: HashedEmbeddingServer, loss: str
) -> None:
    settings = server_settings(home, migrated_url, embeddings)
    with closing(Database(migrated_url)) as db, EngineClient(settings) as client:
        if loss == "points":
            learn(db, CLAIMS[:30])
            eventually(lambda: found(client, QUESTION) == (30, ""), "30 claims are searchable")
            client.shutdown()
            shutil.copytree(home / "vectors", home / "before")
        learn(db, CLAIMS)
        eventually(lambda: found(client, QUESTION) == (60, ""), "60 claims are searchable")
        eventually(lambda: nothing_waits(db), "every position stands after the last change")
        asked_before = len(embeddings.requests)
        kill(client.connect().pid)
        lose(home, loss)
        eventually(lambda: found(client, QUESTION) == (60, ""), "everything is searchable again")
        assert "shard renewed" in Place(home).log.read_text(encoding="utf-8")
        asked = [part for seen in embeddings.requests[asked_before:] for part in seen.texts]
        assert not [part for part in asked if "Запись" in part]  # the vectors came from PostgreSQL
