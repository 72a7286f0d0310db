"""The outbox: what changed, and how far each projection has come.

A row carries the id of the transaction that wrote it. A consumer's position is a ``pg_snapshot``;
what it has not seen is what is visible now and was not visible in the position. A batch is a slice
of a *window*: everything between the position and a later snapshot, ordered by (xid, seq). When the
window is used up, its end becomes the position. So nothing is skipped however transactions
interleave, and one that stays open holds nobody up.

The position says what can be found; ``durable`` says what survives a crash of the target. A consumer
that starts goes back to ``durable`` and repeats the rest, which is harmless; pruning keeps what any
consumer may have to repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

OUTBOX_CHANNEL = "pegas_outbox"
MAX_ATTEMPTS = 8
ABANDONED_AFTER_DAYS = 14


@dataclass(frozen=True, slots=True)
class Change:
    tenant: str
    entity_type: str
    entity_id: UUID
    op: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Distinct changes in the order of their latest row. ``end`` is None when nothing was waiting."""

    changes: tuple[Change, ...]
    end: tuple[str, int] | None


@dataclass(frozen=True, slots=True)
class ConsumerState:
    consumer: str
    pending: int
    lag_seconds: float
    failed: int
    backfilling: bool
    last_error: str


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


def current_xid(conn: Connection) -> int:
    """This transaction's id, to ask later whether it was projected."""
    return int(conn.execute(text("SELECT pg_current_xact_id()::text")).scalar_one())


def register(conn: Connection, consumer: str) -> None:
    """Make the consumer known. A new one starts at this moment and is filled from the tables."""
    conn.execute(
        text(
            "INSERT INTO pm_projection (consumer, position, durable, backfilling) VALUES"
            " (:consumer, pg_current_snapshot(), pg_current_snapshot(), true) ON CONFLICT (consumer) DO NOTHING"
        ),
        {"consumer": consumer},
    )


def reset_position(conn: Connection, consumer: str) -> None:
    """Forget what this consumer has seen: it will be filled from the tables again."""
    register(conn, consumer)
    conn.execute(
        text(
            "UPDATE pm_projection SET position = pg_current_snapshot(), durable = pg_current_snapshot(),"
            " window_end = NULL, window_xid = NULL,"
            " window_seq = NULL, backfilling = true, backfill_kind = NULL, backfill_tenant = NULL,"
            " backfill_after = NULL, updated_at = clock_timestamp() WHERE consumer = :consumer"
        ),
        {"consumer": consumer},
    )
    conn.execute(text("DELETE FROM pm_projection_failure WHERE consumer = :consumer"), {"consumer": consumer})


_SLICE = text(
    """SELECT o.tenant, o.entity_type, o.entity_id, o.op, o.xid::text AS xid, o.seq
    FROM pm_outbox o
    WHERE o.xid >= pg_snapshot_xmin(CAST(:position AS pg_snapshot))
      AND o.xid < pg_snapshot_xmax(CAST(:window_end AS pg_snapshot))
      AND (o.xid, o.seq) > (CAST(:xid AS xid8), CAST(:seq AS bigint))
      AND NOT pg_visible_in_snapshot(o.xid, CAST(:position AS pg_snapshot))
      AND pg_visible_in_snapshot(o.xid, CAST(:window_end AS pg_snapshot))
    ORDER BY o.xid, o.seq LIMIT :limit"""
)


