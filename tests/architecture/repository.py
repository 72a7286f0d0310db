"""What the architecture tests look at: the files of the checkout that are, or will be, committed."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pegas_memory"
_SKIPPED = {".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "build", "dist"}


@functools.cache
def files() -> tuple[Path, ...]:
    """Every file git tracks or would add; without git, every file outside the usual caches."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        found = {ROOT / name for name in listed.split("\0") if name}
    except (OSError, subprocess.CalledProcessError):
        found = {path for path in ROOT.rglob("*") if not _SKIPPED & set(path.relative_to(ROOT).parts)}
        found = {path for path in found if not any(part.startswith(".venv") for part in path.parts)}
    return tuple(sorted(path for path in found if path.is_file()))


def text_of(path: Path) -> str | None:
    """The file's text, None when it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
