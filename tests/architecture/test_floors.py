"""Imports go down the floors, rooms keep their size, and no file knows the machine it was written on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.architecture.repository import PACKAGE, ROOT, files, text_of
from tests.conftest import SCRUBBED

LONGEST_FILE = 500
FORBIDDEN_NAMES = {"utils", "common", "helpers", "manager", "core", "misc", "util", "helper"}


def test_import_contracts_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_file_is_too_long() -> None:
    sizes = {str(p.relative_to(ROOT)): len((text_of(p) or "").splitlines()) for p in PACKAGE.rglob("*.py")}
    assert {name: lines for name, lines in sizes.items() if lines > LONGEST_FILE} == {}


def test_rooms_have_true_names() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if path.stem in FORBIDDEN_NAMES]
    folders = [path for path in PACKAGE.rglob("*") if path.is_dir() and path.name in FORBIDDEN_NAMES]
    assert modules + folders == []


def test_no_machine_in_committed_files() -> None:
    wanted = _machine_names()
    found = []
    for path in files():
        for number, line in enumerate((text_of(path) or "").splitlines(), 1):
            found += [f"{path.relative_to(ROOT)}:{number}: {name}" for name in wanted if name in line]
    assert found == []


def _machine_names() -> list[str]:
    """Where this checkout stands, whose home it is in, and which package index it was installed from."""
    names = ["/wo" + "rk/", "/tm" + "p/pegas/"]
    if len(ROOT.parts) > 2:
        names.append(f"{ROOT}/")
    user_home = SCRUBBED.get("HOME", "")
    if user_home.startswith("/home/"):
        names.append(f"{user_home}/")
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        host = urlsplit(os.environ.get(variable, "")).hostname
        if host and host != "pypi.org":
            names.append(host)
    return names


def test_no_unfinished_work_is_committed() -> None:
    marker = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|raise NotImplemented" + r"Error")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate((text_of(path) or "").splitlines(), 1)
        if marker.search(line)
    ]
    assert found == []
