"""Verdicts of a caller: mark, hide, bring back, or delete for good."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from pegas_memory.db import activity, atoms, documents, outbox, purge, tenants, verdicts
from pegas_memory.db.atoms import AtomRow
from pegas_memory.db.documents import DocumentRow
from pegas_memory.db.session import Connection
from pegas_memory.db.turns import Turn
from pegas_memory.db.verdicts import Given
from pegas_memory.errors import InvalidParameter, NotFound, Unavailable
from pegas_memory.model import ShownAs, Verdict, VerifyAnswer, VerifyRequest, VerifyResult
from pegas_memory.service.rooms import OpenRooms, waiting_in
from pegas_memory.text import clean_text
from pegas_memory.vectors import cache_keys

REASON_LIMIT = 2_000
RESULTS_SHOWN = 200
NAMED = 10
TURN_WAIT, TURN_PAUSE = 30.0, 0.05
"""Seconds that a purge waits for the job that reads the document, which it has asked to stop."""
PURGED = "purged"
HIDDEN = frozenset({ShownAs.RETRACTED, ShownAs.SUPERSEDED})


def judge(rooms: OpenRooms, tenant: str, request: VerifyRequest) -> VerifyAnswer:
    """Give one verdict on all that is named, or on nothing.

    Raises:
        InvalidParameter: no reason; nothing named; an atom that is hidden or has no verdict to undo.
        NotFound: with the ids that are unknown.
        Unavailable: a job is reading the document and does not stop; the tenant is being deleted.
    """
    reason = clean_text(request.reason, field="reason", max_characters=REASON_LIMIT).strip()
    if not reason:
        raise InvalidParameter("A `verdict` needs a `reason`.", "Say in one sentence why; it is kept for the audit.")
    if bool(request.atom_ids) == (request.doc_id is not None):
        raise InvalidParameter("Give either `atom_ids` or `doc_id`.", "Name what the verdict falls on.")
    ids = tuple(dict.fromkeys(request.atom_ids))
    if request.verdict is not Verdict.PURGE:
        return _answer(rooms, tenant, *rooms.db.retrying(lambda: _mark(rooms, tenant, request, ids, reason)))
    if request.doc_id is None:
        results, xid = rooms.db.retrying(lambda: _purge_atoms(rooms, tenant, ids, reason))
    else:
        with _document_alone(rooms, tenant, request.doc_id) as doc_id:
            results, xid = rooms.db.retrying(lambda: _purge_document(rooms, tenant, doc_id, reason))
    rooms.recent(tenant).forget({result.atom_id for result in results})
    return _answer(rooms, tenant, results, xid)


def _answer(rooms: OpenRooms, tenant: str, results: Sequence[VerifyResult], xid: int) -> VerifyAnswer:
    rooms.written.note(tenant, xid)
    with rooms.db.tenant(tenant) as conn:
        pending = waiting_in(conn, rooms.consumers())
    return VerifyAnswer(tuple(results[:RESULTS_SHOWN]), len(results), (), pending)


def _mark(
    rooms: OpenRooms, tenant: str, request: VerifyRequest, ids: Sequence[UUID], reason: str
) -> tuple[list[VerifyResult], int]:
    given = Given(request.verdict, reason, rooms.clock(), request.doc_id)
    with rooms.db.tenant(tenant) as conn:
        tenants.join(conn, tenant)
        if given.through is not None:
            _document(conn, tenant, given.through)
            ids = purge.only_supported_by(conn, tenant, given.through)
        rows = _locked(conn, tenant, ids, known=given.through is not None)
        changed = _change(conn, tenant, rows, given)
        if given.through is not None:
            verdicts.mark_document(conn, tenant, given.through, given)
            detail: dict[str, object] = {"reason": reason, "atoms": len(changed)}
            activity.note(conn, tenant, given.verdict.value, "document", [given.through], detail)
        else:
            activity.note(conn, tenant, given.verdict.value, "atom", changed, {"reason": reason})
        after = atoms.fetch(conn, tenant, list(rows))
        results = [_result(rows[i], after[i].shown_as.value, after[i].confidence) for i in ids if i in rows]
        return results, outbox.current_xid(conn)


def _change(conn: Connection, tenant: str, rows: Mapping[UUID, AtomRow], given: Given) -> list[UUID]:
    """Change what the verdict falls on; through a document it passes over atoms that it does not fit."""
    if given.verdict is Verdict.RESTORE:
        changed = verdicts.undo(conn, tenant, list(rows), given)
        left = rows.keys() - set(changed)
        if left and given.through is None:
            raise InvalidParameter(f"{min(left)} has no verdict to undo; nothing was done.")
        return changed
    if given.verdict is Verdict.RETRACT:
        changed = [row.id for row in rows.values() if row.retracted_at is None]
    else:
        changed = [row.id for row in rows.values() if row.shown_as not in HIDDEN]
        left = rows.keys() - set(changed)
        if left and given.through is None:
            shown = rows[min(left)].shown_as.value
            raise InvalidParameter(f"{min(left)} is {shown}; {given.verdict.value} would not show. Nothing was done.")
    verdicts.give(conn, tenant, changed, given)
    return changed


# --- for good -----------------------------------------------------------------------------------------


def _purge_atoms(rooms: OpenRooms, tenant: str, ids: Sequence[UUID], reason: str) -> tuple[list[VerifyResult], int]:
    with rooms.db.tenant(tenant) as conn:
        tenants.be_alone(conn, tenant)
        rows = _locked(conn, tenant, ids)
        removed = purge.atoms_for_good(conn, tenant, list(rows.values()), cache_keys)
        activity.note(conn, tenant, Verdict.PURGE.value, "atom", ids, _detail(reason, removed))
        return [_purged(rows[i]) for i in ids], outbox.current_xid(conn)


def _purge_document(rooms: OpenRooms, tenant: str, doc_id: UUID, reason: str) -> tuple[list[VerifyResult], int]:
    with rooms.db.tenant(tenant) as conn:
        tenants.be_alone(conn, tenant)
        document = _document(conn, tenant, doc_id)
        rows = _locked(conn, tenant, purge.only_supported_by(conn, tenant, doc_id), known=True)
        removed = purge.document_for_good(conn, tenant, document, list(rows.values()), cache_keys)
        activity.note(conn, tenant, Verdict.PURGE.value, "document", [doc_id], _detail(reason, removed))
        return [_purged(row) for row in rows.values()], outbox.current_xid(conn)


@contextmanager
def _document_alone(rooms: OpenRooms, tenant: str, doc_id: UUID) -> Iterator[UUID]:
    """Stop the jobs that read the document, and hold its turn."""
    with rooms.db.tenant(tenant) as conn:
        tenants.join(conn, tenant)
        document = _document(conn, tenant, doc_id)
        purge.forget_jobs(conn, tenant, document)
    turn = Turn(rooms.db.url, f"document {tenant} {document.uri}")
    deadline = time.monotonic() + TURN_WAIT
    try:
        while not turn.mine():
            if time.monotonic() > deadline:
                raise Unavailable("A job is reading this document.", "Purge it again when the job has ended.")
            time.sleep(TURN_PAUSE)
        yield doc_id
    finally:
        turn.close()


def _detail(reason: str, removed: Counter[str]) -> dict[str, object]:
    return {"reason": reason, "removed": dict(removed)}


# --- what is named ------------------------------------------------------------------------------------


def _document(conn: Connection, tenant: str, doc_id: UUID) -> DocumentRow:
    document = documents.find(conn, tenant, doc_id, locked=True)
    if document is None:
        raise NotFound(f"There is no document {doc_id} in this memory; nothing was done.")
    return document


def _locked(conn: Connection, tenant: str, ids: Sequence[UUID], *, known: bool = False) -> dict[UUID, AtomRow]:
    """The atoms, locked in the order of their ids; ``known`` passes over one that went in this moment."""
    rows = atoms.lock_all(conn, tenant, ids)
    unknown = [str(i) for i in ids if i not in rows]
    if unknown and not known:
        more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
        raise NotFound(f"This memory holds no atom {', '.join(unknown[:NAMED])}{more}; nothing was done.")
    return rows


def _result(before: AtomRow, status: str, confidence: float) -> VerifyResult:
    return VerifyResult(before.id, before.shown_as.value, status, before.confidence, confidence, None, None)


def _purged(row: AtomRow) -> VerifyResult:
    return _result(row, PURGED, row.confidence)
