"""The embedded PostgreSQL, on the real binaries of both majors: made, raced, killed, damaged, walled off."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pegas_memory.db.embedded import EmbeddedPostgres, binaries, place, server
from pegas_memory.errors import DatabaseUnavailable, DiskFull, HomeNotWritable, WrongPostgresVersion

ROOT = Path(__file__).parents[2]
MAJORS = (18, 16)
IS_ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not IS_ROOT, reason="needs root, to become another user")
NOBODY = 65534
Process = subprocess.Popen[str]
HEAD = """
import encodings.ascii, encodings.idna, os, sys
from pathlib import Path
import psycopg
from pegas_memory.db.embedded import EmbeddedPostgres, binaries
package = binaries.wheel_folder()
if sys.argv[3] != "-":  # only now: this Python may lie where the other user cannot read it
    os.setgroups([])
    os.setgid(int(sys.argv[3]))
    os.setuid(int(sys.argv[3]))
postgres = EmbeddedPostgres(Path(sys.argv[1]), major=int(sys.argv[2]))
"""


def connect(postgres: EmbeddedPostgres) -> psycopg.Connection:
    return psycopg.connect(postgres.url.replace("+psycopg", ""), autocommit=True)


def ask(postgres: EmbeddedPostgres, query: str) -> object:
    with connect(postgres) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def pid_of(postgres: EmbeddedPostgres) -> int:
    state = postgres.describe()["state"]
    assert state.startswith("running (pid "), state
    return int(state.removeprefix("running (pid ").rstrip(")"))


def python(script: str, home: Path, major: int, *more: object, user: object = "-", group: bool = False) -> Process:
    """A process that has read HEAD; it sees no variable of this one but what it needs."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + script, *map(str, (home, major, user, *more))],
        env={"PYTHONPATH": str(ROOT), "PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=group,
    )


def output(process: Process, text: str = "") -> str:
    said, complaints = process.communicate(text, timeout=90)
    assert process.returncode == 0, complaints
    return said


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pm-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as made:
        yield made


@contextmanager
def stopped_after(home: Path, major: int) -> Iterator[EmbeddedPostgres]:
    postgres = EmbeddedPostgres(home, major=major)
    try:
        yield postgres
    finally:
        postgres.stop()


@pytest.fixture(scope="module", params=MAJORS)
def running(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """A server that the tests only look at."""
    with scratch() as folder, stopped_after(folder / "home", request.param) as postgres:
        postgres.start()
        yield postgres


@pytest.fixture(scope="module")
def templates() -> Iterator[dict[int, Path]]:
    with scratch() as folder:
        homes = {major: folder / str(major) for major in MAJORS}
        for major, home in homes.items():
            with stopped_after(home, major) as postgres:
                postgres.start()
        yield homes


@pytest.fixture(params=MAJORS)
def own(request: pytest.FixtureRequest, folder: Path, templates: dict[int, Path]) -> Iterator[EmbeddedPostgres]:
    """A stopped server that a test may do anything to (its home is a copy: initdb is the slow part)."""
    subprocess.run(["cp", "-a", templates[request.param], folder / "home"], check=True)
    with stopped_after(folder / "home", request.param) as postgres:
        yield postgres


@pytest.fixture
def own18(folder: Path, templates: dict[int, Path]) -> Iterator[EmbeddedPostgres]:
    subprocess.run(["cp", "-a", templates[18], folder / "home"], check=True)
    with stopped_after(folder / "home", 18) as postgres:
        yield postgres


def home_of(postgres: EmbeddedPostgres) -> Path:
    return Path(postgres.describe()["data"]).parents[1]


def data_of(postgres: EmbeddedPostgres) -> Path:
    return Path(postgres.describe()["data"])


def test_case_mapping_of_cyrillic_is_right_and_order_is_by_code_point(running: EmbeddedPostgres) -> None:
    assert ask(running, "SELECT lower('ЁЖИК Straße')") == "ёжик straße"
    assert ask(running, "SELECT upper('ёжик')") == "ЁЖИК"
    assert ask(running, "SELECT 'ПРИВЕТ' ILIKE 'привет'") is True
    assert ask(running, "SELECT array_agg(x ORDER BY x) FROM unnest(ARRAY['б','a','Z','Ё']) x") == ["Z", "a", "Ё", "б"]
    assert ask(running, "SHOW server_encoding") == "UTF8"


def test_the_login_role_owns_the_database_and_nothing_more(running: EmbeddedPostgres) -> None:
    flags = "rolsuper OR rolcreatedb OR rolcreaterole OR rolbypassrls OR rolreplication"
    assert ask(running, f"SELECT {flags} FROM pg_roles WHERE rolname = session_user") is False
    assert ask(running, "SELECT session_user") == "pegas"
    owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
    assert ask(running, owner) == "pegas"
    with connect(running) as connection:
        connection.execute("CREATE TABLE can_create (id int); DROP TABLE can_create")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE ROLE other")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("listen_addresses", ""),
        ("unix_socket_permissions", "0700"),
        ("client_connection_check_interval", "500ms"),
        ("idle_in_transaction_session_timeout", "1min"),
        ("max_wal_size", "256MB"),
        ("shared_buffers", "64MB"),
        ("fsync", "on"),
        ("data_checksums", "on"),
        ("TimeZone", "UTC"),
    ],
)
def test_settings_in_force(running: EmbeddedPostgres, setting: str, value: str) -> None:
    assert ask(running, f'SHOW "{setting}"') == value


