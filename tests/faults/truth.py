"""The ledgers against PostgreSQL: everything acknowledged stands as it was acknowledged, once, and what was purged
stands nowhere. An outcome that was never told may be either of two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from pegas_memory import ingest
from pegas_memory.db.session import Database
from pegas_memory.db.tables import TENANT_TABLES
from pegas_memory.distill import chunk_atoms, distill_extractive
from pegas_memory.model import ShownAs
from pegas_memory.text import fold
from tests.faults.ledger import DONE, REFUSED, Call

ABSENT, PURGED = "absent", "purged"
"""Never stored; deleted for good. Both are seen as no row."""


@dataclass(slots=True)
class Fate:
    """What may have become of one claim: ``may_be`` holds one state, or two when the last outcome is open."""

    token: str
    tenant: str
    claim: str
    links: Sequence[Mapping[str, Any]]
    atom_id: str = ""
    may_be: set[str] = field(default_factory=lambda: {ABSENT})

    def goes_to(self, state: str, how: str) -> None:
        if how == DONE:
            self.may_be = {state}
        elif how != REFUSED:
            self.may_be = self.may_be | {state}


@dataclass(slots=True)
class Promised:
    """All that the clients were told, and what they asked for without being told."""

    fates: dict[str, Fate] = field(default_factory=dict)
    common: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    documents: dict[str, list[Call]] = field(default_factory=dict)
    tenants: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    """Searches that found nothing of what stands, and did not say that they may be incomplete."""
    acknowledged: int = 0
    open: int = 0


def promised(calls: Iterable[Call]) -> Promised:
    found = Promised()
    for call in calls:
        found.acknowledged += call.how == DONE
        found.open += call.how not in (DONE, REFUSED)
        what = call.what
        match call.do:
            case "store" | "replace":
                _stored(found, call)
            case "verdict":
                found.fates[what["token"]].goes_to(what["then"], call.how)
            case "purge":
                found.fates[what["token"]].goes_to(PURGED, call.how)
            case "search" if call.how == DONE:
                found.silent += _silent(call)
            case "common" if call.how == DONE:
                found.common.setdefault((what["tenant"], what["number"]), set()).add(what["tag"])
            case "ingest" | "purge_document":
                found.documents.setdefault(what["token"], []).append(call)
            case "delete_tenant" if call.how == DONE:
                found.tenants.append(what["token"])
    return found


def _stored(found: Promised, call: Call) -> None:
    what = call.what
    new = Fate(what["token"], what["tenant"], what["claim"], what["links"])
    fate = found.fates.setdefault(what["token"], new)
    fate.goes_to(ShownAs.CANDIDATE, call.how)
    if call.how == DONE:
        fate.atom_id = call.answer["atom_id"]
    if "old" in what:
        found.fates[what["old"]].goes_to(ShownAs.SUPERSEDED, call.how)


def _silent(call: Call) -> list[str]:
    answer, atom_id = call.answer, call.what["atom_id"]
    found = atom_id in {result["atom_id"] for result in answer["results"]}
    return [] if found or answer["degraded"] or answer["pending"] else [f"silently not found: {call.what['token']}"]


def against_truth(db: Database, told: Promised) -> Iterator[str]:
    """What PostgreSQL lacks, has twice, has otherwise or should no longer have; one line for each."""
    yield from told.silent
    with db.everything() as conn:
        rows = conn.execute(text(_ATOMS)).mappings().all()
        by_claim: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            by_claim.setdefault((row["tenant"], row["claim"]), []).append(dict(row))
        for fate in told.fates.values():
            yield from _claim(fate, by_claim.get((fate.tenant, fate.claim), []))
        for (tenant, number), tags in told.common.items():
            claim = f"Series {number} of the common table has the value {number * 37 + 11}."
            yield from _common(claim, tags, by_claim.get((tenant, claim), []))
        yield from _links(conn, told, {str(row["id"]) for row in rows})
        yield from _twice(conn)
        yield from _jobs(conn)
        for token, calls in told.documents.items():
            yield from _document(conn, token, calls)
        yield from _gone(conn, told)


_ATOMS = """SELECT tenant, id, claim, tags, CASE WHEN retracted_at IS NOT NULL THEN 'retracted'
    WHEN superseded_at IS NOT NULL THEN 'superseded' ELSE status END AS shown FROM pm_atom"""


def _claim(fate: Fate, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(rows) > 1:
        yield f"doubled: {fate.token} has {len(rows)} atoms"
    state = rows[0]["shown"] if rows else ABSENT
    if state not in {ABSENT if s == PURGED else s for s in fate.may_be}:
        lost = "lost" if state == ABSENT else "wrong"
        yield f"{lost}: {fate.token} ({fate.atom_id}) is {state}, acknowledged {sorted(fate.may_be)}"
    if rows and fate.atom_id and str(rows[0]["id"]) != fate.atom_id:
        yield f"changed id: {fate.token} was acknowledged as {fate.atom_id} and is {rows[0]['id']}"


def _common(claim: str, tags: set[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(rows) != 1:
        yield f"{'lost' if not rows else 'doubled'}: {len(rows)} atoms of {claim!r}"
    elif missing := tags - set(rows[0]["tags"]):
        yield f"lost: tags {sorted(missing)} of {claim!r}"


def _links(conn: Connection, told: Promised, atoms: set[str]) -> Iterator[str]:
    stands = {
        (str(row[0]), str(row[1]), row[2])
        for row in conn.execute(
            text(
                "SELECT l.src_id, coalesce(e.normal_form, l.dst_id::text), l.kind FROM pm_atom_link l LEFT JOIN"
                " pm_entity e ON e.tenant = l.tenant AND l.dst_kind = 'entity' AND e.id = l.dst_id"
            )
        )
    }
    for fate in told.fates.values():
        if fate.atom_id not in atoms:
            continue
        for link in fate.links:
            entity = link["kind"] == "part_of"
            dst = fold(link["dst"]) if entity else link["dst"]
            if (entity or dst in atoms) and (fate.atom_id, dst, link["kind"]) not in stands:
                yield f"lost: link of {fate.token} {link['kind']} {link['dst']}"


_TWICE = {
    "live atoms of one identity": "SELECT tenant, content_hash FROM pm_atom WHERE superseded_at IS NULL"
    " AND retracted_at IS NULL GROUP BY 1, 2 HAVING count(*) > 1",
    "links": "SELECT tenant, src_id, dst_id, kind, inferred FROM pm_atom_link GROUP BY 1, 2, 3, 4, 5"
    " HAVING count(*) > 1",
    "links to nothing": "SELECT l.id FROM pm_atom_link l WHERE (l.dst_kind = 'atom' AND NOT EXISTS (SELECT FROM"
    " pm_atom a WHERE a.tenant = l.tenant AND a.id = l.dst_id)) OR (l.dst_kind = 'entity' AND NOT EXISTS (SELECT"
    " FROM pm_entity e WHERE e.tenant = l.tenant AND e.id = l.dst_id)) OR NOT EXISTS (SELECT FROM pm_atom a"
    " WHERE a.tenant = l.tenant AND a.id = l.src_id)",
    "chunk positions": "SELECT tenant, doc_id FROM pm_chunk GROUP BY 1, 2"
    " HAVING count(*) <> max(position) + 1 OR min(position) <> 0",
}  # fmt: skip


def _twice(conn: Connection) -> Iterator[str]:
    for name, query in _TWICE.items():
        for row in conn.execute(text(query)):
            yield f"{name}: {tuple(row)}"


def _jobs(conn: Connection) -> Iterator[str]:
    for row in conn.execute(text("SELECT id, state, error FROM pm_job WHERE state NOT IN ('done', 'cancelled')")):
        yield f"job {row[0]} is {row[1]}: {row[2]}"


def _document(conn: Connection, token: str, calls: Sequence[Call]) -> Iterator[str]:
    """The last call decides, when its outcome is known."""
    last = calls[-1]
    path = Path(calls[0].what["path"])
    found = conn.execute(
        text("SELECT tenant, id, body FROM pm_document WHERE uri = :uri"), {"uri": path.as_uri()}
    ).one_or_none()
    if last.how != DONE:
        return
    if last.do == "purge_document":
        if found:
            yield f"purged document {token} stands"
        return
    if found is None:
        yield f"lost: document {token}"
        return
    document, _ = ingest.load_file(path, None)
    chunks = ingest.chunk(document)
    bound = {"t": found[0], "d": found[1]}
    stored = conn.execute(
        text("SELECT text FROM pm_chunk WHERE tenant = :t AND doc_id = :d ORDER BY position"), bound
    ).scalars()
    if (standing := list(stored)) != [chunk.text for chunk in chunks]:
        yield f"document {token}: {len(standing)} chunks stand, {len(chunks)} were read"
    off = last.what["distill"] == "off"
    drafts = chunk_atoms(document, chunks) if off else distill_extractive(document, chunks)
    cited = conn.execute(
        text(
            "SELECT DISTINCT a.claim FROM pm_citation c JOIN pm_atom a ON a.tenant = c.tenant AND a.id = c.atom_id"
            " WHERE c.tenant = :t AND c.doc_id = :d AND a.superseded_at IS NULL AND a.retracted_at IS NULL"
        ),
        bound,
    ).scalars()
    have, want = Counter(cited), Counter({draft.claim for draft in drafts})
    if have != want:
        yield (f"document {token}: lacks {list((want - have).elements())[:3]}, has"
               f" {list((have - want).elements())[:3]} beyond; {len(have)} of {len(want)}")  # fmt: skip


def _gone(conn: Connection, told: Promised) -> Iterator[str]:
    """Texts of what was purged, and everything of tenants that were deleted; an audit line remains."""
    words = {fate.token for fate in told.fates.values() if fate.may_be == {PURGED}}
    words |= {t for t, calls in told.documents.items() if calls[-1].do == "purge_document" and calls[-1].how == DONE}
    for table in TENANT_TABLES:
        for (row,) in conn.execute(text(f"SELECT t::text FROM {table} t WHERE t::text LIKE '%zq%'")):
            for word in words.intersection(_TOKEN.findall(row)):
                yield f"purged {word} stands in {table}: {row[:200]}"
        if table != "pm_outbox":  # that it is gone has to be told
            for (tenant,) in conn.execute(
                text(f"SELECT DISTINCT tenant FROM {table} WHERE tenant = ANY(:gone)"), {"gone": told.tenants}
            ):
                yield f"deleted tenant {tenant} stands in {table}"
    audited = set(conn.execute(text("SELECT entity_id::text FROM pm_activity WHERE action = 'purge'")).scalars())
    for fate in told.fates.values():
        if fate.may_be == {PURGED} and fate.atom_id not in audited:
            yield f"no audit line of the purge of {fate.token}"


_TOKEN = re.compile(r"zq[a-z0-9]+")
"""Whole words of the harness: one may be the beginning of another."""
