"""Rebuild of the embedded vector index from cached vectors, against the engine's own upsert in the same run.

    python -m benchmarks.rebuild                      # 100,000 atoms of 768 dimensions
    python -m benchmarks.rebuild --atoms 20000 --json

``bare`` stores vectors alone, without payload indexes; ``raw`` what a rebuild stores (the same payload, payload
indexes and sparse vectors), from points made beforehand; ``rebuild`` reads PostgreSQL and the vector cache, makes
the points and stores them. All three in calls of 500 points, flushed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import qdrant_edge

from benchmarks.vector_index import texts
from pegas_memory.config import load_settings
from pegas_memory.db.embedded import EmbeddedPostgres
from pegas_memory.db.migrate import ensure_schema
from pegas_memory.db.outbox import Backfill
from pegas_memory.db.session import Database
from pegas_memory.model import Dense, EmbeddingModel, Role
from pegas_memory.qdrant_store import EdgeIndex
from pegas_memory.rebuilding.pages import pages
from pegas_memory.rebuilding.rebuild import rebuild_vectors
from pegas_memory.rebuilding.target import EmbeddedTarget
from pegas_memory.vectors import Vectors
from tests.support.indexed import differences, held, seed

CALL = 500
SEEDED_AT_ONCE = 10_000


class Cached:
    """An embedder that only knows its name and dimension: everything is in the cache."""

    def __init__(self, dimension: int) -> None:
        self.model = EmbeddingModel("benchmark:random", dimension, 1000)

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        raise AssertionError("a rebuild asks no model")

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def database(home: Path) -> Iterator[Database]:
    server = EmbeddedPostgres(home)
    server.start()
    try:
        ensure_schema(server.url)
        db = Database(server.url)
        yield db
        db.close()
    finally:
        server.stop()


def bare(folder: Path, count: int, dimension: int) -> float:
    """Seconds for vectors alone."""
    random = np.random.default_rng(1)
    config = qdrant_edge.EdgeConfig(
        vectors={"dense": qdrant_edge.EdgeVectorParams(size=dimension, distance=qdrant_edge.Distance.Cosine)},
        optimizers=qdrant_edge.EdgeOptimizersConfig(indexing_threshold=10_000_000),
        wal_enabled=False,
    )
    folder.mkdir()
    shard = qdrant_edge.EdgeShard.create(str(folder), config)
    spent = 0.0
    for first in range(0, count, CALL):
        vectors = random.standard_normal((min(CALL, count - first), dimension)).astype(np.float32)
        begun = time.perf_counter()
        rows = [qdrant_edge.Point(first + n, {"dense": row}, {}) for n, row in enumerate(vectors.tolist(), 1)]
        shard.update(qdrant_edge.UpdateOperation.upsert_points(rows))
        spent += time.perf_counter() - begun
    begun = time.perf_counter()
    shard.flush()
    spent += time.perf_counter() - begun
    shard.close()
    return spent


def raw(db: Database, vectors: Vectors, folder: Path) -> float:
    """Seconds for storing the points that a rebuild stores, once they are made."""
    index = EdgeIndex(folder, vectors.model, "raw")
    index.ensure()
    spent = 0.0
    for page in pages(db, vectors, Backfill("", "", None)):
        begun = time.perf_counter()
        index.upsert(page.points)
        spent += time.perf_counter() - begun
    begun = time.perf_counter()
    index.flush()
    spent += time.perf_counter() - begun
    index.close()
    return spent


def measure(home: Path, count: int, dimension: int, *, search_graph: bool) -> dict[str, object]:
    settings = load_settings(home=home, database_url="", qdrant_url="", embedder="bundled")
    with database(home) as db:
        embedder = Cached(dimension)
        vectors = Vectors(db, embedder)
        bodies = texts(count, np.random.default_rng(2))
        for first in range(0, count, SEEDED_AT_ONCE):
            some = bodies[first : first + SEEDED_AT_ONCE]
            seed(db, embedder.model, len(some), first=first, claims=some, noted=False)
        bare_seconds = bare(home / "bare", count, dimension)
        raw_seconds = raw(db, vectors, home / "raw")
        target = EmbeddedTarget(settings, embedder.model, db, None)
        built = rebuild_vectors(db, vectors, target)
        index = target.building(built.generation)
        assert isinstance(index, EdgeIndex)
        equal = not differences(db, index.scan) and len(held(index.scan)) == count
        begun = time.perf_counter()
        optimised = search_graph and index.optimize()
        graph_seconds = time.perf_counter() - begun
        index.close()
    rates = {"bare": count / bare_seconds, "raw": count / raw_seconds, "rebuild": built.points_per_second}
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "atoms": count,
        "dimension": dimension,
        **{f"{name}_points_per_second": round(rate) for name, rate in rates.items()},
        "rebuild_of_raw": round(rates["rebuild"] / rates["raw"], 3),
        "rebuild_of_bare": round(rates["rebuild"] / rates["bare"], 3),
        "rebuild_seconds": built.seconds,
        "with_switch_seconds": built.total_seconds,
        "equals_postgresql": equal,
        **({"search_graph_seconds": round(graph_seconds, 1)} if optimised else {}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--atoms", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--search-graph", action="store_true", help="also time building HNSW, which a rebuild omits")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pr-") as folder:
        figures = measure(Path(folder), chosen.atoms, chosen.dimension, search_graph=chosen.search_graph)
    if chosen.json:
        print(json.dumps(figures, indent=1))
        return
    for name, value in figures.items():
        print(f"{name:28}{value}")


if __name__ == "__main__":
    main()
