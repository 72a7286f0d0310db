"""Points stored a second and milliseconds a search of the embedded vector index.

    python benchmarks/vector_index.py --points 10000 --dimensions 384 768
    python benchmarks/vector_index.py --json

Vectors are random directions and words follow Zipf's law, so that figures are of the engine, not of a
model. Search is exact below about 100,000 points.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import numpy as np

from pegas_memory.bm25 import encode_document, encode_query
from pegas_memory.model import (
    FOREVER,
    Dense,
    EmbeddingModel,
    MemoryKind,
    Point,
    PointPayload,
    SearchFilter,
    ShownAs,
    SparseVector,
    point_id,
)
from pegas_memory.qdrant_store import EdgeIndex

VOCABULARY = 5000
WORDS_PER_TEXT = 25
BATCH = 500
ROUNDS = 100


def milliseconds(call: Callable[[int], object], rounds: int = ROUNDS) -> dict[str, float]:
    """The median and the 95th percentile of ``rounds`` calls, each given its number."""
    took = []
    for number in range(rounds):
        start = time.perf_counter()
        call(number)
        took.append((time.perf_counter() - start) * 1000)
    return {"p50": round(statistics.median(took), 2), "p95": round(statistics.quantiles(took, n=20)[-1], 2)}


def texts(count: int, random: np.random.Generator) -> list[str]:
    numbers = random.zipf(1.3, size=(count, WORDS_PER_TEXT)) % VOCABULARY
    return [" ".join(f"слово{chr(0x430 + n % 32)}{n // 32}" for n in row) for row in numbers.tolist()]


def points(vectors: Dense, bodies: list[str]) -> list[Point]:
    made = []
    for number, (vector, body) in enumerate(zip(vectors, bodies, strict=True)):
        entity_id = UUID(int=(7 << 76) + (2 << 62) + number)
        payload = PointPayload(
            tenant="default",
            memory=MemoryKind.KNOWLEDGE,
            entity_id=entity_id,
            revision=1,
            type=("fact", "definition", "table")[number % 3],
            shown_as=ShownAs.CANDIDATE,
            tags=(f"tag{number % 100}",),
            doc_ids=(UUID(int=number // 50),),
            occurred=1_700_000_000.0 + number,
            confidence=0.5,
            valid_from=1_700_000_000.0 + number,
            valid_until=FOREVER,
        )
        made.append(Point(point_id(payload.tenant, entity_id, 0), payload, encode_document(body), vector))
    return made


def measure(folder: Path, count: int, dimension: int, limit: int) -> dict[str, object]:
    random = np.random.default_rng(1)
    vectors = random.standard_normal((count, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    bodies = texts(count, random)
    made = points(vectors, bodies)
    model = EmbeddingModel("benchmark:random", dimension, 1000)
    index = EdgeIndex(folder, model, "benchmark")
    index.ensure()
    start = time.perf_counter()
    for first in range(0, count, BATCH):
        index.upsert(made[first : first + BATCH])
    stored = time.perf_counter() - start
    start = time.perf_counter()
    index.flush()
    flushed = time.perf_counter() - start

    words: list[SparseVector] = [encode_query(" ".join(body.split()[:4])) for body in bodies[:ROUNDS]]
    everything = SearchFilter(tenant="default")
    tagged = SearchFilter(tenant="default", tags=frozenset({"tag7"}), types=frozenset({"fact"}))

    def search(where: SearchFilter, *, dense: bool, lexical: bool) -> dict[str, float]:
        return milliseconds(
            lambda n: index.search(
                where, dense=vectors[n] if dense else None, sparse=words[n] if lexical else None, limit=limit
            )
        )

    figures: dict[str, object] = {
        "points": count,
        "dimension": dimension,
        "limit": limit,
        "upsert_points_per_second": round(count / stored),
        "flush_ms": round(flushed * 1000, 1),
        "dense_ms": search(everything, dense=True, lexical=False),
        "lexical_ms": search(everything, dense=False, lexical=True),
        "hybrid_ms": search(everything, dense=True, lexical=True),
        "hybrid_filtered_ms": search(tagged, dense=True, lexical=True),
        "replace_one_ms": milliseconds(lambda n: index.replace("default", [made[n].payload.entity_id], [made[n]])),
        "scan_1000_ms": milliseconds(lambda _: index.scan(None, 1000), 10),
    }
    index.close()
    start = time.perf_counter()
    index = EdgeIndex(folder, model, "benchmark")
    index.ensure()
    figures["open_ms"] = round((time.perf_counter() - start) * 1000, 1)
    index.close()
    blocks = sum(path.stat().st_blocks for path in folder.rglob("*") if path.is_file())
    figures["disk_mb"] = round(blocks * 512 / 2**20, 1)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[384, 768])
    parser.add_argument("--limit", type=int, default=50, help="entities per arm")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    chosen = parser.parse_args()
    runs = []
    for dimension in chosen.dimensions:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(measure(Path(folder) / "vectors", chosen.points, dimension, chosen.limit))
    if chosen.json:
        print(json.dumps(runs, indent=1))
        return
    for name in runs[0]:
        print(f"{name:26}", *(f"{_shown(run[name]):>18}" for run in runs))


def _shown(value: object) -> str:
    return f"{value['p50']} / {value['p95']}" if isinstance(value, dict) else str(value)


if __name__ == "__main__":
    main()
