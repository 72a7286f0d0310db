"""From an embedded home to a PostgreSQL server and back, with the real engine of each home."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pegas_memory import PegasMemory
from pegas_memory.model import GapRequest, IngestRequest, LinkRequest, SearchRequest, SourceRef, StoreRequest
from tests.homes import temporary_home
from tests.postgres_servers import PostgresServer
from tests.support.archives import contents
from tests.support.embedding_server import HashedEmbeddingServer, hashed_embedding_server
from tests.support.engines import settings_for

QUESTIONS = ("lantern of the lighthouse", "мельница у ручья", "oil", "1871")


@contextmanager
def opened(home: Path, embeddings: HashedEmbeddingServer, **more: Any) -> Iterator[PegasMemory]:
    embedder = f"openai:hashed@{embeddings.openai_url}"
    with PegasMemory.open(settings_for(home, embedder=embedder, ingest_roots=(home,), **more)) as memory:
        yield memory


def everything_of(memory: PegasMemory) -> dict[str, list[str]]:
    with memory.rooms.db.tenant(memory.tenant) as conn:
        return contents(conn, memory.tenant)


def answers(memory: PegasMemory) -> list[list[tuple[object, ...]]]:
    deadline = time.monotonic() + 60
    while memory.rooms.written.pending(memory.tenant):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    found = [memory.search(SearchRequest(query=question, limit=20)) for question in QUESTIONS]
    assert not any(answer.degraded for answer in found)
    return [[(r.atom_id, r.claim, r.citations, r.status) for r in answer.results] for answer in found]


def live(memory: PegasMemory) -> None:
    """Some of everything that the product writes by itself."""
    memory.ingest(IngestRequest(text="# Tower\n\nThe lighthouse was lit in 1871. Its lens weighs 640 kg.", title="Log"))
    memory.ingest(IngestRequest(text="Мельница построена в 1893 году. Она стоит у ручья. 🦔", title="Мельница"))
    source = SourceRef(uri="https://example.org/lamp", title="Lamps", quote="burns oil")
    links = (LinkRequest("Heron Point", "reference"),)
    first = memory.store(StoreRequest(claim="The lantern burns oil.", source=source, links=links, tags=("ёж",)))
    memory.store(StoreRequest(claim="The lantern burns paraffin oil.", replaces=first.atom_id, metadata={"ключ": [1]}))
    memory.add_gap(GapRequest(question="Who lit the lantern?"))


@pytest.mark.parametrize("major", [16, 15])
def test_from_embedded_to_a_server_and_back(
    postgres_servers: Callable[[int], PostgresServer], tmp_path: Path, major: int
) -> None:
    server = postgres_servers(major)
    database = server.create_database()
    there = {"database_url": server.url(database), "tenant": "team"}
    out, back = tmp_path / "out.zip", tmp_path / "back.zip"
    with (
        hashed_embedding_server(dimension=64) as embeddings,
        temporary_home() as home,
        temporary_home() as server_home,
        temporary_home() as new_home,
    ):
        with opened(home, embeddings) as memory:
            live(memory)
            found = answers(memory)
            before = everything_of(memory)
            memory.export_archive(out, vectors=True)
            assert everything_of(memory) == before
        for table in ("pm_atom", "pm_citation", "pm_atom_link", "pm_entity", "pm_revision", "pm_embedding", "pm_chunk"):
            assert before[table], table
        embedded = len([text for seen in embeddings.requests for text in seen.texts if "lighthouse was lit" in text])
        with opened(server_home, embeddings, **there) as memory:
            memory.import_archive(out, "team")
            assert everything_of(memory) == before
            assert answers(memory) == found
            after = everything_of(memory)
            memory.export_archive(back, vectors=True)
        with opened(new_home, embeddings) as memory:
            memory.import_archive(back, memory.tenant)
            assert everything_of(memory) == after
            assert answers(memory) == found
        again = len([text for seen in embeddings.requests for text in seen.texts if "lighthouse was lit" in text])
        assert again == embedded
    server.drop_database(database)
