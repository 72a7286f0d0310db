"""An installed wheel is complete without the checkout: programs, migrations, data files."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.architecture.repository import PACKAGE, ROOT, files

NOT_PACKED = {".pyc", ".pyo"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as pip builds it, with the build backend of this environment: no index is asked."""
    target = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(target), str(ROOT)])
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that holds the wheel alone, and borrows the dependencies of this one."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    python = folder / "bin" / "python"
    run([sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", str(wheel)])
    site = Path(run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    # A line in a .pth file is only a search path: the editable install's own .pth there stays unread.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def run(command: list[str], cwd: Path | None = None) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    package = {p.relative_to(ROOT).as_posix() for p in files() if p.is_relative_to(PACKAGE)}
    migrations = {f"pegas_memory/{p.relative_to(ROOT)}" for p in files() if p.is_relative_to(ROOT / "migrations")}
    wanted = {name for name in package | migrations if Path(name).suffix not in NOT_PACKED}
    assert wanted - packed == set()
    assert any(name.startswith("pegas_memory/migrations/versions/0001") for name in packed)


def test_wheel_holds_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"pegas_memory", next(top for top in tops if top.endswith(".dist-info"))}


def test_wheel_carries_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {Path(name).name for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}


def test_program_runs_from_anywhere(installed: Path, tmp_path: Path) -> None:
    said = run([str(installed / "bin" / "pegas-memory"), "--help"], cwd=tmp_path)
    for verb in ("init", "status", "doctor", "store", "search", "context", "ingest", "mcp", "worker", "demo"):
        assert verb in said
    assert list(tmp_path.iterdir()) == []


def test_schema_is_made_from_the_packed_migrations(installed: Path, tmp_path: Path, postgres_url: str) -> None:
    code = (
        "import pegas_memory, sys\n"
        "from pegas_memory.db.migrate import ensure_schema, migrations_folder\n"
        "ensure_schema(sys.argv[1])\n"
        "print(migrations_folder())\n"
    )
    said = run([str(installed / "bin" / "python"), "-c", code, postgres_url], cwd=tmp_path)
    assert Path(said.strip()).is_relative_to(installed)
