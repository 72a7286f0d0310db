"""One process at a time for what several would otherwise do to one database: a session's advisory lock."""

from __future__ import annotations

import hashlib

import psycopg

from pegas_memory.db.session import conninfo_of
from pegas_memory.errors import DatabaseUnavailable


class Turn:
    """Held from the first :meth:`mine` that succeeds until :meth:`close` or the death of its connection.
    Not thread-safe: one per thread."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._key = int.from_bytes(hashlib.sha256(f"pegas turn {name}".encode()).digest()[:8], "big", signed=True)
        self._connection: psycopg.Connection | None = None
        self._held = False

    def mine(self) -> bool:
        """Whether it is ours now; takes it when it is free.

        Raises:
            DatabaseUnavailable: the connection is gone, and the turn with it; the next call opens a new one.
        """
        try:
            connection = self._connect()
            if self._held:
                connection.execute("SELECT 1")
            else:
                row = connection.execute("SELECT pg_try_advisory_lock(%s)", (self._key,)).fetchone()
                self._held = bool(row and row[0])
            return self._held
        except psycopg.Error as error:
            self.close()
            raise DatabaseUnavailable("The connection that held a worker's turn was lost.") from error

    def _connect(self) -> psycopg.Connection:
        if self._connection is None:
            self._connection = psycopg.connect(
                conninfo_of(self._url), autocommit=True, connect_timeout=10, application_name="pegas-memory turn"
            )
        return self._connection

    def close(self) -> None:
        connection, self._connection, self._held = self._connection, None, False
        if connection is not None:
            connection.close()
