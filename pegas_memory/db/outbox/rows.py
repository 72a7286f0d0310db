"""Noting changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.outbox.tables import FILLABLE

OUTBOX_CHANNEL = "pegas_outbox"
WHOLE_TENANT = UUID(int=0)
"""The entity id of a change of type ``tenant``."""


@dataclass(frozen=True, slots=True)
class Change:
    tenant: str
    entity_type: str
    entity_id: UUID
    op: str
    xid: str = field(default="", compare=False)
    """The transaction that noted it; the first, when several did. Empty for what was not read from the outbox."""


def enqueue(conn: Connection, tenant: str, entity_type: str, entity_ids: Iterable[UUID], op: str = "upsert") -> None:
    """Note the change of these entities in the caller's own transaction, and wake the worker at commit."""
    ids = list(entity_ids)
    if not ids:
        return
    conn.execute(
        text(
            "INSERT INTO pm_outbox (tenant, entity_type, entity_id, op)"
            " SELECT :tenant, :entity_type, changed.id, :op"
            " FROM unnest(CAST(:ids AS uuid[])) WITH ORDINALITY AS changed (id, n) ORDER BY changed.n"
            " RETURNING pg_notify(:channel, '')"
        ),
        {"tenant": tenant, "entity_type": entity_type, "ids": ids, "op": op, "channel": OUTBOX_CHANNEL},
    )


def enqueue_all(conn: Connection, tenant: str, entity_types: Iterable[str] = FILLABLE) -> int:
    """Note everything that PostgreSQL has of the tenant as changed. Returns how many rows."""
    noted = 0
    for entity_type in entity_types:
        noted += conn.execute(
            text(
                "INSERT INTO pm_outbox (tenant, entity_type, entity_id)"
                f" SELECT tenant, :entity_type, id FROM {FILLABLE[entity_type]} WHERE tenant = :tenant ORDER BY id"
            ),
            {"tenant": tenant, "entity_type": entity_type},
        ).rowcount
    conn.execute(text("SELECT pg_notify(:channel, '')"), {"channel": OUTBOX_CHANNEL})
    return noted


def current_xid(conn: Connection) -> int:
    """This transaction's id, to ask later whether it was projected."""
    return int(conn.execute(text("SELECT pg_current_xact_id()::text")).scalar_one())
