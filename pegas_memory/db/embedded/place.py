"""Where the embedded PostgreSQL keeps its files: all of them in ``PEGAS_HOME/postgres``.

    postgres/               0700, ours
        start.lock          held while somebody starts or stops the server
        server.lock         held by the server and each of its processes
        server.log          what PostgreSQL says (and server.log.1, the one before)
        superuser.password  0600
        pegas.password      0600
        socket.json         which socket folder is in use, for every process of this home
        data/               the cluster, 0700, of the server's account
        run/                the socket folder, 0700, of the server's account

A Unix socket's path has room for 107 bytes. Where ``run`` is too long for that, the socket folder is
one with a random name directly below ``/tmp``, which ``socket.json`` remembers.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pegas_memory.db.embedded.account import Account

PORT = 5432  # only a part of the socket's name; nothing listens on TCP
SOCKET_NAME = f".s.PGSQL.{PORT}"
SOCKET_PATH_BYTES = 90
SHORT = Path("/tmp")  # noqa: S108 - the folder below it is made 0700 with a random name and verified at each use
LOG_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Place:
    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def start_lock(self) -> Path:
        return self.folder / "start.lock"

    @property
    def server_lock(self) -> Path:
        return self.folder / "server.lock"

    @property
    def socket_record(self) -> Path:
        return self.folder / "socket.json"

    def password_file(self, role: str) -> Path:
        return self.folder / f"{role}.password"


@dataclass(frozen=True)
class Passwords:
    superuser: str
    login: str
    fresh: bool  # at least one was made just now, so an existing cluster does not know it yet


def prepare(home: Path) -> Place:
    """The place of ``home``, with its folder made; ``OSError`` when it cannot be."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = Place(home / "postgres")
    place.folder.mkdir(mode=0o700, exist_ok=True)
    if not os.access(place.folder, os.W_OK | os.X_OK):
        raise PermissionError(13, "Permission denied", str(place.folder))
    return place


def socket_folder(place: Place) -> Path | None:
    """The socket folder on record; None before the first start."""
    try:
        recorded = json.loads(place.socket_record.read_text())["folder"]
    except (FileNotFoundError, ValueError, KeyError):
        return None
    return place.folder / str(recorded)


def settle_socket_folder(place: Place, account: Account) -> Path:
    """A private, short socket folder, on record; the one on record when it still is both."""
    inside = place.folder / "run"
    known = socket_folder(place)
    if known is not None and known != inside and _private(known, account):
        return known
    if _fits(inside) and _private(inside, account):
        chosen = inside
    else:
        home = hashlib.sha256(os.fsencode(place.folder)).hexdigest()[:8]
        chosen = Path(tempfile.mkdtemp(prefix=f"pegas-{os.geteuid()}-{home}-", dir=SHORT))
        if account.switch:
            os.chown(chosen, account.uid, account.gid)
    if chosen != known:
        # A name inside the folder stays right when the whole home is moved.
        write_private(place.socket_record, json.dumps({"folder": "run" if chosen == inside else str(chosen)}))
    return chosen


def remove_socket_folder(place: Place) -> None:
    """Leave no empty folder below ``SHORT`` when the server has stopped; the next start makes it again."""
    known = socket_folder(place)
    if known is not None and known.parent == SHORT:
        try:
            known.rmdir()
        except OSError:
            pass  # gone already, or somebody keeps a file there


def _fits(folder: Path) -> bool:
    """libpq splits its ``host`` at commas, and a URL is UTF-8."""
    raw = os.fsencode(folder)
    if len(raw) + 1 + len(SOCKET_NAME) > SOCKET_PATH_BYTES or b"," in raw:
        return False
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _private(folder: Path, account: Account) -> bool:
    """A real folder of the server's account with mode 0700, made when absent; never mended."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass  # then it has to pass the same look as a new one
    except OSError:
        return False
    found = os.lstat(folder)
    if account.switch and found.st_uid == os.geteuid():
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
        found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and stat.S_IMODE(found.st_mode) == 0o700


def passwords(place: Place, superuser: str, login: str) -> Passwords:
    """The two passwords, made (256 bit, hexadecimal) where their file is missing."""
    known = [read_password(place, role) for role in (superuser, login)]
    made = [value or secrets.token_hex(32) for value in known]
    for role, old, new in zip((superuser, login), known, made, strict=True):
        if not old:
            write_private(place.password_file(role), new)
    return Passwords(made[0], made[1], fresh=made != known)


def read_password(place: Place, role: str) -> str:
    """The password on file; empty before there is one."""
    try:
        return place.password_file(role).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` by a 0600 file with ``text``, whole or not at all, durable."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_log(place: Place) -> int:
    """A descriptor to append to the log with; a log over ``LOG_BYTES`` is put aside first."""
    if place.log.exists() and place.log.stat().st_size > LOG_BYTES:
        place.log.replace(place.log.with_suffix(".log.1"))
    return os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def trim_log(place: Place) -> None:
    """Empty the log of a running server when it has grown over four times ``LOG_BYTES`` (it appends)."""
    if place.log.exists() and place.log.stat().st_size > 4 * LOG_BYTES:
        os.truncate(place.log, 0)
