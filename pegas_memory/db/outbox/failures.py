"""Changes that could not be projected: set aside with their error, tried again, dead after MAX_ATTEMPTS.

An attempt is counted when it begins, not when it fails: one that takes its process down counts too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.outbox.rows import OUTBOX_CHANNEL, Change

MAX_ATTEMPTS = 8
_DIED = "The process that projected it ended before it was done."
_PAUSE = "interval '2 seconds' * power(2, least(f.attempts, 10))"


@dataclass(frozen=True, slots=True)
class Failure:
    tenant: str
    consumer: str
    entity_type: str
    entity_id: UUID
    attempts: int
    dead: bool
    last_error: str
    first_failed_at: datetime
    next_try_at: datetime | None


def take_one(conn: Connection, consumer: str, change: Change) -> bool:
    """Begin an attempt at this change alone. False when it is dead: it is not to be tried."""
    row = conn.execute(
        text(
            f"""INSERT INTO pm_projection_failure AS f
                (tenant, consumer, entity_type, entity_id, attempts, last_error, next_try_at)
            VALUES (:tenant, :consumer, :type, :id, 1, :died, clock_timestamp() + interval '2 seconds')
            ON CONFLICT (tenant, consumer, entity_type, entity_id) DO UPDATE SET
                attempts = f.attempts + 1, dead = f.attempts + 1 >= :max, next_try_at = clock_timestamp() + {_PAUSE}
                WHERE NOT f.dead
            RETURNING attempts"""
        ),
        {**_key(consumer, change), "max": MAX_ATTEMPTS, "died": _DIED},
    ).one_or_none()
    return row is not None


def due_failures(conn: Connection, consumer: str, limit: int) -> tuple[Change, ...]:
    """Those to be tried again now; each attempt begins with :func:`take_one`."""
    rows = conn.execute(
        text(
            "SELECT tenant, entity_type, entity_id, 'upsert' FROM pm_projection_failure WHERE consumer = :consumer"
            " AND NOT dead AND next_try_at <= clock_timestamp() ORDER BY next_try_at LIMIT :limit"
        ),
        {"consumer": consumer, "limit": limit},
    ).all()
    return tuple(Change(*row) for row in rows)


def note_failure(conn: Connection, consumer: str, change: Change, message: str) -> None:
    """Why the attempt that was begun has failed."""
    conn.execute(
        text(
            "UPDATE pm_projection_failure SET last_error = :message WHERE tenant = :tenant AND consumer = :consumer"
            " AND entity_type = :type AND entity_id = :id"
        ),
        {**_key(consumer, change), "message": message[:500]},
    )


def forgive(conn: Connection, consumer: str, change: Change) -> None:
    """The attempt that was begun says nothing about the change: the target was down."""
    conn.execute(
        text(
            "UPDATE pm_projection_failure SET attempts = greatest(attempts - 1, 0), dead = false,"
            " next_try_at = clock_timestamp() + interval '2 seconds' WHERE tenant = :tenant"
            " AND consumer = :consumer AND entity_type = :type AND entity_id = :id"
        ),
        _key(consumer, change),
    )


def clear_failures(conn: Connection, consumer: str, changes: Iterable[Change]) -> None:
    """These changes are projected now."""
    rows = [_key(consumer, change) for change in changes]
    if rows:
        conn.execute(
            text(
                "DELETE FROM pm_projection_failure WHERE tenant = :tenant AND consumer = :consumer"
                " AND entity_type = :type AND entity_id = :id"
            ),
            rows,
        )


def _key(consumer: str, change: Change) -> dict[str, object]:
    return {"tenant": change.tenant, "consumer": consumer, "type": change.entity_type, "id": change.entity_id}


def failed_count(conn: Connection, consumer: str) -> int:
    return sum(counts(conn, consumer).get(consumer, (0, 0))[:1])


def counts(conn: Connection, consumer: str = "") -> dict[str, tuple[int, int]]:
    """(set aside, of them dead) of each consumer that has any, for the transaction's tenant."""
    rows = conn.execute(
        text(
            "SELECT consumer, count(*), count(*) FILTER (WHERE dead) FROM pm_projection_failure"
            " WHERE :consumer = '' OR consumer = :consumer GROUP BY consumer"
        ),
        {"consumer": consumer},
    ).all()
    return {name: (failed, dead) for name, failed, dead in rows}


def failures(conn: Connection, limit: int, *, dead_only: bool = False) -> list[Failure]:
    """The failures of the transaction's tenant, the latest first."""
    rows = conn.execute(
        text(
            "SELECT tenant, consumer, entity_type, entity_id, attempts, dead, last_error, first_failed_at, next_try_at"
            " FROM pm_projection_failure WHERE dead OR NOT :dead_only"
            " ORDER BY first_failed_at DESC, entity_id LIMIT :limit"
        ),
        {"limit": limit, "dead_only": dead_only},
    ).all()
    return [Failure(*row) for row in rows]


def replay(conn: Connection, entity_id: UUID | None = None) -> int:
    """Try the failures of the transaction's tenant again now, the dead ones too; all of them, or those of one
    entity. Returns how many."""
    count = conn.execute(
        text(
            "UPDATE pm_projection_failure SET dead = false, attempts = 0, next_try_at = clock_timestamp()"
            " WHERE CAST(:id AS uuid) IS NULL OR entity_id = :id"
        ),
        {"id": entity_id},
    ).rowcount
    conn.execute(text("SELECT pg_notify(:channel, '')"), {"channel": OUTBOX_CHANNEL})
    return count
