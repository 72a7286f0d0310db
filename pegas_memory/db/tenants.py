"""Tenants: who there is, the turn between those who write to one and those who delete from it for good, and
the deletion of a whole one."""

from __future__ import annotations

import hashlib
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db import outbox
from pegas_memory.db.tables import TENANT_TABLES
from pegas_memory.errors import Unavailable
from pegas_memory.model import TenantState

INSTALLATION = ""
"""No tenant has this name: audit lines about whole tenants stand under it, where only an administrator looks."""
_KEEPS_NO_NAME = frozenset({"pm_outbox", "pm_projection_failure"})


def joined(conn: Connection, tenant: str) -> bool:
    """Be one of those who write to the tenant, until the transaction ends; before any other lock is taken. False
    when the tenant is being deleted: then write nothing."""
    conn.execute(text("SELECT pg_advisory_xact_lock_shared(:key)"), {"key": _key(tenant)})
    found = conn.execute(
        text("SELECT FROM pm_tenant WHERE id = :tenant AND deleted_at IS NOT NULL"), {"tenant": tenant}
    )
    return found.first() is None


def join(conn: Connection, tenant: str) -> None:
    """As :func:`joined`.

    Raises:
        Unavailable: the tenant is being deleted.
    """
    if not joined(conn, tenant):
        raise Unavailable(
            "This tenant is being deleted.", "`pegas-memory tenants delete` ends what was begun; then try again."
        )


def be_alone(conn: Connection, tenant: str) -> None:
    """Wait for those who write to the tenant, and keep others from it until the transaction ends."""
    conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key(tenant)})


def _key(tenant: str) -> int:
    return int.from_bytes(hashlib.sha256(f"pegas tenant {tenant}".encode()).digest()[:8], "big", signed=True)


def names(conn: Connection) -> list[str]:
    """Every tenant that anything is stored for, or whose deletion was begun."""
    found: set[str] = set(conn.execute(text("SELECT id FROM pm_tenant")).scalars())
    for table in TENANT_TABLES:
        if table not in _KEEPS_NO_NAME:
            found.update(conn.execute(text(_DISTINCT.format(table=table))).scalars())
    return sorted(found - {INSTALLATION})


# From name to name by the primary key, which begins with it; DISTINCT would read the whole table.
_DISTINCT = """WITH RECURSIVE found AS (
        (SELECT tenant FROM {table} ORDER BY tenant LIMIT 1)
        UNION ALL SELECT (SELECT t.tenant FROM {table} t WHERE t.tenant > found.tenant ORDER BY t.tenant LIMIT 1)
        FROM found WHERE found.tenant IS NOT NULL)
    SELECT tenant FROM found WHERE tenant IS NOT NULL"""


def state(conn: Connection, tenant: str) -> TenantState:
    row = conn.execute(
        text(
            "SELECT (SELECT count(*) FROM pm_atom WHERE tenant = :t), (SELECT count(*) FROM pm_document WHERE"
            " tenant = :t), (SELECT count(*) FROM pm_atom_link WHERE tenant = :t), (SELECT count(*) FROM"
            " pm_research_gap WHERE tenant = :t), (SELECT count(*) FROM pm_code_symbol WHERE tenant = :t),"
            " EXISTS (SELECT FROM pm_tenant WHERE id = :t AND deleted_at IS NOT NULL)"
        ),
        {"t": tenant},
    ).one()
    return TenantState(tenant, *row)


def begin_deletion(conn: Connection, tenant: str) -> None:
    """From the commit on nobody joins the tenant any more, and its jobs stop."""
    conn.execute(
        text(
            "INSERT INTO pm_tenant (id, deleted_at) VALUES (:tenant, clock_timestamp())"
            " ON CONFLICT (id) DO UPDATE SET deleted_at = coalesce(pm_tenant.deleted_at, excluded.deleted_at)"
        ),
        {"tenant": tenant},
    )
    conn.execute(
        text("UPDATE pm_job SET state = 'cancelled' WHERE tenant = :tenant AND state IN ('queued', 'running')"),
        {"tenant": tenant},
    )


def delete_some(conn: Connection, table: str, tenant: str, limit: int) -> int:
    """Delete up to ``limit`` rows of the tenant from one table. Returns how many."""
    return conn.execute(
        text(
            f"DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE tenant = :tenant LIMIT :limit))"
        ),
        {"tenant": tenant, "limit": limit},
    ).rowcount


def end_deletion(conn: Connection, tenant: str) -> None:
    """Delete what may be left, tell the projections, and free the name."""
    be_alone(conn, tenant)
    for table in reversed(TENANT_TABLES):
        conn.execute(text(f"DELETE FROM {table} WHERE tenant = :tenant"), {"tenant": tenant})
    conn.execute(text("DELETE FROM pm_tenant WHERE id = :tenant"), {"tenant": tenant})
    outbox.enqueue(conn, tenant, "tenant", [UUID(int=0)], op="delete")
