"""Research gaps."""

from __future__ import annotations

import base64
import binascii
import json
from uuid import UUID

from pegas_memory import bm25
from pegas_memory.db import atoms, gaps, tenants
from pegas_memory.errors import BadCursor, InvalidParameter, NotFound
from pegas_memory.model import GapAnswer, GapChange, GapPage, GapRequest, GapStatus
from pegas_memory.service.rooms import OpenRooms
from pegas_memory.text import clean_name, clean_tags, clean_text

QUESTION_LIMIT = 2_000
DEFAULT_PRIORITY = 0.5


def put(rooms: OpenRooms, tenant: str, request: GapRequest) -> GapChange:
    """Register a gap, or with ``gap_id`` change one.

    Raises:
        EmptyText, TextTooLong, InvalidParameter, NotFound.
    """
    if request.priority is not None and not 0 <= request.priority <= 1:
        raise InvalidParameter(f"`priority` is {request.priority}; it must be from 0 to 1.")
    reason = clean_text(request.reason, field="reason", max_characters=QUESTION_LIMIT).strip()
    if request.gap_id is not None:
        return _change(rooms, tenant, request, reason)
    question = clean_name(request.question, field="question", max_characters=QUESTION_LIMIT)
    if request.answered_by or request.status is not None:
        raise InvalidParameter("`answered_by` and `status` change a gap that exists.", "Give its `gap_id` as well.")
    priority = DEFAULT_PRIORITY if request.priority is None else request.priority
    with rooms.db.tenant(tenant) as conn:
        tenants.join(conn, tenant)
        gap, created = gaps.add(
            conn, tenant, question, reason, priority, clean_tags(request.tags), bm25.terms(question)
        )
    return GapChange(gap.gap_id, created, None if created else gap.gap_id, gap.status)


def _change(rooms: OpenRooms, tenant: str, request: GapRequest, reason: str) -> GapChange:
    assert request.gap_id is not None
    question = clean_text(request.question, field="question", max_characters=QUESTION_LIMIT, multiline=False)
    with rooms.db.tenant(tenant) as conn:
        tenants.join(conn, tenant)
        known = atoms.fetch(conn, tenant, request.answered_by)
        unknown = [i for i in request.answered_by if i not in known]
        if unknown:
            raise NotFound(f"`answered_by` names {len(unknown)} ids that are no atoms of this memory.")
        gap = gaps.change(
            conn,
            tenant,
            request.gap_id,
            question=question,
            terms=sorted(set(bm25.terms(question))),
            status=request.status,
            reason=reason,
            priority=request.priority,
            tags=clean_tags(request.tags),
            answered_by=request.answered_by,
        )
    if gap is None:
        raise NotFound("`gap_id` names no gap of this memory.", "Use memory_list_gaps to find it.")
    return GapChange(gap.gap_id, False, None, gap.status)


def one(rooms: OpenRooms, tenant: str, gap_id: UUID) -> GapAnswer:
    """One gap, in any state. Raises NotFound."""
    with rooms.db.tenant(tenant) as conn:
        gap = gaps.find(conn, tenant, gap_id)
    if gap is None:
        raise NotFound("There is no gap of that id.", "Use memory_list_gaps to find it.")
    return gap


def listed(
    rooms: OpenRooms, tenant: str, status: GapStatus | None, limit: int, tags: tuple[str, ...], cursor: str
) -> GapPage:
    """Gaps by priority, a page at a time; status None lists all.

    Raises:
        InvalidParameter, BadCursor.
    """
    if not 1 <= limit <= 200:
        raise InvalidParameter(f"`limit` is {limit}; it must be from 1 to 200.")
    after = _read_cursor(cursor) if cursor else None
    with rooms.db.tenant(tenant) as conn:
        found = gaps.listed(conn, tenant, status, clean_tags(tags), limit + 1, after)
    page = found[:limit]
    following = _cursor(page[-1].priority, page[-1].gap_id) if len(found) > limit else ""
    return GapPage(tuple(page), following)


def _cursor(priority: float, gap_id: UUID) -> str:
    return base64.urlsafe_b64encode(json.dumps([priority, str(gap_id)]).encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[float, UUID]:
    try:
        priority, gap_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return float(priority), UUID(gap_id)
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise BadCursor("`cursor` is not one that memory_list_gaps gave out.") from error
