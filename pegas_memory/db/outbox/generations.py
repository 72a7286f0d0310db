"""A projection built anew beside the one that serves: a second consumer, which takes the first one's place.

The name of the serving consumer never changes, so that nobody who waits for it has to ask which one it is."""

from __future__ import annotations

from sqlalchemy import Connection, text

from pegas_memory.db.outbox.positions import PositionMoved, register, reset_position

BUILT = "#next"


def building_name(consumer: str) -> str:
    return consumer + BUILT


def generation_of(conn: Connection, consumer: str) -> int | None:
    """None for a consumer that is not known."""
    found = conn.execute(text("SELECT generation FROM pm_projection WHERE consumer = :c"), {"c": consumer})
    return found.scalar_one_or_none()


def serving_generation(conn: Connection, consumer: str) -> int:
    """The generation of a known consumer, which stays so until the transaction ends."""
    found = conn.execute(text("SELECT generation FROM pm_projection WHERE consumer = :c FOR UPDATE"), {"c": consumer})
    return int(found.scalar_one())


def begin_building(conn: Connection, consumer: str) -> tuple[int, bool]:
    """Make the second consumer known, or find the one that an interrupted rebuild left.

    Returns its generation, and whether it is new."""
    register(conn, consumer)
    standing = generation_of(conn, consumer)
    assert standing is not None
    new = register(conn, building_name(consumer), generation=standing + 1)
    built = generation_of(conn, building_name(consumer))
    assert built is not None
    return built, new


_TAKEN_OVER = """position, durable, durable_end, durable_xid, durable_seq, window_end, window_xid, window_seq,
    backfilling, backfill_kind, backfill_tenant, backfill_after, attempts, tried_xid, tried_seq, fill_attempts,
    fill_tried, generation, filled, last_error"""


def promote(conn: Connection, consumer: str) -> int:
    """The consumer that was built becomes the serving one, with its position, failures and generation.

    Returns the generation. Raises PositionMoved when there is none, or it is not filled yet."""
    built = building_name(consumer)
    columns = ", ".join(f"next.{name.strip()}" for name in _TAKEN_OVER.split(","))
    conn.execute(text("SELECT FROM pm_projection WHERE consumer = :c FOR UPDATE"), {"c": consumer})
    generation = conn.execute(
        text(
            f"UPDATE pm_projection p SET ({_TAKEN_OVER}) = ROW ({columns}), updated_at = clock_timestamp()"
            " FROM pm_projection next WHERE p.consumer = :consumer AND next.consumer = :built AND NOT next.backfilling"
            " RETURNING p.generation"
        ),
        {"consumer": consumer, "built": built},
    ).scalar_one_or_none()
    if generation is None:
        raise PositionMoved(built)
    conn.execute(text("DELETE FROM pm_projection_failure WHERE consumer = :c"), {"c": consumer})
    conn.execute(
        text("UPDATE pm_projection_failure SET consumer = :c WHERE consumer = :b"), {"c": consumer, "b": built}
    )
    conn.execute(text("DELETE FROM pm_projection WHERE consumer = :b"), {"b": built})
    return int(generation)


def discard_building(conn: Connection, consumer: str) -> bool:
    """Give up what is being built; the serving consumer stays. False when nothing is."""
    built = {"b": building_name(consumer)}
    conn.execute(text("DELETE FROM pm_projection_failure WHERE consumer = :b"), built)
    return bool(conn.execute(text("DELETE FROM pm_projection WHERE consumer = :b"), built).rowcount)


def refill(conn: Connection, consumer: str, *, above: int = 0) -> int:
    """Fill the target of a serving consumer anew in place, under the next generation, which is returned: its
    position stays, so that nothing that is written meanwhile is missed. ``above``: a generation that the target
    has seen already."""
    register(conn, consumer)
    generation = conn.execute(
        text(
            "UPDATE pm_projection SET generation = greatest(generation, :above) + 1, backfilling = true,"
            " fill_attempts = 0, fill_tried = NULL, backfill_kind = NULL, backfill_tenant = NULL,"
            " backfill_after = NULL, filled = 0, updated_at = clock_timestamp() WHERE consumer = :c"
            " RETURNING generation"
        ),
        {"c": consumer, "above": above},
    ).scalar_one()
    return int(generation)


def start_over(conn: Connection, consumer: str) -> None:
    """What the target holds cannot be brought up to date, since deletions may have been missed: a new
    generation is filled from the tables, not the next one, which may have been half built. (The vector cache
    holds nothing that could be wrong.)"""
    reset_position(conn, consumer)
    conn.execute(
        text(
            "UPDATE pm_projection SET generation = generation + 2 WHERE consumer = :c"
            " AND consumer NOT LIKE 'embedding:%'"
        ),
        {"c": consumer},
    )
    discard_building(conn, consumer)