def take(conn: Connection, consumer: str, limit: int) -> Batch:
    """The next slice for ``consumer``. Nothing is marked: call :func:`advance` once it is projected."""
    state = _state(conn, consumer)
    if state["window_end"] is None:
        opened = conn.execute(text("SELECT pg_current_snapshot()::text")).scalar_one()
        if opened == state["position"]:
            return Batch((), None)
        state |= {"window_end": opened, "window_xid": "0", "window_seq": 0}
    parameters = {
        "position": state["position"],
        "window_end": state["window_end"],
        "xid": state["window_xid"],
        "seq": state["window_seq"],
        "limit": limit,
    }
    rows = conn.execute(_SLICE, parameters).mappings().all()
    if rows:
        conn.execute(
            text("UPDATE pm_projection SET window_end = CAST(:w AS pg_snapshot), window_xid = CAST(:x AS xid8),"
                 " window_seq = :s WHERE consumer = :consumer AND window_end IS NULL"),
            {"w": state["window_end"], "x": state["window_xid"], "s": state["window_seq"], "consumer": consumer},
        )  # fmt: skip
        return Batch(_distinct(rows), (rows[-1]["xid"], rows[-1]["seq"]))
    if state["persisted"]:
        _close_window(conn, consumer)
        return take(conn, consumer, limit)
    return Batch((), None)


def _state(conn: Connection, consumer: str) -> dict[str, Any]:
    row = conn.execute(
        text(
            "SELECT position::text, window_end::text, window_xid::text, window_seq FROM pm_projection"
            " WHERE consumer = :consumer"
        ),
        {"consumer": consumer},
    ).mappings().one()  # fmt: skip
    return {**row, "persisted": row["window_end"] is not None}


def _close_window(conn: Connection, consumer: str) -> None:
    conn.execute(
        text(
            "UPDATE pm_projection SET position = window_end, window_end = NULL, window_xid = NULL,"
            " window_seq = NULL, updated_at = clock_timestamp() WHERE consumer = :consumer"
        ),
        {"consumer": consumer},
    )


def _distinct(rows: Sequence[Any]) -> tuple[Change, ...]:
    latest: dict[tuple[str, str, UUID], Change] = {}
    for row in rows:
        key = (row["tenant"], row["entity_type"], row["entity_id"])
        latest.pop(key, None)
        latest[key] = Change(*key, op=row["op"])
    return tuple(latest.values())


def advance(conn: Connection, consumer: str, batch: Batch) -> None:
    """Everything up to the batch's end is projected."""
    if batch.end is None:
        return
    xid, seq = batch.end
    conn.execute(
        text(
            "UPDATE pm_projection SET window_xid = CAST(:xid AS xid8), window_seq = :seq, last_error = '',"
            " updated_at = clock_timestamp() WHERE consumer = :consumer"
        ),
        {"consumer": consumer, "xid": xid, "seq": seq},
    )


_UNPASSED = """o.xid >= pg_snapshot_xmin(p.position) AND NOT pg_visible_in_snapshot(o.xid, p.position)
    AND NOT (p.window_end IS NOT NULL AND pg_visible_in_snapshot(o.xid, p.window_end)
             AND (o.xid, o.seq) <= (p.window_xid, p.window_seq))"""
FROM_FIRST = """o.xid >= (SELECT min(pg_snapshot_xmin(position)) FROM pm_projection WHERE consumer = ANY(:consumers))"""
"""Says nothing new, but PostgreSQL can look it up in the index instead of reading the whole outbox."""


def passed(conn: Connection, consumers: Sequence[str], xid: int) -> bool:
    """Whether each consumer has projected all that transaction ``xid`` wrote."""
    return not conn.execute(
        text(
            f"SELECT EXISTS (SELECT FROM pm_projection p JOIN pm_outbox o ON {_UNPASSED}"
            " WHERE p.consumer = ANY(:consumers) AND o.xid = CAST(:xid AS xid8))"
        ),
        {"consumers": list(consumers), "xid": str(xid)},
    ).scalar_one()


def pending(conn: Connection, consumers: list[str], *, at_most: int = 10_000) -> int:
    """How many outbox rows of the transaction's tenant wait for these consumers, counted up to ``at_most``."""
    return progress(conn, consumers, at_most=at_most)[0]


