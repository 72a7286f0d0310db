"""Where the engine of a PEGAS_HOME is met: its socket, its locks, its last error.

Everything stands in ``PEGAS_HOME/run`` (0700). A Unix address holds about 107 bytes; behind a longer
path the socket is reached through an open descriptor of its folder, so no shared folder is needed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pegas_memory import wire
from pegas_memory.errors import DiskFull, EngineUnavailable, HomeNotWritable, PegasError

LONGEST_ADDRESS = 100
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def refusal(error: OSError, what: str) -> PegasError:
    """What the file system's ``error`` means for PEGAS_HOME: DiskFull or HomeNotWritable."""
    if error.errno in _NO_SPACE:
        return DiskFull("The disk of PEGAS_HOME is full.")
    return HomeNotWritable(f"{what} ({error.strerror}).")


class Place:
    """The run folder of one PEGAS_HOME. Holds paths only; nothing is created before :meth:`prepare`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "run"
        self.socket = self.folder / "engine.sock"
        self.engine_lock = self.folder / "engine.lock"
        self.spawn_lock = self.folder / "spawn.lock"
        self.last_error = self.folder / "engine.error.json"
        self.log = home / "logs" / "engine.log"

    def prepare(self) -> None:
        """Make the folders.

        Raises:
            HomeNotWritable: PEGAS_HOME cannot be made or written to, or belongs to another user. DiskFull.
        """
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (self.folder, self.log.parent):
                folder.mkdir(exist_ok=True, mode=0o700)
                if folder.stat().st_mode & 0o077:
                    folder.chmod(0o700)
        except OSError as error:
            raise refusal(error, "PEGAS_HOME cannot be written to") from error

    def identity(self) -> str:
        """A random name of this home, made at first need: its path is no name, since two machines may
        use the same path with one database.

        Raises:
            HomeNotWritable, DiskFull.
        """
        file = self.home / "home-id"
        try:
            if not file.exists():
                self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
                made = file.with_name(f"home-id.{os.getpid()}.{secrets.token_hex(4)}")
                made.write_text(secrets.token_hex(8), encoding="ascii")
                with suppress(FileExistsError):
                    os.link(made, file)
                made.unlink()
            return file.read_text(encoding="ascii").strip()
        except OSError as error:
            raise refusal(error, "PEGAS_HOME cannot be written to") from error

    def dial(self, timeout: float) -> socket.socket:
        """A connection to whoever listens.

        Raises:
            EngineUnavailable: nobody does, or it did not accept within ``timeout`` seconds.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            with self._address() as address:
                connection.connect(address)
        except OSError as error:
            connection.close()
            raise EngineUnavailable("No engine is listening.") from error
        return connection

    def listen(self, backlog: int) -> socket.socket:
        """The listening socket, mode 0600. Only for the holder of the engine lock: what stood there goes.

        Raises:
            HomeNotWritable: the file system takes no socket here, or something that is no file is in its place.
            DiskFull.
        """
        if self.socket.is_dir() and not self.socket.is_symlink():
            raise HomeNotWritable(f"A folder stands where the engine's socket has to be (run/{self.socket.name}).",
                                  "Remove that folder from PEGAS_HOME.")  # fmt: skip
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.unlink(missing_ok=True)
            with self._address() as address:
                listener.bind(address)
            self.socket.chmod(0o600)
            listener.listen(backlog)
        except OSError as error:
            listener.close()
            raise refusal(error, "PEGAS_HOME takes no socket") from error
        return listener

    @contextmanager
    def _address(self) -> Iterator[str]:
        if len(os.fsencode(self.socket)) <= LONGEST_ADDRESS:
            yield str(self.socket)
            return
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{descriptor}/{self.socket.name}"
        finally:
            os.close(descriptor)

    def note_error(self, error: PegasError) -> None:
        """Leave ``error`` for the callers who find no engine."""
        content = json.dumps(wire.error_out(error))
        try:
            self.last_error.write_text(content, encoding="utf-8")
        except OSError:
            with suppress(OSError):
                self.last_error.unlink(missing_ok=True)  # half of it, or an older one; the exit code says the rest

    def noted_error(self) -> PegasError | None:
        try:
            return wire.error_in(json.loads(self.last_error.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None

    def forget_error(self) -> None:
        """Raises HomeNotWritable."""
        try:
            self.last_error.unlink(missing_ok=True)
        except OSError as error:
            raise refusal(error, "PEGAS_HOME cannot be written to") from error


class FileLock:
    """An exclusive flock. The file stays: removing it would let two holders hold two files."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, *, wait: float = 0.0, give_up: Callable[[], bool] = lambda: False) -> bool:
        """True once held; False after ``wait`` seconds, or as soon as ``give_up()`` says so.

        Raises:
            HomeNotWritable: the lock file cannot be opened. DiskFull: nor made.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise refusal(error, "A lock below PEGAS_HOME cannot be taken") from error
        deadline = time.monotonic() + wait
        while not _try_flock(descriptor):
            if time.monotonic() >= deadline or give_up():
                os.close(descriptor)
                return False
            time.sleep(0.02)
        self._descriptor = descriptor
        return True

    def write(self, content: str) -> None:
        """Say in the file who holds it: for people, so that a full disk, which cannot take it, ends nobody."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, content.encode(), 0)

    def in_place(self) -> bool:
        """False when the file we hold is no longer the one that newcomers would lock."""
        if self._descriptor is None:
            return False
        try:
            ours, theirs = os.fstat(self._descriptor), self._path.stat()
        except OSError:
            return False
        return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _try_flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path: Path) -> bool:
    """Whether someone holds the lock now. Takes it for a moment: ask under the spawn lock only."""
    lock = FileLock(path)
    held = not lock.take()
    lock.release()
    return held
