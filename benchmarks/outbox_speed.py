"""Taking a slice of the outbox with a million rows in it.

    python -m benchmarks.outbox_speed [--rows 1000000] [--json]

A PostgreSQL of its own; the rows are written by transactions of 10,000. Milliseconds of one take (256 rows, its
transaction included) at the beginning, amid a long window, and with everything passed; each also while a
transaction stays open from before all the rows. Beside it what a search asks: how much waits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlalchemy import text

from benchmarks.speed_run import Quantiles, machine, own_home, parser, quantiles, report, timed
from pegas_memory import PegasMemory
from pegas_memory.db import outbox
from pegas_memory.db.session import Database

CONSUMER = "vector:benchmark"
ROWS_EACH = 10_000
TIMES = 60
SLICE = 256


def fill(db: Database, rows: int) -> None:
    for _ in range(rows // ROWS_EACH):
        with db.everything() as conn:
            conn.execute(text("SET LOCAL synchronous_commit = off"))
            conn.execute(
                text(
                    "INSERT INTO pm_outbox (tenant, entity_type, entity_id, xid) SELECT 'benchmark', 'atom',"
                    " gen_random_uuid(), pg_current_xact_id()"
                    " FROM generate_series(1, :n)"
                ),
                {"n": ROWS_EACH},
            )


def take(db: Database, *, move: bool = False) -> int:
    with db.everything() as conn:
        batch = outbox.take(conn, CONSUMER, SLICE)
        if move:
            outbox.advance(conn, CONSUMER, batch)
        return len(batch.changes)


def waiting(db: Database) -> int:
    with db.everything() as conn:
        return outbox.pending(conn, [CONSUMER], at_most=10_000)


def many(work: Callable[[], int]) -> Quantiles:
    return quantiles([timed(work)[1] for _ in range(TIMES)])


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    chosen = arguments.parse_args()
    figures: dict[str, object] = {"unit": "ms, p50 / p95", "rows": chosen.rows, "slice": SLICE}
    with own_home() as settings, PegasMemory.open(settings) as memory:
        db = memory.rooms.db
        with db.everything() as conn:
            outbox.register(conn, CONSUMER)
            outbox.backfill_advance(conn, CONSUMER, 1, None)
        with db.tenant("elsewhere") as idle:
            idle.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            idle.execute(text("SELECT pg_current_xact_id()"))
            fill(db, chosen.rows)
            with db.everything() as conn:
                conn.execute(text("ANALYZE pm_outbox"))
            figures["take_all_waiting"] = many(partial(take, db))
            for _ in range(200):
                take(db, move=True)
            figures["take_and_move_amid_a_window"] = many(partial(take, db, move=True))
            figures["how_much_waits"] = many(partial(waiting, db))
            with db.everything() as conn:  # all of it passed, the transaction still open
                passed = "position = pg_current_snapshot(), window_end = NULL, window_xid = NULL, window_seq = NULL"
                conn.execute(text(f"UPDATE pm_projection SET {passed} WHERE consumer = :c"), {"c": CONSUMER})
            with db.tenant("benchmark") as conn:
                outbox.enqueue(conn, "benchmark", "atom", [outbox.WHOLE_TENANT])
            figures["take_one_new_row"] = many(partial(take, db))
            figures["nothing_more_waits"] = many(partial(waiting, db))
    report({**machine(), **figures}, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
