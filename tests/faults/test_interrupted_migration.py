"""An upgrade of the schema that is killed, with data in the tables: it is as if it had not begun, or is done."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, text

from pegas_memory.db.migrate import HEAD, VERSION_TABLE, ensure_schema, migrations_folder
from pegas_memory.db.tables import metadata
from tests.faults.world import DURABLE, ROOT, family, kill, relaunch
from tests.postgres_servers import MAJORS, PostgresServer, binaries
from tests.support.engines import eventually

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(300)]
ATOMS = 2_000
PROGRAM = "import sys; from pegas_memory.db.migrate import ensure_schema; ensure_schema(sys.argv[1])"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(next(major for major in MAJORS if binaries(major)), **DURABLE)
    server.start()
    yield server
    server.stop()


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    engine = create_engine(url)
    yield engine
    engine.dispose()


def old_schema_with_data(url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    with engine_of(url) as engine, engine.connect() as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "0001")
        conn.execute(text("SELECT set_config('pegas.scope', 'all', false)"))
        conn.execute(
            text(
                "INSERT INTO pm_atom (tenant, id, type, claim, content_hash) SELECT 't', gen_random_uuid(), 'fact',"
                " 'claim ' || n, md5(n::text) FROM generate_series(1, :n) n"
            ),
            {"n": ATOMS},
        )
        conn.execute(
            text("INSERT INTO pm_outbox (tenant, entity_type, entity_id) SELECT tenant, 'atom', id FROM pm_atom")
        )
        conn.execute(text("INSERT INTO pm_projection (consumer) VALUES ('vector:x')"))
        conn.commit()


def rows(conn: Connection, columns: dict[str, list[str]]) -> dict[str, list[Any]]:
    """Every row of the old tables, in the columns that they had."""
    conn.execute(text("SELECT set_config('pegas.scope', 'all', false)"))
    return {
        table: conn.execute(text(f"SELECT ROW({', '.join(names)})::text FROM {table} ORDER BY 1")).scalars().all()
        for table, names in columns.items()
    }


def columns_of(conn: Connection) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for table, column in conn.execute(
        text(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
            " AND table_name LIKE 'pm\\_%' ORDER BY 1, ordinal_position"
        )
    ):
        found.setdefault(table, []).append(f'"{column}"')
    return found


def test_an_upgrade_that_is_killed_again_and_again_loses_nothing(server: PostgresServer) -> None:
    rng = random.Random(2)
    url = server.url(server.create_database())
    old_schema_with_data(url)
    with engine_of(url) as engine, engine.connect() as conn:
        columns = columns_of(conn)
        before = rows(conn, columns)
    assert len(before["pm_atom"]) == len(before["pm_outbox"]) == ATOMS
    for killed in range(6):
        with engine_of(url) as engine, engine.connect() as conn:
            conn.execute(text("LOCK TABLE pm_projection IN ACCESS SHARE MODE"))  # the upgrade comes no further
            process = subprocess.Popen([sys.executable, "-c", PROGRAM, url], cwd=ROOT)
            eventually(lambda conn=conn: upgrading(conn), "the upgrade is under way")
            if killed % 2:
                conn.rollback()
                time.sleep(rng.random() * 0.02)
                kill(*family(server.pid))
            else:
                kill(process.pid)
            process.kill()
            process.wait(20)
        relaunch(server)
    ensure_schema(url)
    with engine_of(url) as engine, engine.connect() as conn:
        assert rows(conn, columns) == before
        assert conn.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one() == HEAD
        assert conn.execute(text("SELECT count(*) FROM pm_instance")).scalar_one() == 1
        named = {"include_name": lambda name, kind, _: kind != "table" or name.startswith("pm_")}
        assert compare_metadata(MigrationContext.configure(conn, opts={"compare_type": True, **named}), metadata) == []


def upgrading(conn: Connection) -> bool:
    """Whether a session waits for the table that we hold, or has done with it."""
    waits = "SELECT count(*) FROM pg_locks WHERE relation = 'pm_projection'::regclass AND NOT granted"
    done = f"SELECT version_num = '{HEAD}' FROM {VERSION_TABLE}"
    return bool(conn.execute(text(waits)).scalar_one() or conn.execute(text(done)).scalar_one())
