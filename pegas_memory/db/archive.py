"""Whole tenants out of the tables and into them, as JSON lines that PostgreSQL writes and reads itself.

What travels is derived from the tables: one that is added later travels too, unless it is named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, Table, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError

from pegas_memory.db.outbox import OUTBOX_CHANNEL
from pegas_memory.db.session import sqlstate_of
from pegas_memory.db.tables import metadata
from pegas_memory.db.tenants import INSTALLATION, be_alone, join
from pegas_memory.errors import ArchiveDamaged, TenantNotEmpty

LEFT_OUT: Mapping[str, str] = {
    "pm_outbox": "an import notes every row anew, for the projections of its own installation",
    "pm_projection": "how far the projections of one installation have come",
    "pm_projection_failure": "of the projections of one installation",
    "pm_instance": "it tells one installation from another",
    "pm_job": "work of one installation: a job that waits would run twice, and its payload names that machine's files"
    " and proxy; what a finished one made travels as documents and atoms",
}
LEFT_OUT_COLUMNS: Mapping[str, str] = {
    "pm_tenant.token_hash": "a secret of one installation",
    "pm_tenant.deleted_at": "what is imported is there",
    "pm_embedding.xid": "a transaction of one database cluster",
}
VECTORS = "pm_embedding"
ALLOWED_BEFORE = frozenset({"pm_tenant", "pm_activity", VECTORS})
"""What may stand in a tenant that counts as empty: its name, its audit, vectors that texts had."""
NOTED: Mapping[str, str] = {
    "pm_atom": "atom",
    "pm_episodic_trace": "episode",
    "pm_procedure": "procedure",
    "pm_entity": "entity",
    "pm_code_symbol": "symbol",
    "pm_atom_link": "link",
    "pm_code_dependency": "dependency",
}
PAGE_BYTES, PAGE_ROWS = 4_000_000, 1000
_REFUSALS = {
    "23505": "one of them stands there twice",
    "23503": "one belongs to a row that is not there",
    "23502": "a value that must be there is missing",
    "23514": "a value is not one of those allowed",
}
_UNFIT = ("22", "23", "54")
"""Classes of PostgreSQL's states that blame the row: its data, its constraints, its size."""


class Kind(StrEnum):
    """What a column's value is in JSON."""

    TEXT = "text"
    UUID = "uuid"
    INTEGER = "integer"
    REAL = "real"
    FLAG = "flag"
    TIME = "time"
    JSON = "json"
    TEXTS = "texts"
    UUIDS = "uuids"
    BYTES = "bytes"


_KINDS = {
    "TEXT": Kind.TEXT,
    "UUID": Kind.UUID,
    "INTEGER": Kind.INTEGER,
    "BIGINT": Kind.INTEGER,
    "FLOAT": Kind.REAL,
    "BOOLEAN": Kind.FLAG,
    "TIMESTAMP WITH TIME ZONE": Kind.TIME,
    "JSONB": Kind.JSON,
    "TEXT[]": Kind.TEXTS,
    "UUID[]": Kind.UUIDS,
    "BYTEA": Kind.BYTES,
}


@dataclass(frozen=True, slots=True)
class ArchivedColumn:
    name: str
    sql: str
    kind: Kind
    nullable: bool


@dataclass(frozen=True, slots=True)
class ArchivedTable:
    name: str
    tenant: str
    """The column that names the tenant."""
    key: tuple[str, ...]
    columns: tuple[ArchivedColumn, ...]


def _archived(table: Table) -> ArchivedTable:
    columns = []
    for column in table.columns:
        if f"{table.name}.{column.name}" not in LEFT_OUT_COLUMNS:
            sql = column.type.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
            columns.append(ArchivedColumn(column.name, sql, _KINDS[sql], bool(column.nullable)))
    tenant = "tenant" if "tenant" in table.c else "id"
    return ArchivedTable(table.name, tenant, tuple(c.name for c in table.primary_key.columns), tuple(columns))


TABLES = tuple(_archived(table) for table in metadata.sorted_tables if table.name not in LEFT_OUT)
"""What travels, in the order of the foreign keys."""


def tenants(conn: Connection) -> list[str]:
    """Every tenant that has a row, ascending."""
    each = " UNION ".join(f"SELECT {table.tenant} FROM {_of(table, None)}" for table in TABLES)
    return sorted(conn.execute(text(each)).scalars())


def count(conn: Connection, table: ArchivedTable, tenant: str | None) -> int:
    return int(conn.execute(text(f"SELECT count(*) FROM {_of(table, tenant)}"), {"tenant": tenant}).scalar_one())


