"""A real Bolt and openCypher server: ArcadeDB from the `arcadedb-embedded` wheel, which brings its own Java.

It stands in for Memgraph, which has no package that a test run could start."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from neo4j import GraphDatabase
from neo4j.exceptions import DriverError, Neo4jError

USER = "root"
PASSWORD = "pegas-test-peer"
READER = ("reader", "pegas-test-reader")
DATABASE = "pegas"
START_SECONDS = 60.0
_GROUPS = {
    name: {"resultSetLimit": -1, "readTimeout": -1, "access": on_server, "types": {"*": {"access": on_records}}}
    for name, on_server, on_records in (
        (
            "admin",
            ["updateSecurity", "updateSchema", "updateDatabaseSettings"],
            ["createRecord", "readRecord", "updateRecord", "deleteRecord"],
        ),
        ("readers", [], ["readRecord"]),
    )
}


def installed() -> Path | None:
    """The folder with ``jre`` and ``jars``. The package is not imported: that would start a Java machine here."""
    package = importlib.util.find_spec("arcadedb_embedded")
    folder = Path(package.origin).parent if package and package.origin else None
    return folder if folder and (folder / "jre/bin/java").exists() else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class BoltPeer:
    """One server on a folder of its own. ``kill`` and ``start`` again keep folder and ports."""

    user = USER
    password = PASSWORD
    reader = READER
    """A login that may only read."""

    def __init__(self, folder: Path | None = None) -> None:
        package = installed()
        if package is None:
            raise LookupError("arcadedb-embedded is not installed")
        self._package = package
        self._own = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="pb-", dir="/tmp"))
        self.port = 0
        self._http_port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.url_through(self.port)

    def url_through(self, port: int) -> str:
        """The address by way of a proxy that listens on ``port``."""
        return f"bolt://127.0.0.1:{port}/{DATABASE}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> BoltPeer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Start the server and wait until it answers a query."""
        for name in ("databases", "log", "config"):
            (self.folder / name).mkdir(exist_ok=True)
        groups = {"databases": {"*": {"groups": _GROUPS}}, "version": 1}
        (self.folder / "config/server-groups.json").write_text(json.dumps(groups))
        known = self.port
        for _ in range(3):  # a port that was free may be taken by the time the server wants it
            self.port, self._http_port = known or free_port(), free_port()
            if self._started():
                return
            self.kill()
        raise RuntimeError(f"the Bolt peer did not start:\n{(self.folder / 'console.txt').read_text()[-3000:]}")

    def _started(self) -> bool:
        with (self.folder / "console.txt").open("ab") as console:
            process = self._process = subprocess.Popen(
                self._command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=console, stderr=console
            )
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(0.2)
        return False

    def _command(self) -> list[str]:
        settings = {
            "server.rootPath": self.folder,
            "server.databaseDirectory": self.folder / "databases",
            "server.rootPassword": PASSWORD,
            "server.defaultDatabases": f"{DATABASE}[{USER}:{PASSWORD}:admin,{READER[0]}:{READER[1]}:readers]",
            "server.plugins": "BoltProtocolPlugin",
            "bolt.host": "127.0.0.1",
            "bolt.port": self.port,
            "server.httpIncomingHost": "127.0.0.1",
            "server.httpIncomingPort": self._http_port,
        }
        java = [str(self._package / "jre/bin/java"), "-Xmx768m", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
        options = [f"-Darcadedb.{name}={value}" for name, value in settings.items()]
        return [*java, *options, "-cp", str(self._package / "jars/*"), "com.arcadedb.server.ArcadeDBServer"]

    def _answers(self) -> bool:
        address = f"bolt://127.0.0.1:{self.port}"
        try:
            with (
                GraphDatabase.driver(address, auth=(USER, PASSWORD), connection_timeout=2.0) as driver,
                driver.session(database=DATABASE) as session,
            ):
                session.run("RETURN 1").consume()
        except (DriverError, Neo4jError, OSError):
            return False
        return True

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            os.kill(process.pid, number)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)

    def close(self) -> None:
        self.kill()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)
