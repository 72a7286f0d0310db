"""What is asked of the graph, answered from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db import graph
from pegas_memory.db.session import Database
from pegas_memory.db.tables import LIVE
from pegas_memory.model import Direction, Edge, EdgeFilter, GraphCounters, NodeKind, NodeRef
from pegas_memory.text import fold

KINDS_SHOWN = 100
OTHER_KINDS = "other kinds"
"""A kind is one token, so that none can be called this."""
NEIGHBOURING_NAMES = 20


class PostgresGraph:
    """``pegas_memory.graph.Graph`` over the tables themselves: never late, never incomplete."""

    backend = "postgresql"

    def __init__(self, db: Database) -> None:
        self._db = db

    def edges_at(
        self, tenant: str, refs: Sequence[NodeRef], where: EdgeFilter, *, after: UUID | None, limit: int
    ) -> list[Edge]:
        with self._db.tenant(tenant) as conn:
            return edges_at(conn, tenant, refs, where, after=after, limit=limit)


def _at(table: str, kind: str, end: str, filters: str) -> str:
    """The first edges of each node at one of their ends; ORDER and LIMIT within keep each a look-up in the
    index of that end, whatever the planner takes the tenant's size to be."""
    return f"""SELECT e.id FROM unnest(CAST(:kinds AS text[]), CAST(:ids AS uuid[])) AS node (kind, id)
        CROSS JOIN LATERAL (SELECT id FROM {table} t WHERE t.tenant = :tenant AND {kind} AND t.{end}_id = node.id
            AND t.id > :after{filters} ORDER BY t.id LIMIT :limit) e"""


def edges_at(
    conn: Connection, tenant: str, refs: Sequence[NodeRef], where: EdgeFilter, *, after: UUID | None, limit: int
) -> list[Edge]:
    """The first ``limit`` edges after ``after`` that touch ``refs`` in the filter's direction, by id."""
    if not refs:
        return []
    kind = " AND t.kind = ANY(:only)" if where.kinds else ""
    stated = "" if where.include_inferred else " AND NOT t.inferred"
    ends = {Direction.OUT: ("src",), Direction.IN: ("dst",), Direction.BOTH: ("src", "dst")}[where.direction]
    parts: list[str] = []
    for end in ends:
        parts.append(_at("pm_atom_link", f"t.{end}_kind = node.kind", end, kind + stated))
        known = "node.kind = 'symbol' AND t.dst_id IS NOT NULL"
        parts.append(_at("pm_code_dependency", known, end, kind))
    found = conn.execute(
        text(f"{' UNION '.join(parts)} ORDER BY id LIMIT :limit"),
        {
            "tenant": tenant,
            "kinds": [ref.kind.value for ref in refs],
            "ids": [ref.id for ref in refs],
            "only": sorted(where.kinds),
            "after": after or UUID(int=0),
            "limit": limit,
        },
    )
    return _by_id(conn, tenant, list(found.scalars()))


def newest(conn: Connection, tenant: str, where: EdgeFilter, *, before: UUID | None, limit: int) -> list[Edge]:
    """Edges of the whole tenant, newest first, from before ``before``."""
    kind = " AND kind = ANY(:only)" if where.kinds else ""
    stated = "" if where.include_inferred else " AND NOT inferred"
    later = " AND id < :before" if before else ""
    tail = f"{kind}{later} ORDER BY id DESC LIMIT :limit"
    found = conn.execute(
        text(
            f"(SELECT id FROM pm_atom_link WHERE tenant = :tenant{stated}{tail}) UNION ALL"
            f" (SELECT id FROM pm_code_dependency WHERE tenant = :tenant AND dst_id IS NOT NULL{tail})"
            " ORDER BY id DESC LIMIT :limit"
        ),
        {"tenant": tenant, "only": sorted(where.kinds), "before": before, "limit": limit},
    )
    return _by_id(conn, tenant, list(found.scalars()))[::-1]


def _by_id(conn: Connection, tenant: str, ids: Sequence[UUID]) -> list[Edge]:
    found = edges(conn, tenant, ids)
    return [found[edge_id] for edge_id in sorted(found)]


def edges(conn: Connection, tenant: str, ids: Sequence[UUID]) -> dict[UUID, Edge]:
    """Links and dependencies by id."""
    found = graph.links(conn, tenant, ids)
    return found | graph.dependencies(conn, tenant, [edge_id for edge_id in ids if edge_id not in found])


