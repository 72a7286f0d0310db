"""kill -9 in the middle of an ingest: of a server, of the engine process, of PostgreSQL. Nothing that was
acknowledged is lost, nothing is doubled, and whoever calls next recovers by itself."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pegas_memory import PegasMemory
from pegas_memory.config import Settings, load_settings
from pegas_memory.engine_client import EngineClient
from pegas_memory.errors import Unavailable
from pegas_memory.model import IngestRequest, JobState, SearchMode, SearchRequest, StoreRequest
from tests.homes import temporary_home
from tests.support.embedding_server import Fault, HashedEmbeddingServer, hashed_embedding_server
from tests.support.mcp_client import RawClient, raw_client

SENTENCES = 500
BOOK = "\n\n".join(f"Pump number {n} of the plant moves {n * 7} litres a minute." for n in range(SENTENCES))


@pytest.fixture
def embeddings() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=64) as server:
        yield server


@pytest.fixture
def settings(embeddings: HashedEmbeddingServer) -> Iterator[Settings]:
    with temporary_home() as home:
        yield load_settings(home=home, embedder=f"openai:hashed@{embeddings.openai_url}", ingest_roots=(home,))


def server_of(settings: Settings) -> AbstractContextManager[RawClient]:
    return raw_client(
        PEGAS_HOME=str(settings.home), PEGAS_EMBEDDER=settings.embedder, PEGAS_INGEST_ROOTS=str(settings.home)
    )


def engine_pid(settings: Settings) -> int:
    with EngineClient(settings) as client:
        return client.connect().pid


def postmaster_pid(settings: Settings) -> int:
    return int((settings.home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])


def patiently(work: Callable[[], object], seconds: float = 40.0) -> object:
    """Call until the part that was killed is back; what a client may see meanwhile is a named error."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return work()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def check_whole(memory: PegasMemory, seed: int) -> None:
    """Every sentence of the book once, cited once, and found by the words and by the vectors."""
    stats = memory.stats()
    assert (stats.documents, stats.atoms.total, stats.citations) == (1, SENTENCES, SENTENCES)
    deadline = time.monotonic() + 40
    while memory.stats().pending or memory.search(SearchRequest(query="pump")).degraded:
        assert time.monotonic() < deadline, memory.stats()
        time.sleep(0.1)
    for n in random.Random(seed).sample(range(SENTENCES), 12):
        claim = f"Pump number {n} of the plant moves {n * 7} litres a minute."
        for mode in SearchMode:
            results = memory.search(SearchRequest(query=claim, mode=mode, limit=3)).results
            assert results[0].claim == claim, (mode, seed)
            assert [r.claim for r in results].count(claim) == 1


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["server", "engine", "postgres", "engine and postgres"])
def test_killed_in_the_middle_of_an_ingest(settings: Settings, embeddings: HashedEmbeddingServer, victim: str) -> None:
    seed = random.SystemRandom().randrange(10**6)
    embeddings.fault, embeddings.slow_seconds = Fault.SLOW, 0.05
    with PegasMemory.open(settings) as watcher:
        with server_of(settings) as server:
            server.handshake()
            started = server.call("memory_ingest", text=BOOK, title="Pumps", wait=False)
            job_id = started["structuredContent"]["job_id"]
            while not 0 < watcher.stats().atoms.total < SENTENCES - 64:
                time.sleep(0.02)
            if victim == "server":
                server.process.kill()
            if "engine" in victim:
                os.kill(engine_pid(settings), signal.SIGKILL)
            if "postgres" in victim:
                os.kill(postmaster_pid(settings), signal.SIGKILL)
        embeddings.fault = Fault.NONE
    with PegasMemory.open(settings) as memory:
        jobs = [str(job.job_id) for job in memory.stats().jobs]
        assert jobs == [job_id], "an acknowledged job is not lost"
        done = patiently(lambda: memory.wait_job(memory.stats().jobs[0].job_id, 60))
        assert done.state is JobState.DONE, (done, seed)  # type: ignore[attr-defined]
        again = memory.ingest(IngestRequest(text=BOOK, title="Pumps"))
        assert again.atoms.created == 0
        check_whole(memory, seed)


@pytest.mark.fault(28)
def test_two_servers_on_one_home_find_each_other_s_atoms_at_once(settings: Settings) -> None:
    with server_of(settings) as one, server_of(settings) as two:
        one.handshake()
        two.handshake()
        for n in range(10):
            writer, reader = (one, two) if n % 2 else (two, one)
            claim = f"Observation {n}: the barometer reads {990 + n} hectopascal."
            stored = writer.call("memory_store", claim=claim)["structuredContent"]
            for mode in ("hybrid", "dense", "lexical"):
                found = reader.call("memory_search", query=claim, mode=mode)["structuredContent"]
                assert found["results"][0]["atom_id"] == stored["atom_id"], (n, mode, found["pending"])


