"""The vector cache: what a text's vector was, so that a rebuild needs no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sqlalchemy import Connection, text

from pegas_memory.model import Dense


def fetch(
    conn: Connection, tenant: str, model: str, version: int, dimension: int, hashes: Sequence[str]
) -> dict[str, Dense]:
    """Cached vectors by text hash; what is not cached, or has another dimension, is absent."""
    if not hashes:
        return {}
    rows = conn.execute(
        text(
            "SELECT text_hash, vector FROM pm_embedding WHERE tenant = :tenant AND model = :model"
            " AND text_version = :version AND text_hash = ANY(:hashes) AND dimension = :dimension"
        ),
        {"tenant": tenant, "model": model, "version": version, "dimension": dimension, "hashes": list(hashes)},
    )
    return {row[0]: np.frombuffer(row[1], dtype=np.float32) for row in rows}


def put(conn: Connection, tenant: str, model: str, version: int, vectors: Mapping[str, Dense]) -> None:
    """Cache vectors (float32, shape (dimension,)); one of that dimension that is already there stays, one of
    another (the endpoint serves another model under the same name) is replaced."""
    rows = [
        {
            "tenant": tenant,
            "model": model,
            "version": version,
            "hash": text_hash,
            "dimension": int(vector.shape[0]),
            "vector": np.ascontiguousarray(vector, dtype=np.float32).tobytes(),
        }
        for text_hash, vector in sorted(vectors.items())
    ]
    if rows:
        conn.execute(
            text(
                "INSERT INTO pm_embedding (tenant, model, text_version, text_hash, dimension, vector)"
                " VALUES (:tenant, :model, :version, :hash, :dimension, :vector)"
                " ON CONFLICT (tenant, model, text_version, text_hash) DO UPDATE SET dimension = excluded.dimension,"
                " vector = excluded.vector WHERE pm_embedding.dimension <> excluded.dimension"
            ),
            rows,
        )
