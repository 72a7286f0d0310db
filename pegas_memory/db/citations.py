"""Citations: atom → document → locator → the words that support it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.ids import new_id
from pegas_memory.model import Citation, Locator, to_json
from pegas_memory.text import sha256


@dataclass(frozen=True, slots=True)
class NewCitation:
    doc_id: UUID
    quote: str = ""
    locator: Locator | None = None
    locator_text: str = ""
    chunk_id: UUID | None = None

    @property
    def shown_locator(self) -> str:
        return str(self.locator) if self.locator is not None else self.locator_text


def add(conn: Connection, tenant: str, atom_id: UUID, new: NewCitation) -> bool:
    """Add one citation; False when the atom already has it (the locator is then brought up to date)."""
    return bool(
        conn.execute(
            text(
                """INSERT INTO pm_citation AS c
                    (tenant, id, atom_id, doc_id, chunk_id, locator, locator_text, quote, citation_hash)
                VALUES (:tenant, :id, :atom_id, :doc_id, :chunk_id, CAST(:locator AS jsonb), :locator_text, :quote,
                    :citation_hash)
                ON CONFLICT (tenant, atom_id, doc_id, citation_hash) DO UPDATE SET
                    chunk_id = excluded.chunk_id, locator = excluded.locator, locator_text = excluded.locator_text
                RETURNING xmax = 0"""
            ),
            {
                **_row(atom_id, new),
                "tenant": tenant,
                "locator": json.dumps(to_json(new.locator) or {}, ensure_ascii=False),
            },
        ).scalar_one()
    )


def add_to_new(conn: Connection, tenant: str, new: Sequence[tuple[UUID, Sequence[NewCitation]]]) -> None:
    """Add the citations of atoms that this transaction made, as one statement; one said twice counts once."""
    rows = [
        {**_row(atom_id, citation), "locator": to_json(citation.locator) or {}}
        for atom_id, cited in new
        for citation in cited
    ]
    if rows:
        conn.execute(
            text(
                """INSERT INTO pm_citation
                    (tenant, id, atom_id, doc_id, chunk_id, locator_text, quote, citation_hash, locator)
                SELECT :tenant, r.* FROM json_to_recordset(CAST(:rows AS json)) AS r (id uuid, atom_id uuid,
                    doc_id uuid, chunk_id uuid, locator_text text, quote text, citation_hash text, locator jsonb)
                ON CONFLICT (tenant, atom_id, doc_id, citation_hash) DO NOTHING"""
            ),
            {"tenant": tenant, "rows": json.dumps(rows, ensure_ascii=False)},
        )


def _row(atom_id: UUID, new: NewCitation) -> dict[str, object]:
    return {
        "id": str(new_id()),
        "atom_id": str(atom_id),
        "doc_id": str(new.doc_id),
        "chunk_id": str(new.chunk_id) if new.chunk_id else None,
        "locator_text": new.shown_locator,
        "quote": new.quote,
        "citation_hash": sha256(new.quote, "" if new.quote else new.shown_locator),
    }


def of_atoms(conn: Connection, tenant: str, atom_ids: Sequence[UUID], per_atom: int = 5) -> dict[UUID, list[Citation]]:
    """Up to ``per_atom`` citations of each atom, the most authoritative documents first.

    OFFSET 0 keeps the document a look-up by its key: row level security hides from the planner how many
    documents a tenant has, and it took to reading all of them."""
    if not atom_ids:
        return {}
    rows = conn.execute(
        text(
            """SELECT atom_id, doc_id, title, uri, locator_text, quote FROM (
                SELECT c.atom_id, c.doc_id, d.title, d.uri, c.locator_text, c.quote, row_number() OVER (
                    PARTITION BY c.atom_id ORDER BY d.authority DESC, c.created_at, c.id) AS n
                FROM pm_citation c CROSS JOIN LATERAL (SELECT p.title, p.uri, p.authority FROM pm_document p
                    WHERE p.tenant = c.tenant AND p.id = c.doc_id OFFSET 0) d
                WHERE c.tenant = :tenant AND c.atom_id = ANY(:ids)) ranked
            WHERE n <= :per_atom ORDER BY atom_id, n"""
        ),
        {"tenant": tenant, "ids": list(atom_ids), "per_atom": per_atom},
    ).all()
    found: dict[UUID, list[Citation]] = {}
    for atom_id, *rest in rows:
        found.setdefault(atom_id, []).append(Citation(*rest))
    return found


def doc_ids_of(conn: Connection, tenant: str, atom_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
    if not atom_ids:
        return {}
    rows = conn.execute(
        text(
            "SELECT atom_id, array_agg(DISTINCT doc_id) FROM pm_citation"
            " WHERE tenant = :tenant AND atom_id = ANY(:ids) GROUP BY atom_id"
        ),
        {"tenant": tenant, "ids": list(atom_ids)},
    ).all()
    return {row[0]: tuple(row[1]) for row in rows}


def move(conn: Connection, tenant: str, from_atom: UUID, to_atom: UUID) -> None:
    """Give the citations of one atom to another; those that the other has already are dropped."""
    conn.execute(
        text(
            """UPDATE pm_citation c SET atom_id = :to WHERE c.tenant = :tenant AND c.atom_id = :from
            AND NOT EXISTS (SELECT FROM pm_citation o WHERE o.tenant = c.tenant AND o.atom_id = :to
                            AND o.doc_id = c.doc_id AND o.citation_hash = c.citation_hash)"""
        ),
        {"tenant": tenant, "from": from_atom, "to": to_atom},
    )


def drop_outdated(conn: Connection, tenant: str, doc_id: UUID) -> list[UUID]:
    """Remove the citations of passages that the document's present chunks no longer hold.

    Returns the atoms that lost one, each with its id once."""
    rows = conn.execute(
        text(
            "DELETE FROM pm_citation c WHERE c.tenant = :tenant AND c.doc_id = :doc_id AND c.chunk_id IS NOT NULL"
            " AND NOT EXISTS (SELECT FROM pm_chunk k WHERE k.tenant = c.tenant AND k.doc_id = c.doc_id"
            " AND k.id = c.chunk_id) RETURNING c.atom_id"
        ),
        {"tenant": tenant, "doc_id": doc_id},
    ).scalars()
    return sorted(set(rows))


def without_support(conn: Connection, tenant: str, atom_ids: Sequence[UUID]) -> list[UUID]:
    """Those of the atoms that no citation supports; one that was stored without a source stands by itself."""
    rows = conn.execute(
        text(
            "SELECT a.id FROM pm_atom a WHERE a.tenant = :tenant AND a.id = ANY(:ids) AND a.doc_id IS NOT NULL"
            " AND NOT EXISTS (SELECT FROM pm_citation c WHERE c.tenant = a.tenant AND c.atom_id = a.id) ORDER BY a.id"
        ),
        {"tenant": tenant, "ids": list(atom_ids)},
    ).scalars()
    return list(rows)


def count_of_document(conn: Connection, tenant: str, doc_id: UUID) -> int:
    return int(
        conn.execute(
            text("SELECT count(DISTINCT atom_id) FROM pm_citation WHERE tenant = :tenant AND doc_id = :doc_id"),
            {"tenant": tenant, "doc_id": doc_id},
        ).scalar_one()
    )
