"""Connections and transactions. Every transaction names its tenant; row level security does the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection as Connection
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from pegas_memory.errors import DatabaseUnavailable, DiskFull, PegasError

RESTRICTED_ROLE = "pegas_memory"
_IN_SCOPE = text("SELECT set_config('pegas.tenant', :tenant, true), set_config('pegas.scope', :scope, true)")
_RETRYABLE = frozenset({"40001", "40P01"})
_DISK_FULL = frozenset({"53100"})
_STARTING = frozenset({"", "57P01", "57P02", "57P03"})
"""No server there (no state at all), or one that is shutting down, crashed, or starting up."""
_SAID = {
    "": "PostgreSQL cannot be reached.",
    "28P01": "PostgreSQL refused the login: the user or the password is wrong.",
    "28000": "PostgreSQL refused the login.",
    "3D000": "PostgreSQL has no database of that name.",
    "57P03": "PostgreSQL is starting up or shutting down.",
    "53300": "PostgreSQL takes no more connections.",
    "57014": "The statement took too long and was cancelled.",
}
T = TypeVar("T")


class Database:
    """A pool of connections to one PostgreSQL. Thread-safe.

    A login that row level security would not bind (a superuser, or one with BYPASSRLS) steps down
    to the role ``pegas_memory`` on every connection.
    """

    def __init__(self, url: str, *, pool_size: int = 8, patience: float = 0.0) -> None:
        """``patience``: seconds for which a connection that is refused is tried again; for a PostgreSQL
        that its engine process brings back by itself."""
        self.url = url
        self._patience = patience
        self._engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=30,
            connect_args={"connect_timeout": 10, "client_encoding": "utf8", "application_name": "pegas-memory"},
        )
        event.listen(self._engine, "connect", _prepare_connection)

    @contextmanager
    def tenant(self, tenant: str) -> Iterator[Connection]:
        """One transaction that sees and writes the rows of ``tenant`` alone."""
        with self._begin(tenant, "") as connection:
            yield connection

    @contextmanager
    def everything(self) -> Iterator[Connection]:
        """One transaction over all tenants; only the worker and the admin rooms open it."""
        with self._begin("", "all") as connection:
            yield connection

    @contextmanager
    def snapshot(self, tenant: str | None) -> Iterator[Connection]:
        """One read-only transaction that sees the database as it is now, however long it lasts: ``tenant``'s
        rows, or everybody's for None."""
        with translated(), self._checked_out(tenant or "", "" if tenant else "all", frozen=True) as connection:
            yield connection

    @contextmanager
    def _begin(self, tenant: str, scope: str) -> Iterator[Connection]:
        with translated(), self._checked_out(tenant, scope) as connection:
            yield connection
            connection.commit()

    def _checked_out(self, tenant: str, scope: str, *, frozen: bool = False) -> Connection:
        """A connection in a transaction of this scope. The first statement finds out whether a pooled
        connection is still alive: one that died (PostgreSQL was restarted) is replaced once."""
        deadline = time.monotonic() + self._patience
        again = True
        while True:
            try:
                return self._connect(tenant, scope, frozen=frozen)
            except DBAPIError as error:
                if not (again and error.connection_invalidated) and not self._will_be_back(error, deadline):
                    raise
                again = False

    def _connect(self, tenant: str, scope: str, *, frozen: bool) -> Connection:
        connection = self._engine.connect()
        try:
            if frozen:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            connection.execute(_IN_SCOPE, {"tenant": tenant, "scope": scope})
        except BaseException:
            connection.close()
            raise
        return connection

    def _will_be_back(self, error: DBAPIError, deadline: float) -> bool:
        refused = isinstance(error, OperationalError) and sqlstate_of(error) in _STARTING
        if not refused or time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
        return True

    def retrying(self, work: Callable[[], T], *, attempts: int = 5) -> T:
        """Run ``work`` again when PostgreSQL asks for it (serialisation failure, deadlock)."""
        for attempt in range(1, attempts + 1):
            try:
                return work()
            except DatabaseUnavailable as error:
                if sqlstate_of(error.__cause__) not in _RETRYABLE or attempt == attempts:
                    raise
                time.sleep(0.02 * 2**attempt)
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._engine.dispose()


def conninfo_of(url: str) -> str:
    """The libpq form of a SQLAlchemy URL. Not by rendering the URL: it writes a space as ``+``, which libpq
    does not read as one."""
    parsed = make_url(url)
    given = {
        "host": parsed.host,
        "port": parsed.port,
        "user": parsed.username,
        "password": parsed.password,
        "dbname": parsed.database,
    }
    named = {name: value for name, value in given.items() if value is not None}
    return make_conninfo("", **named, **{name: str(value) for name, value in parsed.query.items()})


def sqlstate_of(error: BaseException | None) -> str:
    original = getattr(error, "orig", error)
    return str(getattr(original, "sqlstate", "") or "")


def _refusal_in(message: str) -> str:
    """The state that a refused connection does not carry, by PostgreSQL's own words."""
    for words, state in (("password authentication failed", "28P01"), ("no pg_hba.conf entry", "28000")):
        if words in message:
            return state
    return "3D000" if "database" in message and "does not exist" in message else ""


@contextmanager
def translated() -> Iterator[None]:
    """Turn SQLAlchemy's errors into ours; the caller's own errors pass untouched."""
    try:
        yield
    except PegasError:
        raise
    except IntegrityError:
        raise
    except PoolTimeout as error:
        raise DatabaseUnavailable("Every database connection is busy.") from error
    except DBAPIError as error:
        state = sqlstate_of(error) or _refusal_in(str(error.orig))
        if state in _DISK_FULL:
            raise DiskFull("PostgreSQL has no room left on its disk.") from error
        raise DatabaseUnavailable(_SAID.get(state, f"PostgreSQL answered with an error ({state}).")) from error
    except SQLAlchemyError as error:
        raise DatabaseUnavailable("The database call failed.") from error


def _prepare_connection(dbapi_connection: Any, _record: Any) -> None:
    with dbapi_connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user")
        row = cursor.fetchone()
        if row and row[0]:
            _step_down(cursor)
        cursor.execute("SET TIME ZONE 'UTC'")
        cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
        cursor.execute("SET statement_timeout = '120s'")
    dbapi_connection.commit()


def _step_down(cursor: Any) -> None:
    cursor.execute(
        f"""DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{RESTRICTED_ROLE}') THEN
                CREATE ROLE {RESTRICTED_ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS;
            END IF;
            IF NOT has_schema_privilege('{RESTRICTED_ROLE}', 'public', 'CREATE') THEN
                GRANT USAGE, CREATE ON SCHEMA public TO {RESTRICTED_ROLE};
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"""
    )
    cursor.execute(f"SET ROLE {RESTRICTED_ROLE}")
