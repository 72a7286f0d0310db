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


def known(conn: Connection, tenant: str, model: str, version: int, dimension: int, hashes: Sequence[str]) -> set[str]:
    """Which of ``hashes`` have a cached vector of this dimension."""
    if not hashes:
        return set()
    rows = conn.execute(
        text(
            "SELECT text_hash FROM pm_embedding WHERE tenant = :tenant AND model = :model"
            " AND text_version = :version AND text_hash = ANY(:hashes) AND dimension = :dimension"
        ),
        {"tenant": tenant, "model": model, "version": version, "dimension": dimension, "hashes": list(hashes)},
    )
    return set(rows.scalars())


def since(
    conn: Connection, tenant: str, model: str, version: int, dimension: int, hashes: Sequence[str], consumer: str
) -> dict[str, str | None]:
    """Cached vectors by text hash: None when it was there before anything that ``consumer`` has not passed yet,
    else the id of the transaction that put it there. What is not cached is absent."""
    rows = conn.execute(
        text(
            "SELECT e.text_hash, CASE WHEN NOT pg_visible_in_snapshot(e.xid, p.position) THEN e.xid::text END"
            " FROM pm_embedding e, pm_projection p WHERE p.consumer = :consumer AND e.tenant = :tenant"
            " AND e.model = :model AND e.text_version = :version AND e.text_hash = ANY(:hashes)"
            " AND e.dimension = :dimension"
        ),
        {
            "consumer": consumer,
            "tenant": tenant,
            "model": model,
            "version": version,
            "hashes": list(hashes),
            "dimension": dimension,
        },
    )
    return {row[0]: row[1] for row in rows}


def put(conn: Connection, tenant: str, model: str, version: int, vectors: Mapping[str, Dense]) -> None:
    """Cache vectors (float32, shape (dimension,)); one of that dimension that is already there stays."""
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
                " ON CONFLICT DO NOTHING"
            ),
            rows,
        )


def unused(conn: Connection, model: str, dimension: int) -> int:
    """How many vectors stand in the cache that are of other models or dimensions than this one."""
    count = conn.execute(
        text("SELECT count(*) FROM pm_embedding WHERE (model, dimension) <> (:model, :dimension)"),
        {"model": model, "dimension": dimension},
    )
    return int(count.scalar_one())


def drop_unused(conn: Connection, model: str, dimension: int) -> None:
    """Remove what :func:`unused` counts."""
    conn.execute(
        text("DELETE FROM pm_embedding WHERE (model, dimension) <> (:model, :dimension)"),
        {"model": model, "dimension": dimension},
    )