def test_an_open_client_survives_the_death_of_every_part(settings: Settings) -> None:
    with PegasMemory.open(settings) as memory:
        memory.store(StoreRequest(claim="Before anything died, the gauge read 12 bar."))
        os.kill(engine_pid(settings), signal.SIGKILL)
        assert memory.search(SearchRequest(query="gauge bar")).results[0].claim.endswith("12 bar.")
        os.kill(postmaster_pid(settings), signal.SIGKILL)
        found = patiently(lambda: memory.search(SearchRequest(query="gauge bar")))
        assert found.results[0].claim.endswith("12 bar.")  # type: ignore[attr-defined]
        patiently(lambda: memory.store(StoreRequest(claim="After everything died, the gauge read 13 bar.")))
        deadline = time.monotonic() + 30
        while (answer := memory.search(SearchRequest(query="After everything died, the gauge read 13 bar."))).pending:
            assert time.monotonic() < deadline
        assert answer.results[0].claim.endswith("13 bar.")


def test_a_damaged_shard_is_rebuilt_and_said_meanwhile(settings: Settings) -> None:
    with PegasMemory.open(settings) as memory:
        for n in range(30):
            memory.store(StoreRequest(claim=f"Buoy {n} lies {n} miles from the harbour."))
        memory.search(SearchRequest(query="buoy"))
    with EngineClient(settings) as client:
        client.shutdown()
    damaged = [f for f in (settings.home / "vectors").rglob("*") if f.is_file() and f.stat().st_size > 0]
    assert damaged
    for file in damaged:
        file.write_bytes(b"\xff" * 64)
    log = settings.home / "logs" / "engine.log"
    known = log.read_text()
    with PegasMemory.open(settings) as memory:
        claim = "Buoy 17 lies 17 miles from the harbour."
        first = memory.search(SearchRequest(query=claim))
        assert "shard renewed" in log.read_text().removeprefix(known), "what was damaged is not trusted"
        assert first.degraded or [r.claim for r in first.results[:1]] == [claim], "late perhaps, but never silently"
        deadline = time.monotonic() + 30
        while True:
            answer = memory.search(SearchRequest(query=claim, mode=SearchMode.DENSE))
            if not answer.degraded and not answer.pending:
                break
            assert time.monotonic() < deadline, answer.degraded
            time.sleep(0.05)
        assert answer.results[0].claim == claim
        assert memory.stats().atoms.total == 30


@pytest.mark.fault(35)
def test_the_embedder_s_model_changes(settings: Settings, embeddings: HashedEmbeddingServer) -> None:
    """Another model has another collection: never half and half, and old vectors are not mixed in."""
    with PegasMemory.open(settings) as memory:
        memory.store(StoreRequest(claim="The mast is 31 metres high."))
        assert memory.search(SearchRequest(query="mast metres", mode=SearchMode.DENSE)).results
    with hashed_embedding_server(dimension=96) as other:
        changed = settings.model_copy(update={"embedder": f"openai:other@{other.openai_url}"})
        with PegasMemory.open(changed) as memory:
            deadline = time.monotonic() + 30
            while not memory.search(SearchRequest(query="mast metres", mode=SearchMode.DENSE)).results:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert memory.stats().embedding.dimension == 96
            memory.store(StoreRequest(claim="The keel is 9 metres long."))
            assert len(memory.search(SearchRequest(query="metres", mode=SearchMode.DENSE)).results) == 2
    shards = {path.name for path in (Path(settings.home) / "vectors").iterdir() if path.is_dir()}
    assert len(shards) == 2


def test_the_endpoint_serves_another_dimension_under_the_same_name(
    settings: Settings, embeddings: HashedEmbeddingServer
) -> None:
    with PegasMemory.open(settings) as memory:
        for n in range(20):
            memory.store(StoreRequest(claim=f"Buoy {n} lies {n} miles from the harbour."))
        memory.search(SearchRequest(query="buoy"))
    with EngineClient(settings) as client:
        client.shutdown()
    embeddings.dimension = 96
    with PegasMemory.open(settings) as memory:
        claim = "Buoy 17 lies 17 miles from the harbour."
        deadline = time.monotonic() + 40
        while True:
            answer = memory.search(SearchRequest(query=claim, mode=SearchMode.DENSE))
            if answer.results and not answer.pending and not answer.degraded:
                break
            assert answer.pending or answer.degraded or answer.results, "an empty answer must say why"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert answer.results[0].claim == claim
        assert len(memory.search(SearchRequest(query="buoy", mode=SearchMode.DENSE, limit=50)).results) == 20
        assert memory.stats().projections["vector"].failed == 0
