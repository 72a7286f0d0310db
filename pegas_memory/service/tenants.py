"""Tenants, for an administrator: who there is, and deleting one for good."""

from __future__ import annotations

from collections import Counter

from pegas_memory.db import activity, outbox, tenants
from pegas_memory.db.tables import TENANT_TABLES
from pegas_memory.errors import NotFound
from pegas_memory.model import TenantDeleted, TenantState, Verdict
from pegas_memory.service.rooms import OpenRooms

AT_ONCE = 5_000
"""Rows in one transaction: each ends well within the time that a statement may take."""


def listed(rooms: OpenRooms) -> tuple[TenantState, ...]:
    """Every tenant with its counts, by name."""
    with rooms.db.everything() as conn:
        return tuple(tenants.state(conn, name) for name in tenants.names(conn))


def delete(rooms: OpenRooms, name: str, reason: str) -> TenantDeleted:
    """Delete all that a tenant holds, in every store. What was cut short is ended by calling again; meanwhile
    nobody can write to the tenant. Afterwards its name is free.

    Raises:
        NotFound: nothing is stored for it.
    """
    with rooms.db.everything() as conn:
        if name not in tenants.names(conn):
            raise NotFound("There is no tenant of that name.", "`pegas-memory tenants` lists them.")
        tenants.begin_deletion(conn, name)
    with rooms.db.everything() as conn:
        tenants.be_alone(conn, name)  # who joined before the mark has ended when this returns
    removed: Counter[str] = Counter()
    for table in reversed(TENANT_TABLES):
        while count := _delete_some(rooms, table, name):
            removed[table] += count
    with rooms.db.everything() as conn:
        tenants.end_deletion(conn, name)
        detail = {"tenant": name, "reason": reason, "removed": dict(removed)}
        activity.note(conn, tenants.INSTALLATION, Verdict.PURGE.value, "tenant", [None], detail)
        xid = outbox.current_xid(conn)
    rooms.forget(name)
    rooms.written.note(name, xid)
    return TenantDeleted(name, dict(removed))


def _delete_some(rooms: OpenRooms, table: str, name: str) -> int:
    with rooms.db.everything() as conn:
        return tenants.delete_some(conn, table, name, AT_ONCE)
