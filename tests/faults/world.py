"""The processes of one round, on a folder of their own: how they are started, found, killed and ended."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pegas_memory.config import load_settings
from pegas_memory.db.embedded import EmbeddedPostgres
from pegas_memory.engine_client import EngineClient
from pegas_memory.engine_client.place import FileLock, Place
from tests.homes import end_processes_of
from tests.postgres_servers import MAJORS, PostgresServer, binaries
from tests.support.bolt_peer import BoltPeer
from tests.support.engines import engines_of, eventually, gone, postgres_pid
from tests.support.tcp_proxy import TcpProxy

ROOT = Path(__file__).resolve().parents[2]
DISK_MEGABYTES = 900
EMBEDDING_DIMENSION = 48
DURABLE = {"synchronous_commit": "on", "full_page_writes": "on"}
"""What a server killed by itself needs to keep what it acknowledged; the machine stays up, so no fsync."""
Profile = Literal["embedded", "server", "workers"]


@dataclass(slots=True)
class Client:
    name: str
    kind: str
    tenant: str
    home: int
    life: int = 0
    process: subprocess.Popen[bytes] | None = None


class World:
    """``embedded``: one home with an engine and its own PostgreSQL. ``server``: a PostgreSQL server, a Bolt server,
    and two homes whose engines share both and take turns at what only one may write. ``workers``: no engine; two
    workers, and a stand-in of Qdrant's server besides. Servers of projections stand behind proxies. Three clients."""

    def __init__(self, profile: Profile, seed: int, *, small_disk: bool = False) -> None:
        self.profile, self.seed = profile, seed
        self.said: list[str] = []
        self.beside: list[subprocess.Popen[bytes]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="pf-", dir="/tmp"))
        self.docs, self.ledgers = self.folder / "docs", self.folder / "ledgers"
        for made in (self.docs, self.ledgers, self.folder / "logs"):
            made.mkdir()
        self.stop = self.folder / "stop"
        self._disk = self.folder / "disk"
        self._disk.mkdir()
        self.small_disk = small_disk and _mount(self._disk)
        self.homes = [self._disk / f"h{n}" for n in range(1 if profile == "embedded" else 2)]
        self._embedder = _Child("embedding_server", "--dimension", str(EMBEDDING_DIMENSION))
        self.server: PostgresServer | None = None
        self.peer: BoltPeer | None = None
        self.vectors: _Child | None = None
        self.proxies: dict[str, TcpProxy] = {}
        self._database = ""
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        if profile != "embedded":
            self._start_servers()
        self.settings = [load_settings(**self._settings_of(home)) for home in self.homes]
        last = len(self.homes) - 1
        self.clients = [
            Client("a", "library", "faults", 0), Client("b", "mcp", "faults", last), Client("c", "library", "third", 0)
        ]  # fmt: skip

    def _start_servers(self) -> None:
        self.server = PostgresServer(next(major for major in MAJORS if binaries(major)), **DURABLE)
        self.server.start()
        self._database = self.server.create_database()
        (self.folder / "peer").mkdir()
        self.peer = BoltPeer(self.folder / "peer")
        self.peer.start()
        self.proxies["graph"] = TcpProxy(self.peer.port)
        if self.profile == "workers":
            self.vectors = _Child("qdrant_peer")
            self.proxies["vectors"] = TcpProxy(self.vectors.port)

    def _settings_of(self, home: Path) -> dict[str, Any]:
        values: dict[str, Any] = {
            "home": home,
            "embedder": f"openai:hashed@http://127.0.0.1:{self._embedder.port}/v1",
            "ingest_roots": (self.docs,),
            "tenant": "faults",
        }
        if self.server and self.peer:
            values["database_url"] = self.server.url(self._database)
            values["memgraph_url"] = self.peer.url_through(self.proxies["graph"].port)
            values["memgraph_user"], values["memgraph_password"] = self.peer.user, self.peer.password
        if self.vectors:
            values["qdrant_url"] = f"http://127.0.0.1:{self.proxies['vectors'].port}"
        return values

    @property
    def database_url(self) -> str:
        return EmbeddedPostgres(self.homes[0]).url if self.server is None else self.server.url(self._database)

    def environment(self, home: int, tenant: str = "faults") -> dict[str, str]:
        """For a process of the product on that home."""
        given = {**self._settings_of(self.homes[home]), "tenant": tenant, "ingest_roots": self.docs}
        return {
            **os.environ, "PYTHONPATH": str(ROOT),
            **{f"PEGAS_{name.upper()}": str(value) for name, value in given.items()},
        }  # fmt: skip

    def run(self, *arguments: str, home: int = 0) -> subprocess.Popen[bytes]:
        """The command line of the product, in a session of its own."""
        with self.log("cli").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "pegas_memory.cli", *arguments],
                cwd=self.folder, env=self.environment(home), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def revive(self) -> None:
        """Bring back all that has to run, as a service manager and the next caller do. Raises PegasError."""
        if self.server is not None:
            relaunch(self.server)
        if self.peer is not None and gone(self.peer.pid):
            self.peer.kill()
            self.peer.start()
        if self.vectors is not None and gone(self.vectors.pid):
            self.vectors.start()
        for home, settings in enumerate(self.settings):
            if self.profile != "workers":
                with EngineClient(settings) as client:
                    client.connect(30)
                    client.wake()
            elif not self.engines(home):
                self._workers[home] = self.run("worker", home=home)

    # --- clients ----------------------------------------------------------------------------------

    def start_client(self, client: Client, pause: float = 0.1) -> None:
        """Another life of the client, with other tokens, which works until the file ``stop`` stands."""
        client.life += 1
        config = self.folder / f"client-{client.name}.json"
        given = {
            "name": client.name, "life": client.life, "seed": self.seed, "kind": client.kind,
            "stop": str(self.stop), "pause": pause, "docs": str(self.docs), "tenant": client.tenant,
            "ledger": str(self.ledgers / f"{client.name}{client.life}.jsonl"),
        }  # fmt: skip
        config.write_text(json.dumps(given))
        with self.log(f"client-{client.name}").open("ab") as log:
            client.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.client", str(config)],
                cwd=self.folder, env=self.environment(client.home, client.tenant), stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def kill_client(self, client: Client) -> None:
        """With its MCP server, if it has one."""
        if client.process is not None and client.process.poll() is None:
            os.killpg(client.process.pid, signal.SIGKILL)
            client.process.wait(20)

    # --- parts ------------------------------------------------------------------------------------

    def engines(self, home: int) -> list[int]:
        """The engine of the home, or its worker."""
        if self.profile != "workers":
            return engines_of(self.homes[home])
        worker = self._workers.get(home)
        return [worker.pid] if worker is not None and worker.poll() is None else []

    def postgres_pids(self) -> list[int]:
        """The postmaster first; empty when none runs."""
        try:
            first = postgres_pid(self.homes[0]) if self.server is None else self.server.pid
        except (OSError, ValueError, IndexError):
            return []
        return family(first)

    @contextmanager
    def engine_down(self, home: int) -> Iterator[None]:
        """Kill the engine, and let nobody start another one meanwhile."""
        lock = FileLock(Place(self.homes[home]).spawn_lock)
        assert lock.take(wait=30)
        try:
            kill(*self.engines(home))
            yield
        finally:
            lock.release()

    def stop_engines(self) -> None:
        """In order, so that everything is flushed; the embedded PostgreSQL is left running."""
        for worker in self._workers.values():
            worker.terminate()
            worker.wait(30)
        for settings in self.settings if self.profile != "workers" else ():
            with EngineClient(settings) as client:
                client.shutdown()
        if self.server is None:
            EmbeddedPostgres(self.homes[0]).start()

    def embedder_fails(self, fault: str, times: int) -> None:
        import httpx

        httpx.post(f"http://127.0.0.1:{self._embedder.port}/test/fault", json={"fault": fault, "times": times})

    def close(self, *, keep: bool = False) -> None:
        """End every process; the folder goes unless ``keep``."""
        for client in self.clients:
            self.kill_client(client)
        end_processes_of(self.folder)
        if self.server is None:
            kill(*self.postgres_pids())
        else:
            self.server.stop()
        for proxy in self.proxies.values():
            proxy.close()
        for server in (self.peer, self.vectors, self._embedder):
            if server is not None:
                server.close()
        if keep and self.small_disk:
            subprocess.run(["cp", "-a", str(self._disk), str(self.folder / "disk-kept")], check=False)
        if self.small_disk:
            subprocess.run(["umount", "--lazy", str(self._disk)], check=False)
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


