"""Points for the tests of vector engines: small, deterministic, with every payload field settable."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import numpy as np

from pegas_memory.bm25 import encode_document
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

MODEL = EmbeddingModel("test:hashed", 16, 1000)
NO_TERMS = SparseVector((), ())


def entity(number: int) -> UUID:
    return UUID(int=(0x0192_0000_0000_7000_8000 << 48) + number)


def direction(seed: int, dimension: int = MODEL.dimension) -> Dense:
    row = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return row / np.float32(np.linalg.norm(row))


def payload(entity_id: UUID, **changes: object) -> PointPayload:
    fields: dict[str, object] = {
        "tenant": "default",
        "memory": MemoryKind.KNOWLEDGE,
        "entity_id": entity_id,
        "revision": 1,
        "type": "fact",
        "shown_as": ShownAs.CANDIDATE,
        "tags": (),
        "doc_ids": (),
        "occurred": 1_700_000_000.0,
        "confidence": 0.5,
        "valid_from": 1_700_000_000.0,
        "valid_until": FOREVER,
    }
    return PointPayload(**{**fields, **changes})  # type: ignore[arg-type]


def point(
    number: int,
    text: str = "",
    *,
    part: int = 0,
    dense: Dense | str | None = "own",
    sparse: SparseVector | None = None,
    **changes: object,
) -> Point:
    """Part ``part`` of entity ``number``; its own direction unless ``dense`` says otherwise."""
    entity_id = entity(number)
    vector = direction(number * 100 + part) if isinstance(dense, str) else dense
    terms = encode_document(text) if sparse is None else sparse
    made = payload(entity_id, **changes)
    return Point(point_id(made.tenant, entity_id, part), made, terms, vector)


def everything(tenant: str = "default") -> SearchFilter:
    return SearchFilter(tenant=tenant, memory=frozenset(), shown_as=frozenset())


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where the machine has one: a shard syncs a hundred files a flush, and no
    test can tell a synced file from another."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="pegas-v-", dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
