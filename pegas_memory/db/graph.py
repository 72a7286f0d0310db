"""What a graph holds, read from the tables: nodes of the five kinds, and the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, text

from pegas_memory.model import Edge, Node, NodeKind, NodeRef
from pegas_memory.text import fold

NAME_SHOWN = 200
"""Characters of a text that stand for its node; the whole text is always read from its table."""


def _shown(live: str) -> str:
    hidden = "WHEN retracted_at IS NOT NULL THEN 'retracted' WHEN superseded_at IS NOT NULL THEN 'superseded'"
    return f"CASE {hidden} ELSE {live} END"


_NONE = "CAST('{}' AS text[])"
_NODES = " UNION ALL ".join(
    f"SELECT '{kind}' AS node, id, revision, {kind_column} AS type, {shown} AS shown_as,"
    f" left({name}, {NAME_SHOWN}) AS name, {names} AS names FROM {table} WHERE tenant = :tenant AND id = ANY(:ids)"
    for kind, table, kind_column, shown, name, names in (
        (NodeKind.ATOM, "pm_atom", "type", _shown("status"), "claim", _NONE),
        (NodeKind.EPISODE, "pm_episodic_trace", "kind", _shown("'candidate'"), "content", _NONE),
        (NodeKind.PROCEDURE, "pm_procedure", "''", _shown("'candidate'"), "content", _NONE),
        (NodeKind.ENTITY, "pm_entity", "kind", "''", "name", "ARRAY[normal_form] || aliases"),
        (NodeKind.SYMBOL, "pm_code_symbol", "kind", "''", "qualified_name", "ARRAY[name_folded, qualified_name]"),
    )
)
_LINKS = """SELECT id, src_kind, src_id, dst_kind, dst_id, kind, confidence, source, inferred, revision
    FROM pm_atom_link WHERE tenant = :tenant"""
_DEPENDENCIES = """SELECT id, 'symbol', src_id, 'symbol', dst_id, kind, certainty, 'code', false, revision
    FROM pm_code_dependency WHERE tenant = :tenant AND dst_id IS NOT NULL"""


def nodes(conn: Connection, tenant: str, ids: Sequence[UUID]) -> dict[UUID, Node]:
    """The nodes of these ids, of any kind and in any state; unknown ids are absent."""
    if not ids:
        return {}
    rows = conn.execute(text(_NODES), {"tenant": tenant, "ids": list(ids)}).mappings()
    return {row["id"]: _node(tenant, row) for row in rows}


def links(conn: Connection, tenant: str, ids: Sequence[UUID]) -> dict[UUID, Edge]:
    """Stated and inferred links by their id. An end of one may be a node that is not there (yet)."""
    return _edges(conn, tenant, f"{_LINKS} AND id = ANY(:ids)", ids)


def dependencies(conn: Connection, tenant: str, ids: Sequence[UUID]) -> dict[UUID, Edge]:
    """Code dependencies by their id, those whose target symbol is known."""
    return _edges(conn, tenant, f"{_DEPENDENCIES} AND id = ANY(:ids)", ids)


def touching(
    conn: Connection, tenant: str, ids: Sequence[UUID], *, after: UUID | None = None, limit: int
) -> dict[UUID, Edge]:
    """Links and dependencies with an end among these nodes: the first ``limit`` after ``after``, by id."""
    pages = " UNION ".join(
        f"({edges} AND {end} = ANY(:ids) AND id > :after ORDER BY id LIMIT :limit)"
        for edges, end in (
            (_LINKS, "src_kind = ANY(:kinds) AND src_id"),  # the indexes begin with the kind
            (_LINKS, "dst_kind = ANY(:kinds) AND dst_id"),
            (_DEPENDENCIES, "src_id"),
            (_DEPENDENCIES, "dst_id"),
        )
    )
    values = {"kinds": list(NodeKind), "after": after or UUID(int=0), "limit": limit}
    return _edges(conn, tenant, f"{pages} ORDER BY id LIMIT :limit", ids, **values)


def _edges(conn: Connection, tenant: str, query: str, ids: Sequence[UUID], **values: Any) -> dict[UUID, Edge]:
    if not ids:
        return {}
    rows = conn.execute(text(query), {"tenant": tenant, "ids": list(ids), **values})
    return {
        row[0]: Edge(tenant, row[0], NodeRef(NodeKind(row[1]), row[2]), NodeRef(NodeKind(row[3]), row[4]), *row[5:])
        for row in rows
    }


def _node(tenant: str, row: RowMapping) -> Node:
    names = dict.fromkeys(fold(name) for name in row["names"] if name)
    ref = NodeRef(NodeKind(row["node"]), row["id"])
    return Node(tenant, ref, row["revision"], row["type"], row["shown_as"], row["name"], tuple(names))
