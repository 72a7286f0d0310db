"""Filling a new or reset projection from the tables, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.outbox.positions import PositionMoved
from pegas_memory.db.outbox.rows import Change
from pegas_memory.db.outbox.tables import FILLABLE as FILLABLE


@dataclass(frozen=True, slots=True)
class Backfill:
    """The last row that was filled in, in the order of kinds, then (tenant, id); ``filled`` of them so far.
    ``kind`` is '' before the first."""

    kind: str
    tenant: str
    after: UUID | None
    filled: int = 0

    def moved_to(self, last: Change, filled: int) -> Backfill:
        return Backfill(last.entity_type, last.tenant, last.entity_id, self.filled + filled)


def backfill_of(conn: Connection, consumer: str) -> Backfill | None:
    """Where the filling of ``consumer`` stands; None when it is complete."""
    row = conn.execute(
        text(
            "SELECT backfilling, backfill_kind, backfill_tenant, backfill_after, filled FROM pm_projection"
            " WHERE consumer = :c"
        ),
        {"c": consumer},
    ).one()
    return Backfill(row[1] or "", row[2] or "", row[3], row[4]) if row[0] else None


def backfill_page(conn: Connection, at: Backfill, kinds: tuple[str, ...], limit: int) -> tuple[Change, ...]:
    """The next rows after ``at``, all of one of ``kinds`` (taken in that order); () when there are no more."""
    first = kinds.index(at.kind) if at.kind in kinds else 0
    for n, kind in enumerate(kinds[first:]):
        tenant, after = (at.tenant, at.after) if n == 0 and at.kind else ("", None)
        rows = conn.execute(
            text(
                f"SELECT tenant, :kind, id, 'upsert' FROM {FILLABLE[kind]}"
                " WHERE (tenant, id) > (:tenant, CAST(:after AS uuid)) ORDER BY tenant, id LIMIT :limit"
            ),
            {"kind": kind, "tenant": tenant, "after": after or UUID(int=0), "limit": limit},
        ).all()
        if rows:
            return tuple(Change(*row) for row in rows)
    return ()


def take_page(conn: Connection, consumer: str, page: tuple[Change, ...]) -> int:
    """Count that the page is tried; how often it was, this time included. As for slices of the outbox, a page that
    was never passed is remembered, and pages before it that are repeated do not count."""
    ids = [change.entity_id for change in page]
    return int(
        conn.execute(
            text(
                "UPDATE pm_projection SET fill_tried = coalesce(fill_tried, :first), fill_attempts = CASE"
                " WHEN fill_tried IS NULL THEN 1 WHEN fill_tried = ANY(:ids) THEN fill_attempts + 1"
                " ELSE fill_attempts END WHERE consumer = :consumer"
                " RETURNING CASE WHEN fill_tried = ANY(:ids) THEN fill_attempts ELSE 1 END"
            ),
            {"consumer": consumer, "ids": ids, "first": ids[0]},
        ).scalar_one()
    )


def pass_page(conn: Connection, consumer: str, page: tuple[Change, ...]) -> None:
    """The page is projected."""
    conn.execute(
        text(
            "UPDATE pm_projection SET fill_tried = NULL, fill_attempts = 0 WHERE consumer = :consumer"
            " AND fill_tried = ANY(:ids)"
        ),
        {"consumer": consumer, "ids": [change.entity_id for change in page]},
    )


def backfill_advance(conn: Connection, consumer: str, generation: int, at: Backfill | None) -> None:
    """Note how far the filling has durably come; None ends it. Raises PositionMoved as ``advance``."""
    done = conn.execute(
        text(
            "UPDATE pm_projection SET backfilling = :more, backfill_kind = :kind, backfill_tenant = :tenant,"
            " backfill_after = :after, filled = coalesce(:filled, filled), last_error = '',"
            " updated_at = clock_timestamp() WHERE consumer = :consumer AND generation = :generation"
        ),
        {
            "more": at is not None,
            "kind": at.kind if at else None,
            "tenant": at.tenant if at else None,
            "after": at.after if at else None,
            "filled": at.filled if at else None,
            "consumer": consumer,
            "generation": generation,
        },
    ).rowcount
    if not done:
        raise PositionMoved(consumer)


def to_be_filled(conn: Connection, kinds: tuple[str, ...]) -> int:
    """How many rows a filling with these kinds goes through, as of now."""
    selects = " + ".join(f"(SELECT count(*) FROM {FILLABLE[kind]})" for kind in kinds)
    return int(conn.execute(text(f"SELECT {selects}")).scalar_one())
