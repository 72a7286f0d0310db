"""Links between nodes, and the entities that names become."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db import outbox
from pegas_memory.db.ids import new_id
from pegas_memory.text import collapse, fold

_NODE_TABLES = {
    "atom": "pm_atom",
    "episode": "pm_episodic_trace",
    "procedure": "pm_procedure",
    "entity": "pm_entity",
    "symbol": "pm_code_symbol",
}


def kind_of(conn: Connection, tenant: str, node_id: UUID) -> str | None:
    """Which of the five node kinds an id is; None when it is unknown to this tenant."""
    union = " UNION ALL ".join(
        f"SELECT '{kind}' FROM {table} WHERE tenant = :tenant AND id = :id" for kind, table in _NODE_TABLES.items()
    )
    found = conn.execute(text(union), {"tenant": tenant, "id": node_id}).scalars().first()
    return str(found) if found else None


def entity_named(conn: Connection, tenant: str, name: str) -> UUID:
    """The entity of that name in any case, made when it is new."""
    normal = fold(collapse(name))
    entity_id = new_id()
    inserted = conn.execute(
        text(
            "INSERT INTO pm_entity (tenant, id, name, normal_form) VALUES (:tenant, :id, :name, :normal)"
            " ON CONFLICT (tenant, normal_form) DO NOTHING RETURNING id"
        ),
        {"tenant": tenant, "id": entity_id, "name": collapse(name), "normal": normal},
    ).scalar_one_or_none()
    if inserted is not None:
        outbox.enqueue(conn, tenant, "entity", [entity_id])
        return entity_id
    return UUID(
        str(
            conn.execute(
                text("SELECT id FROM pm_entity WHERE tenant = :tenant AND normal_form = :normal"),
                {"tenant": tenant, "normal": normal},
            ).scalar_one()
        )
    )


def put(
    conn: Connection,
    tenant: str,
    src: tuple[str, UUID],
    dst: tuple[str, UUID],
    kind: str,
    confidence: float,
    source: str = "stored",
) -> bool:
    """Add a stated link, or raise the confidence of the one that stands. False when nothing changed."""
    changed = conn.execute(
        text(
            """INSERT INTO pm_atom_link AS l
                (tenant, id, src_kind, src_id, dst_kind, dst_id, kind, confidence, source, inferred)
            VALUES (:tenant, :id, :src_kind, :src_id, :dst_kind, :dst_id, :kind, :confidence, :source, false)
            ON CONFLICT (tenant, src_kind, src_id, dst_kind, dst_id, kind, inferred) DO UPDATE SET
                confidence = excluded.confidence, revision = l.revision + 1, updated_at = clock_timestamp()
                WHERE l.confidence < excluded.confidence
            RETURNING id"""
        ),
        {
            "tenant": tenant,
            "id": new_id(),
            "src_kind": src[0],
            "src_id": src[1],
            "dst_kind": dst[0],
            "dst_id": dst[1],
            "kind": kind,
            "confidence": confidence,
            "source": source,
        },
    ).scalar_one_or_none()
    if changed is None:
        return False
    outbox.enqueue(conn, tenant, "link", [UUID(str(changed))])
    return True


def move(conn: Connection, tenant: str, from_atom: UUID, to_atom: UUID) -> None:
    """Give the stated links of one atom to another; those that the other has already, or that would join it
    to itself, are dropped."""
    for end, far in (("src", "dst"), ("dst", "src")):
        moved = conn.execute(
            text(
                f"""UPDATE pm_atom_link l SET {end}_id = :to, revision = revision + 1, updated_at = clock_timestamp()
                WHERE l.tenant = :tenant AND l.{end}_kind = 'atom' AND l.{end}_id = :from AND NOT l.inferred
                  AND NOT (l.{far}_kind = 'atom' AND l.{far}_id = :to)
                  AND NOT EXISTS (SELECT FROM pm_atom_link o WHERE o.tenant = l.tenant AND o.{end}_kind = 'atom'
                    AND o.{end}_id = :to AND o.{far}_kind = l.{far}_kind AND o.{far}_id = l.{far}_id
                    AND o.kind = l.kind AND o.inferred = l.inferred)
                RETURNING l.id"""
            ),
            {"tenant": tenant, "from": from_atom, "to": to_atom},
        ).scalars()
        outbox.enqueue(conn, tenant, "link", list(moved))
    gone = conn.execute(
        text(
            "DELETE FROM pm_atom_link WHERE tenant = :tenant AND NOT inferred AND ((src_kind = 'atom' AND"
            " src_id = :from) OR (dst_kind = 'atom' AND dst_id = :from)) RETURNING id"
        ),
        {"tenant": tenant, "from": from_atom},
    ).scalars()
    outbox.enqueue(conn, tenant, "link", list(gone), op="delete")


def contradictions_among(conn: Connection, tenant: str, atom_ids: list[UUID]) -> list[tuple[UUID, UUID]]:
    """Pairs of these atoms that a `contradicts` link joins, each pair once."""
    if len(atom_ids) < 2:
        return []
    rows = conn.execute(
        text(
            "SELECT DISTINCT least(src_id, dst_id), greatest(src_id, dst_id) FROM pm_atom_link"
            " WHERE tenant = :tenant AND kind = 'contradicts' AND src_kind = 'atom' AND dst_kind = 'atom'"
            " AND src_id = ANY(:ids) AND dst_id = ANY(:ids)"
        ),
        {"tenant": tenant, "ids": atom_ids},
    ).all()
    return [(row[0], row[1]) for row in rows]