def pages(conn: Connection, table: ArchivedTable, tenant: str | None) -> Iterator[Sequence[str]]:
    """All rows of the tenant, or of everybody for None, by primary key, in pages of about ``PAGE_BYTES``. A row is
    one line of JSON: times in ISO 8601 UTC, bytes in base64, numbers to the last digit."""
    shown = ", ".join(
        f"translate(encode({c.name}, 'base64'), E'\\n', '') AS {c.name}" if c.kind is Kind.BYTES else c.name
        for c in table.columns
    )
    conn.execute(
        text(
            "DECLARE archived NO SCROLL CURSOR FOR SELECT row_to_json(r)::text FROM"
            f" (SELECT {shown} FROM {_of(table, tenant)} ORDER BY {', '.join(table.key)}) r"
        ),
        {"tenant": tenant},
    )
    size = 1
    while rows := conn.execute(text(f"FETCH {size} FROM archived")).scalars().all():
        yield rows
        fitting = len(rows) * PAGE_BYTES // sum(map(len, rows))
        size = max(1, min(PAGE_ROWS, size * 4, fitting))
    conn.execute(text("CLOSE archived"))


def _of(table: ArchivedTable, tenant: str | None) -> str:
    """Of one tenant, or of all; what is noted about the installation itself stays in it."""
    wanted = f"<> '{INSTALLATION}'" if tenant is None else "= :tenant"
    return f"{table.name} WHERE {table.tenant} {wanted}"


def hold(conn: Connection, tenant: str) -> None:
    """Reserve an empty tenant for this transaction: nobody else writes to it until then.

    Raises:
        TenantNotEmpty: it holds something, or another import holds it. Unavailable: it is being deleted.
    """
    mine = conn.execute(
        text("SELECT pg_try_advisory_xact_lock(hashtextextended('pegas import ' || :tenant, 0))"), {"tenant": tenant}
    ).scalar_one()
    if not mine:
        raise TenantNotEmpty(f"Another import into tenant {tenant!r} is under way.")
    be_alone(conn, tenant)
    join(conn, tenant)
    for table in TABLES:
        if table.name in ALLOWED_BEFORE:
            continue
        sql = text(f"SELECT EXISTS (SELECT FROM {table.name} WHERE {table.tenant} = :tenant)")
        if conn.execute(sql, {"tenant": tenant}).scalar_one():
            raise TenantNotEmpty(f"Tenant {tenant!r} holds something already ({table.name}).")


def put(
    conn: Connection, table: ArchivedTable, given: Sequence[str], rows: Iterable[str], into: str | None, where: str
) -> None:
    """Insert rows of one shape, the columns ``given``; the others take their defaults. ``into`` replaces the
    tenant that the rows name.

    Raises ``ArchiveDamaged`` (beginning with ``where``) when PostgreSQL refuses one of them.
    """
    columns = [c for c in table.columns if c.name in given]
    names = ", ".join(c.name for c in columns)
    declared = ", ".join(f"{c.name} {'text' if c.kind is Kind.BYTES else c.sql}" for c in columns)
    values = ", ".join(_value(table, c) for c in columns)
    sql = (
        f"INSERT INTO {table.name} ({names}) SELECT {values} FROM json_to_recordset(CAST(:rows AS json)) AS r"
        f" ({declared}) {_standing(table)}"
    )
    try:
        conn.execute(text(sql), {"rows": f"[{','.join(rows)}]", "into": into})
    except DBAPIError as error:
        state = sqlstate_of(error)
        if state[:2] in _UNFIT:
            raise ArchiveDamaged(f"{where}: {_REFUSALS.get(state, f'PostgreSQL refuses it ({state})')}.") from error
        raise


def _value(table: ArchivedTable, column: ArchivedColumn) -> str:
    if column.name == table.tenant:
        return f"coalesce(CAST(:into AS text), r.{column.name})"
    return f"decode(r.{column.name}, 'base64')" if column.kind is Kind.BYTES else f"r.{column.name}"


def _standing(table: ArchivedTable) -> str:
    """What becomes of a row that may stand there before: the tenant takes the archive's settings."""
    if table.name not in ALLOWED_BEFORE:
        return ""
    what = "UPDATE SET settings = excluded.settings" if table.name == "pm_tenant" else "NOTHING"
    return f"ON CONFLICT ({', '.join(table.key)}) DO {what}"


def note_all(conn: Connection, tenant: str) -> None:
    """Note everything of the tenant that is projected, in the caller's own transaction."""
    for table, entity_type in NOTED.items():
        conn.execute(
            text(
                "INSERT INTO pm_outbox (tenant, entity_type, entity_id)"
                f" SELECT tenant, '{entity_type}', id FROM {table} WHERE tenant = :tenant ORDER BY id"
            ),
            {"tenant": tenant},
        )
    conn.execute(text("SELECT pg_notify(:channel, '')"), {"channel": OUTBOX_CHANNEL})
