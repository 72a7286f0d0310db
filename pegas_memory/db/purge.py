"""Delete for good: atoms and documents, with all that only they supported, in the caller's transaction.

The caller is alone in the tenant (``tenants.be_alone``), so that nobody cites, links or answers with what goes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db import activity, outbox
from pegas_memory.db.atoms import AtomRow
from pegas_memory.db.documents import DocumentRow

AT_ONCE = 1_000
KeysOf = Callable[[str, str], set[str]]
"""(claim, content) → the keys under which the vector cache may hold the text."""


def atoms_for_good(conn: Connection, tenant: str, rows: Sequence[AtomRow], keys_of: KeysOf) -> Counter[str]:
    """Delete locked atoms with their citations, links, history and cached vectors, the entities that only those
    links named, the bare sources that only they cited, and every reference to them. Returns what was deleted."""
    removed: Counter[str] = Counter()
    for some in _slices(rows):
        removed += _some_atoms(conn, tenant, some, keys_of)
    return removed


def _slices(rows: Sequence[AtomRow]) -> Iterator[Sequence[AtomRow]]:
    return (rows[begin : begin + AT_ONCE] for begin in range(0, len(rows), AT_ONCE))


def _some_atoms(conn: Connection, tenant: str, rows: Sequence[AtomRow], keys_of: KeysOf) -> Counter[str]:
    ids = [row.id for row in rows]
    bound = {"tenant": tenant, "ids": ids}
    removed = _links(conn, tenant, ids)
    cited = conn.execute(
        text("DELETE FROM pm_citation WHERE tenant = :tenant AND atom_id = ANY(:ids) RETURNING doc_id"), bound
    )
    sources = list(cited.scalars())
    for reference in _REFERENCES:
        conn.execute(text(reference), bound)
    _history(conn, tenant, "atom", ids)
    conn.execute(text("DELETE FROM pm_atom WHERE tenant = :tenant AND id = ANY(:ids)"), bound)
    outbox.enqueue(conn, tenant, "atom", ids, op="delete")
    removed["atoms"] = len(ids)
    removed["citations"] = len(sources)
    removed["documents"] = _bare_sources(conn, tenant, list(set(sources)))
    removed["vectors"] = _vectors(conn, tenant, rows, keys_of)
    return removed


_REFERENCES = (
    "UPDATE pm_research_gap SET answered_by = ARRAY(SELECT u FROM unnest(answered_by) WITH ORDINALITY AS a (u, n)"
    " WHERE u <> ALL(:ids) ORDER BY n) WHERE tenant = :tenant AND answered_by && CAST(:ids AS uuid[])",
    "UPDATE pm_atom SET superseded_by = NULL WHERE tenant = :tenant AND superseded_by = ANY(:ids)",
    "UPDATE pm_episodic_trace SET promoted_to = NULL WHERE tenant = :tenant AND promoted_to = ANY(:ids)",
)


def _links(conn: Connection, tenant: str, atom_ids: Sequence[UUID]) -> Counter[str]:
    """The links of the atoms, and the entities that only they named."""
    gone: list[UUID] = []
    named: set[UUID] = set()
    for end, far in (("src", "dst"), ("dst", "src")):
        rows = conn.execute(
            text(
                f"DELETE FROM pm_atom_link WHERE tenant = :tenant AND {end}_kind = 'atom' AND {end}_id = ANY(:ids)"
                f" RETURNING id, {far}_kind, {far}_id"
            ),
            {"tenant": tenant, "ids": list(atom_ids)},
        ).all()
        gone += [row[0] for row in rows]
        named |= {row[2] for row in rows if row[1] == "entity"}
    outbox.enqueue(conn, tenant, "link", gone, op="delete")
    lonely = list(
        conn.execute(
            text(
                """DELETE FROM pm_entity e WHERE e.tenant = :tenant AND e.id = ANY(:ids)
                AND NOT EXISTS (SELECT FROM pm_entity o WHERE o.tenant = e.tenant AND o.merged_into = e.id)
                AND NOT EXISTS (SELECT FROM pm_atom_link l WHERE l.tenant = e.tenant AND l.src_kind = 'entity'
                    AND l.src_id = e.id)
                AND NOT EXISTS (SELECT FROM pm_atom_link l WHERE l.tenant = e.tenant AND l.dst_kind = 'entity'
                    AND l.dst_id = e.id) RETURNING e.id"""
            ),
            {"tenant": tenant, "ids": list(named)},
        ).scalars()
    )
    outbox.enqueue(conn, tenant, "entity", lonely, op="delete")
    _history(conn, tenant, "entity", lonely)
    return Counter(links=len(gone), entities=len(lonely))


def _history(conn: Connection, tenant: str, entity_type: str, ids: Sequence[UUID]) -> None:
    """Forget what the entities were, and what projections had to say of them."""
    bound = {"tenant": tenant, "type": entity_type, "ids": list(ids)}
    for table in ("pm_revision", "pm_projection_failure"):
        conn.execute(
            text(f"DELETE FROM {table} WHERE tenant = :tenant AND entity_type = :type AND entity_id = ANY(:ids)"), bound
        )
    activity.forget_reasons(conn, tenant, ids)


def _bare_sources(conn: Connection, tenant: str, doc_ids: Sequence[UUID]) -> int:
    """Documents that are only the name of a source, and that nothing cites any more."""
    gone = list(
        conn.execute(
            text(
                """DELETE FROM pm_document d WHERE d.tenant = :tenant AND d.id = ANY(:ids)
                AND d.content_hash = '' AND d.body = '' AND d.ingested_at IS NULL
                AND NOT EXISTS (SELECT FROM pm_chunk k WHERE k.tenant = d.tenant AND k.doc_id = d.id)
                AND NOT EXISTS (SELECT FROM pm_citation c WHERE c.tenant = d.tenant AND c.doc_id = d.id)
                AND NOT EXISTS (SELECT FROM pm_atom a WHERE a.tenant = d.tenant AND a.doc_id = d.id)
                RETURNING d.id"""
            ),
            {"tenant": tenant, "ids": list(doc_ids)},
        ).scalars()
    )
    _history(conn, tenant, "document", gone)
    return len(gone)


_WHOLE = "a.claim || CASE WHEN a.content NOT IN ('', a.claim) THEN E'\\n' || a.content ELSE '' END"


def _vectors(conn: Connection, tenant: str, rows: Sequence[AtomRow], keys_of: KeysOf) -> int:
    """The cached vectors of texts that no atom holds any more, of every model. A part of a long text that is
    also part of another long one goes as well: it is made again when that one is projected."""
    keys = set().union(*(keys_of(row.claim, row.content) for row in rows))
    wholes = {f"{r.claim}\n{r.content}" if r.content not in ("", r.claim) else r.claim for r in rows}
    others = conn.execute(
        text(f"SELECT a.claim, a.content FROM pm_atom a WHERE a.tenant = :tenant AND {_WHOLE} = ANY(:wholes)"),
        {"tenant": tenant, "wholes": list(wholes)},
    ).all()
    for claim, content in others:
        keys -= keys_of(claim, content)
    return conn.execute(
        text("DELETE FROM pm_embedding WHERE tenant = :tenant AND text_hash = ANY(:keys)"),
        {"tenant": tenant, "keys": list(keys)},
    ).rowcount


# --- a document ---------------------------------------------------------------------------------------


def only_supported_by(conn: Connection, tenant: str, doc_id: UUID) -> list[UUID]:
    """Atoms that came from the document or cite it, and cite no other one. An atom that was stored without a
    source before the document was read stands by itself and is none of them."""
    rows = conn.execute(
        text(
            """SELECT a.id FROM (SELECT id FROM pm_atom WHERE tenant = :tenant AND doc_id = :doc_id
                UNION SELECT atom_id FROM pm_citation WHERE tenant = :tenant AND doc_id = :doc_id) touched
            JOIN pm_atom a ON a.tenant = :tenant AND a.id = touched.id
            WHERE a.doc_id IS NOT NULL AND NOT EXISTS (SELECT FROM pm_citation c
                WHERE c.tenant = a.tenant AND c.atom_id = a.id AND c.doc_id <> :doc_id) ORDER BY a.id"""
        ),
        {"tenant": tenant, "doc_id": doc_id},
    ).scalars()
    return list(rows)


def document_for_good(
    conn: Connection, tenant: str, document: DocumentRow, rows: Sequence[AtomRow], keys_of: KeysOf
) -> Counter[str]:
    """Delete the document with its text, and ``rows``, the locked atoms that only it supports. Atoms with other
    support lose its citations. Returns what was deleted."""
    removed = atoms_for_good(conn, tenant, rows, keys_of)
    bound = {"tenant": tenant, "doc_id": document.id}
    cited = list(
        conn.execute(
            text("DELETE FROM pm_citation WHERE tenant = :tenant AND doc_id = :doc_id RETURNING atom_id"), bound
        ).scalars()
    )
    kept = conn.execute(
        text(
            """UPDATE pm_atom a SET revision = revision + 1, updated_at = clock_timestamp(),
                doc_id = CASE WHEN a.doc_id = :doc_id THEN (SELECT c.doc_id FROM pm_citation c WHERE
                    c.tenant = a.tenant AND c.atom_id = a.id ORDER BY c.created_at, c.id LIMIT 1) ELSE a.doc_id END
            WHERE a.tenant = :tenant AND (a.id = ANY(:ids) OR a.doc_id = :doc_id) RETURNING a.id"""
        ),
        {**bound, "ids": cited},
    ).scalars()
    outbox.enqueue(conn, tenant, "atom", list(kept))
    forget_jobs(conn, tenant, document)
    removed["citations"] += len(cited)
    removed["chunks"] = conn.execute(
        text("DELETE FROM pm_chunk WHERE tenant = :tenant AND doc_id = :doc_id"), bound
    ).rowcount
    conn.execute(text("DELETE FROM pm_document WHERE tenant = :tenant AND id = :doc_id"), bound)
    _history(conn, tenant, "document", [document.id])
    removed["documents"] += 1
    return removed


def forget_jobs(conn: Connection, tenant: str, document: DocumentRow) -> None:
    """Stop the jobs that read this document alone, and forget what they and those of its folders hold of it."""
    path = unquote(urlsplit(document.uri).path) if document.uri.startswith("file:") else ""
    folders = [str(folder) for folder in PurePosixPath(path).parents] if path else []
    bound = {"tenant": tenant, "doc_id": str(document.id), "uri": document.uri, "path": path, "folders": folders}
    conn.execute(text(_FORGET_FOLDER), bound)
    conn.execute(text(_FORGET_JOB), bound)


_WITHOUT_WORDS = """error = CASE WHEN error = '{}' THEN error ELSE jsonb_build_object('code', error->'code', 'message',
    'What it was about was purged.', 'hint', '') END"""
_FORGET_JOB = f"""UPDATE pm_job SET payload = '{{"purged": true}}', checkpoint = '{{}}',
        progress = progress - '{{title,file}}'::text[],
        result = result - '{{document,warnings,doc_id}}'::text[], {_WITHOUT_WORDS},
        state = CASE WHEN state IN ('queued', 'running') THEN 'cancelled' ELSE state END,
        finished_at = coalesce(finished_at, clock_timestamp())
    WHERE tenant = :tenant AND kind = 'ingest' AND NOT (payload->>'source' = ANY(:folders)) AND (
        result->>'doc_id' = :doc_id OR payload->>'source' IN (:uri, nullif(:path, ''))
        OR 'text:' || left(encode(sha256(convert_to(payload->>'text', 'UTF8')), 'hex'), 32) = :uri
        OR 'stdin:' || left(encode(sha256(decode(payload->>'data', 'base64')), 'hex'), 32) = :uri)"""
_FORGET_FOLDER = f"""UPDATE pm_job SET progress = progress - '{{title,file}}'::text[],
        checkpoint = checkpoint - '{{uri,last}}'::text[],
        result = result - '{{document,warnings,doc_id}}'::text[], {_WITHOUT_WORDS}
    WHERE tenant = :tenant AND kind = 'ingest' AND payload->>'source' = ANY(:folders)"""