def progress(conn: Connection, consumers: list[str], *, at_most: int = 10_000) -> tuple[int, bool]:
    """As :func:`pending`, and whether each of the consumers is known and completely filled from the tables."""
    row = conn.execute(
        text(
            f"SELECT (SELECT count(*) FROM (SELECT FROM pm_projection p JOIN pm_outbox o ON {_UNPASSED}"
            f" WHERE p.consumer = ANY(:consumers) AND {FROM_FIRST} LIMIT :at_most) waiting),"
            " (SELECT count(*) FROM pm_projection WHERE consumer = ANY(:consumers) AND NOT backfilling)"
        ),
        {"consumers": consumers, "at_most": at_most},
    ).one()
    return int(row[0]), row[1] == len(consumers)


def unread(conn: Connection, *, at_most: int = 10_000) -> int:
    """How many outbox rows of the transaction's tenant stand, for when no consumer is known yet: the
    embedder has never answered, so nothing can have been projected or pruned."""
    return int(
        conn.execute(
            text("SELECT count(*) FROM (SELECT FROM pm_outbox LIMIT :at_most) waiting"), {"at_most": at_most}
        ).scalar_one()
    )


def states(conn: Connection) -> list[ConsumerState]:
    """Every consumer with what waits for it and what failed, for the transaction's tenant."""
    found = conn.execute(text("SELECT consumer, backfilling, last_error FROM pm_projection ORDER BY consumer")).all()
    return [
        ConsumerState(name, pending(conn, [name]), _lag(conn, name), failed_count(conn, name), backfilling, error)
        for name, backfilling, error in found
    ]


def _lag(conn: Connection, consumer: str) -> float:
    oldest: datetime | None
    oldest, now = conn.execute(
        text(
            f"SELECT min(o.created_at), clock_timestamp() FROM pm_projection p JOIN pm_outbox o ON {_UNPASSED}"
            f" WHERE p.consumer = ANY(:consumers) AND {FROM_FIRST}"
        ),
        {"consumers": [consumer]},
    ).one()
    return max(0.0, (now - oldest).total_seconds()) if oldest else 0.0


def rewind(conn: Connection, consumer: str) -> None:
    """Go back to what is durable: the target may have lost what it was given since."""
    conn.execute(
        text(
            "UPDATE pm_projection SET position = durable, window_end = NULL, window_xid = NULL, window_seq = NULL"
            " WHERE consumer = :consumer"
            " AND (CAST(position AS text) <> CAST(durable AS text) OR window_end IS NOT NULL)"
        ),
        {"consumer": consumer},
    )


def settle_durable(conn: Connection, consumer: str) -> None:
    """The target has made durable everything up to the position."""
    conn.execute(text("UPDATE pm_projection SET durable = position WHERE consumer = :consumer"), {"consumer": consumer})


def note_error(conn: Connection, consumer: str, message: str) -> None:
    """Say why the whole consumer stands still (its target or the embedder is down)."""
    conn.execute(
        text("UPDATE pm_projection SET last_error = :message, heartbeat_at = clock_timestamp() WHERE consumer = :c"),
        {"message": message[:500], "c": consumer},
    )


def record_failure(conn: Connection, consumer: str, change: Change, message: str) -> None:
    """Set one change aside with its error; it is tried again with back-off, dead after MAX_ATTEMPTS."""
    conn.execute(
        text(
            """INSERT INTO pm_projection_failure AS f
                (tenant, consumer, entity_type, entity_id, attempts, last_error, next_try_at)
            VALUES (:tenant, :consumer, :type, :id, 1, :message, clock_timestamp() + interval '2 seconds')
            ON CONFLICT (tenant, consumer, entity_type, entity_id) DO UPDATE SET
                attempts = f.attempts + 1, last_error = excluded.last_error, dead = f.attempts + 1 >= :max,
                next_try_at = clock_timestamp() + interval '2 seconds' * power(2, least(f.attempts, 10))"""
        ),
        {
            "tenant": change.tenant,
            "consumer": consumer,
            "type": change.entity_type,
            "id": change.entity_id,
            "message": message[:500],
            "max": MAX_ATTEMPTS,
        },
    )


