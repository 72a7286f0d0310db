"""Making the data folder: ``initdb``, our ``pg_hba.conf``, the login role and its database.

All of it happens in a sibling folder that is renamed to ``data`` when complete, so a data folder is
either whole or not there. Role and database are made in PostgreSQL's single-user mode: no server, no
socket and no password that would have to be given to a client before anything is protected by it.

The server's account is never asked to enter ``PEGAS_HOME``: a child inherits a descriptor of its
folder and names it ``/proc/self/fd/N``. So, as root too, the cluster lies below a home of mode 0700
without widening it, and no quote, ``$`` or length of its path meets a shell or PostgreSQL's limits.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pegas_memory.db.embedded import child
from pegas_memory.db.embedded.account import Account
from pegas_memory.db.embedded.binaries import Binaries
from pegas_memory.db.embedded.place import Passwords, Place, sync_folder
from pegas_memory.errors import WrongPostgresVersion

SUPERUSER = "postgres"
LOGIN = "pegas"
DATABASE = "pegas"
HBA = "# Written by pegas-memory: the socket only, a password always.\nlocal all all scram-sha-256\n"
# PostgreSQL 17 brought a locale of its own; before it, lower() of Cyrillic needs the system's C.UTF-8.
BUILTIN_LOCALE = "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LC_COLLATE 'C' LC_CTYPE 'C'"
LIBC_LOCALE = "LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"


@contextmanager
def entrance(folder: Path) -> Iterator[tuple[int, str]]:
    """A descriptor of ``folder``, and the path by which a child that inherits it reaches the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield descriptor, f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def made_by(data: Path) -> int | None:
    """The major version that made ``data``; None when there is no cluster yet."""
    try:
        return int((data / "PG_VERSION").read_text().strip())
    except FileNotFoundError:
        return None


def check_version(data: Path, major: int) -> None:
    """Raise ``WrongPostgresVersion`` unless ``data`` is empty or of ``major``."""
    found = made_by(data)
    if found is not None and found != major:
        raise WrongPostgresVersion(
            f"The data folder was made by PostgreSQL {found}, and this is PostgreSQL {major}.",
            f"Export with the pegas-memory that runs PostgreSQL {found} and import into a new PEGAS_HOME, "
            f"or serve that folder with PostgreSQL {found} and set PEGAS_DATABASE_URL.",
        )


def create(place: Place, binaries: Binaries, account: Account, secret: Passwords, major: int, lock: int) -> None:
    """Make the cluster. ``lock`` is inherited, so that an orphaned initdb is waited for, not raced.

    Raises:
        DatabaseUnavailable, DiskFull: a step failed; nothing of it remains under the name ``data``.
    """
    for unfinished in place.folder.glob("data.new-*"):
        shutil.rmtree(unfinished)
    new = Path(tempfile.mkdtemp(prefix="data.new-", dir=place.folder))
    if account.switch:
        os.chown(new, account.uid, account.gid)
    try:
        _initdb(new, binaries, account, lock)
        _single_user(new, binaries, account, lock, _setup(secret, major))
        new.rename(place.data)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    sync_folder(place.folder)


def set_passwords(place: Place, binaries: Binaries, account: Account, secret: Passwords, lock: int) -> None:
    """Give a stopped cluster the passwords on file (they were lost, or restored from elsewhere)."""
    _single_user(place.data, binaries, account, lock, _password_statements(secret))


def _initdb(data: Path, binaries: Binaries, account: Account, lock: int) -> None:
    with entrance(data) as (descriptor, path):
        command: list[str | Path] = [
            binaries.initdb,
            "-D",
            path,
            f"--username={SUPERUSER}",
            "--auth=reject",
            "--encoding=UTF8",
        ]
        # Small WAL segments: a new home takes 38 MB instead of 46.
        options = ["--locale=C", "--data-checksums", "--wal-segsize=4", "--no-instructions"]
        done = child.run([*command, *options], account, keep=(descriptor, lock))
    if done.code != 0:
        raise child.failure("Making the database folder", done.said)
    (data / "pg_hba.conf").write_text(HBA, encoding="ascii")


def _single_user(data: Path, binaries: Binaries, account: Account, lock: int, statements: list[str]) -> None:
    with entrance(data) as (descriptor, path):
        command: list[str | Path] = [
            binaries.postgres,
            "--single",
            "-j",
            "-D",
            path,
            "-c",
            "exit_on_error=on",
            SUPERUSER,
        ]
        script = "".join(f"{statement};\n\n" for statement in statements)
        done = child.run(command, account, text=script, keep=(descriptor, lock))
    if done.code != 0:
        raise child.failure("Setting up the database", done.said)


def _password_statements(secret: Passwords) -> list[str]:
    return [
        f"ALTER ROLE {SUPERUSER} PASSWORD '{secret.superuser}'",
        f"ALTER ROLE {LOGIN} PASSWORD '{secret.login}'",
    ]


def _setup(secret: Passwords, major: int) -> list[str]:
    locale = BUILTIN_LOCALE if major >= 17 else LIBC_LOCALE
    return [
        f"CREATE ROLE {LOGIN} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOREPLICATION",
        *_password_statements(secret),
        f"CREATE DATABASE {DATABASE} OWNER {LOGIN} TEMPLATE template0 ENCODING 'UTF8' {locale}",
        f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC",
    ]
