"""Which files may be read: below a root after resolving links, nothing hidden, no keys; and how they are opened,
so that the file that is read is the file that was checked."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from pegas_memory.errors import PathNotAllowed, UnreadableFile

MAX_FILE_BYTES = 200_000_000
_KEY_NAME = re.compile(
    r"(?:id_(?:rsa|dsa|ecdsa|ed25519)\w*(?:\.pub)?"
    r"|.*\.(?:pem|key|ppk|p8|p12|pfx|jks|keystore|kdbx?|gpg|env|tfstate|tfvars|wallet|ovpn)"
    r"|(?:credentials?|secrets?|(?:access|auth|api)?[-_]?tokens?|passwords?|wallet|kubeconfig|htpasswd|authorized_keys"
    r"|known_hosts|passwd|shadow|_?netrc|pgpass)(?:\.(?:json|ya?ml|toml|ini|csv|txt|dat))?"
    r"|(?:service[-_]?account|client[-_]secret)[\w.-]*\.json)",
    re.IGNORECASE,
)
_OF_THE_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
"""What lies there is made by the kernel as it is read."""


def allowed_path(source: str, roots: Sequence[Path], closed: Sequence[Path] = ()) -> Path:
    """``source`` resolved, when it lies in one of ``roots``; a relative one is looked for in the
    working directory, then in each root. The file need not exist. ``closed`` are folders from which nothing is
    read (the product's own), unless a root that was named lies in them.

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
    if _closed(path, root, (*_OF_THE_SYSTEM, *closed)):
        raise PathNotAllowed("Pegas Memory's own files and the kernel's are never read.", "Name another file.")
    _refuse_private_names([*_below_a_root(given, roots), *path.relative_to(root).parts])
    return path


def read_allowed(path: Path) -> bytes:
    """The bytes of the regular file at ``path``, an answer of :func:`allowed_path`. No link is followed on the
    way: one that was put there since the check is an error. Never waits on a pipe or a device.

    Raises ``UnreadableFile`` (missing, not a regular file, no permission, over 200 MB), ``PathNotAllowed``.
    """
    try:
        descriptor = _opened(path)
    except FileNotFoundError as error:
        raise UnreadableFile("There is no such file.") from error
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) in (errno.ELOOP, errno.ENOTDIR):
            raise PathNotAllowed("The path changed after it was checked, or leads through a file.") from error
        raise UnreadableFile(
            f"The file cannot be opened ({getattr(error, 'strerror', None) or 'bad name'})."
        ) from error
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise UnreadableFile("It is a folder, a pipe or a device, not a file.", "Give the path of a regular file.")
        if state.st_size <= MAX_FILE_BYTES:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_FILE_BYTES + 1)
            if len(data) <= MAX_FILE_BYTES:
                return data
        raise UnreadableFile(
            f"The file has {max(state.st_size, MAX_FILE_BYTES) / 1e6:,.0f} MB or more;"
            f" at most {MAX_FILE_BYTES / 1e6:.0f} are read."
        )
    except OSError as error:
        raise UnreadableFile(f"The file cannot be read ({error.strerror or 'input error'}).") from error
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """From the top down, folder by folder: a link in the place of any of them fails with ENOTDIR or ELOOP."""
    folder = os.open(path.anchor or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.parts[1 if path.anchor else 0 : -1]:
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(path.name or ".", flags, dir_fd=folder)
    finally:
        os.close(folder)


def private_name(name: str) -> bool:
    """True for a hidden file or folder and for names that key files bear."""
    return (name.startswith(".") and name not in (".", "..")) or _KEY_NAME.fullmatch(name) is not None


def _closed(path: Path, root: Path, closed: Sequence[Path]) -> bool:
    folders = [_resolved(folder) for folder in closed]
    return any(_below(path, folder) and not (_below(root, folder) and root != folder) for folder in folders)


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
