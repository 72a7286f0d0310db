"""The running server process: finding it, starting it, waiting for it, ending it.

A pid is ours when that process is a PostgreSQL server whose working directory *is* our data folder
(compared by device and inode, which stays right when the home is moved). Any other process with the
pid of a stale ``postmaster.pid`` is a stranger: it is neither trusted nor signalled.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pegas_memory.db.embedded import child, locks
from pegas_memory.db.embedded.account import Account
from pegas_memory.db.embedded.binaries import Binaries
from pegas_memory.db.embedded.cluster import entrance
from pegas_memory.db.embedded.place import PORT, SOCKET_NAME, Place
from pegas_memory.errors import DatabaseUnavailable

READY_SECONDS = 120.0  # recovery after a crash reads up to max_wal_size
GONE_SECONDS = 0.5  # a process has no command line for a moment while it becomes another program
FAST_SECONDS = 30.0
IMMEDIATE_SECONDS = 10.0
ORPHAN_SECONDS = 2.0

# In force at each start and not stored with the cluster, so that they are those of this version.
SETTINGS: dict[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "min_wal_size": "32MB",
    # A killed client's transaction ends in 0.2 s instead of 7.8 s (measured).
    "client_connection_check_interval": "500ms",
    "idle_in_transaction_session_timeout": "60s",
    # Not /dev/shm: containers give it 64 MB, and a logout may empty it under a running server (RemoveIPC).
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # The log tells what happened, not what was stored.
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
}


@dataclass(frozen=True)
class PidFile:
    pid: int
    ready: bool


def read_pid_file(data: Path) -> PidFile | None:
    """What ``postmaster.pid`` says; None when it is absent or not (yet) whole enough to have a pid."""
    try:
        lines = (data / "postmaster.pid").read_text(errors="replace").splitlines()
        return PidFile(int(lines[0]), ready=len(lines) > 7 and lines[7].strip() == "ready")
    except (FileNotFoundError, IndexError, ValueError):
        return None


def find(data: Path) -> int | None:
    """The pid of the server that runs on ``data``, if one does."""
    written = read_pid_file(data)
    return written.pid if written is not None and _is_postmaster(written.pid, data) else None


def _argv0(pid: int) -> str:
    """The command's first word; empty for a process that is gone, or dead and not yet reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 1)[0].decode(errors="replace")
    except OSError:
        return ""


def _works_in(pid: int, data: Path) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/cwd"), os.stat(data))
    except OSError:
        return False


def _is_postmaster(pid: int, data: Path) -> bool:
    return os.path.basename(_argv0(pid)) == "postgres" and _works_in(pid, data)


def _is_orphan(pid: int, data: Path) -> bool:
    """A server process of ours; its title is ``postgres: …`` unless it was forked this very moment."""
    argv0 = _argv0(pid)
    return (argv0.startswith("postgres:") or os.path.basename(argv0) == "postgres") and _works_in(pid, data)


def _signal(pid: int, data: Path, number: signal.Signals, *, orphan: bool = False) -> None:
    """Send ``number`` to ``pid`` if it is ours; the handle keeps a reused pid from being hit instead."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if _is_orphan(pid, data) if orphan else _is_postmaster(pid, data):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass  # it ended between the look and the signal, which is what was wanted
    finally:
        os.close(handle)


class Held:
    """A server process that is known whatever becomes of its folder: its descriptor never names another."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError: it ended already."""
        self._handle = os.pidfd_open(pid)

    def alive(self) -> bool:
        return not self._ended_within(0.0)

    def end(self) -> None:
        """Immediate shutdown, then the kill that its processes notice by themselves; each bounded."""
        for number in (signal.SIGQUIT, signal.SIGKILL):
            try:
                signal.pidfd_send_signal(self._handle, number)
            except ProcessLookupError:
                return
            if self._ended_within(IMMEDIATE_SECONDS):
                return

    def close(self) -> None:
        os.close(self._handle)

    def _ended_within(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def hold(data: Path) -> Held | None:
    """The server that runs on ``data``, if one does, held."""
    pid = find(data)
    if pid is None:
        return None
    try:
        held = Held(pid)
    except ProcessLookupError:
        return None
    if _is_postmaster(pid, data):  # so the descriptor is that of the server, not of who got its number
        return held
    held.close()
    return None


def end_orphans(data: Path, waited: float) -> None:
    """End what a killed postmaster left behind and did not end by itself; called while waiting for it."""
    if waited < ORPHAN_SECONDS:
        return
    number = signal.SIGQUIT if waited < 2 * ORPHAN_SECONDS else signal.SIGKILL
    for entry in os.listdir("/proc"):
        if entry.isdigit() and _is_orphan(int(entry), data):
            _signal(int(entry), data, number, orphan=True)


def launch(place: Place, binaries: Binaries, account: Account, socket: Path, log: int, lock: int) -> int:
    """Start the server as nobody's child, in a session of its own; returns its pid.

    It and its processes inherit ``lock``, so that the lock is free exactly when all of them are gone.
    """
    for left in (socket / SOCKET_NAME, socket / f"{SOCKET_NAME}.lock"):
        left.unlink(missing_ok=True)
    with entrance(place.data) as (data, data_path), entrance(socket) as (run, run_path):
        options = {**SETTINGS, "unix_socket_directories": run_path}
        server = [str(binaries.postgres), "-D", data_path]
        for name, value in options.items():
            server += ["-c", f"{name}={value}"]
        done = child.run(_detached(server), account, log=log, keep=(data, run, lock))
    if done.code != 0:
        raise DatabaseUnavailable("PostgreSQL could not be started.")
    return int(done.output)


def _detached(server: Sequence[str]) -> list[str]:
    """A shell that starts ``server`` in the background, tells its pid and ends; arguments stay a list."""
    return ["/bin/sh", "-c", '"$@" </dev/null >&2 & echo $!', "sh", *server]


def forget_dead_server(data: Path) -> None:
    """Called under the server lock, when no server process of ours can be alive any more."""
    (data / "postmaster.pid").unlink(missing_ok=True)


def wait_until_ready(data: Path, pid: int) -> bool:
    """Wait until the server takes connections; False when it ended instead.

    Raises:
        DatabaseUnavailable: still recovering after ``READY_SECONDS``; it is left to go on.
    """
    deadline = time.monotonic() + READY_SECONDS
    seen = time.monotonic()
    while time.monotonic() < deadline:
        written = read_pid_file(data)
        if written is not None and written.pid == pid and written.ready:
            return True
        if _argv0(pid):
            seen = time.monotonic()
        elif time.monotonic() - seen > GONE_SECONDS:
            return False
        time.sleep(locks.STEP)
    raise DatabaseUnavailable("PostgreSQL is still recovering from a crash.", "Try again in a minute.")


def end(data: Path, pid: int) -> None:
    """Fast shutdown of our server, then immediate (recovers at the next start), each bounded.

    Raises:
        DatabaseUnavailable: it outlived both.
    """
    for number, seconds in ((signal.SIGINT, FAST_SECONDS), (signal.SIGQUIT, IMMEDIATE_SECONDS)):
        _signal(pid, data, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _is_postmaster(pid, data):
                return
            time.sleep(locks.STEP)
    raise DatabaseUnavailable("PostgreSQL does not stop.")
