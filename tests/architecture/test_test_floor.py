"""The test run's own safety: it neither sees the developer's settings nor reaches a standing server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.postgres_servers import PostgresServer


def test_environment_holds_no_setting_of_the_developer() -> None:
    left = [name for name in os.environ if name.startswith(("PEGAS_", "PG")) or name == "PROXY_URL"]
    assert left == []
    assert not Path(".env").exists()
    assert Path.home().is_relative_to("/tmp")
    assert not (Path.home() / ".local").exists()


@pytest.mark.parametrize(
    "target",
    ["host=127.0.0.1 port=5434 dbname=pegas", "host=db.example.org", "dbname=postgres", "host=/var/run/postgresql"],
)
def test_standing_servers_are_out_of_reach(target: str) -> None:
    with pytest.raises(AssertionError, match="standing PostgreSQL"):
        psycopg.connect(target)


def test_only_databases_of_this_run_are_dropped(postgres_servers: Callable[[int], PostgresServer]) -> None:
    with pytest.raises(AssertionError, match="did not create it"):
        postgres_servers(18).drop_database("postgres")


def test_every_version_gives_an_empty_database_to_a_plain_login(any_postgres_url: str, postgres_major: int) -> None:
    with psycopg.connect(any_postgres_url.replace("+psycopg", "")) as connection:
        version, superuser, folded = connection.execute(
            "SELECT current_setting('server_version_num')::int / 10000, rolsuper, lower('ЁЛКА')"
            " FROM pg_roles WHERE rolname = current_user"
        ).fetchone() or (0, True, "")
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert (version, superuser, folded, tables) == (postgres_major, False, "ёлка", (0,))
