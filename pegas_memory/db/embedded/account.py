"""The operating system's user that PostgreSQL runs as.

PostgreSQL refuses to run as root. Started by anyone else, it runs as that user. Started by root, it
runs as ``pegas-postgres``, a system account of its own that is made on first need; where accounts
cannot be made (no ``useradd``, a read-only ``/etc``) it falls back to ``nobody``, which is weaker,
since every other service that runs as ``nobody`` can then read the data folder: ``describe()`` says so.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from pegas_memory.errors import DatabaseUnavailable

NAME = "pegas-postgres"
FALLBACK = "nobody"
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Account:
    """``switch`` is true when a child must change its user to become this account."""

    name: str
    uid: int
    gid: int
    switch: bool


def server_account(data: Path | None = None) -> Account:
    """The account for the server; an existing ``data`` folder keeps the owner it has.

    Raises:
        DatabaseUnavailable: root, and no unprivileged account can be had.
    """
    uid = os.geteuid()
    if uid != 0:
        return Account(_name_of(uid), uid, os.getegid(), switch=False)
    if data is not None and data.exists():
        owner = data.stat()
        return Account(_name_of(owner.st_uid), owner.st_uid, owner.st_gid, switch=True)
    entry = _lookup(NAME) or _make() or _lookup(FALLBACK)
    if entry is None or entry.pw_uid == 0:
        raise DatabaseUnavailable(
            "PostgreSQL does not run as root and there is no other account for it.",
            f"Create one (`useradd --system {NAME}`), start as another user, or set PEGAS_DATABASE_URL.",
        )
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _lookup(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _make() -> pwd.struct_passwd | None:
    useradd = shutil.which("useradd", path=SYSTEM_PATH)
    if useradd is None:
        return None
    command = [useradd, "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    for _ in range(10):
        subprocess.run(
            [*command, "--shell", "/usr/sbin/nologin", NAME],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        # Its exit code does not say whether another process made the account meanwhile, or holds its lock.
        if (entry := _lookup(NAME)) is not None:
            return entry
        time.sleep(0.1)
    return None
