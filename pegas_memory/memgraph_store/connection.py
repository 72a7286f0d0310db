"""A Bolt server: where it is, transactions on it, and its errors in our words."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from pegas_memory.errors import BadSettings, GraphUnavailable, InvalidParameter, PegasError
from pegas_memory.memgraph_store.dialect import Dialect, schema_of, spoken_by, statement

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction, Session

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 30.0
"""Without a byte from the server. A batch takes well under a second, a sweep of 100,000 nodes a few."""
RETRY_SECONDS = 4.0
"""For how long a transaction that collided, or whose connection broke, is tried again; twelve times at most."""
MOST_TRIES = 12
_SCHEMES = {"bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc"}
_REFUSED = ("Unauthenticated", "Unauthorized", "AuthenticationRateLimit", "CredentialsExpired")
_SAID = {
    "DatabaseNotFound": "The graph server has no database of the name at the end of PEGAS_MEMGRAPH_URL.",
    "ConstraintValidationFailed": "Another writer was at the graph server at the same moment.",
}
T = TypeVar("T")


class Transaction:
    """Statements by name, in one transaction."""

    def __init__(self, transaction: ManagedTransaction, dialect: Dialect) -> None:
        self._transaction = transaction
        self._dialect = dialect

    def run(self, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
        return self._transaction.run(statement(name, self._dialect), parameters).data()


class Server:
    """One graph server and database. Thread-safe; the first call connects."""

    def __init__(
        self,
        url: str,
        user: str = "",
        password: str = "",
        *,
        answer_seconds: float = ANSWER_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Raises BadSettings for a URL that names no Bolt server. Its path is the name of the database; a user
        in it counts when none is given beside it. A server that says nothing for ``answer_seconds`` is taken
        to be down."""
        try:
            parts = urlsplit(url)
            if parts.scheme not in _SCHEMES or not parts.hostname or parts.port == 0:
                raise ValueError("not a Bolt address")
        except ValueError as error:
            raise BadSettings(
                "PEGAS_MEMGRAPH_URL names no Bolt server.", "Give an address such as bolt://127.0.0.1:7687."
            ) from error
        self._address = parts._replace(netloc=parts.netloc.rpartition("@")[2], path="").geturl()
        self._database = unquote(parts.path.strip("/")) or None
        login = (user or unquote(parts.username or ""), password or unquote(parts.password or ""))
        self._login = login if any(login) else None
        self._answer_seconds = answer_seconds
        self._retry_seconds = retry_seconds
        self._opening = threading.Lock()
        self._driver: Driver | None = None
        self._spoken: Dialect | None = None

    def write(self, work: Callable[[Transaction], T]) -> T:
        """One transaction, tried again when it collides with another: ``work`` may run several times.

        Raises:
            GraphUnavailable: the server is down or does not answer. Whether the work was done may be unknown.
            BadSettings: the login was refused, or there is no such database.
        """
        return self._managed(work, reading=False)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """As :meth:`write`, in a transaction that the server is told to keep read-only."""
        return self._managed(work, reading=True)

    def prepare(self) -> None:
        """Make the indexes and constraints. Each statement is a transaction of its own, as Memgraph wants it."""
        from neo4j.exceptions import ClientError

        for alternatives in schema_of(self.dialect):
            for n, text in enumerate(alternatives, 1):
                with translated(), self._session(reading=False) as session:
                    try:
                        session.run(text).consume()
                        break
                    except ClientError:  # Memgraph names no syntax error apart
                        if n == len(alternatives):
                            raise

    @property
    def dialect(self) -> Dialect:
        if self._spoken is None:
            with translated():
                self._spoken = spoken_by(self._open().get_server_info().agent)
        return self._spoken

    def close(self) -> None:
        with self._opening:
            driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def _managed(self, work: Callable[[Transaction], T], *, reading: bool) -> T:
        from neo4j.exceptions import ConstraintError

        dialect = self.dialect
        tries = 0

        def counted(transaction: ManagedTransaction) -> T:
            nonlocal tries
            tries += 1
            if tries > MOST_TRIES:
                raise GraphUnavailable(f"The graph server refused one transaction {MOST_TRIES} times in a row.")
            return work(Transaction(transaction, dialect))

        while True:
            with translated(), self._session(reading=reading) as session:
                try:
                    return session.execute_read(counted) if reading else session.execute_write(counted)
                except ConstraintError:  # another writer created the same thing first: now it can be seen
                    if tries >= MOST_TRIES:
                        raise
            time.sleep(random.uniform(0.0, 0.02 * tries))

    @contextmanager
    def _session(self, *, reading: bool) -> Iterator[Session]:
        from neo4j import READ_ACCESS, WRITE_ACCESS

        mode = READ_ACCESS if reading else WRITE_ACCESS
        with self._open().session(database=self._database, default_access_mode=mode) as session:
            yield session

    def _open(self) -> Driver:
        # Imported at the first use: it takes a third of a second, and most installations have no server.
        from neo4j import GraphDatabase, NotificationMinimumSeverity
        from neo4j.exceptions import ConfigurationError

        with self._opening:
            if self._driver is None:
                logging.getLogger("neo4j").setLevel(logging.ERROR)  # it warns at each try; the last one is said here
                try:
                    self._driver = GraphDatabase.driver(
                        self._address,
                        auth=self._login,
                        connection_timeout=CONNECT_SECONDS,
                        connection_acquisition_timeout=CONNECT_SECONDS + 2,
                        max_transaction_retry_time=self._retry_seconds,
                        initial_retry_delay=0.05,
                        notifications_min_severity=NotificationMinimumSeverity.OFF,
                        user_agent="pegas-memory",
                    )
                except (ConfigurationError, ValueError) as error:
                    raise BadSettings("PEGAS_MEMGRAPH_URL cannot be used by the Bolt driver.") from error
                _bound_answers(self._driver, self._answer_seconds)
            return self._driver


