"""Export and import: what travels arrives, and what is damaged leaves nothing."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from pegas_memory.db import activity
from pegas_memory.db import archive as rows_of
from pegas_memory.db.migrate import ensure_schema
from pegas_memory.db.session import Database
from pegas_memory.db.tables import metadata
from pegas_memory.db.tenants import INSTALLATION, begin_deletion, join
from pegas_memory.errors import DiskFull, InvalidParameter, NotFound, PegasError, TenantNotEmpty, Unavailable
from pegas_memory.model import SearchRequest, StoreRequest
from pegas_memory.service import archive
from tests.homes import temporary_home
from tests.postgres_servers import MAJORS, PostgresServer
from tests.support.archives import contents, fill, unpacked
from tests.support.embedding_server import HashedEmbeddingServer
from tests.support.local_memory import local_memory

ROOT = Path(__file__).resolve().parents[2]
Store = Any
"""What export and import use of the open rooms: a database and a clock; nobody listens to the nudge."""


def store_at(url: str) -> Store:
    return SimpleNamespace(db=Database(url), url=url, clock=lambda: datetime.now(UTC), nudge=lambda: None)


@pytest.fixture
def stores(postgres_servers: Callable[[int], PostgresServer]) -> Iterator[Callable[[int], Store]]:
    """``stores(major)``: a new empty one."""
    made: list[tuple[PostgresServer, str, Store]] = []

    def new(major: int = MAJORS[0]) -> Store:
        server = postgres_servers(major)
        name = server.create_database()
        ensure_schema(server.url(name))
        made.append((server, name, store_at(server.url(name))))
        return made[-1][2]

    yield new
    for server, name, store in made:
        store.db.close()
        server.drop_database(name)


def filled(store: Store, tenant: str = "a", seed: int = 1, rows: int = 12) -> dict[str, list[str]]:
    with store.db.tenant(tenant) as conn:
        fill(conn, tenant, seed, rows)
    return held(store, tenant)


def held(store: Store, tenant: str, *, vectors: bool = True) -> dict[str, list[str]]:
    with store.db.tenant(tenant) as conn:
        return contents(conn, tenant, vectors=vectors)


def everything(store: Store) -> int:
    with store.db.everything() as conn:
        tables = [t.name for t in metadata.sorted_tables if t.name not in {"pm_instance", "pm_projection"}]
        return sum(conn.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in tables)


# --- what travels --------------------------------------------------------------------------------


def test_every_table_travels_or_is_left_out_with_a_reason() -> None:
    travelling = {table.name: {c.name for c in table.columns} for table in rows_of.TABLES}
    assert travelling.keys() | rows_of.LEFT_OUT.keys() == metadata.tables.keys()
    assert not travelling.keys() & rows_of.LEFT_OUT.keys()
    assert all((*rows_of.LEFT_OUT.values(), *rows_of.LEFT_OUT_COLUMNS.values()))
    for name, columns in travelling.items():
        left = {c.partition(".")[2] for c in rows_of.LEFT_OUT_COLUMNS if c.startswith(f"{name}.")}
        assert columns | left == set(metadata.tables[name].c.keys())
        assert not columns & left


@pytest.mark.parametrize("seed", range(6))
def test_a_round_trip_changes_nothing(stores: Callable[..., Store], tmp_path: Path, seed: int) -> None:
    majors = (18, 16, 15)
    here, there = stores(majors[seed % 3]), stores(majors[(seed + 1) % 3])
    before = filled(here, "Ёж 🦔", seed)
    assert all(before.values())
    filled(here, "another", seed + 100)
    written = archive.export(here, "Ёж 🦔", tmp_path / "one.zip", vectors=True)
    assert written.tenants == ("Ёж 🦔",)
    read = archive.import_(there, tmp_path / "one.zip", "b")
    assert (read.rows, read.tenants) == (written.rows, ("b",))
    assert held(there, "b") == before == held(here, "Ёж 🦔")
    with there.db.everything() as conn:
        assert rows_of.tenants(conn) == ["b"]
        assert conn.execute(text("SELECT token_hash FROM pm_tenant")).scalar_one() == ""
    archive.export(there, "b", tmp_path / "two.zip", vectors=True)
    assert unpacked(tmp_path / "two.zip")[0]["tenants"] == ["b"]
    archive.import_(stores(), tmp_path / "two.zip", "Ёж 🦔")


def test_all_that_is_projected_is_noted_and_nothing_else(stores: Callable[..., Store], tmp_path: Path) -> None:
    here, there = stores(), stores()
    filled(here)
    archive.export(here, "a", tmp_path / "x.zip")
    archive.import_(there, tmp_path / "x.zip")
    with there.db.everything() as conn:
        noted = dict(conn.execute(text("SELECT entity_type, count(*) FROM pm_outbox GROUP BY 1")).all())
        distinct = conn.execute(text("SELECT count(DISTINCT (entity_type, entity_id)) FROM pm_outbox")).scalar_one()
    kinds = {"atom", "episode", "procedure", "entity", "symbol", "link", "dependency"}
    assert noted == dict.fromkeys(kinds, 12)
    assert distinct == 12 * len(kinds)
    assert held(there, "a", vectors=False) == held(here, "a", vectors=False)
    assert held(there, "a")["pm_embedding"] == []


def test_all_tenants_at_once(stores: Callable[..., Store], tmp_path: Path) -> None:
    here, there = stores(), stores()
    before = {tenant: filled(here, tenant, n) for n, tenant in enumerate(("a", "b", "ю"))}
    with here.db.everything() as conn:
        activity.note(conn, INSTALLATION, "tenant deleted", "tenant", [None], {})
    assert archive.export(here, None, tmp_path / "x.zip", vectors=True).tenants == ("a", "b", "ю")
    with pytest.raises(InvalidParameter, match="3 tenants"):
        archive.import_(there, tmp_path / "x.zip", "c")
    archive.import_(there, tmp_path / "x.zip")
    assert {tenant: held(there, tenant) for tenant in before} == before
    with pytest.raises(TenantNotEmpty):
        archive.import_(there, tmp_path / "x.zip")
    assert {tenant: held(there, tenant) for tenant in before} == before


def test_what_counts_as_empty(stores: Callable[..., Store], tmp_path: Path) -> None:
    here, there = stores(), stores()
    filled(here)
    archive.export(here, "a", tmp_path / "x.zip", vectors=True)
    with there.db.tenant("b") as conn:
        conn.execute(text("INSERT INTO pm_tenant (id, token_hash) VALUES ('b', 'its own')"))
        conn.execute(text("INSERT INTO pm_activity (tenant, id, action) VALUES ('b', gen_random_uuid(), 'purged')"))
    archive.import_(there, tmp_path / "x.zip", "b")
    with there.db.tenant("b") as conn:
        assert conn.execute(text("SELECT token_hash, settings FROM pm_tenant")).one() == (
            "its own", here_settings(here)
        )  # fmt: skip
        assert conn.execute(text("SELECT count(*) FROM pm_activity")).scalar_one() == 13
    for table in ("pm_entity", "pm_research_gap"):
        with there.db.tenant("c") as conn:
            conn.execute(text("DELETE FROM pm_entity"))
            extra = {"pm_entity": "name, normal_form", "pm_research_gap": "question, normal_form"}[table]
            conn.execute(text(f"INSERT INTO {table} (tenant, id, {extra}) VALUES ('c', gen_random_uuid(), 'x', 'x')"))
        with pytest.raises(TenantNotEmpty, match=table):
            archive.import_(there, tmp_path / "x.zip", "c")


def test_into_a_tenant_that_others_write_to_or_that_is_being_deleted(
    stores: Callable[..., Store], tmp_path: Path
) -> None:
    here, there = stores(), stores()
    filled(here)
    archive.export(here, "a", tmp_path / "x.zip")
    with there.db.tenant("b") as conn:
        begin_deletion(conn, "b")
    with pytest.raises(Unavailable, match="being deleted"):
        archive.import_(there, tmp_path / "x.zip", "b")
    refusals: list[str] = []

    def late() -> None:
        with pytest.raises(TenantNotEmpty) as raised:
            archive.import_(there, tmp_path / "x.zip", "c")
        refusals.append(raised.value.code)

    with there.db.tenant("c") as conn:
        join(conn, "c")
        importer = threading.Thread(target=late)
        importer.start()
        time.sleep(0.5)
        assert not refusals
        conn.execute(
            text("INSERT INTO pm_entity (tenant, id, name, normal_form) VALUES ('c', gen_random_uuid(), 'x', 'x')")
        )
    importer.join()
    assert refusals == [TenantNotEmpty.code]


def here_settings(store: Store) -> Any:
    with store.db.tenant("a") as conn:
        return conn.execute(text("SELECT settings FROM pm_tenant")).scalar_one()


# --- the file ------------------------------------------------------------------------------------


def test_the_file_is_private_and_never_replaced_unasked(stores: Callable[..., Store], tmp_path: Path) -> None:
    here = stores()
    filled(here)
    target = tmp_path / "x.zip"
    archive.export(here, "a", target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    first = target.read_bytes()
    with pytest.raises(InvalidParameter, match="already"):
        archive.export(here, "a", target, vectors=True)
    assert target.read_bytes() == first
    archive.export(here, "a", target, vectors=True, replace=True)
    assert target.read_bytes() != first
    for wrong in (tmp_path, tmp_path / "missing" / "x.zip", target / "x.zip", Path("/proc/x.zip")):
        with pytest.raises(InvalidParameter):
            archive.export(here, "a", wrong)
    with pytest.raises(NotFound):
        archive.export(here, "nobody", tmp_path / "nobody.zip")
    assert os.listdir(tmp_path) == ["x.zip"]


@pytest.mark.parametrize("room", [0, 1, 5_000, 60_000])
def test_a_full_disk_leaves_no_half_file(stores: Callable[..., Store], tmp_path: Path, room: int) -> None:
    """The file may not grow beyond ``room`` bytes: the kernel refuses a write in the middle, as on a full disk."""
    here = stores()
    filled(here, rows=60)
    program = (
        "import resource, sys; from pathlib import Path; from tests.integration.test_archive import archive, store_at\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))\n"
        "try: archive.export(store_at(sys.argv[1]), 'a', Path(sys.argv[2]), vectors=True)\n"
        "except Exception as error: print(type(error).__name__, error.code)"
    )
    done = _python(program, here.url, str(tmp_path / "x.zip"))
    assert done.stdout.split() == [DiskFull.__name__, DiskFull.code], done
    assert os.listdir(tmp_path) == []


def _python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


# --- at the same time ----------------------------------------------------------------------------


def test_an_export_is_of_one_moment(stores: Callable[..., Store], tmp_path: Path) -> None:
    """A writer adds a document with its atom and citation, and deletes older ones, all the while."""
    here, there = stores(), stores()
    filled(here, rows=400)
    stop, written = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            with here.db.tenant("a") as conn:
                written.append(_grow(conn))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(6):
            archive.export(here, "a", tmp_path / f"{n}.zip")
    finally:
        stop.set()
        writer.join()
    assert len(written) > 50
    for n in range(6):
        archive.import_(there, tmp_path / f"{n}.zip", f"t{n}")
        with there.db.tenant(f"t{n}") as conn:
            documents, atoms, citations = (
                conn.execute(text(f"SELECT count(*) FROM {table} WHERE {mark}")).scalar_one()
                for table, mark in (
                    ("pm_document", "title = 'grown'"),
                    ("pm_atom", "status_reason = 'grown'"),
                    ("pm_citation", "quote = 'grown'"),
                )
            )
        assert documents == atoms == citations


def _grow(conn: Any) -> None:
    conn.execute(
        text(
            """WITH d AS (INSERT INTO pm_document (tenant, id, kind, uri, title)
                VALUES ('a', gen_random_uuid(), 'text', gen_random_uuid()::text, 'grown') RETURNING id),
            a AS (INSERT INTO pm_atom (tenant, id, type, claim, content_hash, doc_id, status_reason)
                SELECT 'a', gen_random_uuid(), 'fact', 'x', d.id::text, d.id, 'grown' FROM d RETURNING id, doc_id)
            INSERT INTO pm_citation (tenant, id, atom_id, doc_id, citation_hash, quote)
                SELECT 'a', gen_random_uuid(), a.id, a.doc_id, 'h', 'grown' FROM a"""
        )
    )
    old = "SELECT id FROM pm_document WHERE title = 'grown' ORDER BY created_at OFFSET 200"
    conn.execute(text(f"DELETE FROM pm_atom WHERE doc_id IN ({old})"))
    conn.execute(text(f"DELETE FROM pm_document d WHERE id IN ({old})"))


def test_of_two_imports_into_one_tenant_one_wins(stores: Callable[..., Store], tmp_path: Path) -> None:
    here, there = stores(), stores()
    before = filled(here, rows=200)
    archive.export(here, "a", tmp_path / "x.zip", vectors=True)
    results: list[str] = []
    gate = threading.Barrier(4)

    def race() -> None:
        gate.wait()
        try:
            archive.import_(there, tmp_path / "x.zip", "b")
            results.append("won")
        except PegasError as error:
            results.append(error.code)

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(results) == ["tenant_not_empty"] * 3 + ["won"]
    assert held(there, "b") == before


@pytest.mark.parametrize("seed", range(2))
def test_killed_in_the_middle_of_an_import_nothing_is_left(
    stores: Callable[..., Store], tmp_path: Path, seed: int
) -> None:
    here, there = stores(), stores()
    before = filled(here, rows=300)
    archive.export(here, "a", tmp_path / "x.zip", vectors=True)
    program = (
        "import sys; from pathlib import Path; from tests.integration.test_archive import archive, store_at\n"
        "hear = lambda what, done, total: print(done, total, flush=True)\n"
        "archive.import_(store_at(sys.argv[1]), Path(sys.argv[2]), on_rows=hear)"
    )
    command = [sys.executable, "-c", program, there.url, str(tmp_path / "x.zip")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stop_at = 0.5 + random.Random(seed).random() / 2
        for line in process.stdout:
            done, total = map(int, line.split())
            if done >= total * stop_at:
                break
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while True:
        try:
            assert everything(there) == 0
            archive.import_(there, tmp_path / "x.zip")
            break
        except TenantNotEmpty:
            assert time.monotonic() < deadline, "the killed import still holds the tenant"
            time.sleep(0.05)
    assert held(there, "a") == before


# --- with the whole product ----------------------------------------------------------------------


def test_with_vectors_nothing_is_embedded_again(
    stores: Callable[..., Store], tmp_path: Path, embedding_server: HashedEmbeddingServer
) -> None:
    here, there = stores(), stores()
    embedder = f"openai:hashed@{embedding_server.openai_url}"
    claims = [f"The valve number {n} of the dam was opened in {1900 + n}." for n in range(30)]
    with temporary_home() as home, local_memory(here.url, home, embedder) as memory:
        for claim in claims:
            memory.store(StoreRequest(claim=claim))
        _until_projected(memory)
        found = memory.search(SearchRequest(query="valve 17"))
        memory.export_archive(tmp_path / "x.zip", vectors=True)
        memory.export_archive(tmp_path / "bare.zip")
    with temporary_home() as home, local_memory(there.url, home, embedder) as memory:
        asked = _texts(embedding_server)
        memory.import_archive(tmp_path / "x.zip")
        _until_projected(memory)
        assert not {t for t in _texts(embedding_server)[len(asked) :] if "dam was opened" in t}
        again = memory.search(SearchRequest(query="valve 17"))
        assert not again.degraded
        assert [r.atom_id for r in again.results] == [r.atom_id for r in found.results]
        asked = _texts(embedding_server)
        other = memory.as_tenant("bare")
        other.import_archive(tmp_path / "bare.zip", "bare")
        _until_projected(other)
        assert {t for t in _texts(embedding_server)[len(asked) :] if "dam was opened" in t} >= set(claims)


def test_a_copy_beside_the_original_takes_nothing_from_it(
    stores: Callable[..., Store], tmp_path: Path, embedding_server: HashedEmbeddingServer
) -> None:
    with (
        temporary_home() as home,
        local_memory(stores().url, home, f"openai:hashed@{embedding_server.openai_url}") as memory,
    ):
        for n in range(20):
            memory.store(StoreRequest(claim=f"The lantern number {n} burns oil."))
        _until_projected(memory)
        memory.export_archive(tmp_path / "x.zip", vectors=True)
        copy = memory.as_tenant("copy")
        copy.import_archive(tmp_path / "x.zip", "copy")
        _until_projected(copy)
        for one in (memory, copy):
            assert len(one.search(SearchRequest(query="lantern oil", limit=20)).results) == 20


def _texts(server: HashedEmbeddingServer) -> list[str]:
    return [text for seen in server.requests for text in seen.texts]


def _until_projected(memory: Any) -> None:
    deadline = time.monotonic() + 30
    while memory.rooms.written.pending(memory.tenant):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_twenty_thousand_atoms_pass_through_little_memory(stores: Callable[..., Store], tmp_path: Path) -> None:
    here, there = stores(), stores()
    with here.db.tenant("a") as conn:
        conn.execute(
            text(
                """INSERT INTO pm_atom (tenant, id, type, claim, content, content_hash, terms, tags, metadata)
                SELECT 'a', gen_random_uuid(), 'fact', 'Claim number ' || n || ' about ' || md5(n::text),
                    repeat(md5(n::text) || ' ', 8), md5(n::text), ARRAY[md5(n::text), 'claim', 'number'], '{t}',
                    jsonb_build_object('n', n) FROM generate_series(1, 20000) n"""
            )
        )
        conn.execute(
            text(
                """INSERT INTO pm_embedding (tenant, model, text_version, text_hash, dimension, vector)
                SELECT 'a', 'm', 1, md5(n::text), 384, decode(repeat(substr(md5(n::text), 1, 6) || '3f', 384), 'hex')
                FROM generate_series(1, 20000) n"""
            )
        )
        conn.execute(
            text(
                """INSERT INTO pm_document (tenant, id, kind, uri, body) SELECT 'a', gen_random_uuid(), 'text', n::text,
                repeat(md5(n::text), 100000) FROM generate_series(1, 20) n"""
            )
        )
    program = (
        "import sys, time; from pathlib import Path\n"
        "from tests.integration.test_archive import archive, store_at\n"
        "peak = lambda: int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]) / 1024\n"
        "here, there, file = store_at(sys.argv[1]), store_at(sys.argv[2]), Path(sys.argv[3])\n"
        "with here.db.tenant('a'), there.db.tenant('a'): pass\n"
        "before, started = peak(), time.perf_counter()\n"
        "archive.export(here, 'a', file, vectors=True)\n"
        "out, written = peak() - before, time.perf_counter() - started\n"
        "archive.import_(there, file)\n"
        "print(out, peak() - before, written, time.perf_counter() - started - written, file.stat().st_size / 1e6)\n"
    )
    done = _python(program, here.url, there.url, str(tmp_path / "x.zip"))
    assert done.returncode == 0, done.stderr
    out, both, writing, reading, size = map(float, done.stdout.split())
    print(
        f"export {writing:.1f} s, {out:.0f} MiB more; import {reading:.1f} s, {both:.0f} MiB more; file {size:.1f} MB"
    )
    assert out < 60
    assert both < 120
    assert writing + reading < 60
    assert held(there, "a") == held(here, "a")
