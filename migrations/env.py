"""Alembic's entry: runs on the connection that `db.migrate` hands over, or on PEGAS_DATABASE_URL when
a developer calls `alembic` by hand."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from pegas_memory.db.migrate import VERSION_TABLE
from pegas_memory.db.tables import metadata


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        version_table_schema="public",
        compare_type=True,
        compare_server_default=False,
        include_name=lambda name, kind, _parents: kind != "table" or bool(name and name.startswith("pm_")),
    )
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    from pegas_memory.config import load_settings

    with create_engine(load_settings().database_url.get_secret_value()).connect() as opened:
        run(opened)
