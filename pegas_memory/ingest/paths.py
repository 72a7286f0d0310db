"""Which files may be read: below a root after resolving links, nothing hidden, no keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pegas_memory.errors import PathNotAllowed

_KEY_NAME = re.compile(
    r"(?:id_(?:rsa|dsa|ecdsa|ed25519)\w*(?:\.pub)?|.*\.(?:pem|key|ppk|p12|pfx|jks|keystore|kdbx?|gpg)"
    r"|(?:credentials?|secrets?|htpasswd|authorized_keys|known_hosts|passwd|shadow)(?:\.(?:json|ya?ml|toml|ini|csv|txt))?)",
    re.IGNORECASE,
)


def allowed_path(source: str, roots: Sequence[Path]) -> Path:
    """``source`` resolved, when it lies in one of ``roots``; a relative one is looked for in the
    working directory, then in each root. The file need not exist.

    Raises ``PathNotAllowed`` for a path outside, hidden or key-like; the message never tells where a
    link leads or whether the file exists.
    """
    if not source or "\x00" in source:
        raise PathNotAllowed("The path is empty or holds a NUL character.", "Give the path of a file or folder.")
    resolved_roots = [_resolved(root) for root in roots]
    given = Path(source).expanduser() if source.startswith("~/") else Path(source)
    candidates = [given] if given.is_absolute() else [Path.cwd() / given, *(root / given for root in resolved_roots)]
    inside = [
        (path, root) for c in candidates for path in [_resolved(c)] for root in resolved_roots if _below(path, root)
    ]
    if not inside:
        raise PathNotAllowed("The path lies outside the folders that may be read.")
    path, root = next(((p, r) for p, r in inside if p.exists()), inside[0])
    _refuse_private_names([*_below_a_root(given, roots), *path.relative_to(root).parts])
    return path


def private_name(name: str) -> bool:
    """True for a hidden file or folder and for names that key files bear."""
    return (name.startswith(".") and name not in (".", "..")) or _KEY_NAME.fullmatch(name) is not None


def _below_a_root(given: Path, roots: Sequence[Path]) -> tuple[str, ...]:
    """The parts of the path as it was written that the operator did not open by naming a root."""
    if not given.is_absolute():
        return given.parts
    return next((given.relative_to(root).parts for root in roots if _below(given, root)), ())


def _refuse_private_names(parts: Sequence[str]) -> None:
    if any(private_name(part) for part in parts):
        raise PathNotAllowed(
            "Hidden files and key files are never read.", "Copy the file under a plain name if it should be read."
        )


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise PathNotAllowed("The path cannot be followed (a loop of links, or a name too long).") from error


def _below(path: Path, root: Path) -> bool:
    return path == root or root in path.parents