class _Child:
    """A test server in a process of its own; started again it has the port that it had."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", f"tests.support.{module}", *arguments]
        self.port = 0
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*self._command, "--port", str(self.port)], cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def kill(*pids: int) -> None:
    """SIGKILL all of them at once, and see them gone."""
    for pid in pids:
        send(pid, signal.SIGKILL)
    eventually(lambda: all(map(gone, pids)), "what was killed is gone")


def send(pid: int, number: signal.Signals) -> None:
    """A process that is gone already needs no signal."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def family(pid: int) -> list[int]:
    """The process and its children; [] when it is gone."""
    if gone(pid):
        return []
    found = [pid]
    for entry in Path("/proc").iterdir():
        with suppress(OSError, IndexError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def relaunch(server: PostgresServer) -> None:
    """Start it if it is gone; what a killed one left behind may hold that up."""
    deadline = time.monotonic() + 60
    while gone(server.pid):
        try:
            server.launch()
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def _mount(folder: Path) -> bool:
    """A small disk of memory at ``folder``; False without the right to mount. A plain user has it in
    ``unshare --user --map-current-user --keep-caps --mount``."""
    options = f"size={DISK_MEGABYTES}m,mode=0755".encode()
    return ctypes.CDLL(None, use_errno=True).mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options) == 0