def test_files_are_for_their_owner_alone(running: EmbeddedPostgres) -> None:
    home = home_of(running)
    socket = Path(running.describe()["socket"])
    passwords = list((home / "postgres").glob("*.password"))
    assert len(passwords) == 2
    for path in (home, home / "postgres", data_of(running), socket.parent, socket):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o700, path
    for path in (*passwords, home / "postgres" / "server.log"):
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600, path
    assert socket.is_socket()


@pytest.mark.parametrize("role", ["pegas", "postgres"])
@pytest.mark.parametrize("password", ["", "wrong"])
def test_no_role_enters_without_its_password(running: EmbeddedPostgres, role: str, password: str) -> None:
    where = str(Path(running.describe()["socket"]).parent)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host=where, user=role, password=password, dbname="pegas", passfile="/dev/null")


def test_the_superuser_enters_with_its_own_password(running: EmbeddedPostgres) -> None:
    with psycopg.connect(running.superuser_url.replace("+psycopg", "")) as connection:
        assert connection.execute("SHOW is_superuser").fetchone() == ("on",)


@as_root
def test_another_user_of_the_machine_cannot_connect(running: EmbeddedPostgres) -> None:
    script = """
for what in (lambda: psycopg.connect(sys.argv[4]).close(), Path(sys.argv[5]).read_text):
    try:
        what()
    except (psycopg.OperationalError, PermissionError) as error:
        print("refused" if "ermission denied" in str(error) else error)
    else:
        print("entered")
"""
    home = home_of(running)
    url = running.url.replace("+psycopg", "")
    arguments = (home, 18, url, home / "postgres" / "pegas.password")
    assert output(python(script, *arguments)).split() == ["entered", "entered"]
    # Nothing but the socket's own folder stands in the way once the folders above it are open.
    socket_parents = [home, home / "postgres", home.parent]
    modes = [path.stat().st_mode for path in socket_parents]
    assert output(python(script, *arguments, user=NOBODY)).split() == ["refused", "refused"]
    try:
        for path in socket_parents:
            path.chmod(0o755)
        assert output(python(script, *arguments, user=NOBODY)).split() == ["refused", "refused"]
    finally:
        for path, mode in zip(socket_parents, modes, strict=True):
            path.chmod(stat.S_IMODE(mode))


@as_root
def test_as_root_the_server_runs_as_its_own_account(running: EmbeddedPostgres) -> None:
    account = pwd.getpwnam(running.describe()["account"])
    assert account.pw_uid not in {0, NOBODY}
    assert os.stat(f"/proc/{pid_of(running)}").st_uid == account.pw_uid