def _bound_answers(driver: Driver, seconds: float) -> None:
    """A server that stops answering must not hold a thread for ever. The driver sets such a limit only when the
    server asks for one, so it is set on each connection as it is opened."""
    pool: Any = driver._pool
    opener = pool.opener

    def bounded(*arguments: Any, **named: Any) -> Any:
        connection = opener(*arguments, **named)
        connection.socket.set_read_timeout(seconds)
        connection.socket.set_write_timeout(seconds)
        return connection

    pool.opener = bounded


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into ours; our own pass untouched."""
    from neo4j.exceptions import AuthError, DriverError, Neo4jError

    try:
        yield
    except PegasError:
        raise
    except AuthError as error:
        raise _refused() from error
    except Neo4jError as error:
        raise _said(error.code or "") from error
    except (DriverError, OSError) as error:
        raise GraphUnavailable("The graph server cannot be reached.") from error


_OF_THE_ROWS = frozenset({"Statement", "Schema"})
"""Groups of errors that say something about the rows of a request, and nothing about the server."""


def _said(code: str) -> PegasError:
    last = code.rpartition(".")[2]
    if last in _REFUSED:
        return _refused()
    if last == "DatabaseNotFound":
        return BadSettings(_SAID[last], "Correct it, or leave the name out for the server's own.")
    if ".ClientError." in code and code.split(".")[2] in _OF_THE_ROWS:
        return InvalidParameter(
            f"The graph server refuses what it is given ({code}).", "See its own log for the reason."
        )
    return GraphUnavailable(_SAID.get(last, f"The graph server answered with an error ({code or 'no code'})."))


def _refused() -> BadSettings:
    return BadSettings("The graph server refused the login.", "Check PEGAS_MEMGRAPH_USER and PEGAS_MEMGRAPH_PASSWORD.")
