"""Research gaps: what is known not to be known."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.ids import new_id
from pegas_memory.model import GapAnswer, GapStatus
from pegas_memory.text import collapse, fold

_COLUMNS = "id, question, reason, priority, status, created_at, answered_by, tags"


def _gap(row: Sequence[object]) -> GapAnswer:
    gap_id, question, reason, priority, status, created_at, answered_by, tags = row
    return GapAnswer(
        gap_id, question, reason, priority, GapStatus(str(status)), created_at, tuple(answered_by), tuple(tags)  # type: ignore[arg-type]
    )  # fmt: skip


def normal_form(question: str) -> str:
    return fold(collapse(question)).rstrip("?!. ")


def add(
    conn: Connection,
    tenant: str,
    question: str,
    reason: str,
    priority: float,
    tags: Sequence[str],
    terms: Sequence[str],
) -> tuple[GapAnswer, bool]:
    """A new gap and True, or the open one that asks the same and False (its priority then only rises)."""
    values = {
        "tenant": tenant,
        "id": new_id(),
        "question": question,
        "normal": normal_form(question),
        "reason": reason,
        "priority": priority,
        "tags": list(tags),
        "terms": sorted(set(terms)),
    }
    row = conn.execute(
        text(
            "INSERT INTO pm_research_gap (tenant, id, question, normal_form, reason, priority, tags, terms) VALUES"
            " (:tenant, :id, :question, :normal, :reason, :priority, :tags, :terms)"
            f" ON CONFLICT (tenant, normal_form) WHERE status <> 'closed' DO NOTHING RETURNING {_COLUMNS}"
        ),
        values,
    ).one_or_none()
    if row is not None:
        return _gap(row), True
    row = conn.execute(
        text(
            "UPDATE pm_research_gap SET priority = greatest(priority, :priority),"
            " tags = (SELECT coalesce(array_agg(DISTINCT t), '{}') FROM unnest(tags || CAST(:tags AS text[])) t),"
            " reason = CASE WHEN reason = '' THEN :reason ELSE reason END, updated_at = clock_timestamp()"
            f" WHERE tenant = :tenant AND normal_form = :normal AND status <> 'closed' RETURNING {_COLUMNS}"
        ),
        values,
    ).one()
    return _gap(row), False


def find(conn: Connection, tenant: str, gap_id: UUID) -> GapAnswer | None:
    row = conn.execute(
        text(f"SELECT {_COLUMNS} FROM pm_research_gap WHERE tenant = :tenant AND id = :id"),
        {"tenant": tenant, "id": gap_id},
    ).one_or_none()
    return _gap(row) if row else None


def change(
    conn: Connection,
    tenant: str,
    gap_id: UUID,
    *,
    question: str,
    terms: Sequence[str],
    status: GapStatus | None,
    reason: str,
    priority: float | None,
    tags: Sequence[str],
    answered_by: Sequence[UUID],
) -> GapAnswer | None:
    """Change what is given; tags and atoms that answer it are added. None when there is no such gap."""
    row = conn.execute(
        text(
            "UPDATE pm_research_gap SET status = coalesce(:status, status),"
            " question = CASE WHEN :question = '' THEN question ELSE :question END,"
            " normal_form = CASE WHEN :question = '' THEN normal_form ELSE :normal END,"
            " terms = CASE WHEN :question = '' THEN terms ELSE CAST(:terms AS text[]) END,"
            " tags = (SELECT coalesce(array_agg(DISTINCT t), '{}') FROM unnest(tags || CAST(:tags AS text[])) t),"
            " reason = CASE WHEN :reason = '' THEN reason ELSE :reason END, priority = coalesce(:priority, priority),"
            " answered_by = (SELECT coalesce(array_agg(DISTINCT u), '{}')"
            " FROM unnest(answered_by || CAST(:answers AS uuid[])) u),"
            " closed_at = CASE WHEN :status = 'closed' THEN clock_timestamp() WHEN :status IS NULL THEN closed_at END,"
            " updated_at = clock_timestamp(), revision = revision + 1"
            f" WHERE tenant = :tenant AND id = :id RETURNING {_COLUMNS}"
        ),
        {
            "tenant": tenant,
            "id": gap_id,
            "question": question,
            "normal": normal_form(question),
            "terms": list(terms),
            "tags": list(tags),
            "status": status.value if status else None,
            "reason": reason,
            "priority": priority,
            "answers": list(answered_by),
        },
    ).one_or_none()
    return _gap(row) if row else None


def listed(
    conn: Connection,
    tenant: str,
    status: GapStatus | None,
    tags: Sequence[str],
    limit: int,
    after: tuple[float, UUID] | None,
) -> list[GapAnswer]:
    """Highest priority first, then the oldest; after the position (priority, id) of the last one shown."""
    condition = "tenant = :tenant"
    values: dict[str, object] = {"tenant": tenant, "limit": limit}
    if status is not None:
        condition += " AND status = :status"
        values["status"] = status.value
    if tags:
        condition += " AND tags && :tags"
        values["tags"] = list(tags)
    if after is not None:
        condition += " AND (priority < :priority OR (priority = :priority AND id > :after))"
        values |= {"priority": after[0], "after": after[1]}
    rows = conn.execute(
        text(f"SELECT {_COLUMNS} FROM pm_research_gap WHERE {condition} ORDER BY priority DESC, id LIMIT :limit"),
        values,
    ).all()
    return [_gap(row) for row in rows]


def open_matching(conn: Connection, tenant: str, terms: Sequence[str], limit: int = 3) -> list[GapAnswer]:
    """Open gaps that share at least half of their terms with ``terms``, the closest first."""
    if not terms:
        return []
    rows = conn.execute(
        text(
            f"""SELECT {_COLUMNS} FROM pm_research_gap g
            CROSS JOIN LATERAL (SELECT count(*) AS n FROM unnest(g.terms) t WHERE t = ANY(:terms)) shared
            WHERE g.tenant = :tenant AND g.status <> 'closed' AND cardinality(g.terms) > 0
              AND shared.n * 2 >= cardinality(g.terms)
            ORDER BY CAST(shared.n AS float) / cardinality(g.terms) DESC, g.priority DESC, g.id LIMIT :limit"""
        ),
        {"tenant": tenant, "terms": list(terms), "limit": limit},
    ).all()
    return [_gap(row) for row in rows]
