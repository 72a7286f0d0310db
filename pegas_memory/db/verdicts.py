"""A caller's verdicts on atoms and documents, and how the last one is undone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from pegas_memory.db import outbox
from pegas_memory.db.ids import new_id
from pegas_memory.errors import InvalidParameter
from pegas_memory.model import Verdict

AT_ONCE = 1_000
_MARK = "verdict "


@dataclass(frozen=True, slots=True)
class Given:
    """One verdict, why, when, and ``through`` which document; None when the atoms were named themselves."""

    verdict: Verdict
    reason: str
    at: datetime
    through: UUID | None = None

    @property
    def actor(self) -> str:
        return f"document {self.through}" if self.through else ""


def give(conn: Connection, tenant: str, ids: Sequence[UUID], given: Given) -> None:
    """Write verified, contested, stale or retract into locked atoms."""
    at = given.at.isoformat()
    if given.verdict is Verdict.RETRACT:
        values = {"retracted_at": at, "retract_reason": given.reason}
    else:
        values = {"status": given.verdict.value, "status_reason": given.reason}
    if given.verdict is Verdict.VERIFIED:
        values["last_validated"] = at
    _write(conn, tenant, [(atom_id, values) for atom_id in ids], given)


def undo(conn: Connection, tenant: str, ids: Sequence[UUID], given: Given) -> list[UUID]:
    """Undo, for each of the locked atoms, the last verdict that is not undone yet. Returns those that had one;
    through a document only what came through it is undone.

    Raises:
        InvalidParameter: the claim of one of them was stored again meanwhile.
    """
    rows = conn.execute(
        text(
            "SELECT entity_id, change, before, actor FROM pm_revision WHERE tenant = :tenant AND entity_type = 'atom'"
            " AND entity_id = ANY(:ids) AND change LIKE 'verdict %' ORDER BY entity_id, revision DESC"
        ),
        {"tenant": tenant, "ids": list(ids)},
    ).all()
    histories = ((atom_id, _standing(history)) for atom_id, history in groupby(rows, key=lambda row: row.entity_id))
    undone = [
        (atom_id, last.before)
        for atom_id, last in histories
        if last is not None and (given.through is None or last.actor == given.actor)
    ]
    try:
        _write(conn, tenant, undone, given)
    except IntegrityError as error:
        raise InvalidParameter(
            "What is to be restored was stored again since; nothing was done.", "Search for the claim."
        ) from error
    return [atom_id for atom_id, _ in undone]


def _standing(history: Iterable[Any]) -> Any | None:
    """The newest verdict of a history, newest first, that no restore has undone."""
    undone = 0
    for row in history:
        if row.change == _MARK + Verdict.RESTORE.value:
            undone += 1
        elif undone:
            undone -= 1
        else:
            return row
    return None


def _write(conn: Connection, tenant: str, wanted: Sequence[tuple[UUID, Mapping[str, Any]]], given: Given) -> None:
    """Give each atom its values; keep what they replace in the history, note it in the outbox."""
    for begin in range(0, len(wanted), AT_ONCE):
        some = wanted[begin : begin + AT_ONCE]
        rows = [{"id": str(atom_id), "of": str(new_id()), "values": dict(values)} for atom_id, values in some]
        bound = {"change": _MARK + given.verdict.value, "reason": given.reason, "actor": given.actor}
        conn.execute(text(_WRITE), {"tenant": tenant, "rows": json.dumps(rows, ensure_ascii=False), **bound})
        outbox.enqueue(conn, tenant, "atom", [atom_id for atom_id, _ in some])


_TEXTS, _TIMES = ("status", "status_reason", "retract_reason"), ("last_validated", "retracted_at")
_WAS = ", ".join(f"'{name}', a.{name}" for name in (*_TEXTS, *_TIMES))
_SET = ", ".join(
    [f"{name} = coalesce(o.given->>'{name}', a.{name})" for name in _TEXTS]
    + [
        f"{name} = CASE WHEN jsonb_exists(o.given, '{name}') THEN CAST(o.given->>'{name}' AS timestamptz)"
        f" ELSE a.{name} END"
        for name in _TIMES
    ]
)
_WRITE = f"""WITH old AS (
        SELECT a.id, r.of, r.values AS given, jsonb_build_object({_WAS}) AS was
        FROM json_to_recordset(CAST(:rows AS json)) AS r (id uuid, of uuid, values jsonb)
        JOIN pm_atom a ON a.tenant = :tenant AND a.id = r.id),
    new AS (
        UPDATE pm_atom a SET {_SET}, revision = a.revision + 1, updated_at = clock_timestamp() FROM old o
        WHERE a.tenant = :tenant AND a.id = o.id RETURNING a.id, a.revision)
    INSERT INTO pm_revision (tenant, id, entity_type, entity_id, revision, change, reason, actor, before)
    SELECT :tenant, o.of, 'atom', o.id, n.revision, :change, :reason, :actor,
        (SELECT jsonb_object_agg(name, o.was->name) FROM jsonb_object_keys(o.given) AS k (name))
    FROM old o JOIN new n ON n.id = o.id"""


def mark_document(conn: Connection, tenant: str, doc_id: UUID, given: Given) -> None:
    """Hide or show the document itself; other verdicts fall on its atoms alone."""
    if given.verdict not in (Verdict.RETRACT, Verdict.RESTORE):
        return
    changed = conn.execute(
        text(
            "UPDATE pm_document SET retracted_at = :at, revision = revision + 1, updated_at = clock_timestamp()"
            " WHERE tenant = :tenant AND id = :id AND (retracted_at IS NULL) = (CAST(:at AS timestamptz) IS NOT NULL)"
            " RETURNING revision"
        ),
        {"tenant": tenant, "id": doc_id, "at": given.at if given.verdict is Verdict.RETRACT else None},
    ).scalar_one_or_none()
    if changed is not None:
        conn.execute(
            text(
                "INSERT INTO pm_revision (tenant, id, entity_type, entity_id, revision, change, reason)"
                " VALUES (:tenant, :new, 'document', :id, :revision, :change, :reason)"
            ),
            {
                "tenant": tenant,
                "new": new_id(),
                "id": doc_id,
                "revision": changed,
                "change": _MARK + given.verdict.value,
                "reason": given.reason,
            },
        )