_TABLES = {
    NodeKind.ATOM: ("pm_atom", f" AND {LIVE}"),
    NodeKind.EPISODE: ("pm_episodic_trace", f" AND {LIVE}"),
    NodeKind.PROCEDURE: ("pm_procedure", f" AND {LIVE}"),
    NodeKind.ENTITY: ("pm_entity", ""),
    NodeKind.SYMBOL: ("pm_code_symbol", ""),
}


def standing(conn: Connection, tenant: str, refs: Sequence[NodeRef]) -> set[NodeRef]:
    """Those that exist and are neither retracted nor superseded."""
    found: set[NodeRef] = set()
    for kind, (table, live) in _TABLES.items():
        ids = [ref.id for ref in refs if ref.kind is kind]
        if ids:
            rows = conn.execute(
                text(f"SELECT id FROM {table} WHERE tenant = :tenant AND id = ANY(:ids){live}"),
                {"tenant": tenant, "ids": ids},
            )
            found |= {NodeRef(kind, node_id) for node_id in rows.scalars()}
    return found


_NAMED = text(
    """SELECT 'entity', id, :folded, '' FROM pm_entity WHERE tenant = :tenant AND normal_form = :folded
    UNION SELECT 'entity', id, :folded, '' FROM pm_entity WHERE tenant = :tenant AND :folded = ANY(aliases)
    UNION SELECT 'symbol', id, name_folded, qualified_name FROM pm_code_symbol
        WHERE tenant = :tenant AND name_folded = ANY(:last)"""
)


def named(conn: Connection, tenant: str, folded: str, limit: int) -> list[NodeRef]:
    """Entities and symbols of this folded name, by id. Entities also by an alias (a folded name as well), for
    which the tenant's entities are read: no index helps there under row level security. Symbols also by
    their qualified name, which is looked for under its last part."""
    last = {folded, *(folded.rpartition(mark)[2] for mark in (".", "::", "#", "/"))}
    rows = conn.execute(_NAMED, {"tenant": tenant, "folded": folded, "last": sorted(last)}).all()
    found = {NodeRef(NodeKind(kind), node_id) for kind, node_id, *names in rows if folded in map(fold, names)}
    return sorted(found, key=lambda ref: ref.id)[:limit]


def names_beside(conn: Connection, tenant: str, folded: str) -> dict[str, UUID]:
    """Entities whose folded names stand next to this one in the index, before and after."""
    rows = conn.execute(
        text(
            "(SELECT normal_form, id FROM pm_entity WHERE tenant = :tenant AND normal_form >= :folded"
            " ORDER BY normal_form LIMIT :limit) UNION ALL"
            " (SELECT normal_form, id FROM pm_entity WHERE tenant = :tenant AND normal_form < :folded"
            " ORDER BY normal_form DESC LIMIT :limit)"
        ),
        {"tenant": tenant, "folded": folded, "limit": NEIGHBOURING_NAMES},
    ).all()
    return {row[0]: row[1] for row in rows}


def counters(conn: Connection, tenant: str) -> GraphCounters:
    """All edges, and the nodes that stand. The kinds beyond ``KINDS_SHOWN`` are counted together."""
    counted = " + ".join(
        f"(SELECT count(*) FROM {table} WHERE tenant = :tenant{live})" for table, live in _TABLES.values()
    )
    nodes = int(conn.execute(text(f"SELECT {counted}"), {"tenant": tenant}).scalar_one())
    rows = conn.execute(
        text(
            """SELECT kind, sum(edges) AS edges, sum(inferred) FROM (
                SELECT kind, count(*) AS edges, count(*) FILTER (WHERE inferred) AS inferred
                FROM pm_atom_link WHERE tenant = :tenant GROUP BY kind
                UNION ALL SELECT kind, count(*), 0 FROM pm_code_dependency
                WHERE tenant = :tenant AND dst_id IS NOT NULL GROUP BY kind
            ) each GROUP BY kind ORDER BY edges DESC, kind"""
        ),
        {"tenant": tenant},
    ).all()
    by_kind = {kind: int(number) for kind, number, _ in rows[:KINDS_SHOWN]}
    if len(rows) > KINDS_SHOWN:
        by_kind[OTHER_KINDS] = sum(int(number) for _, number, _ in rows[KINDS_SHOWN:])
    return GraphCounters(nodes, sum(by_kind.values()), by_kind, sum(int(inferred) for _, _, inferred in rows))
