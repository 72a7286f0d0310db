"""PostgreSQL against its two projections: id by id, revision by revision, payloads and vectors included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import qdrant_edge as qe
from neo4j import GraphDatabase
from qdrant_client import QdrantClient
from sqlalchemy import text

from pegas_memory.db import atoms, citations, graph, tenants
from pegas_memory.db.session import Database
from pegas_memory.model import Dense, Edge, EmbeddingModel, Node, Point
from pegas_memory.outbox_sync import points_of
from pegas_memory.qdrant_store import EdgeIndex
from pegas_memory.qdrant_store.payload import to_payload
from pegas_memory.vectors import Vectors, embedded_text
from tests.support.bolt_peer import DATABASE, BoltPeer

PAGE = 1_000
NODE_TABLES = ("pm_atom", "pm_episodic_trace", "pm_procedure", "pm_entity", "pm_code_symbol")
SHOWN = 8
"""Differences of one kind that are listed; the others are counted."""


Held = dict[UUID, tuple[dict[str, Any], Dense | None]]
"""Points by their id: payload, dense vector."""


def against_vectors(db: Database, vectors: Vectors, held: Held) -> Iterator[str]:
    """Points of all tenants, one by one."""
    wanted = {point.id: point for point in _points(db, vectors)}
    yield from _listed("phantom point", (f"{i} of {held[i][0].get('entity_id')}" for i in held.keys() - wanted.keys()))
    yield from _listed("missing point", (f"{i} of {wanted[i].payload.entity_id}" for i in wanted.keys() - held.keys()))
    both = [(wanted[i], *held[i]) for i in held.keys() & wanted.keys()]
    yield from _listed("payload differs", (said for point, found, _ in both if (said := _payload(point, found))))
    yield from _listed("vector differs", (said for point, _, found in both if (said := _dense(point, found))))


def _points(db: Database, vectors: Vectors) -> Iterator[Point]:
    with db.everything() as conn:
        names = tenants.names(conn)
    for tenant in names:
        with db.tenant(tenant) as conn:
            ids = list(conn.execute(text("SELECT id FROM pm_atom WHERE tenant = :t"), {"t": tenant}).scalars())
            rows = atoms.fetch(conn, tenant, ids)
            doc_ids = citations.doc_ids_of(conn, tenant, ids)
        for row in rows.values():
            parts = vectors.parts(embedded_text(row.claim, row.content))
            yield from points_of(row, doc_ids.get(row.id, ()), parts, vectors.cached(tenant, parts))


def in_shard(folder: Path, model: EmbeddingModel, base: str) -> Held:
    """What the embedded shard holds; the engine that owned ``folder`` has left."""
    index = EdgeIndex(folder, model, base)
    index.ensure()
    found: Held = {}
    after: UUID | None = None
    try:
        while True:
            rows = [row for row in _scroll(index, after) if row.id != after]
            for row in rows:
                found[UUID(str(row.id))] = dict(row.payload or {}), _vector(row.vector)
            if not rows:
                return found
            after = UUID(str(rows[-1].id))
    finally:
        index.close()


def in_collection(url: str, name: str) -> Held:
    """What the collection behind that alias holds."""
    client = QdrantClient(url=url, check_compatibility=False)
    try:
        rows, _ = client.scroll(name, limit=10**6, with_payload=True, with_vectors=True)
        return {UUID(str(row.id)): (dict(row.payload or {}), _vector(row.vector)) for row in rows}
    finally:
        client.close()


def _vector(given: Any) -> Dense | None:
    dense = given.get("dense") if isinstance(given, dict) else None
    return None if dense is None else np.asarray(dense)


def _scroll(index: EdgeIndex, after: UUID | None) -> list[qe.Record]:
    request = qe.ScrollRequest(offset=after, limit=PAGE + 1, with_payload=True, with_vector=True)
    return index._call(lambda shard: shard.scroll(request)[0])


def _payload(point: Point, found: Mapping[str, Any]) -> str:
    wanted = to_payload(point.payload)
    differ = [
        f"{key} {found.get(key)!r} instead of {value!r}"
        for key, value in wanted.items()
        if (sorted(value) != sorted(found.get(key, [])) if isinstance(value, list) else value != found.get(key))
    ]
    return f"{point.payload.entity_id}: {', '.join(differ)}" if differ else ""


def _dense(point: Point, found: Dense | None) -> str:
    if (point.dense is None) != (found is None):
        return f"{point.payload.entity_id}: {'none' if found is None else 'one'} stands, the cache has the other"
    if point.dense is None or found is None or np.allclose(point.dense, found, atol=1e-3):
        return ""
    return f"{point.payload.entity_id}: it is another vector"


def _listed(kind: str, found: Iterator[str]) -> Iterator[str]:
    every = list(found)
    yield from (f"{kind}: {one}" for one in every[:SHOWN])
    if len(every) > SHOWN:
        yield f"{kind}: {len(every) - SHOWN} more"


# --- the graph ----------------------------------------------------------------------------------------


def against_graph(db: Database, peer: BoltPeer) -> Iterator[str]:
    """Asked with statements of its own, not with the product's."""
    nodes, edges = _wanted_graph(db)
    with GraphDatabase.driver(f"bolt://127.0.0.1:{peer.port}", auth=(peer.user, peer.password)) as driver:
        ask = lambda query: driver.execute_query(query, database_=DATABASE).records  # noqa: E731
        held_nodes = ask("MATCH (n:PegasMemory) RETURN n.tenant, n.id, n.revision, n.shown_as, n.name")
        held_edges = ask(
            "MATCH (a)-[r:RELATES]->(b) RETURN r.tenant, r.id, r.revision, a.id, b.id, r.kind, r.confidence"
        )
    found = {(row[0], row[1]): (row[2], row[3], row[4]) for row in held_nodes}
    yield from _listed("node doubled", _doubled((row[0], row[1]) for row in held_nodes))
    yield from _listed("phantom node", (f"{key}" for key in found.keys() - nodes.keys()))
    yield from _listed("missing node", (f"{key} {nodes[key].ref.kind}" for key in nodes.keys() - found.keys()))
    yield from _listed("node differs", (
        f"{key}: {found[key]} instead of {_node(nodes[key])}"
        for key in found.keys() & nodes.keys() if found[key] != _node(nodes[key])
    ))  # fmt: skip
    related = {(row[0], row[1]): tuple(row)[2:] for row in held_edges}
    yield from _listed("edge doubled", _doubled((row[0], row[1]) for row in held_edges))
    yield from _listed("edge doubled", _doubled((row[0], row[3], row[4], row[5]) for row in held_edges))
    yield from _listed("phantom edge", (f"{key}" for key in related.keys() - edges.keys()))
    yield from _listed("missing edge", (f"{key} {edges[key].kind}" for key in edges.keys() - related.keys()))
    yield from _listed("edge differs", (
        f"{key}: {related[key]} instead of {_edge(edges[key])}"
        for key in related.keys() & edges.keys() if related[key] != _edge(edges[key])
    ))  # fmt: skip


