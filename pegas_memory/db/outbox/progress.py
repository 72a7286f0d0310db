"""How far the consumers are, for those who wait and those who ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from pegas_memory.db.outbox.failures import counts

_UNPASSED = """o.xid >= pg_snapshot_xmin(p.position) AND NOT pg_visible_in_snapshot(o.xid, p.position)
    AND NOT (p.window_end IS NOT NULL AND pg_visible_in_snapshot(o.xid, p.window_end)
             AND (o.xid, o.seq) <= (p.window_xid, p.window_seq))"""
_LAST = "9223372036854775807"
_REACHED = f"CASE WHEN x.xid < p.window_xid THEN {_LAST} WHEN x.xid = p.window_xid THEN p.window_seq ELSE -1 END"
_ROWS = "(SELECT o.created_at FROM pm_outbox o WHERE {} ORDER BY o.xid, o.seq LIMIT :at_most)"
_RANGES = (
    # open when the position was taken, beyond what the window has used up
    "SELECT r.* FROM pg_snapshot_xip(p.position) x (xid) CROSS JOIN LATERAL "
    + _ROWS.format(f"(o.xid, o.seq) > (x.xid, {_REACHED}) AND (o.xid, o.seq) <= (x.xid, {_LAST})")
    + " r",
    # began after it, beyond what the window has used up
    _ROWS.format(
        """(o.xid, o.seq) > (greatest(p.window_xid, pg_snapshot_xmax(p.position)),
            CASE WHEN p.window_xid >= pg_snapshot_xmax(p.position) THEN p.window_seq ELSE -1 END)"""
    ),
    # still open at the window's end, and so passed over by it
    "SELECT r.* FROM pg_snapshot_xip(p.window_end) x (xid) CROSS JOIN LATERAL "
    + _ROWS.format(f"(o.xid, o.seq) > (x.xid, -1) AND (o.xid, o.seq) <= (x.xid, {_REACHED})")
    + " r",
)
"""Says what ``_UNPASSED`` says, in ranges of the index: what is not visible in a snapshot was open in it, or
began after it. So neither what was passed long ago nor the passed part of a long window is read again. Row
comparisons, ORDER and LIMIT keep each a look-up in the index, whatever the planner believes about the ids."""
_WAITING = "pm_projection p CROSS JOIN LATERAL ({}) o WHERE p.consumer = ANY(:consumers)".format(
    " UNION ALL ".join(_RANGES)
)


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """``failed`` counts what was set aside, ``dead`` what of it is not tried again."""

    consumer: str
    pending: int
    lag_seconds: float
    failed: int
    dead: int
    backfilling: bool
    filled: int
    generation: int
    last_error: str


def passed(conn: Connection, consumers: Sequence[str], xid: int) -> bool:
    """Whether each consumer has projected all that transaction ``xid`` wrote."""
    return not conn.execute(
        text(
            f"SELECT EXISTS (SELECT FROM pm_projection p JOIN pm_outbox o ON {_UNPASSED}"
            " WHERE p.consumer = ANY(:consumers) AND o.xid = CAST(:xid AS xid8))"
        ),
        {"consumers": list(consumers), "xid": str(xid)},
    ).scalar_one()


def snapshot_now(conn: Connection) -> str:
    """What is committed now, to ask later whether it was projected."""
    return str(conn.execute(text("SELECT pg_current_snapshot()::text")).scalar_one())


def passed_all(conn: Connection, consumers: Sequence[str], snapshot: str) -> bool:
    """Whether each consumer is known, filled, and has projected all that was committed at ``snapshot``."""
    row = conn.execute(
        text(
            f"SELECT EXISTS (SELECT FROM pm_projection p JOIN pm_outbox o ON {_UNPASSED}"
            " WHERE p.consumer = ANY(:consumers) AND o.xid < pg_snapshot_xmax(CAST(:snapshot AS pg_snapshot))"
            " AND o.xid >= (SELECT min(pg_snapshot_xmin(position)) FROM pm_projection WHERE consumer = ANY(:consumers))"
            " AND pg_visible_in_snapshot(o.xid, CAST(:snapshot AS pg_snapshot))),"
            " (SELECT count(*) FROM pm_projection WHERE consumer = ANY(:consumers) AND NOT backfilling)"
        ),
        {"consumers": list(consumers), "snapshot": snapshot},
    ).one()
    return not row[0] and row[1] == len(consumers)


def pending(conn: Connection, consumers: list[str], *, at_most: int = 10_000) -> int:
    """How many outbox rows of the transaction's tenant wait for these consumers, counted up to ``at_most``."""
    return progress(conn, consumers, at_most=at_most)[0]


def progress(conn: Connection, consumers: list[str], *, at_most: int = 10_000) -> tuple[int, bool]:
    """As :func:`pending`, and whether each of the consumers is known and completely filled from the tables."""
    row = conn.execute(
        text(
            f"SELECT (SELECT count(*) FROM (SELECT FROM {_WAITING} LIMIT :at_most) waiting),"
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
    found = conn.execute(
        text("SELECT consumer, backfilling, filled, generation, last_error FROM pm_projection ORDER BY consumer")
    ).all()
    failed = counts(conn)
    return [
        ConsumerState(name, pending(conn, [name]), lag(conn, name), *failed.get(name, (0, 0)), *rest)
        for name, *rest in found
    ]


def lag(conn: Connection, consumer: str) -> float:
    """Seconds since the first change that waits was written; 0 when none waits."""
    found = conn.execute(
        text(f"SELECT min(o.created_at), clock_timestamp() FROM {_WAITING}"), {"consumers": [consumer], "at_most": 1}
    ).one()
    return max(0.0, (found[1] - found[0]).total_seconds()) if found[0] else 0.0