def test_starting_again_adopts_the_running_server(running: EmbeddedPostgres) -> None:
    home, major = home_of(running), int(running.describe()["version"].split()[-1])
    before = pid_of(running)
    again = EmbeddedPostgres(home, major=major)
    again.start()
    assert pid_of(again) == before
    assert again.url == running.url
    assert again.alive()


def test_another_major_version_is_refused_and_left_alone(running: EmbeddedPostgres) -> None:
    made_by = int(running.describe()["version"].split()[-1])
    other = 16 if made_by == 18 else 18
    with pytest.raises(WrongPostgresVersion) as refusal:
        EmbeddedPostgres(home_of(running), major=other).start()
    assert f"PostgreSQL {made_by}" in refusal.value.message
    assert f"PostgreSQL {other}" in refusal.value.message
    assert "PEGAS_DATABASE_URL" in refusal.value.hint
    assert ask(running, "SELECT 1") == 1


@pytest.mark.parametrize("major", MAJORS)
def test_four_processes_may_start_at_once(folder: Path, major: int) -> None:
    script = """
print("here", flush=True)
sys.stdin.readline()
postgres.start()
with psycopg.connect(postgres.url.replace("+psycopg", "")) as connection:
    print(connection.execute("SELECT lower('Ё')").fetchone()[0], postgres.describe()["state"])
"""
    home = folder / "home"
    with stopped_after(home, major) as postgres:
        racers = [python(script, home, major) for _ in range(4)]
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "here\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        assert {output(racer) for racer in racers} == {f"ё running (pid {pid_of(postgres)})\n"}


ENDLESS = "WITH n AS MATERIALIZED (SELECT generate_series(1, 10000) i) SELECT count(*) FROM n a, n b, n c, n d"


def test_kill_of_the_server_loses_nothing_that_was_committed(own: EmbeddedPostgres) -> None:
    own.start()
    first = pid_of(own)
    with connect(own) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    busy = connect(own)  # it computes, so it does not notice that its postmaster has gone
    ended: list[str] = []

    def compute() -> None:
        try:
            busy.execute(ENDLESS)
        except psycopg.OperationalError:
            ended.append("by the server")

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    computing = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ^@ 'WITH'"
    deadline = time.monotonic() + 20
    while ask(own, computing) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(first, signal.SIGKILL)
    own.start()
    thread.join()
    busy.close()
    assert ended
    assert own.alive()
    assert pid_of(own) != first
    assert ask(own, "SELECT answer FROM kept") == 42


@pytest.mark.parametrize("name", ["sleep", "postgres"])
def test_a_stale_pid_file_of_a_stranger_harms_nobody(own: EmbeddedPostgres, name: str) -> None:
    home = home_of(own)
    program = home.parent / name
    shutil.copy2(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "300"], cwd=home) as stranger:
        try:
            lines = [stranger.pid, data_of(own), 1, 5432, home, "", "1 1", "ready"]
            (data_of(own) / "postmaster.pid").write_text("\n".join(map(str, lines)) + "\n")
            assert not own.alive()
            own.stop()
            own.start()
            assert pid_of(own) != stranger.pid
            assert ask(own, "SELECT 1") == 1
            own.stop()
            assert not own.alive()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_killed_in_the_middle_of_being_made(folder: Path) -> None:
    home = folder / "home"
    with stopped_after(home, 18) as postgres:
        maker = python("postgres.start()", home, 18)
        while not list((home / "postgres").glob("data.new-*/base")):
            assert maker.poll() is None
            time.sleep(0.005)
        maker.kill()
        maker.communicate()
        assert not (home / "postgres" / "data").exists()
        postgres.start()
        assert ask(postgres, "SELECT lower('ЁЖИК')") == "ёжик"
        assert not list((home / "postgres").glob("data.new-*"))


