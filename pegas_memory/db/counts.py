"""The counts of one tenant."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from pegas_memory.model import AtomTotals, LinkTotals


@dataclass(frozen=True, slots=True)
class Counts:
    atoms: AtomTotals
    links: LinkTotals
    documents: int
    chunks: int
    citations: int
    open_gaps: int
    code_symbols: int
    code_dependencies: int
    episodes: int
    procedures: int


_PLAIN = {
    "documents": "pm_document WHERE tenant = :tenant AND retracted_at IS NULL",
    "chunks": "pm_chunk WHERE tenant = :tenant",
    "citations": "pm_citation WHERE tenant = :tenant",
    "open_gaps": "pm_research_gap WHERE tenant = :tenant AND status <> 'closed'",
    "code_symbols": "pm_code_symbol WHERE tenant = :tenant",
    "code_dependencies": "pm_code_dependency WHERE tenant = :tenant",
    "episodes": "pm_episodic_trace WHERE tenant = :tenant AND retracted_at IS NULL",
    "procedures": "pm_procedure WHERE tenant = :tenant AND superseded_at IS NULL AND retracted_at IS NULL",
}


def of_tenant(conn: Connection, tenant: str) -> Counts:
    """Live atoms by type; all atoms by how they are shown (retracted and superseded among them)."""
    bound = {"tenant": tenant}
    selects = ", ".join(f"(SELECT count(*) FROM {source}) AS {name}" for name, source in _PLAIN.items())
    plain = dict(conn.execute(text(f"SELECT {selects}"), bound).mappings().one())
    rows = conn.execute(
        text(
            "SELECT type, CASE WHEN retracted_at IS NOT NULL THEN 'retracted' WHEN superseded_at IS NOT NULL THEN"
            " 'superseded' ELSE status END AS shown, count(*) FROM pm_atom WHERE tenant = :tenant GROUP BY 1, 2"
        ),
        bound,
    ).all()
    by_type: dict[str, int] = {}
    by_status: dict[str, int] = {}
    for type_, shown, count in rows:
        by_status[shown] = by_status.get(shown, 0) + count
        if shown not in {"retracted", "superseded"}:
            by_type[type_] = by_type.get(type_, 0) + count
    total, inferred = conn.execute(
        text("SELECT count(*), count(*) FILTER (WHERE inferred) FROM pm_atom_link WHERE tenant = :tenant"), bound
    ).one()
    return Counts(
        atoms=AtomTotals(sum(by_type.values()), dict(sorted(by_type.items())), dict(sorted(by_status.items()))),
        links=LinkTotals(total, inferred),
        **plain,
    )


def size_on_disk(conn: Connection) -> int:
    """Bytes of the whole database."""
    return int(conn.execute(text("SELECT pg_database_size(current_database())")).scalar_one())


def server_facts(conn: Connection) -> tuple[str, str]:
    """Version and encoding of the database server."""
    version = str(conn.execute(text("SHOW server_version")).scalar_one())
    return version, str(conn.execute(text("SHOW server_encoding")).scalar_one())
