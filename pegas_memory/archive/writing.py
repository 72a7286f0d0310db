"""Writing an archive: complete under its name, or not there at all."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from pegas_memory.archive.manifest import NAME, Manifest, Member
from pegas_memory.errors import DiskFull, InvalidParameter

COMPRESSION = 3
"""Of zlib's 1 to 9. 20,000 atoms without vectors: 1 takes 0.28 s of CPU and writes 6.1 MB, 3 takes 0.34 s and 5.8 MB,
6 takes 0.60 s and 5.3 MB, 9 takes 0.97 s for the same. With vectors of 384: 1.5 s and 38.4 MB, or 2.2 s and 37.2 MB
for 6; of these the vectors are 32.6 MB, 6 % more than their bytes."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class ArchiveWriter:
    """Made by :meth:`open`, which puts the file in place when its block ends well."""

    def __init__(self, zipped: zipfile.ZipFile) -> None:
        self._zip = zipped
        self._members: list[Member] = []

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, replace: bool) -> Iterator[ArchiveWriter]:
        """A new archive, readable by its owner alone.

        Raises:
            InvalidParameter: the file is there (and not ``replace``), or cannot be made. DiskFull.
        """
        if path.is_dir():
            raise InvalidParameter("FILE is a folder.", "Give the name of the file to write.")
        if os.path.lexists(path) and not replace:
            raise InvalidParameter("FILE is there already.", "Give another name, or --force to replace it.")
        with _translated():
            number, part = tempfile.mkstemp(prefix=".archive-", suffix=".part", dir=path.parent)
            try:
                with os.fdopen(number, "wb") as file:
                    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=COMPRESSION) as zipped:
                        yield cls(zipped)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(part, path)
                _settle(path.parent)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part)
                raise

    def add(self, table: str, pages: Iterable[Sequence[str]], on_rows: Callable[[int], None]) -> None:
        """One member: each row a line. ``on_rows`` hears how many a page held."""
        digest, rows, size = hashlib.sha256(), 0, 0
        with self._zip.open(f"{table}.jsonl", "w", force_zip64=True) as member:
            for page in pages:
                data = "".join(f"{row}\n" for row in page).encode()
                member.write(data)
                digest.update(data)
                rows, size = rows + len(page), size + len(data)
                on_rows(len(page))
        self._members.append(Member(table, rows, size, digest.hexdigest()))

    def finish(self, tenants: Sequence[str], *, vectors: bool, now: datetime) -> Manifest:
        manifest = Manifest(tuple(tenants), vectors, tuple(self._members), now.isoformat())
        self._zip.writestr(NAME, manifest.to_json())
        return manifest


def _settle(folder: Path) -> None:
    """The new name survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull("There is no room for the archive; no part of it was kept.") from error
        raise InvalidParameter(
            f"FILE cannot be written ({os.strerror(error.errno or 0)}).",
            "Name a file in a folder that you can write to.",
        ) from error
