"""`memory_search` over real stdio, p50 and p95, and where the time goes.

    python -m benchmarks.search_speed [--atoms 1000 10000] [--queries 100] [--json]

The server is `mcp_server.py` with the SDK's client, the bundled model and a home of its own. The same
questions are asked of the library in this process (same home, same engine process), whose answers
carry their parts. protocol = stdio total - library total. ``floor`` is what cannot be saved: the
question's embedding and the two arms of the vector engine, called directly in this process on a copy of
the shard. Each question goes to all three before the next one, and they take turns in going first, so
that a load that comes and goes falls on all of them. The goal is a total of at most 1.5 times the floor.

Filling with the bundled model would take minutes, so only ``REAL`` claims are really embedded; the
vectors of the others are those with a little noise, normalised, put into the cache under the same
model's name. Claims, citations, keyword terms and projection are the product's own.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import anyio
import numpy as np

from benchmarks.speed_run import call, machine, own_home, parser, quantiles, report, stdio_client, stop_engine, timed
from benchmarks.speed_texts import claims, questions
from pegas_memory import PegasMemory, bm25
from pegas_memory.config import Settings
from pegas_memory.db import atoms, citations, documents, embeddings
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.citations import NewCitation
from pegas_memory.embedding import EMBED_TEXT_VERSION, open_embedder
from pegas_memory.model import VISIBLE, AtomType, Dense, MemoryKind, Role, SearchFilter, SearchRequest
from pegas_memory.qdrant_store import EdgeIndex, edge_folder
from pegas_memory.retrieval import depth_of
from pegas_memory.text import language_of, sha256

REAL = 200
NOISE = 0.35
"""Length of the noise beside a vector of length 1: a cosine of about 0.94, near in E5's narrow range."""
BATCH = 250
LIMIT = 10
WARM_UP = 10
GOAL = 1.5
PARTS = ("embed", "engine", "postgres", "wait")


def fill(memory: PegasMemory, start: int, end: int) -> float:
    """Store the claims ``start`` … ``end`` and wait until the index holds them; seconds it took."""
    began = time.perf_counter()
    base = memory.rooms.embedder.embed(list(claims(REAL)), Role.DOCUMENT)
    random = np.random.default_rng(7)
    for first in range(start, end, BATCH):
        store_batch(memory, first, list(claims(min(BATCH, end - first), first)), base, random)
    memory.rooms.wake()
    while memory.stats().pending:
        time.sleep(0.1)
    return time.perf_counter() - began


def store_batch(memory: PegasMemory, first: int, texts: list[str], base: Dense, random: np.random.Generator) -> None:
    noise = random.standard_normal((len(texts), base.shape[1])).astype(np.float32)
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    vectors = base[[(first + n) % REAL for n in range(len(texts))]] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    model, tenant = memory.rooms.embedder.model.name, memory.tenant
    with memory.rooms.db.tenant(tenant) as conn:
        cached = {sha256(text): vector for text, vector in zip(texts, vectors, strict=True)}
        embeddings.put(conn, tenant, model, EMBED_TEXT_VERSION, cached)
        doc_id = documents.cite_source(
            conn, tenant, uri=f"https://example.org/{first}", title=f"Notes {first}", authority=0.5
        )
        for text in texts:
            atom = NewAtom(AtomType.FACT, text, language=language_of(text), terms=tuple(bm25.terms(text)))
            (atom_id,) = atoms.insert_many(conn, tenant, [atom])
            assert atom_id is not None
            citations.add(conn, tenant, atom_id, NewCitation(doc_id, text))


class Floor:
    """Embedding and vector engine in this process, on a copy of the shard; the engine process is down."""

    def __init__(self, settings: Settings, copy: Path) -> None:
        self._embedder = open_embedder(settings)
        vectors = settings.home / "vectors"
        subprocess.run(["cp", "-a", "--sparse=always", str(vectors), str(copy)], check=True)
        folder = edge_folder(copy, settings.qdrant_collection, self._embedder.model)
        self._index = EdgeIndex(folder, self._embedder.model, settings.qdrant_collection)
        self._index.ensure()
        self._where = SearchFilter("default", memory=frozenset({MemoryKind.KNOWLEDGE}), shown_as=VISIBLE)

    def ask(self, question: str) -> tuple[float, float]:
        """Milliseconds of the question's embedding and of both arms."""
        vectors, embedding = timed(lambda: self._embedder.embed([question], Role.QUERY))
        sparse, depth = bm25.encode_query(question), depth_of(LIMIT)
        _, searching = timed(lambda: self._index.search(self._where, dense=vectors[0], sparse=sparse, limit=depth))
        return embedding, searching

    def close(self) -> None:
        self._index.close()


async def ask_all(settings: Settings, memory: PegasMemory, floor: Floor, asked: list[str]) -> dict[str, list[float]]:
    """Milliseconds of each question over stdio, in the library with its parts, and of the floor."""
    took: dict[str, list[float]] = {name: [] for name in ("stdio", "library", *PARTS, "floor_embed", "floor_engine")}

    async with stdio_client(settings) as client:

        async def over_stdio(question: str) -> None:
            took["stdio"].append(await call(client, "memory_search", {"query": question, "limit": LIMIT}))

        async def in_library(question: str) -> None:
            answer, total = timed(lambda: memory.search(SearchRequest(question, limit=LIMIT)))
            assert answer.results
            assert not answer.degraded
            took["library"].append(total)
            for part in PARTS:
                took[part].append(float(answer.timings.get(part, 0.0)))

        async def directly(question: str) -> None:
            embedding, searching = floor.ask(question)
            took["floor_embed"].append(embedding)
            took["floor_engine"].append(searching)

        ways = [over_stdio, in_library, directly]
        for question in asked:
            for way in ways:
                await way(question)
            ways.append(ways.pop(0))
    return {name: values[WARM_UP:] for name, values in took.items()}


def measure(settings: Settings, size: int, filled: int, queries: int) -> dict[str, object]:
    with PegasMemory.open(settings) as memory:
        seconds = fill(memory, filled, size)
    stop_engine(settings)
    with tempfile.TemporaryDirectory(prefix="pegas-speed-") as copy:
        floor = Floor(settings, Path(copy) / "vectors")
        with PegasMemory.open(settings) as memory:
            took = anyio.run(ask_all, settings, memory, floor, list(questions(queries + WARM_UP, start=size)))
        floor.close()
    took["protocol"] = _less(took["stdio"], took["library"])
    took["library_rest"] = _less(took["library"], *(took[part] for part in PARTS))
    least = statistics.median(map(sum, zip(took["floor_embed"], took["floor_engine"], strict=True)))
    return {
        "atoms": size,
        **{name: quantiles(values) for name, values in took.items()},
        "times_floor": round(statistics.median(took["stdio"]) / least, 2),
        "fill_seconds": round(seconds, 1),
    }


def _less(whole: list[float], *parts: list[float]) -> list[float]:
    return [total - sum(taken) for total, *taken in zip(whole, *parts, strict=True)]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--atoms", type=int, nargs="+", default=[1_000, 10_000])
    arguments.add_argument("--queries", type=int, default=100)
    chosen = arguments.parse_args()
    runs: list[dict[str, object]] = []
    with own_home() as settings:
        filled = 0
        for size in sorted(chosen.atoms):
            runs.append(measure(settings, size, filled, chosen.queries))
            filled = size
    worst = max(float(str(run["times_floor"])) for run in runs)
    figures = {"unit": "ms, p50 / p95", "times_floor": worst, "goal_times_floor": GOAL, "search": runs}
    report({**machine(), **figures}, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
