"""Which installation this database is of."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text


def instance_id(conn: Connection) -> UUID:
    """Random, made with the schema; what stands in other servers carries it."""
    found: UUID = conn.execute(text("SELECT id FROM pm_instance")).scalar_one()
    return found
