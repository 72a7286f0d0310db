"""Archives that are damaged, or made to do harm: refused with the reason, and nothing is written."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pegas_memory.archive import reading
from pegas_memory.db.migrate import HEAD, ensure_schema
from pegas_memory.errors import ArchiveDamaged, ArchiveTooNew, PegasError, UnreadableFile
from pegas_memory.service import archive
from tests.integration.test_archive import Store, everything, filled, held, store_at
from tests.postgres_servers import MAJORS, PostgresServer
from tests.support.archives import pack, unpacked, with_row

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def target(postgres_servers: Callable[[int], PostgresServer]) -> Iterator[Store]:
    server = postgres_servers(MAJORS[0])
    name = server.create_database()
    ensure_schema(server.url(name))
    yield (store := store_at(server.url(name)))
    store.db.close()
    server.drop_database(name)


@pytest.fixture(scope="module")
def good(postgres_servers: Callable[[int], PostgresServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A whole archive with every table filled."""
    server = postgres_servers(MAJORS[0])
    name = server.create_database()
    ensure_schema(server.url(name))
    store = store_at(server.url(name))
    filled(store)
    path = tmp_path_factory.mktemp("good") / "good.zip"
    archive.export(store, "a", path, vectors=True)
    yield path
    store.db.close()
    server.drop_database(name)


def refused(target: Store, path: Path, error: type[PegasError] = ArchiveDamaged, said: str | None = None) -> None:
    with pytest.raises(error, match=said) as raised:
        archive.import_(target, path, "b")
    assert len(raised.value.message) < 200
    assert everything(target) == 0


def put(column: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda row: {**row, column: value}


ROWS: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "a number for a text": ("pm_atom", put("claim", 5)),
    "an object for a text": ("pm_atom", put("claim", {"a": 1})),
    "a list for an object": ("pm_atom", put("metadata", [1])),
    "a text for an object": ("pm_atom", put("metadata", "{}")),
    "a text for a list": ("pm_atom", put("tags", "{a,b}")),
    "a list of lists": ("pm_atom", put("tags", [["a"], ["b"]])),
    "a null in a list": ("pm_atom", put("tags", [None])),
    "a text for a number": ("pm_atom", put("revision", "1")),
    "a flag for a number": ("pm_atom", put("revision", True)),
    "too large a number": ("pm_atom", put("revision", 2**31)),
    "far too large a number": ("pm_atom", put("access_count", 10**400)),
    "a real that is none": ("pm_atom", put("confidence", float("nan"))),
    "an endless real": ("pm_atom", put("stability", float("inf"))),
    "a real out of range": ("pm_atom", put("confidence", 2.0)),
    "an endless time": ("pm_atom", put("valid_to", "infinity")),
    "a time before Christ": ("pm_atom", put("valid_to", "0044-03-15T12:00:00+00:00 BC")),
    "a time of year 0": ("pm_atom", put("valid_to", "0000-03-15T12:00:00+00:00")),
    "a time without zone": ("pm_atom", put("valid_to", "2026-03-15T12:00:00")),
    "a time in another zone": ("pm_atom", put("valid_to", "9999-12-31T23:59:59-11:00")),
    "no time": ("pm_atom", put("created_at", "now")),
    "no uuid": ("pm_atom", put("id", "7")),
    "a status that is none": ("pm_atom", put("status", "true")),
    "a kind of node that is none": ("pm_atom_link", put("src_kind", "pm_tenant")),
    "a null that may not be": ("pm_atom", put("claim", None)),
    "NUL": ("pm_atom", put("claim", "a\0b")),
    "NUL in metadata": ("pm_atom", put("metadata", {"a": "\0"})),
    "half a surrogate pair": ("pm_atom", put("claim", "\ud800")),
    "half a surrogate pair in metadata": ("pm_atom", put("metadata", {"\udc00": 1})),
    "another tenant": ("pm_atom", put("tenant", "c")),
    "no tenant": ("pm_atom", lambda row: {k: v for k, v in row.items() if k != "tenant"}),
    "another tenant's settings": ("pm_tenant", put("id", "c")),
    "a token": ("pm_tenant", put("token_hash", "x")),
    "an unknown column": ("pm_atom", put("xmin", 1)),
    "a hostile column": ("pm_atom", put("claim) VALUES ('x'); --", 1)),
    "a missing document": ("pm_chunk", put("doc_id", "00000000-0000-0000-0000-000000000001")),
    "a missing atom": ("pm_citation", put("atom_id", "00000000-0000-0000-0000-000000000001")),
    "a missing symbol": ("pm_code_dependency", put("dst_id", "00000000-0000-0000-0000-000000000001")),
    "an address too long for its index": ("pm_document", lambda row: {**row, "uri": random_text(20_000)}),
    "bytes that are none": ("pm_embedding", put("vector", "***")),
    "a vector too short": ("pm_embedding", put("vector", "AAAA")),
    "a vector with a number that is none": (
        "pm_embedding",
        lambda row: {**row, "dimension": 1, "vector": base64.b64encode(struct.pack("<f", float("nan"))).decode()},
    ),
}


