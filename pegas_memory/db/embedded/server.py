"""The embedded PostgreSQL server of one ``PEGAS_HOME``."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import psycopg

from pegas_memory.db.embedded import binaries, child, cluster, locks, place, postmaster
from pegas_memory.db.embedded.account import NAME, Account, server_account
from pegas_memory.db.embedded.cluster import DATABASE, LOGIN, SUPERUSER
from pegas_memory.db.embedded.place import PORT, SOCKET_NAME, Place
from pegas_memory.errors import DatabaseUnavailable, DiskFull, HomeNotWritable

FREE_BYTES_NEEDED = 100 * 1024 * 1024
TURN_SECONDS = 240.0  # longer than the slowest start of the process that holds the lock
LEFTOVER_SECONDS = 90.0  # an orphaned initdb on a busy machine was seen to take 12
LOGIN_SECONDS = 30.0
Login = Literal["in", "refused", "gone"]
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


class EmbeddedPostgres:
    """Makes, starts, adopts and stops the server whose files are in ``home/postgres``.

    Any number of processes may hold one for the same home; the server outlives them all until one
    calls :meth:`stop`. Started by root, the server runs as another account (see ``account``), which
    needs no access to ``home``: see ``cluster``. Linux only (``/proc``, ``pidfd``).
    """

    def __init__(self, home: Path, *, major: int = 18) -> None:
        if major not in binaries.FOLDERS:
            raise ValueError(f"major is one of {sorted(binaries.FOLDERS)}")
        self._place = Place(Path(os.path.abspath(home)) / "postgres")
        self._major = major
        self._held: postmaster.Held | None = None

    def start(self) -> None:
        """Return when the server takes connections: made, started, or found running, as need be.

        Raises:
            HomeNotWritable, DiskFull, WrongPostgresVersion, DatabaseUnavailable.
        """
        with _home_errors():
            place.prepare(self._place.folder.parent)
            with locks.held(self._place.start_lock, TURN_SECONDS, "another process that starts PostgreSQL"):
                self._start()

    def stop(self) -> None:
        """Fast shutdown of the server of this home, if one runs; nothing else is ever signalled.

        Raises:
            DatabaseUnavailable: it does not stop.
        """
        if not self._place.folder.exists():
            self.abandon()
            return
        with (
            _home_errors(),
            locks.held(self._place.start_lock, TURN_SECONDS, "another process that starts PostgreSQL"),
        ):
            self._stop()
            place.remove_socket_folder(self._place)

    def abandon(self) -> None:
        """End at once the server that this object started or adopted; no file is needed or touched, since
        its folder may be gone, without which :meth:`stop` would not find it."""
        held, self._held = self._held, None
        if held is not None:
            held.end()
            held.close()

    def made(self) -> bool:
        """Whether the home holds a cluster now."""
        return self._place.data.is_dir()

    def alive(self) -> bool:
        """Whether the server process runs (a look at ``/proc``, no connection)."""
        try:
            return postmaster.find(self._place.data) is not None
        except OSError:
            return False

    @property
    def url(self) -> str:
        """SQLAlchemy URL of the login role, which owns the database and is no superuser.

        Read from files at each call: after a :meth:`start` by any process it may name another socket folder.

        Raises:
            DatabaseUnavailable: nobody has started the server of this home yet.
        """
        return self._url(LOGIN)

    @property
    def superuser_url(self) -> str:
        """As :attr:`url`, for the superuser: for repair by hand, and for tests that need one."""
        return self._url(SUPERUSER)

    def describe(self) -> dict[str, str]:
        """What a report wants to say: where things are and whether the server runs. Writes nothing."""
        try:
            return self._describe()
        except OSError as error:
            return {"state": f"cannot be looked at: {error.strerror}", "folder": str(self._place.folder)}

    def _start(self) -> None:
        cluster.check_version(self._place.data, self._major)
        account = server_account(self._place.data)
        secret = place.passwords(self._place, SUPERUSER, LOGIN)
        if not secret.fresh and self._adopt():
            place.trim_log(self._place)
            self._hold()
            return
        self._stop()
        self._check_space()
        self._launch(account, secret, mend_passwords=secret.fresh)
        entered = self._login()
        if entered == "refused":
            self._stop()
            self._launch(account, secret, mend_passwords=True)
            entered = self._login()
        if entered != "in":
            raise DatabaseUnavailable("The embedded PostgreSQL was started and does not let its own role in.")
        self._hold()

    def _adopt(self) -> bool:
        """Whether a server runs and serves: ready, its socket in place, our password known to it."""
        pid = postmaster.find(self._place.data)
        if pid is None or not postmaster.wait_until_ready(self._place.data, pid):
            return False
        folder = place.socket_folder(self._place)
        if folder is None or not (folder / SOCKET_NAME).exists():
            return False  # a cleaner of temporary folders took the socket away
        return self._login() == "in"

    def _launch(self, account: Account, secret: place.Passwords, *, mend_passwords: bool) -> None:
        waiting_for = "processes of the last PostgreSQL server of this home (in another container, perhaps)"
        data = self._place.data

        def end_leftovers(waited: float) -> None:
            postmaster.end_orphans(data, waited)

        with locks.held(self._place.server_lock, LEFTOVER_SECONDS, waiting_for, end_leftovers) as lock:
            programs = binaries.usable(self._major, account)
            postmaster.forget_dead_server(data)
            if cluster.made_by(data) is None:
                cluster.create(self._place, programs, account, secret, self._major, lock)
            elif mend_passwords:
                cluster.set_passwords(self._place, programs, account, secret, lock)
            socket = place.settle_socket_folder(self._place, account)
            self._run(programs, account, socket, lock)

    def _run(self, programs: binaries.Binaries, account: Account, socket: Path, lock: int) -> None:
        log = place.open_log(self._place)
        try:
            said_before = os.fstat(log).st_size
            pid = postmaster.launch(self._place, programs, account, socket, log, lock)
        finally:
            os.close(log)
        if not postmaster.wait_until_ready(self._place.data, pid):
            with self._place.log.open("rb") as file:
                file.seek(said_before)
                said = file.read(64 * 1024).decode(errors="replace")
            raise child.failure("Starting PostgreSQL", said)

    def _stop(self) -> None:
        pid = postmaster.find(self._place.data)
        if pid is not None:
            postmaster.end(self._place.data, pid)
        self.abandon()  # one whose folder was taken away is found by no file

    def _hold(self) -> None:
        if self._held is not None:
            if self._held.alive():
                return
            self._held.close()
        self._held = postmaster.hold(self._place.data)

    def _check_space(self) -> None:
        free = shutil.disk_usage(self._place.folder).free
        if free < FREE_BYTES_NEEDED:
            raise DiskFull(
                f"PostgreSQL is not started with {free // 2**20} MB of disk space left; "
                f"it needs {FREE_BYTES_NEEDED // 2**20} MB."
            )

    def _login(self) -> Login:
        """Try the login role, again while the server is alive but busy recovering from a crash.

        Raises:
            DatabaseUnavailable: alive for ``LOGIN_SECONDS`` and still not serving.
        """
        deadline = time.monotonic() + LOGIN_SECONDS
        while True:
            try:
                self._connect_once()
                return "in"
            except psycopg.OperationalError as error:
                said = str(error)
                if "too many clients" in said or "remaining connection slots" in said:
                    return "in"  # it serves; that is all this asks
                if "password authentication failed" in said:
                    return "refused"
                if not self.alive():
                    return "gone"  # killed this very moment
                if time.monotonic() > deadline:
                    raise DatabaseUnavailable("The embedded PostgreSQL runs but does not take connections.") from error
            time.sleep(locks.STEP)

    def _connect_once(self) -> None:
        with psycopg.connect(
            host=str(place.socket_folder(self._place)),
            port=PORT,
            user=LOGIN,
            password=place.read_password(self._place, LOGIN),
            dbname=DATABASE,
            connect_timeout=10,
        ) as connection:
            connection.execute("SELECT 1")

    def _url(self, role: str) -> str:
        with _home_errors():
            folder = place.socket_folder(self._place)
            password = place.read_password(self._place, role)
        if folder is None or not password:
            raise DatabaseUnavailable("The embedded PostgreSQL of this home has not been started yet.")
        return f"postgresql+psycopg://{role}:{password}@/{DATABASE}?host={quote(str(folder), safe='')}&port={PORT}"

    def _describe(self) -> dict[str, str]:
        made_by = cluster.made_by(self._place.data)
        pid = postmaster.find(self._place.data)
        folder = place.socket_folder(self._place)
        told = {
            "state": f"running (pid {pid})" if pid else "stopped" if made_by else "not made yet",
            "version": f"PostgreSQL {made_by or self._major}",
            "data": str(self._place.data),
            "socket": str(folder / SOCKET_NAME) if folder else "",
            "log": str(self._place.log),
            "database": DATABASE,
        }
        if os.geteuid() != 0:
            return told
        if made_by is not None:
            account = server_account(self._place.data)
            weak = (
                f" (shared with other services; create {NAME} for a stronger wall)" if account.name == "nobody" else ""
            )
            told["account"] = account.name + weak
        shared = binaries.shared(self._major)
        told["binaries"] = f"copied to {shared}" if shared.exists() else "of the Python environment"
        return told


@contextmanager
def _home_errors() -> Iterator[None]:
    """The file system's refusals in this product's words."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise DiskFull("The disk of PEGAS_HOME is full.") from error
        raise HomeNotWritable(f"PEGAS_HOME cannot be used: {error.strerror or 'unknown reason'}.") from error
