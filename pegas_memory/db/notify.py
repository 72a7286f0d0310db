"""LISTEN on a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from pegas_memory.db.session import conninfo_of
from pegas_memory.errors import DatabaseUnavailable


class Listener:
    """Waits for NOTIFY. Not thread-safe: one per waiting thread."""

    def __init__(self, url: str, channels: Sequence[str]) -> None:
        self._url = url
        self._channels = tuple(channels)
        self._connection: psycopg.Connection | None = None

    def wait(self, timeout: float) -> set[str]:
        """Names of the channels that were notified within ``timeout`` seconds (maybe none).

        Raises:
            DatabaseUnavailable: the connection is gone; the next call opens a new one.
        """
        try:
            connection = self._connect()
            heard: set[str] = set()
            for note in connection.notifies(timeout=timeout, stop_after=1):
                heard.add(note.channel)
            return heard
        except psycopg.Error as error:
            self.close()
            raise DatabaseUnavailable("The notification connection was lost.") from error

    def _connect(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                conninfo_of(self._url), autocommit=True, connect_timeout=10,
                application_name="pegas-memory listener",
            )  # fmt: skip
            for channel in self._channels:
                self._connection.execute(f"LISTEN {channel}".encode())
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