def _doubled(keys: Iterator[Any]) -> Iterator[str]:
    return (f"{key} {n} times" for key, n in Counter(keys).items() if n > 1)


def _node(node: Node) -> tuple[Any, ...]:
    return node.revision, node.shown_as, node.name


def _edge(edge: Edge) -> tuple[Any, ...]:
    return edge.revision, str(edge.src.id), str(edge.dst.id), edge.kind, edge.confidence


def _wanted_graph(db: Database) -> tuple[dict[tuple[str, str], Node], dict[tuple[str, str], Edge]]:
    """Nodes and edges by (tenant, id); an edge needs both its ends."""
    nodes: dict[tuple[str, str], Node] = {}
    edges: dict[tuple[str, str], Edge] = {}
    with db.everything() as conn:
        names = tenants.names(conn)
    for tenant in names:
        with db.tenant(tenant) as conn:
            for table in NODE_TABLES:
                ids = list(conn.execute(text(f"SELECT id FROM {table} WHERE tenant = :t"), {"t": tenant}).scalars())
                nodes |= {(tenant, str(i)): node for i, node in graph.nodes(conn, tenant, ids).items()}
            ids = list(conn.execute(text("SELECT id FROM pm_atom_link WHERE tenant = :t"), {"t": tenant}).scalars())
            edges |= {(tenant, str(i)): edge for i, edge in graph.links(conn, tenant, ids).items()}
    whole = {
        key: edge for key, edge in edges.items()
        if (key[0], str(edge.src.id)) in nodes and (key[0], str(edge.dst.id)) in nodes
    }  # fmt: skip
    return nodes, whole