def test_the_server_outlives_its_starter_and_touches_none_of_its_streams(own18: EmbeddedPostgres) -> None:
    script = """
import signal
postgres.start()
print(sys.stdin.readline(), end="", flush=True)
os.killpg(0, signal.SIGKILL)
"""
    starter = python(script, home_of(own18), 18, group=True)
    # communicate() returns at the end of both streams: nobody else holds them.
    assert starter.communicate("for the protocol\n", timeout=60) == ("for the protocol\n", "")
    assert starter.returncode == -signal.SIGKILL
    assert own18.alive()
    assert ask(own18, "SELECT 1") == 1


NASTY = 'it\'s a "home", $HOME; `x` & Ёжик\\ 100%'
VERY_LONG = "/".join(["длинный-путь-" * 7] * 9)  # over 1,500 bytes, and PostgreSQL's own limit is 1,023


@pytest.mark.parametrize(
    ("name", "major"), [(NASTY, 18), (NASTY, 16), (VERY_LONG, 18)], ids=["nasty-18", "nasty-16", "long-18"]
)
def test_any_path_will_do_and_no_mode_above_it_changes(folder: Path, name: str, major: int) -> None:
    home = folder / name / "home"
    home.parent.mkdir(parents=True)
    modes = {path: path.stat().st_mode for path in home.parents}
    with stopped_after(home, major) as postgres:
        postgres.start()
        assert ask(postgres, "SELECT lower('ЁЖИК')") == "ёжик"
        socket = Path(postgres.describe()["socket"])
        assert len(os.fsencode(socket)) <= place.SOCKET_PATH_BYTES
        assert data_of(postgres).is_relative_to(home)
    assert not socket.parent.exists() or socket.is_relative_to(home)
    assert {path: path.stat().st_mode for path in home.parents} == modes
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def others_can_run_postgres() -> bool:
    """Root, and the wheel lies where an unprivileged user can execute it."""
    if not IS_ROOT:
        return False
    program = binaries.wheel_folder() / binaries.FOLDERS[18] / "bin" / "postgres"
    return all(path.stat().st_mode & 0o001 for path in (program, *program.parents))


def test_without_root_the_server_runs_as_the_user(folder: Path) -> None:
    if not others_can_run_postgres():
        pytest.skip("needs root, and binaries that other users can execute")
    folder.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    script = """
postgres.start()
with psycopg.connect(postgres.url.replace("+psycopg", "")) as connection:
    print(connection.execute("SELECT lower('Ё')").fetchone()[0])
print(postgres.alive())
postgres.stop()
print(postgres.alive())
"""
    assert output(python(script, home, 18, user=NOBODY)).split() == ["ё", "True", "False"]
    # Root that comes later runs the server as the owner of what is there.
    with stopped_after(home, 18) as postgres:
        postgres.start()
        assert os.stat(f"/proc/{pid_of(postgres)}").st_uid == NOBODY


def test_a_home_that_cannot_be_written(folder: Path) -> None:
    (folder / "file").write_text("not a folder")
    with pytest.raises(HomeNotWritable):
        EmbeddedPostgres(folder / "file").start()
    with pytest.raises(HomeNotWritable):
        EmbeddedPostgres(folder / "file" / "home").start()
    with pytest.raises(HomeNotWritable):
        EmbeddedPostgres(folder / ("x" * 300)).start()
    read_only = folder / "read-only"
    read_only.mkdir(mode=0o555)
    if not IS_ROOT:
        with pytest.raises(HomeNotWritable):
            EmbeddedPostgres(read_only / "home").start()
    else:
        folder.chmod(0o755)
        script = """
from pegas_memory.errors import HomeNotWritable
try:
    postgres.start()
except HomeNotWritable as error:
    print(error)
"""
        for home in (read_only, read_only / "home"):
            said = output(python(script, home, 18, user=NOBODY))
            assert "home_not_writable" in said
            assert str(folder) not in said
    assert list(read_only.iterdir()) == []


