"""Bring a database to this version's schema, once, however many processes start together."""

from __future__ import annotations

import logging
from pathlib import Path

from sqlalchemy import Connection, create_engine, event, text

from pegas_memory.db.session import _prepare_connection, translated
from pegas_memory.errors import ForeignSchema, SchemaTooNew, WrongPostgresVersion

HEAD = "0003"
VERSION_TABLE = "pegas_schema_version"
OLDEST_POSTGRES = 150_000
_LOCK = 0x7065676173  # "pegas"

log = logging.getLogger(__name__)


def migrations_folder() -> Path:
    """Where the Alembic scripts stand: in the installed package, else at the root of the checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "migrations"
    return installed if (installed / "env.py").exists() else package.parent / "migrations"


def ensure_schema(url: str) -> None:
    """Create or upgrade the schema; a no-op costing one query when it is current.

    Raises:
        WrongPostgresVersion, ForeignSchema, SchemaTooNew, DatabaseUnavailable, DiskFull.
    """
    engine = create_engine(url, connect_args={"connect_timeout": 10, "client_encoding": "utf8"})
    event.listen(engine, "connect", _prepare_connection)
    try:
        with translated(), engine.connect() as connection:
            _check_server(connection)
            if _current(connection) == HEAD:
                return
            connection.commit()
            connection.execute(text("SET statement_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
            connection.commit()
            try:
                _upgrade(connection)
            finally:
                connection.rollback()
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
                connection.commit()
    finally:
        engine.dispose()


def _check_server(connection: Connection) -> None:
    version = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if version < OLDEST_POSTGRES:
        raise WrongPostgresVersion(f"This is PostgreSQL {version // 10_000}; version 15 or newer is needed.")


def _current(connection: Connection) -> str | None:
    """The schema's revision, None for an empty database."""
    if connection.execute(text("SELECT to_regclass(:name)"), {"name": f"public.{VERSION_TABLE}"}).scalar_one():
        found = connection.execute(text(f"SELECT version_num FROM public.{VERSION_TABLE}")).scalar_one_or_none()
        if found is not None:
            return str(found)
    foreign = connection.execute(
        text(
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v') AND c.relname LIKE 'pm\\_%'"
        )
    ).scalar_one()
    if foreign:
        raise ForeignSchema(f"The database holds {foreign} pm_* tables that this product did not make.")
    return None


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    found = _current(connection)
    if found == HEAD:
        return
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaTooNew(f"The database is at schema {found}, which this version does not know.")
    log.info("schema upgrade from %s to %s", found or "empty", HEAD)
    command.upgrade(config, "head")
