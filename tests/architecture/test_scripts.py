"""The shell scripts: executable, strict, and clear when the machine cannot run them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT

PROGRAMS = [ROOT / "scripts" / name for name in ("demo", "test", "check")] + [ROOT / ".ci" / "run"]


@pytest.mark.parametrize("script", PROGRAMS, ids=lambda path: path.name)
def test_script_is_strict_and_executable(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)


def sourced(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = f'set -euo pipefail; source "{ROOT}/scripts/environment.sh"; {command}'
    env = {**os.environ, **environment}
    return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, check=False)


def test_a_suitable_python_is_found() -> None:
    found = sourced("find_python")
    assert found.returncode == 0, found.stderr
    assert Path(found.stdout.strip()).exists()


def test_a_machine_without_python_is_told_what_to_install(tmp_path: Path) -> None:
    for tool in ("dirname", "bash", "env"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}")
    found = sourced("find_python", PATH=str(tmp_path), PYTHON="")
    assert found.returncode == 1
    assert "3.11, 3.12 or 3.13" in found.stderr


def test_an_unsuitable_python_is_passed_over(tmp_path: Path) -> None:
    fake = tmp_path / "old-python"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    found = sourced("find_python", PYTHON=str(fake))
    assert found.returncode == 0
    assert str(fake) not in found.stdout
