"""The files that a folder, a pattern or a repository stands for, and what was passed over, with counts."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from pegas_memory import ingest
from pegas_memory.errors import InputError, PathNotAllowed

MAX_FILES = 10_000
MAX_DEPTH = 64
_MAGIC = re.compile(r"[*?\[]")
_IGNORE_BYTES = 200_000
_NO_TEXT = frozenset(
    """
    .png .jpg .jpeg .gif .webp .bmp .tif .tiff .ico .icns .heic .psd .ai .eps .svg .mp3 .wav .ogg .flac .m4a .mp4 .mkv
    .mov .avi .webm .ttf .otf .woff .woff2 .zip .gz .tgz .bz2 .xz .zst .7z .rar .tar .jar .war .whl .egg .deb .rpm .iso
    .dmg .exe .dll .so .dylib .a .o .obj .lib .class .pyc .pyo .pyd .wasm .bin .dat .db .sqlite .sqlite3 .mdb .doc .docx
    .xls .xlsx .ppt .pptx .odt .ods .odp .npy .npz .pkl .pickle .parquet .onnx .pt .pth .safetensors .gguf .ckpt .lock
    .swp .tmp .bak .torrent .blend .fbx .stl .mo .ds_store
    """.split()
)
"""By name, so that a folder of photographs is not opened one by one; other files tell by their content."""


@dataclass(slots=True)
class Found:
    """``skipped``: what was passed over and why, in words, by count."""

    files: list[Path] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def said(self) -> tuple[str, ...]:
        return tuple(f"{count} {what}." for what, count in sorted(self.skipped.items()))


def split_pattern(source: str) -> tuple[str, str]:
    """(folder, pattern) of a source with ``*``, ``?`` or ``[``; the pattern is empty for a plain path."""
    parts = Path(source).parts
    at = next((n for n, part in enumerate(parts) if _MAGIC.search(part)), None)
    if at is None:
        return source, ""
    return str(Path(*parts[:at])) if at else ".", "/".join(parts[at:])


def is_repository(folder: Path) -> bool:
    return (folder / ".git").exists()


def files_below(
    folder: Path,
    roots: Sequence[Path],
    closed: Sequence[Path] = (),
    *,
    pattern: str = "",
    repository: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Found:
    """The files in ``folder`` that may be read, sorted by path, at most ``MAX_FILES``; links to folders are not
    followed. ``pattern`` is a glob below it (``**`` any folders). In a ``repository`` what .gitignore names
    is left out, and vendored or built folders. ``check`` is called at each folder and may raise."""
    walk = _Walk(folder, roots, closed, _pattern(pattern), repository, check)
    walk.through(folder, (), 0)
    walk.found.files.sort(key=str)
    return walk.found


class _Walk:
    def __init__(
        self,
        top: Path,
        roots: Sequence[Path],
        closed: Sequence[Path],
        wanted: re.Pattern[str] | None,
        repository: bool,
        check: Callable[[], None],
    ) -> None:
        self.found = Found()
        self._check = check
        self._seen: set[Path] = set()
        self._top, self._roots, self._closed, self._wanted, self._repository = top, roots, closed, wanted, repository

    def through(self, folder: Path, ignores: tuple[tuple[Path, GitIgnoreSpec], ...], depth: int) -> None:
        self._check()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            self.found.skipped["folders could not be opened"] += 1
            return
        if self._repository and (ignored := self._ignored(folder)) is not None:
            ignores = (*ignores, (folder, ignored))
        for entry in entries:
            path = folder / entry.name
            try:
                is_folder, is_file = entry.is_dir(follow_symlinks=False), entry.is_file()
            except OSError:  # a link to itself, or into a folder that may not be entered
                self.found.skipped["links that lead nowhere were left out"] += 1
                continue
            if is_folder:
                if self._enters(path, ignores, depth):
                    self.through(path, ignores, depth + 1)
            elif is_file and (self._wanted is None or self._wanted.fullmatch(self._below(path))):
                self._take(path, ignores)

    def _enters(self, folder: Path, ignores: Sequence[tuple[Path, GitIgnoreSpec]], depth: int) -> bool:
        if ingest.private_name(folder.name):
            self.found.skipped["hidden or forbidden folders were left out"] += 1
        elif self._repository and ingest.vendored(folder.name):
            self.found.skipped["folders of vendored or built code were left out"] += 1
        elif _names(ignores, folder, "/"):
            self.found.skipped["folders that .gitignore names were left out"] += 1
        elif depth >= MAX_DEPTH:
            self.found.skipped["folders lie too deep and were left out"] += 1
        else:
            return True
        return False

    def _take(self, path: Path, ignores: Sequence[tuple[Path, GitIgnoreSpec]]) -> None:
        if path.suffix.lower() in _NO_TEXT:
            self.found.skipped["files of other kinds were left out"] += 1
        elif not _is_unicode(path):
            self.found.skipped["files whose names are not valid Unicode were left out"] += 1
        elif _names(ignores, path):
            self.found.skipped["files that .gitignore names were left out"] += 1
        elif (allowed := _allowed(path, self._roots, self._closed)) is None:
            self.found.skipped["hidden or forbidden files were left out"] += 1
        elif allowed in self._seen:
            self.found.skipped["links to files that are read anyway were left out"] += 1
        elif len(self.found.files) >= MAX_FILES:
            self.found.skipped[f"files beyond the first {MAX_FILES:,} were left out"] += 1
        else:
            self._seen.add(allowed)
            self.found.files.append(allowed)

    def _below(self, path: Path) -> str:
        return path.relative_to(self._top).as_posix()

    def _ignored(self, folder: Path) -> GitIgnoreSpec | None:
        file = folder / ".gitignore"
        try:
            lines = ingest.read_allowed(file)[:_IGNORE_BYTES].decode("utf-8", "replace").splitlines()
            return GitIgnoreSpec.from_lines(lines)
        except (InputError, ValueError):
            return None


def _names(ignores: Sequence[tuple[Path, GitIgnoreSpec]], path: Path, end: str = "") -> bool:
    """Whether the ignore files from the top down name the path; the innermost that speaks of it decides."""
    for folder, spec in reversed(ignores):
        said = spec.check_file(path.relative_to(folder).as_posix() + end).include
        if said is not None:
            return said
    return False


def _pattern(glob: str) -> re.Pattern[str] | None:
    """As a shell reads it: ``*`` and ``?`` stay within a name, ``**`` is any number of folders."""
    if not glob:
        return None
    parts = []
    for n, part in enumerate(names := glob.split("/")):
        last = n == len(names) - 1
        if part == "**":
            parts.append(".*" if last else "(?:[^/]+/)*")
        else:
            parts.append("".join(map(_piece, re.findall(r"\[[^\]]+\]|.", part, re.DOTALL))) + ("" if last else "/"))
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error as error:
        raise PathNotAllowed("The pattern cannot be read.", "Use *, ?, ** and [abc].") from error


def _piece(piece: str) -> str:
    if piece == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if len(piece) > 1:
        inner = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[^{inner[1:]}]" if inner[0] == "!" and len(inner) > 1 else f"(?!/)[{inner}]"
    return re.escape(piece)


def _is_unicode(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _allowed(path: Path, roots: Sequence[Path], closed: Sequence[Path]) -> Path | None:
    try:
        return ingest.allowed_path(str(path), roots, closed)
    except InputError:
        return None