def due_failures(conn: Connection, consumer: str, limit: int) -> tuple[Change, ...]:
    rows = conn.execute(
        text(
            "SELECT tenant, entity_type, entity_id, 'upsert' FROM pm_projection_failure"
            " WHERE consumer = :consumer AND NOT dead AND next_try_at <= clock_timestamp()"
            " ORDER BY next_try_at LIMIT :limit"
        ),
        {"consumer": consumer, "limit": limit},
    ).all()
    return tuple(Change(*row) for row in rows)


def clear_failures(conn: Connection, consumer: str, changes: Iterable[Change]) -> None:
    rows = [{"c": consumer, "t": c.tenant, "k": c.entity_type, "i": c.entity_id} for c in changes]
    if rows:
        conn.execute(
            text(
                "DELETE FROM pm_projection_failure"
                " WHERE consumer = :c AND tenant = :t AND entity_type = :k AND entity_id = :i"
            ),
            rows,
        )


def failed_count(conn: Connection, consumer: str) -> int:
    return int(
        conn.execute(
            text("SELECT count(*) FROM pm_projection_failure WHERE consumer = :consumer"), {"consumer": consumer}
        ).scalar_one()
    )


def give_up_on_abandoned(conn: Connection) -> None:
    """A consumer that has left changes waiting for ``ABANDONED_AFTER_DAYS`` (its home or model is no longer
    used) stops holding the outbox: should it come back, it is filled from the tables."""
    for consumer in conn.execute(text("SELECT consumer FROM pm_projection WHERE NOT backfilling")).scalars().all():
        if _lag(conn, consumer) > ABANDONED_AFTER_DAYS * 86_400:
            reset_position(conn, consumer)


def prune(conn: Connection) -> int:
    """Drop the rows that every consumer has passed. Returns how many."""
    return conn.execute(
        text("DELETE FROM pm_outbox o WHERE o.xid < (SELECT min(pg_snapshot_xmin(durable)) FROM pm_projection)")
    ).rowcount


# --- filling a new or reset projection from the tables ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Backfill:
    """The last atom that was filled in, in (tenant, id) order."""

    tenant: str
    after: UUID | None

    def moved_to(self, last: Change) -> Backfill:
        return Backfill(last.tenant, last.entity_id)


def backfill_of(conn: Connection, consumer: str) -> Backfill | None:
    """Where the filling of ``consumer`` stands; None when it is complete."""
    row = conn.execute(
        text("SELECT backfilling, backfill_tenant, backfill_after FROM pm_projection WHERE consumer = :c"),
        {"c": consumer},
    ).one()
    return Backfill(row[1] or "", row[2]) if row[0] else None


def backfill_page(conn: Connection, at: Backfill, limit: int) -> tuple[Change, ...]:
    """The next atoms after ``at`` in (tenant, id) order."""
    rows = conn.execute(
        text(
            "SELECT tenant, 'atom', id, 'upsert' FROM pm_atom"
            " WHERE (tenant, id) > (:tenant, CAST(:after AS uuid)) ORDER BY tenant, id LIMIT :limit"
        ),
        {"tenant": at.tenant, "after": at.after or UUID(int=0), "limit": limit},
    ).all()
    return tuple(Change(*row) for row in rows)


def backfill_advance(conn: Connection, consumer: str, at: Backfill | None) -> None:
    """Note how far the filling has durably come; None ends it."""
    conn.execute(
        text(
            "UPDATE pm_projection SET backfilling = :more, backfill_tenant = :tenant, backfill_after = :after,"
            " last_error = '', updated_at = clock_timestamp() WHERE consumer = :consumer"
        ),
        {
            "more": at is not None,
            "tenant": at.tenant if at else None,
            "after": at.after if at else None,
            "consumer": consumer,
        },
    )
