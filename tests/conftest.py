"""The floor every test stands on: a scrubbed environment, short-lived homes, databases of our own.

Nothing here needs a service that is already running, and nothing a test does can reach one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.homes import temporary_home
from tests.postgres_servers import MAJORS, PostgresServer, binaries
from tests.support.bolt_peer import BoltPeer
from tests.support.bolt_peer import installed as bolt_peer_installed

ROOT = Path(__file__).resolve().parent.parent
STANDING_PORTS = {"", "5432", "5433", "5434"}
_PROXIES = {f"{scheme}_PROXY" for scheme in ("HTTP", "HTTPS", "ALL", "NO", "FTP")}


def _unwanted(name: str) -> bool:
    upper = name.upper()
    return (
        upper.startswith(("PEGAS_", "PG", "LC_", "QDRANT_", "OLLAMA_", "OPENAI_", "MEMGRAPH_"))
        or upper in _PROXIES
        or upper in {"PROXY_URL", "LANG", "LANGUAGE", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "PYTHONWARNINGS", "TZ"}
    )


def _scrub() -> dict[str, str]:
    """Take the developer's settings out of this process and of every child; answer what was taken."""
    taken = {name: os.environ.pop(name) for name in list(os.environ) if _unwanted(name)}
    os.environ["LANG"] = "C.UTF-8"
    os.environ["TZ"] = "UTC"
    time.tzset()
    return taken


SCRUBBED = _scrub()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Short temporary paths: a Unix socket's path may have 107 bytes."""
    if not config.option.basetemp and not hasattr(config, "workerinput"):
        config.option.basetemp = tempfile.mkdtemp(prefix="pegas-t-", dir="/tmp")
        config.add_cleanup(lambda: shutil.rmtree(config.option.basetemp, ignore_errors=True))


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run in an empty folder with an empty HOME: no `.env`, no default data folder of the developer."""
    folder = tmp_path_factory.mktemp("cwd")
    home = tmp_path_factory.mktemp("user")
    before = Path.cwd()
    os.environ["HOME"] = str(home)
    os.chdir(folder)
    yield
    os.chdir(before)


@pytest.fixture(scope="session", autouse=True)
def _only_our_databases() -> Iterator[None]:
    """Refuse every connection to a PostgreSQL that this run cannot have made."""
    original = psycopg.Connection.connect

    def guarded(conninfo: str = "", **options: Any) -> Any:
        wanted = {**conninfo_to_dict(conninfo), **{k: v for k, v in options.items() if k in {"host", "port"}}}
        host, port = str(wanted.get("host") or ""), str(wanted.get("port") or "")
        local_socket = host.startswith((tempfile.gettempdir() + "/", "/tmp/"))
        if not local_socket and (not host or host.startswith("/") or port in STANDING_PORTS):
            raise AssertionError(f"a test may not touch the standing PostgreSQL at {host or 'the default socket'}")
        return original(conninfo, **options)

    patch = pytest.MonkeyPatch()
    patch.setattr(psycopg.Connection, "connect", guarded)
    patch.setattr(psycopg, "connect", guarded)
    yield
    patch.undo()


# --- homes ---------------------------------------------------------------------------------------


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh ``PEGAS_HOME`` on a short path, set for this process and its children."""
    with temporary_home() as folder:
        monkeypatch.setenv("PEGAS_HOME", str(folder))
        yield folder


# --- PostgreSQL ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres_servers() -> Iterator[Callable[[int], PostgresServer]]:
    """``postgres_servers(major)``: the run's server of that version, started on first need."""
    servers: dict[int, PostgresServer] = {}

    def of(major: int) -> PostgresServer:
        if binaries(major) is None:
            pytest.skip(f"PostgreSQL {major} is not installed here")
        if major not in servers:
            server = PostgresServer(major)
            servers[major] = server
            server.start()
        return servers[major]

    yield of
    for server in servers.values():
        server.stop()


@pytest.fixture(params=MAJORS, ids=[f"pg{major}" for major in MAJORS])
def postgres_major(request: pytest.FixtureRequest) -> int:
    """Use it, or ``any_postgres_url``, to run a storage test on every supported version."""
    return int(request.param)


@pytest.fixture
def postgres_url(postgres_servers: Callable[[int], PostgresServer]) -> Iterator[str]:
    """An empty database on the newest version; the login is no superuser."""
    yield from _database(postgres_servers(MAJORS[0]))


@pytest.fixture
def any_postgres_url(postgres_major: int, postgres_servers: Callable[[int], PostgresServer]) -> Iterator[str]:
    """An empty database on each version in turn."""
    yield from _database(postgres_servers(postgres_major))


@pytest.fixture
def superuser_url(postgres_servers: Callable[[int], PostgresServer]) -> Iterator[str]:
    """An empty database, the login being a superuser: row level security must hold even so."""
    yield from _database(postgres_servers(MAJORS[0]), superuser=True)


@pytest.fixture
def migrated_url(postgres_servers: Callable[[int], PostgresServer], _template: str) -> Iterator[str]:
    """A database with the product's schema, copied from one that was migrated once for the run."""
    yield from _database(postgres_servers(MAJORS[0]), template=_template)


@pytest.fixture(scope="session")
def _template(postgres_servers: Callable[[int], PostgresServer]) -> str:
    from pegas_memory.db.migrate import ensure_schema

    server = postgres_servers(MAJORS[0])
    name = server.create_database()
    ensure_schema(server.url(name))
    return name


def _database(server: PostgresServer, *, template: str = "", superuser: bool = False) -> Iterator[str]:
    name = server.create_database(template)
    yield server.url(name, superuser=superuser)
    server.drop_database(name)


# --- the graph server ----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def bolt_peer() -> Iterator[BoltPeer]:
    """A Bolt and openCypher server for the run; tests share it, each with an installation id of its own."""
    if bolt_peer_installed() is None:
        pytest.skip("arcadedb-embedded is not installed here")
    with BoltPeer() as peer:
        yield peer