@as_root
def test_binaries_that_the_account_cannot_reach_are_copied(
    own18: EmbeddedPostgres, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = binaries.wheel_folder()
    closed, shared = folder / "closed", folder / "shared"
    closed.mkdir(mode=0o700)
    subprocess.run(["cp", "-a", installed, installed.parent / f"{installed.name}.libs", closed], check=True)
    folder.chmod(0o755)
    monkeypatch.setattr(binaries, "wheel_folder", lambda: closed / installed.name)
    monkeypatch.setattr(binaries, "SHARED", shared)
    own18.start()
    assert str(shared) in own18.describe()["binaries"]
    assert os.readlink(f"/proc/{pid_of(own18)}/exe").startswith(str(shared))
    assert ask(own18, "SELECT 1") == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def test_a_planted_socket_folder_is_not_used(folder: Path) -> None:
    home = folder / ("long-name-" * 9)
    bait = folder / "bait"
    bait.mkdir()
    with stopped_after(home, 18) as postgres:
        postgres.start()
        first = Path(postgres.describe()["socket"]).parent
        assert first.parent == place.SHORT
        postgres.stop()
        first.symlink_to(bait)
        try:
            postgres.start()
            assert Path(postgres.describe()["socket"]).parent != first
            assert ask(postgres, "SELECT 1") == 1
            assert list(bait.iterdir()) == []
        finally:
            first.unlink()


def test_a_socket_that_was_cleaned_away_comes_back(own18: EmbeddedPostgres) -> None:
    own18.start()
    Path(own18.describe()["socket"]).unlink()
    assert own18.alive()
    own18.start()
    assert ask(own18, "SELECT 1") == 1


@pytest.mark.parametrize(("damage", "while_running"), [("lost", True), ("changed", False)])
def test_passwords_are_mended(own18: EmbeddedPostgres, damage: str, while_running: bool) -> None:
    own18.start()
    if not while_running:
        own18.stop()
    for file in (home_of(own18) / "postgres").glob("*.password"):
        file.unlink()
        if damage == "changed":
            place.write_private(file, "0" * 64)
    own18.start()
    assert ask(own18, "SELECT 1") == 1
    with psycopg.connect(own18.superuser_url.replace("+psycopg", "")) as connection:
        assert connection.execute("SHOW is_superuser").fetchone() == ("on",)


def test_a_start_that_fails_says_why_without_a_path(own18: EmbeddedPostgres) -> None:
    control = data_of(own18) / "global" / "pg_control"
    control.unlink()
    with pytest.raises(DatabaseUnavailable) as failure:
        own18.start()
    assert "could not find the database system" in failure.value.message
    assert "/" not in failure.value.message
    assert not own18.alive()


def test_a_full_disk_is_said_before_anything_is_started(
    own18: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FREE_BYTES_NEEDED", 2**60)
    with pytest.raises(DiskFull):
        own18.start()
    assert not own18.alive()


def test_a_disk_that_fills_up_while_the_cluster_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = folder / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(small)]
    if not IS_ROOT or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount")
    try:
        monkeypatch.setattr(server, "FREE_BYTES_NEEDED", 0)
        postgres = EmbeddedPostgres(small / "home")
        with pytest.raises(DiskFull):
            postgres.start()
        assert not postgres.alive()
        assert not list((small / "home" / "postgres").glob("data*"))
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_big_log_is_put_aside(own18: EmbeddedPostgres) -> None:
    log = Path(own18.describe()["log"])
    with log.open("ab") as file:
        file.truncate(place.LOG_BYTES + 1)
    own18.start()
    assert log.stat().st_size < place.LOG_BYTES
    assert (log.parent / "server.log.1").exists()
    own18.stop()
    assert "ready to accept connections" in log.read_text()


def test_before_the_first_start_nothing_is_written(folder: Path) -> None:
    postgres = EmbeddedPostgres(folder / "home")
    assert postgres.describe()["state"] == "not made yet"
    assert not postgres.alive()
    postgres.stop()
    with pytest.raises(DatabaseUnavailable, match="not been started"):
        _ = postgres.url
    assert list(folder.iterdir()) == []
