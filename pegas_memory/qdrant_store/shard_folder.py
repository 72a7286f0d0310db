"""The files around an embedded shard: its lock, its manifest, and moving a damaged one aside.

::

    PARENT/NAME.lock          held by the process that has the shard open
    PARENT/NAME/manifest.json which model and dimension, which format
    PARENT/NAME/shard/        the engine's own files
    PARENT/NAME.damaged/      the last shard that was moved aside
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pegas_memory.errors import DiskFull, HomeNotWritable, ShardDamaged, VectorsUnavailable, WrongDimension
from pegas_memory.model import EmbeddingModel
from pegas_memory.qdrant_store.payload import FORMAT

_MANIFEST = "manifest.json"
_FULL = frozenset({28, 122})  # ENOSPC, EDQUOT


@dataclass(frozen=True, slots=True)
class Manifest:
    format: int
    base: str
    model: str
    dimension: int


def shard_path(folder: Path) -> Path:
    return folder / "shard"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Own ``folder`` while the block runs. The engine's lock lives in its write-ahead log, which is
    off; this one goes with its process, however that ends.

    Raises:
        VectorsUnavailable: another process, or another index of this one, has it.
        HomeNotWritable: the parent folder cannot be made or written.
    """
    with _writing():
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(folder.with_name(folder.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise VectorsUnavailable(
                "The embedded vectors are in use by another process.",
                "One engine process serves a PEGAS_HOME; connect to it, or stop it with `pegas-memory stop`.",
            ) from error
        yield
    finally:
        os.close(handle)


def read_manifest(folder: Path, model: EmbeddingModel) -> bool:
    """False when there is no shard yet, True when there is one that fits ``model``.

    Raises:
        WrongDimension: the shard was made for another model or dimension.
        ShardDamaged: the manifest is missing beside a shard, unreadable, or of another format.
    """
    try:
        text = (folder / _MANIFEST).read_bytes()
    except FileNotFoundError:
        if shard_path(folder).exists():
            raise ShardDamaged("The embedded vectors have lost their manifest.") from None
        return False
    except OSError as error:
        raise VectorsUnavailable("The manifest of the embedded vectors cannot be read.") from error
    try:
        found = Manifest(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise ShardDamaged("The manifest of the embedded vectors is damaged.") from error
    if found.format != FORMAT:
        raise ShardDamaged(f"The embedded vectors are of format {found.format}; this version reads {FORMAT}.")
    if (found.model, found.dimension) != (model.name, model.dimension):
        raise WrongDimension(
            f"The embedded vectors were made by {found.model} with {found.dimension} dimensions, not by"
            f" {model.name} with {model.dimension}."
        )
    return True


def write_manifest(folder: Path, base: str, model: EmbeddingModel) -> None:
    """Write it whole or not at all; it is written last, so that it vouches for a complete shard."""
    manifest = Manifest(FORMAT, base, model.name, model.dimension)
    draft = folder / (_MANIFEST + ".new")
    with _writing():
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(manifest), file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(folder / _MANIFEST)
        _sync_folder(folder)


def make_folder(folder: Path) -> None:
    """Make the folder of a shard, mode 0700, and its parents."""
    with _writing():
        shard_path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)


def move_aside(folder: Path, *, keep: bool) -> None:
    """Make room for an empty shard under the same name; what was there waits in ``NAME.damaged``
    (one of them, the last) or, unless ``keep``, is deleted."""
    aside = folder.with_name(folder.name + ".damaged")
    with held(folder), _writing():
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)
            folder.rename(aside)
            _sync_folder(folder.parent)
        if not keep:
            shutil.rmtree(aside, ignore_errors=True)


def remove(folder: Path) -> None:
    """Delete the shard of ``folder`` with all that stands around it, its lock excepted.

    Raises:
        VectorsUnavailable: an index has it open.
    """
    with held(folder), _writing():
        (folder / _MANIFEST).unlink(missing_ok=True)  # half of it must not pass for a shard
        for path in (folder, folder.with_name(folder.name + ".damaged")):
            shutil.rmtree(path, ignore_errors=True)
        folder.with_name(folder.name + ".rebuild").unlink(missing_ok=True)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull("There is no room on the disk for the embedded vectors.") from error
        raise HomeNotWritable("The folder of the embedded vectors cannot be written.") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
