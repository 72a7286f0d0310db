"""One memory over the real parts for each test module; a tenant of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pegas_memory.db.migrate import ensure_schema
from tests.homes import temporary_home
from tests.postgres_servers import MAJORS, PostgresServer
from tests.support.embedding_server import Fault, HashedEmbeddingServer, hashed_embedding_server
from tests.support.local_memory import LocalMemory, local_memory

_numbers = itertools.count()


@pytest.fixture(scope="session")
def _embedding_server() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=256) as server:
        yield server


@pytest.fixture
def embedding_server(_embedding_server: HashedEmbeddingServer) -> Iterator[HashedEmbeddingServer]:
    yield _embedding_server
    _embedding_server.fault, _embedding_server.fault_times = Fault.NONE, None


@pytest.fixture(scope="session")
def ingest_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one folder from which the shared memory may read."""
    return tmp_path_factory.mktemp("sources").resolve()


@pytest.fixture(scope="module")
def shared_memory(
    postgres_servers: Callable[[int], PostgresServer],
    _embedding_server: HashedEmbeddingServer,
    ingest_root: Path,
) -> Iterator[LocalMemory]:
    server = postgres_servers(MAJORS[0])
    name = server.create_database()
    ensure_schema(server.url(name))
    embedder = f"openai:hashed@{_embedding_server.openai_url}"
    with (
        temporary_home() as home,
        local_memory(server.url(name), home, embedder, ingest_roots=(ingest_root,)) as opened,
    ):
        yield opened
    server.drop_database(name)


@pytest.fixture
def memory(shared_memory: LocalMemory, embedding_server: HashedEmbeddingServer) -> Iterator[LocalMemory]:
    mine = shared_memory.as_tenant(f"t{next(_numbers)}")
    yield mine
    mine.searcher.broken = False
