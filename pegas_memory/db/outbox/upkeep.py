"""Keeping the outbox small, and true after a move."""

from __future__ import annotations

from sqlalchemy import Connection, text

from pegas_memory.db.outbox.generations import BUILT, discard_building, start_over
from pegas_memory.db.outbox.progress import lag

ABANDONED_AFTER_DAYS = 14
_PRUNED_AT_ONCE = 20_000


def give_up_on_abandoned(conn: Connection) -> None:
    """A consumer that has left changes waiting, or its filling, for ``ABANDONED_AFTER_DAYS`` (its home or
    model is no longer used) stops holding the outbox: should it come back, it is filled from the tables."""
    found = conn.execute(
        text("SELECT consumer, backfilling, extract(epoch FROM clock_timestamp() - updated_at) FROM pm_projection")
    ).all()
    for consumer, filling, quiet in found:
        waited = float(quiet) if filling else lag(conn, consumer)
        if waited > ABANDONED_AFTER_DAYS * 86_400:
            _leave(conn, consumer)


def _leave(conn: Connection, consumer: str) -> None:
    if consumer.endswith(BUILT):
        discard_building(conn, consumer.removesuffix(BUILT))
    else:
        start_over(conn, consumer)


def prune(conn: Connection) -> int:
    """Drop rows that every consumer has durably passed, so many at once as keep the statement short. Returns
    how many; call it again while that is not 0."""
    return conn.execute(
        text(
            "DELETE FROM pm_outbox WHERE (tenant, seq) IN (SELECT tenant, seq FROM pm_outbox"
            " WHERE xid < (SELECT min(pg_snapshot_xmin(durable)) FROM pm_projection) ORDER BY xid LIMIT :limit)"
        ),
        {"limit": _PRUNED_AT_ONCE},
    ).rowcount


def mend_foreign_xids(conn: Connection) -> list[str]:
    """After a restore into a younger cluster the transaction ids of rows and positions lie in the future: the
    rows would be seen only when the cluster's own ids have grown as far. Rows become this transaction's,
    consumers are filled from the tables. Returns the consumers; costs two look-ups when all is well."""
    future = "pg_snapshot_xmax(pg_current_snapshot())"
    conn.execute(text(f"UPDATE pm_outbox SET xid = pg_current_xact_id() WHERE xid >= {future}"))
    consumers = conn.execute(
        text(
            f"SELECT consumer FROM pm_projection WHERE pg_snapshot_xmax(position) > {future}"
            f" OR pg_snapshot_xmax(durable) > {future} OR pg_snapshot_xmax(window_end) > {future}"
        )
    ).scalars().all()  # fmt: skip
    for consumer in consumers:
        _leave(conn, consumer)
    return list(consumers)


def forget(conn: Connection, consumer: str) -> None:
    """A consumer that nobody will be any more: its position no longer holds the outbox."""
    conn.execute(text("DELETE FROM pm_projection_failure WHERE consumer = :c"), {"c": consumer})
    conn.execute(text("DELETE FROM pm_projection WHERE consumer = :c"), {"c": consumer})
