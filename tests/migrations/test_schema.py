"""The schema: one head, equal to the tables, made once however many start together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from pegas_memory.db.migrate import HEAD, VERSION_TABLE, ensure_schema, migrations_folder
from pegas_memory.db.session import Database
from pegas_memory.db.tables import TENANT_TABLES, metadata
from pegas_memory.errors import ForeignSchema, SchemaTooNew
from pegas_memory.model import GapRequest, IngestRequest, LinkRequest, StoreRequest
from tests.homes import temporary_home
from tests.support.embedding_server import hashed_embedding_server
from tests.support.local_memory import local_memory

ROOT = Path(__file__).resolve().parents[2]


def test_one_head_and_it_is_the_one_the_quick_check_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_the_migrated_database_equals_the_tables(any_postgres_url: str) -> None:
    ensure_schema(any_postgres_url)
    ensure_schema(any_postgres_url)
    assert _differences(any_postgres_url) == []


def _differences(url: str) -> list[object]:
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "include_name": lambda name, kind, _: kind != "table" or name.startswith("pm_"),
            },
        )
        found: list[object] = compare_metadata(context, metadata)
    engine.dispose()
    return found


def test_a_seeded_database_keeps_every_row(any_postgres_url: str) -> None:
    ensure_schema(any_postgres_url)
    with (
        hashed_embedding_server(dimension=32) as embeddings,
        temporary_home() as home,
        local_memory(any_postgres_url, home, f"openai:hashed@{embeddings.openai_url}") as memory,
    ):
        memory.ingest(IngestRequest(text="The dam was closed in 1931. Плотина высотой 40 метров.", title="Dam"))
        links = (LinkRequest("Plant", "reference"),)
        memory.store(StoreRequest(claim="The valve is open.", tags=("ёж",), links=links, metadata={"ключ": [1]}))
        memory.add_gap(GapRequest(question="Who opened the valve?"))
    before = _rows(any_postgres_url)
    seeded = {name for name, rows in before.items() if rows}
    assert {"pm_atom", "pm_document", "pm_chunk", "pm_citation", "pm_entity", "pm_atom_link", "pm_job"} <= seeded
    ensure_schema(any_postgres_url)
    assert _rows(any_postgres_url) == before
    assert _differences(any_postgres_url) == []


def _rows(url: str) -> dict[str, list[str]]:
    """Every row of every table as text."""
    db = Database(url)
    with db.everything() as conn:
        found = {
            name: list(conn.execute(text(f"SELECT t::text FROM {name} t ORDER BY 1")).scalars())
            for name in TENANT_TABLES
        }
    db.close()
    return found


def test_every_table_of_a_tenant_forces_row_level_security(migrated_url: str) -> None:
    engine = create_engine(migrated_url)
    with engine.connect() as connection:
        bound = connection.execute(
            text("SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity")
        ).scalars()
        assert set(bound) == {*TENANT_TABLES, "pm_tenant"}
    engine.dispose()


@pytest.mark.fault(33)
def test_six_processes_migrate_an_empty_database_once(postgres_url: str) -> None:
    program = "import sys; from pegas_memory.db.migrate import ensure_schema; ensure_schema(sys.argv[1])"
    started = [
        subprocess.Popen([sys.executable, "-c", program, postgres_url], cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    for process in started:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    engine = create_engine(postgres_url)
    with engine.connect() as connection:
        assert connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all() == [HEAD]
    engine.dispose()


def test_foreign_tables_are_refused_and_left_alone(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE pm_atom (mine int); "))
        connection.execute(text("INSERT INTO pm_atom VALUES (7)"))
    with pytest.raises(ForeignSchema, match="1 pm_"):
        ensure_schema(postgres_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT mine FROM pm_atom")).scalar_one() == 7
    engine.dispose()


def test_a_newer_schema_is_refused(migrated_url: str) -> None:
    engine = create_engine(migrated_url)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(SchemaTooNew):
        ensure_schema(migrated_url)
    engine.dispose()


@pytest.mark.parametrize("login", ["plain", "superuser"])
def test_one_tenant_never_sees_another(login: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("migrated_url" if login == "plain" else "superuser_url")
    ensure_schema(url)
    db = Database(url)
    for tenant in ("a", "b", "a|b", "%", "../x"):
        with db.tenant(tenant) as conn:
            conn.execute(
                text("INSERT INTO pm_entity (tenant, id, name, normal_form) VALUES (:t, gen_random_uuid(), 'x', 'x')"),
                {"t": tenant},
            )
    for tenant in ("a", "b", "a|b", "%", "../x", ""):
        with db.tenant(tenant) as conn:
            seen = conn.execute(text("SELECT DISTINCT tenant FROM pm_entity")).scalars().all()
            assert seen == ([tenant] if tenant else [])
            touched = conn.execute(text("UPDATE pm_entity SET name = 'y'")).rowcount
            assert touched == (1 if tenant else 0)
    with db.everything() as conn:
        assert conn.execute(text("SELECT count(*) FROM pm_entity")).scalar_one() == 5
    db.close()


def test_a_tenant_cannot_write_into_another(migrated_url: str) -> None:
    db = Database(migrated_url)
    with pytest.raises(Exception, match="database_unavailable"), db.tenant("a") as conn:
        conn.execute(
            text("INSERT INTO pm_entity (tenant, id, name, normal_form) VALUES ('b', gen_random_uuid(), 'x', 'x')")
        )
    db.close()
