"""Reading an archive that may be damaged, or made to do harm."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pegas_memory.archive.manifest import LONGEST, NAME, Manifest, Member, manifest_of
from pegas_memory.errors import ArchiveDamaged, UnreadableFile

LONGEST_ROW = 700_000_000
"""Bytes. A document has up to 100 million characters, and JSON may take six bytes for one."""
MOST_GROWTH, GROWTH_ALLOWED = 200, 1_000_000_000
"""An archive may unpack to that many times its size; real ones reach 20. Below so many bytes it does not matter."""
_LONGEST_DIRECTORY = 1_000_000
_BUFFER = 1 << 18
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OverflowError, struct.error)
"""What ``zipfile`` raises for damage, by its kind. ``ValueError``: text that is not UTF-8 among others."""
_OFTEN = 1000
"""Rows between two words on the progress."""


class _Source(io.FileIO):
    """Keeps ``zipfile`` from reading a huge directory into memory: nothing else asks for so much at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LONGEST_DIRECTORY:
            raise zipfile.BadZipFile("its directory is too long")
        return super().read(size) or b""


def _source(path: Path) -> _Source:
    if path.exists() and not path.is_file():
        raise UnreadableFile("An archive is a plain file.")
    return _Source(path)


class ArchiveReader:
    """Made by :meth:`open`; its manifest and the list of its members have been checked then."""

    def __init__(self, zipped: zipfile.ZipFile, manifest: Manifest) -> None:
        self._zip = zipped
        self.manifest = manifest

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[ArchiveReader]:
        """Raises ``UnreadableFile``, ``ArchiveDamaged``, ``ArchiveTooNew``."""
        with ExitStack() as stack:
            with _translated():
                source = stack.enter_context(_source(path))
                zipped = stack.enter_context(zipfile.ZipFile(source))
                manifest = _manifest(zipped, os.fstat(source.fileno()).st_size)
            yield cls(zipped, manifest)

    def lines(self, member: Member) -> Iterator[str]:
        """The member's rows. Raises ``ArchiveDamaged``, at the latest at its end, when they are not what was
        written."""
        digest, rows = hashlib.sha256(), 0
        with _translated(), io.BufferedReader(self._zip.open(member.name), _BUFFER) as lines:  # type: ignore[type-var]
            while line := lines.readline(LONGEST_ROW + 1):
                if not line.endswith(b"\n"):
                    raise ArchiveDamaged(f"{member.name}, row {rows + 1} is cut off, or too long.")
                digest.update(line)
                rows += 1
                yield line[:-1].decode("utf-8")
        if (rows, digest.hexdigest()) != (member.rows, member.sha256):
            raise ArchiveDamaged(f"{member.name} is not what was written: its checksum differs.")

    def verify(self, on_rows: Callable[[int], None]) -> None:
        """Read everything once. Raises ``ArchiveDamaged``."""
        for member in self.manifest.members:
            for number, _ in enumerate(self.lines(member), 1):
                if number % _OFTEN == 0:
                    on_rows(_OFTEN)
            on_rows(member.rows % _OFTEN)


def _manifest(zipped: zipfile.ZipFile, size: int) -> Manifest:
    """The manifest, once the directory is as it says. ``size``: bytes of the whole file."""
    members = {info.filename: info.file_size for info in zipped.infolist()}
    if len(members) != len(zipped.infolist()):
        raise ArchiveDamaged("Two of its members have one name.")
    if NAME not in members:
        raise ArchiveDamaged("It has no manifest.json: it is not an archive of Pegas Memory.")
    for info in zipped.infolist():
        if info.compress_type not in {zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED} or info.flag_bits & 1:
            raise ArchiveDamaged("A member is encrypted, or compressed in a way that is not used here.")
    if members[NAME] > LONGEST:
        raise ArchiveDamaged("Its manifest is too long.")
    unpacked = sum(members.values())
    if unpacked > max(GROWTH_ALLOWED, size * MOST_GROWTH):
        raise ArchiveDamaged(f"It would unpack to {unpacked // max(size, 1)} times its size.")
    manifest = manifest_of(zipped.read(NAME))
    if {member.name: member.bytes for member in manifest.members} != {n: b for n, b in members.items() if n != NAME}:
        raise ArchiveDamaged("Its members are not those that its manifest lists.")
    return manifest


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise ArchiveDamaged(f"It cannot be unpacked: {_reason(error)}.") from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # a place in the file that cannot be
            raise ArchiveDamaged("It cannot be unpacked: its directory is damaged.") from error
        raise UnreadableFile(f"The archive cannot be read ({os.strerror(error.errno or 0)}).") from error


def _reason(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "a row is not UTF-8"
        case EOFError():
            return "it ends too early"
        case NotImplementedError():
            return "it uses a kind of zip that is not read here"
        case _:
            return "it is not a zip file, or a damaged one"
