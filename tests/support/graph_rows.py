"""Rows of a small graph, written straight into the tables with their outbox rows."""

from __future__ import annotations

from uuid import UUID, uuid4

from sqlalchemy import Connection, text

from pegas_memory.db import links, outbox
from pegas_memory.db.atoms import NewAtom, insert_many
from pegas_memory.model import AtomType, NodeKind, NodeRef


def entity(conn: Connection, tenant: str, name: str) -> NodeRef:
    return NodeRef(NodeKind.ENTITY, links.entity_named(conn, tenant, name))


def atom(conn: Connection, tenant: str, claim: str) -> NodeRef:
    (atom_id,) = insert_many(conn, tenant, [NewAtom(AtomType.FACT, claim)])
    assert atom_id is not None
    return NodeRef(NodeKind.ATOM, atom_id)


def symbol(conn: Connection, tenant: str, name: str, symbol_id: UUID | None = None) -> NodeRef:
    found = symbol_id or uuid4()
    conn.execute(
        text(
            "INSERT INTO pm_code_symbol (tenant, id, repo, path, language, name, qualified_name, kind, name_folded)"
            " VALUES (:tenant, :id, 'r', 'p', 'python', :name, :qualified, 'function', :folded)"
        ),
        {"tenant": tenant, "id": found, "name": name, "qualified": f"mod.{name}", "folded": name.casefold()},
    )
    outbox.enqueue(conn, tenant, "symbol", [found])
    return NodeRef(NodeKind.SYMBOL, found)


def link(conn: Connection, tenant: str, src: NodeRef, dst: NodeRef, kind: str, *, inferred: bool = False) -> UUID:
    found = uuid4()
    conn.execute(
        text(
            "INSERT INTO pm_atom_link (tenant, id, src_kind, src_id, dst_kind, dst_id, kind, confidence, inferred)"
            " VALUES (:tenant, :id, :src_kind, :src, :dst_kind, :dst, :kind, 0.5, :inferred)"
        ),
        {
            "tenant": tenant,
            "id": found,
            "src_kind": src.kind.value,
            "src": src.id,
            "dst_kind": dst.kind.value,
            "dst": dst.id,
            "kind": kind,
            "inferred": inferred,
        },
    )
    outbox.enqueue(conn, tenant, "link", [found])
    return found


def dependency(conn: Connection, tenant: str, src: NodeRef, dst: NodeRef, kind: str = "calls") -> UUID:
    found = uuid4()
    conn.execute(
        text(
            "INSERT INTO pm_code_dependency (tenant, id, repo, src_id, dst_id, dst_name, kind, certainty)"
            " VALUES (:tenant, :id, 'r', :src, :dst, 'x', :kind, 0.75)"
        ),
        {"tenant": tenant, "id": found, "src": src.id, "dst": dst.id, "kind": kind},
    )
    outbox.enqueue(conn, tenant, "dependency", [found])
    return found
