"""Where a consumer stands, and what it takes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.outbox.rows import Change


class PositionMoved(Exception):
    """The position is no longer where this batch was taken: another process works on this consumer, or it
    was switched to another generation. What the batch did may be repeated; open the consumer again."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Distinct changes in the order of their latest row. ``end`` is None when nothing was waiting.

    ``attempts`` counts how often this very slice was taken, this time included, since the position last
    moved: above 1 only after a process died over it. ``start`` and ``end`` are (xid, seq) in the window.
    """

    changes: tuple[Change, ...]
    end: tuple[str, int] | None
    generation: int
    attempts: int = 0
    window: str = ""
    start: tuple[str, int] = ("0", 0)


def register(conn: Connection, consumer: str, *, generation: int = 1) -> bool:
    """Make the consumer known. A new one starts at this moment and is filled from the tables. True when new."""
    return bool(
        conn.execute(
            text(
                "INSERT INTO pm_projection (consumer, position, durable, backfilling, generation) VALUES"
                " (:consumer, pg_current_snapshot(), pg_current_snapshot(), true, :generation)"
                " ON CONFLICT (consumer) DO NOTHING"
            ),
            {"consumer": consumer, "generation": generation},
        ).rowcount
    )


def reset_position(conn: Connection, consumer: str) -> None:
    """Forget what this consumer has seen: it will be filled from the tables again."""
    register(conn, consumer)
    conn.execute(
        text(
            "UPDATE pm_projection SET position = pg_current_snapshot(), durable = pg_current_snapshot(),"
            " durable_end = NULL, durable_xid = NULL, durable_seq = NULL,"
            " window_end = NULL, window_xid = NULL, window_seq = NULL, backfilling = true, backfill_kind = NULL,"
            " backfill_tenant = NULL, backfill_after = NULL, attempts = 0, tried_xid = NULL, tried_seq = NULL,"
            " fill_attempts = 0, fill_tried = NULL, filled = 0, updated_at = clock_timestamp()"
            " WHERE consumer = :consumer"
        ),
        {"consumer": consumer},
    )
    conn.execute(text("DELETE FROM pm_projection_failure WHERE consumer = :consumer"), {"consumer": consumer})


_ROWS = """(SELECT o.tenant, o.entity_type, o.entity_id, o.op, o.xid, o.seq FROM pm_outbox o
    WHERE {range} AND o.xid < pg_snapshot_xmax(CAST(:window_end AS pg_snapshot))
      AND pg_visible_in_snapshot(o.xid, CAST(:window_end AS pg_snapshot))
    ORDER BY o.xid, o.seq LIMIT :limit)"""
_OPEN_THEN = """(o.xid, o.seq) > (x.xid, CASE WHEN x.xid < CAST(:xid AS xid8) THEN 9223372036854775807
        WHEN x.xid = CAST(:xid AS xid8) THEN CAST(:seq AS bigint) ELSE -1 END)
    AND (o.xid, o.seq) <= (x.xid, 9223372036854775807)"""
_BEGAN_LATER = """(o.xid, o.seq) > (greatest(CAST(:xid AS xid8), pg_snapshot_xmax(CAST(:position AS pg_snapshot))),
    CASE WHEN CAST(:xid AS xid8) >= pg_snapshot_xmax(CAST(:position AS pg_snapshot)) THEN CAST(:seq AS bigint)
    ELSE -1 END)"""
_SLICE = text(
    "SELECT tenant, entity_type, entity_id, op, xid::text AS xid, seq FROM ("
    "SELECT r.* FROM pg_snapshot_xip(CAST(:position AS pg_snapshot)) x (xid) CROSS JOIN LATERAL"
    f" {_ROWS.format(range=_OPEN_THEN)} r UNION ALL {_ROWS.format(range=_BEGAN_LATER)}) o"
    " ORDER BY o.xid, o.seq LIMIT :limit"
)
"""What the position has not seen was open in it or began after it; both are ranges of the index, so that a
transaction that stays open for hours makes no take read what was passed since."""


def take(conn: Connection, consumer: str, limit: int) -> Batch:
    """The next slice for ``consumer``. That it was taken is counted, so that a slice over which processes die
    is known as such; it is passed when :func:`advance` is called."""
    state = _state(conn, consumer)
    generation = state["generation"]
    if state["window_end"] is None:
        opened = conn.execute(text("SELECT pg_current_snapshot()::text")).scalar_one()
        if opened == state["position"]:
            return Batch((), None, generation)
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
        start = (str(state["window_xid"]), int(state["window_seq"]))
        end = (rows[-1]["xid"], rows[-1]["seq"])
        attempts, tried = _counted(state, start, end)
        conn.execute(
            text("UPDATE pm_projection SET window_end = CAST(:w AS pg_snapshot), window_xid = CAST(:x AS xid8),"
                 " window_seq = :s, attempts = :attempts, tried_xid = CAST(:tried_xid AS xid8), tried_seq = :tried_seq"
                 " WHERE consumer = :consumer"),
            {"w": state["window_end"], "x": start[0], "s": start[1], "consumer": consumer,
             "attempts": max(attempts, state["attempts"]), "tried_xid": tried[0], "tried_seq": tried[1]},
        )  # fmt: skip
        return Batch(_distinct(rows), end, generation, attempts, state["window_end"], start)
    if state["persisted"]:
        _close_window(conn, consumer)
        return take(conn, consumer, limit)
    return Batch((), None, generation)


def _counted(state: dict[str, Any], start: tuple[str, int], end: tuple[str, int]) -> tuple[int, tuple[str, int]]:
    """How often the slice was taken, this time included, and where the slice begins that is counted: the last one
    that was never passed. A consumer that started again repeats earlier slices on its way there."""
    if state["tried_xid"] is None:
        return 1, start
    tried = (str(state["tried_xid"]), int(state["tried_seq"]))
    if _before(tried, start):
        return 1, start
    if _before(tried, end):
        return state["attempts"] + 1, tried
    return 1, tried


def _before(one: tuple[str, int], other: tuple[str, int]) -> bool:
    return (int(one[0]), one[1]) < (int(other[0]), other[1])


def _state(conn: Connection, consumer: str) -> dict[str, Any]:
    row = conn.execute(
        text(
            "SELECT position::text, window_end::text, window_xid::text, window_seq, generation, attempts,"
            " tried_xid::text, tried_seq FROM pm_projection"
            " WHERE consumer = :consumer FOR UPDATE"
        ),
        {"consumer": consumer},
    ).mappings().one_or_none()  # fmt: skip
    if row is None:
        raise PositionMoved(consumer)
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
        before = latest.pop(key, None)
        # One model's "embedded" must not hide from another model's consumer that there is something to embed.
        op = before.op if before is not None and row["op"] == "embedded" else row["op"]
        latest[key] = Change(*key, op=op, xid=before.xid if before is not None else row["xid"])
    return tuple(latest.values())


def advance(conn: Connection, consumer: str, batch: Batch) -> None:
    """Everything up to the batch's end is projected.

    Raises:
        PositionMoved: the batch was not taken from where the consumer stands now.
    """
    if batch.end is None:
        return
    moved = conn.execute(
        text(
            "UPDATE pm_projection SET window_xid = CAST(:xid AS xid8), window_seq = :seq, last_error = '',"
            " attempts = CASE WHEN (tried_xid, tried_seq) < (CAST(:xid AS xid8), CAST(:seq AS bigint)) THEN 0"
            " ELSE attempts END, updated_at = clock_timestamp() WHERE consumer = :consumer AND generation = :generation"
            " AND CAST(window_end AS text) = :window AND window_xid = CAST(:from_xid AS xid8)"
            " AND window_seq = :from_seq"
        ),
        {
            "consumer": consumer,
            "xid": batch.end[0],
            "seq": batch.end[1],
            "generation": batch.generation,
            "window": batch.window,
            "from_xid": batch.start[0],
            "from_seq": batch.start[1],
        },
    ).rowcount
    if not moved:
        raise PositionMoved(consumer)


def rewind(conn: Connection, consumer: str) -> None:
    """Go back to what is durable: the target may have lost what it was given since."""
    conn.execute(
        text(
            "UPDATE pm_projection SET position = durable, window_end = durable_end, window_xid = durable_xid,"
            " window_seq = durable_seq WHERE consumer = :consumer"
        ),
        {"consumer": consumer},
    )


def settle_durable(conn: Connection, consumer: str, generation: int) -> None:
    """The target has made durable everything up to the position. Raises PositionMoved as ``advance``."""
    done = conn.execute(
        text(
            "UPDATE pm_projection SET durable = position, durable_end = window_end, durable_xid = window_xid,"
            " durable_seq = window_seq WHERE consumer = :consumer AND generation = :generation"
        ),
        {"consumer": consumer, "generation": generation},
    ).rowcount
    if not done:
        raise PositionMoved(consumer)


def note_error(conn: Connection, consumer: str, message: str) -> None:
    """Say why the whole consumer stands still (its target or the embedder is down): no change is to blame."""
    conn.execute(
        text(
            "UPDATE pm_projection SET last_error = :message, attempts = 0, fill_attempts = 0,"
            " heartbeat_at = clock_timestamp() WHERE consumer = :c"
        ),
        {"message": message[:500], "c": consumer},
    )
