"""A tenant, or all of them, into one file and out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pegas_memory.archive import ArchiveReader, ArchiveWriter, Manifest, Member, checked
from pegas_memory.archive.manifest import is_tenant
from pegas_memory.db import archive
from pegas_memory.db.archive import PAGE_BYTES, PAGE_ROWS, ArchivedTable
from pegas_memory.db.session import Connection
from pegas_memory.errors import ArchiveDamaged, InvalidParameter, NotFound
from pegas_memory.service.rooms import OpenRooms

OnRows = Callable[[str, int, int], None]
"""What is being done, rows done, rows in all."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What was written, or read: rows by table."""

    tenants: tuple[str, ...]
    rows: dict[str, int]
    vectors: bool
    bytes: int
    schema: str


class _Progress:
    def __init__(self, total: int, hear: OnRows | None) -> None:
        self._total, self._hear, self._done = total, hear, 0

    def of(self, what: str) -> Callable[[int], None]:
        def on_rows(count: int) -> None:
            self._done += count
            if self._hear is not None:
                self._hear(what, self._done, self._total)

        return on_rows


def export(
    rooms: OpenRooms,
    tenant: str | None,
    path: Path,
    *,
    vectors: bool = False,
    replace: bool = False,
    on_rows: OnRows | None = None,
) -> Archived:
    """Write ``tenant``, or every tenant for None, as it is at this moment, however long the writing takes.

    Raises:
        InvalidParameter: the file is there, or cannot be written. NotFound: the tenant holds nothing.
        DiskFull, DatabaseUnavailable: no part of the file is kept.
    """
    _check_name(tenant)
    tables = [table for table in archive.TABLES if vectors or table.name != archive.VECTORS]
    with ArchiveWriter.open(path, replace=replace) as writer, rooms.db.snapshot(tenant) as conn:
        total = sum(archive.count(conn, table, tenant) for table in tables)
        if not total:
            raise NotFound("There is nothing to export.", "`pegas-memory status` counts what PEGAS_TENANT holds.")
        progress = _Progress(total, on_rows)
        for table in tables:
            writer.add(table.name, archive.pages(conn, table, tenant), progress.of(table.name))
        held = archive.tenants(conn) if tenant is None else [tenant]
        manifest = writer.finish(held, vectors=vectors, now=rooms.clock())
    return _said(manifest, manifest.tenants, path)


def import_(rooms: OpenRooms, path: Path, tenant: str | None = None, *, on_rows: OnRows | None = None) -> Archived:
    """Read an archive into the tenants that it names, or the only one of them into ``tenant``. All of it is
    checked first, and all of it is committed at once; the projections are filled by their worker.

    Raises:
        UnreadableFile, ArchiveDamaged, ArchiveTooNew: nothing was read in. TenantNotEmpty, InvalidParameter.
        DiskFull, DatabaseUnavailable: nothing stays.
    """
    _check_name(tenant)
    with ArchiveReader.open(path) as reader:
        manifest = reader.manifest
        if tenant is not None and len(manifest.tenants) > 1:
            raise InvalidParameter(
                f"tenant: the archive holds {len(manifest.tenants)} tenants.",
                "Leave --tenant out: each goes into the tenant of its own name.",
            )
        into = [tenant] if tenant is not None else list(manifest.tenants)
        progress = _Progress(2 * manifest.rows, on_rows)
        reader.verify(progress.of("checking"))
        one = into[0] if len(into) == 1 else None
        with rooms.db.everything() if one is None else rooms.db.tenant(one) as conn:
            _read_in(conn, reader, into, one, progress)
    rooms.nudge()
    return _said(manifest, into, path)


def _check_name(tenant: str | None) -> None:
    if tenant is not None and not is_tenant(tenant):
        raise InvalidParameter("tenant: a name has 1 to 64 characters, none of them a control character.")


def _read_in(
    conn: Connection, reader: ArchiveReader, into: Sequence[str], one: str | None, progress: _Progress
) -> None:
    for name in sorted(into):
        archive.hold(conn, name)
    members = {member.table: member for member in reader.manifest.members}
    tenants = frozenset(reader.manifest.tenants)
    for table in archive.TABLES:
        member = members.get(table.name)
        if member is None:
            continue
        on_rows = progress.of(table.name)
        done = 0
        for columns, rows in _batches(reader, member, table, tenants):
            archive.put(conn, table, columns, rows, one, f"{member.name}, rows {done + 1} to {done + len(rows)}")
            done += len(rows)
            on_rows(len(rows))
    for name in into:
        archive.note_all(conn, name)


def _batches(
    reader: ArchiveReader, member: Member, table: ArchivedTable, tenants: frozenset[str]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """The member's rows with their columns, checked, in batches of about ``PAGE_BYTES``."""
    columns: dict[str, Any] = {}
    batch: list[str] = []
    size = 0
    for number, line in enumerate(reader.lines(member), 1):
        row = checked(table, line, tenants, f"{member.name}, row {number}")
        if number == 1:
            columns = row
        elif row.keys() != columns.keys():
            raise ArchiveDamaged(f"{member.name}, row {number} has other columns than the first row.")
        batch.append(line)
        size += len(line)
        if size > PAGE_BYTES or len(batch) == PAGE_ROWS:
            yield tuple(columns), batch
            batch, size = [], 0
    if batch:
        yield tuple(columns), batch


def _said(manifest: Manifest, tenants: Sequence[str], path: Path) -> Archived:
    rows = {member.table: member.rows for member in manifest.members}
    return Archived(tuple(tenants), rows, manifest.vectors, path.stat().st_size, manifest.schema)
