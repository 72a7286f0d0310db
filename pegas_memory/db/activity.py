"""The audit: who did what to which entity, and why. Holds no stored text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.ids import new_id


def note(
    conn: Connection, tenant: str, action: str, entity_type: str, ids: Iterable[UUID | None], detail: Mapping[str, Any]
) -> None:
    """One line for each of ``ids``; None is for what has no id of its own."""
    rows = [
        {
            "tenant": tenant,
            "id": new_id(),
            "action": action,
            "type": entity_type,
            "of": entity_id,
            "detail": json.dumps(detail, ensure_ascii=False),
        }
        for entity_id in ids
    ]
    if rows:
        conn.execute(
            text(
                "INSERT INTO pm_activity (tenant, id, action, entity_type, entity_id, detail)"
                " VALUES (:tenant, :id, :action, :type, :of, CAST(:detail AS jsonb))"
            ),
            rows,
        )


def forget_reasons(conn: Connection, tenant: str, ids: Iterable[UUID]) -> None:
    """Earlier lines about these entities stay, without the words: those may quote what is being purged."""
    conn.execute(
        text("UPDATE pm_activity SET detail = detail - 'reason' WHERE tenant = :tenant AND entity_id = ANY(:ids)"),
        {"tenant": tenant, "ids": list(ids)},
    )
