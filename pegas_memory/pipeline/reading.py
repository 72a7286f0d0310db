"""A source as a caller names it → the document that was read, with what identifies its bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pegas_memory import ingest
from pegas_memory.errors import FetchFailed, FetchTimeout, InputError, NoUsableText
from pegas_memory.model import DocumentKind, Extracted

SNIPPET_AUTHORITY = 0.2
MAX_FILES = 10_000
READABLE = frozenset({".txt", ".text", ".md", ".markdown", ".rst", ".html", ".htm", ".xhtml", ".pdf", ".epub"})
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


@dataclass(frozen=True, slots=True)
class Read:
    document: Extracted
    uri: str
    content_hash: str
    """sha256 of the bytes, in hex."""
    authority: float | None


@dataclass(frozen=True, slots=True)
class Folder:
    files: tuple[Path, ...]
    skipped: tuple[str, ...]
    """What was left out, in words, with counts."""


def is_address(source: str) -> bool:
    return _SCHEME.match(source) is not None


def read_source(payload: Mapping[str, Any]) -> Read:
    """The document that an ingest job's payload names: a text, an address or a file.

    Raises what the readers of ``ingest`` raise (``InputError``).
    """
    source, title = str(payload.get("source", "")), str(payload.get("title", ""))
    kind = DocumentKind(payload["kind"]) if payload.get("kind") else None
    authority = payload.get("authority")
    if not source:
        text = str(payload.get("text", ""))
        content_hash = _digest(text.encode())
        document = ingest.read_text(text, kind or DocumentKind.TEXT, title)
        return Read(document, f"text:{content_hash[:32]}", content_hash, authority)
    if is_address(source):
        return _fetched(payload, source, kind, title)
    path = ingest.allowed_path(source, [Path(root) for root in payload.get("roots", [])])
    document, content_hash = ingest.load_file(path, kind)
    return Read(_titled(document, title), path.as_uri(), content_hash, authority)


def _fetched(payload: Mapping[str, Any], url: str, kind: DocumentKind | None, title: str) -> Read:
    authority, snippet = payload.get("authority"), str(payload.get("snippet", ""))
    proxy_url, allow_private = str(payload.get("proxy_url", "")), bool(payload.get("allow_private"))
    try:
        got = ingest.fetch(url, proxy_url=proxy_url, allow_private=allow_private)
        document = ingest.read_bytes(got.data, kind or _web_kind(got.content_type), got.url, got.content_type)
    except (FetchFailed, FetchTimeout, NoUsableText) as error:
        if not snippet:
            raise
        document = ingest.read_text(snippet, DocumentKind.TEXT, title or url)
        note = f"The page could not be read ({error.code}); the snippet was stored in its place."
        document = replace(document, kind=DocumentKind.WEB, warnings=(*document.warnings, note))
        weight = SNIPPET_AUTHORITY if authority is None else min(authority, SNIPPET_AUTHORITY)
        return Read(document, url, _digest(snippet.encode()), weight)
    return Read(_titled(document, title), url, _digest(got.data), authority)


def files_below(folder: Path, roots: Sequence[Path]) -> Folder:
    """The files of readable kinds, at most ``MAX_FILES``, and what was passed over."""
    files: list[Path] = []
    other_kinds = unnamed = forbidden = over = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if path.suffix.lower() not in READABLE:
            other_kinds += 1
        elif not _is_unicode(path):
            unnamed += 1
        elif not _allowed(path, roots):
            forbidden += 1
        elif len(files) >= MAX_FILES:
            over += 1
        else:
            files.append(path)
    counts = (
        (other_kinds, "files of other kinds were left out"),
        (unnamed, "files whose names are not valid Unicode were left out"),
        (forbidden, "hidden or forbidden files were left out"),
        (over, f"files beyond the first {MAX_FILES:,} were left out"),
    )
    return Folder(tuple(files), tuple(f"{count} {what}." for count, what in counts if count))


def _is_unicode(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _allowed(path: Path, roots: Sequence[Path]) -> bool:
    try:
        ingest.allowed_path(str(path), roots)
    except InputError:
        return False
    return True


def _web_kind(content_type: str) -> DocumentKind | None:
    return DocumentKind.WEB if "html" in content_type.lower() or not content_type else None


def _titled(document: Extracted, title: str) -> Extracted:
    return replace(document, title=title) if title else document


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