def random_text(length: int) -> str:
    return random.Random(0).randbytes(length // 2).hex()


@pytest.mark.parametrize("case", ROWS)
def test_a_row_that_does_not_fit(target: Store, good: Path, tmp_path: Path, case: str) -> None:
    manifest, members = unpacked(good)
    table, change = ROWS[case]
    with_row(members, table, change)
    refused(target, pack(tmp_path / "x.zip", manifest, members), said=rf"{table}\.jsonl, row")


LINES: dict[str, bytes] = {
    "no JSON": b"SELECT 1;\n",
    "no row": b"[1]\n",
    "an empty line": b"\n",
    "a number": b"7\n",
    "deep": b"[" * 100_000 + b"]" * 100_000 + b"\n",
    "deep metadata": b'{"metadata": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}\n",
    "not UTF-8": b'{"tenant": "\xff"}\n',
    "a raw NUL": b'{"tenant": "\x00"}\n',
    "no line end": b'{"tenant": "a"}',
    "two values for one name": b'{"tenant": "a", "tenant": "c"}\n',
}


@pytest.mark.parametrize("case", LINES)
def test_a_line_that_is_no_row(target: Store, good: Path, tmp_path: Path, case: str) -> None:
    for table in ("pm_entity", "pm_atom"):
        manifest, members = unpacked(good)
        members[f"{table}.jsonl"] = members[f"{table}.jsonl"] + LINES[case]
        refused(target, pack(tmp_path / f"{table}.zip", manifest, members))


def test_a_row_that_stands_there_twice(target: Store, good: Path, tmp_path: Path) -> None:
    for table in ("pm_atom", "pm_entity", "pm_revision", "pm_citation"):
        manifest, members = unpacked(good)
        members[f"{table}.jsonl"] += members[f"{table}.jsonl"].partition(b"\n")[0] + b"\n"
        refused(target, pack(tmp_path / f"{table}.zip", manifest, members), said="twice")


def test_other_columns_in_a_later_row(target: Store, good: Path, tmp_path: Path) -> None:
    manifest, members = unpacked(good)
    with_row(members, "pm_atom", lambda row: {k: v for k, v in row.items() if k != "content"})
    refused(target, pack(tmp_path / "x.zip", manifest, members), said="other columns")


def test_members_that_are_not_those_listed(target: Store, good: Path, tmp_path: Path) -> None:
    manifest, members = unpacked(good)
    for name in ("../../etc/passwd", "/etc/passwd", "pm_outbox.jsonl", "pm_atom.jsonl/x", "C:\\x", "x" * 60_000):
        refused(target, pack(tmp_path / "x.zip", dict(manifest), {**members, name: b"{}\n"}, seal=False))
        refused(target, pack(tmp_path / "x.zip", dict(manifest), {**members, name: b"{}\n"}))
    missing = {name: data for name, data in members.items() if name != "pm_atom.jsonl"}
    refused(target, pack(tmp_path / "x.zip", manifest, missing, seal=False), said="not those")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as zipped:
        zipped.writestr("manifest.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            zipped.writestr("manifest.json", "{}")
    refused(target, tmp_path / "two.zip", said="one name")


def test_a_checksum_that_differs(target: Store, good: Path, tmp_path: Path) -> None:
    manifest, members = unpacked(good)
    members["pm_atom.jsonl"] = members["pm_atom.jsonl"].replace(b"0", b"1")
    refused(target, pack(tmp_path / "x.zip", manifest, members, seal=False), said="checksum")
    manifest, members = unpacked(good)
    lines = members["pm_revision.jsonl"].splitlines(keepends=True)
    members["pm_revision.jsonl"] = b"".join(lines[:-1])
    refused(target, pack(tmp_path / "x.zip", manifest, members, seal=False), said="not those")


MANIFESTS: dict[str, Callable[[Manifest], Any]] = {
    "no product": lambda m: {**m, "product": "other"},
    "no format": lambda m: {**m, "format": None},
    "a text for the format": lambda m: {**m, "format": "1"},
    "a format below nothing": lambda m: {**m, "format": -1},
    "no schema": lambda m: {**m, "schema": None},
    "a schema that is none": lambda m: {**m, "schema": "'; --"},
    "no tenant": lambda m: {**m, "tenants": []},
    "a tenant that is none": lambda m: {**m, "tenants": [7]},
    "a tenant with NUL": lambda m: {**m, "tenants": ["a\0"]},
    "a long tenant": lambda m: {**m, "tenants": ["a" * 65]},
    "a tenant twice": lambda m: {**m, "tenants": ["a", "a"]},
    "no members": lambda m: {**m, "members": None},
    "members of another kind": lambda m: {**m, "members": [1]},
    "a member twice": lambda m: {**m, "members": m["members"] + m["members"][:1]},
    "a table that is not there": lambda m: {**m, "members": [{**m["members"][0], "table": "pm_outbox"}]},
    "a table that is a list": lambda m: {**m, "members": [{**m["members"][0], "table": ["pm_atom"]}]},
    "rows below nothing": lambda m: {**m, "members": [{**m["members"][0], "rows": -1}]},
    "a list": lambda m: [m],
    "nothing": lambda m: None,
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_is_none(target: Store, good: Path, tmp_path: Path, case: str) -> None:
    manifest, members = unpacked(good)
    said = json.dumps(MANIFESTS[case](manifest))
    for data in (said, said[:-1], "[" * 100_000):
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as zipped:
            for name, content in members.items():
                zipped.writestr(name, content)
            zipped.writestr("manifest.json", data)
        refused(target, tmp_path / "x.zip")


@pytest.mark.parametrize("newer", [{"format": 2}, {"schema": "9999"}, {"format": 10**30}])
def test_a_newer_archive(target: Store, good: Path, tmp_path: Path, newer: Manifest) -> None:
    """Its members may be of any shape; what is said is that it is newer."""
    manifest, _ = unpacked(good)
    strange = {**manifest, **newer, "members": {"of": "another shape"}, "version": "7.0"}
    path = pack(tmp_path / "x.zip", strange, {"new.bin": b"x"}, seal=False)
    refused(target, path, ArchiveTooNew, said="9999" if "schema" in newer else "format")


def test_an_older_archive(postgres_servers: Callable[[int], PostgresServer], good: Path, tmp_path: Path) -> None:
    """Columns and tables that it did not know take their defaults."""
    server = postgres_servers(MAJORS[0])
    name = server.create_database()
    ensure_schema(server.url(name))
    store = store_at(server.url(name))
    manifest, members = unpacked(good)
    rows = [json.loads(line) for line in members["pm_atom.jsonl"].splitlines()]
    for row in rows:
        del row["distilled_by"], row["last_validated"], row["metadata"]
    members["pm_atom.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    del members["pm_activity.jsonl"]
    assert HEAD > "0001"
    archive.import_(store, pack(tmp_path / "x.zip", {**manifest, "schema": "0001"}, members))
    found = [json.loads(row) for row in held(store, "a")["pm_atom"]]
    assert len(found) == len(rows)
    assert {(row["distilled_by"], row["last_validated"], str(row["metadata"])) for row in found} == {("", None, "{}")}
    store.db.close()
    server.drop_database(name)


# --- the container -------------------------------------------------------------------------------


def test_no_archive_at_all(target: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    for data in (b"", b"PK", b"hello", b"\0" * 100_000, b"PK\5\6" + b"\0" * 18, b"PK\5\6" + b"\xff" * 18):
        path.write_bytes(data)
        refused(target, path)
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("readme.txt", "hello")
    refused(target, path, said="no manifest")
    for missing in (tmp_path / "missing", tmp_path, Path("/dev/zero"), tmp_path / ("x" * 300)):
        refused(target, missing, UnreadableFile)
    os.mkfifo(tmp_path / "pipe")
    refused(target, tmp_path / "pipe", UnreadableFile)


@pytest.mark.slow
def test_cut_off_anywhere(target: Store, good: Path, tmp_path: Path) -> None:
    whole = good.read_bytes()
    rng = random.Random(5)
    for length in [0, 1, 21, 22, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(60))]:
        (tmp_path / "x.zip").write_bytes(whole[:length])
        refused(target, tmp_path / "x.zip")


@pytest.mark.slow
def test_bits_turned_anywhere(target: Store, good: Path, tmp_path: Path) -> None:
    """A bit that no checksum covers (a date in the zip) may pass; then everything is as it was written."""
    whole = good.read_bytes()
    rng = random.Random(6)
    places = [rng.randrange(len(whole)) for _ in range(150)] + [len(whole) - 1 - n for n in range(150)]
    passed = 0
    for place in places:
        turned = bytearray(whole)
        turned[place] ^= 1 << rng.randrange(8)
        (tmp_path / "x.zip").write_bytes(turned)
        try:
            with reading.ArchiveReader.open(tmp_path / "x.zip") as reader:
                reader.verify(lambda _: None)
            passed += 1
        except ArchiveDamaged:
            refused(target, tmp_path / "x.zip")
    assert passed < len(places) // 2


def test_bombs(target: Store, good: Path, tmp_path: Path) -> None:
    manifest, members = unpacked(good)
    path = tmp_path / "x.zip"

    def bomb(name: str, size: int) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for other, data in {**members, "manifest.json": json.dumps(manifest).encode()}.items():
                if other != name:
                    zipped.writestr(other, data)
            with zipped.open(name, "w", force_zip64=True) as member:
                for _ in range(size // 10_000_000):
                    member.write(b" " * 10_000_000)

    bomb("manifest.json", 100_000_000)
    refused(target, path, said="too long")
    bomb("pm_atom.jsonl", 1_200_000_000)
    refused(target, path, said="times its size")


def test_a_size_that_lies(target: Store, good: Path, tmp_path: Path) -> None:
    """A member that unpacks to more than its directory says is cut there, and so fails its checksums."""
    data = good.read_bytes()
    with zipfile.ZipFile(good) as zipped:
        size = zipped.getinfo("pm_atom.jsonl").file_size
    at = data.rindex(b"PK\1\2", 0, data.rindex(b"pm_atom.jsonl"))
    lying = bytearray(data)
    assert struct.unpack_from("<I", lying, at + 24)[0] == size
    for said in (0, 1, size - 1, size + 1, 2**31):
        struct.pack_into("<I", lying, at + 24, said)
        (tmp_path / "x.zip").write_bytes(lying)
        refused(target, tmp_path / "x.zip")


def test_a_directory_of_millions(target: Store, tmp_path: Path) -> None:
    """Refused before it is read: a million entries would take a gigabyte."""
    entry = b"PK\1\2" + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0) + b"abcd"
    directory = entry * 60_000
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 60_000, 60_000, len(directory), 0, 0)
    (tmp_path / "x.zip").write_bytes(directory + end)
    refused(target, tmp_path / "x.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_compression(target: Store, good: Path, tmp_path: Path, method: int) -> None:
    manifest, members = unpacked(good)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as zipped:
        for name, data in {**members, "manifest.json": json.dumps(manifest).encode()}.items():
            zipped.writestr(name, data)
    refused(target, tmp_path / "x.zip", said="compressed")


def test_an_encrypted_member(target: Store, good: Path, tmp_path: Path) -> None:
    data = bytearray(good.read_bytes())
    at = data.rindex(b"PK\1\2", 0, data.rindex(b"pm_atom.jsonl"))
    data[at + 8] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    refused(target, tmp_path / "x.zip", said="encrypted")


def test_stored_members_are_read(target: Store, good: Path, tmp_path: Path) -> None:
    """Someone may unpack and pack again without compression."""
    manifest, members = unpacked(good)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as zipped:
        for name, data in {**members, "manifest.json": json.dumps(manifest).encode()}.items():
            zipped.writestr(name, data)
    (tmp_path / "x.zip").write_bytes(buffer.getvalue())
    with reading.ArchiveReader.open(tmp_path / "x.zip") as reader:
        reader.verify(lambda _: None)
        assert reader.manifest.rows == sum(member["rows"] for member in manifest["members"])
