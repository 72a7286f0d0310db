"""A store with many atoms and cached vectors, made by SQL; and whether an index holds what PostgreSQL says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import numpy as np
from sqlalchemy import text

from pegas_memory.bm25 import terms
from pegas_memory.db import outbox
from pegas_memory.db.ids import new_id
from pegas_memory.db.session import Database
from pegas_memory.embedding import EMBED_TEXT_VERSION
from pegas_memory.model import EmbeddingModel, point_id
from pegas_memory.qdrant_store import ScannedPoint
from pegas_memory.text import sha256

Scan = Callable[[UUID | None, int], Sequence[ScannedPoint]]


def seed(
    db: Database,
    model: EmbeddingModel,
    count: int,
    tenant: str = "default",
    *,
    noted: bool = True,
    first: int = 0,
    claims: Sequence[str] = (),
) -> list[UUID]:
    """``count`` atoms with random cached vectors. ``noted``: in the outbox as well, as every change is."""
    random = np.random.default_rng(first + 1)
    ids = [new_id() for _ in range(count)]
    claims = claims or [
        f"Atom number {first + n} of {tenant} says something about topic {n % 97}." for n in range(count)
    ]
    vectors = random.standard_normal((count, model.dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with db.tenant(tenant) as conn:
        conn.execute(
            text(
                "INSERT INTO pm_atom (tenant, id, type, claim, content, content_hash, terms)"
                " SELECT :tenant, id, 'fact', claim, '', hash, string_to_array(terms, ' ') FROM unnest("
                "CAST(:ids AS uuid[]), CAST(:claims AS text[]), CAST(:hashes AS text[]), CAST(:terms AS text[]))"
                " AS r (id, claim, hash, terms)"
            ),
            {
                "tenant": tenant,
                "ids": ids,
                "claims": list(claims),
                "hashes": [sha256(claim, str(number)) for number, claim in enumerate(claims, first)],
                "terms": [" ".join(dict.fromkeys(terms(claim))) for claim in claims],
            },
        )
        conn.execute(
            text(
                "INSERT INTO pm_embedding (tenant, model, text_version, text_hash, dimension, vector)"
                " SELECT :tenant, :model, :version, hash, :dimension, vector FROM unnest(CAST(:hashes AS text[]),"
                " CAST(:vectors AS bytea[])) AS r (hash, vector) ON CONFLICT DO NOTHING"
            ),
            {
                "tenant": tenant, "model": model.name, "version": EMBED_TEXT_VERSION, "dimension": model.dimension,
                "hashes": [sha256(c) for c in claims], "vectors": [v.tobytes() for v in vectors],
            },
        )  # fmt: skip
        if noted:
            outbox.enqueue(conn, tenant, "atom", ids)
    return ids


def held(scan: Scan) -> list[ScannedPoint]:
    points: list[ScannedPoint] = []
    after: UUID | None = None
    while page := scan(after, 1000):
        points += [ScannedPoint(*row) for row in page]
        after = points[-1].id
    return points


def wanted(db: Database) -> dict[UUID, tuple[str, int]]:
    """(tenant, revision) of every atom, by the id of its first point."""
    with db.everything() as conn:
        rows = conn.execute(text("SELECT tenant, id, revision FROM pm_atom")).all()
    return {point_id(row[0], row[1], 0): (row[0], row[2]) for row in rows}


def differences(db: Database, scan: Scan) -> list[str]:
    """What an index of atoms of one part each has otherwise than PostgreSQL; all of it embedded."""
    there = {point.id: (point.tenant, point.revision) for point in held(scan)}
    bare = [f"{point.entity_id} is not embedded" for point in held(scan) if not point.has_dense]
    expected = wanted(db)
    return bare + [
        f"{point}: {there.get(point)} instead of {expected.get(point)}"
        for point in there.keys() | expected.keys()
        if there.get(point) != expected.get(point)
    ]
