"""Documents of every kind into text, blocks and chunks.

Readers are imported when they are first needed: their libraries cost more than a server's start.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, assert_never

from pegas_memory.errors import NoUsableText, UnreadableFile, UnsupportedKind
from pegas_memory.ingest.blocks import parted
from pegas_memory.ingest.chunks import chunk
from pegas_memory.ingest.code_names import DATA, language_of_code, not_written, vendored
from pegas_memory.ingest.paths import MAX_FILE_BYTES, allowed_path, private_name, read_allowed
from pegas_memory.model import DocumentKind, Extracted
from pegas_memory.text import DOCUMENT_LIMIT, clean_text

if TYPE_CHECKING:
    from pegas_memory.ingest.download import Fetched, NotModified

__all__ = [
    "MAX_FILE_BYTES",
    "allowed_path",
    "chunk",
    "fetch",
    "kind_of",
    "language_of_code",
    "load_file",
    "not_written",
    "private_name",
    "read_allowed",
    "read_bytes",
    "read_file",
    "read_text",
    "vendored",
]

_KNOWN_SUFFIXES = (
    ".txt", ".text", ".md", ".markdown", ".rst", ".org", ".tex", ".csv", ".tsv", ".log", ".html", ".htm",
    ".pdf", ".epub",
)  # fmt: skip
"""Of files of the kinds that are read: one that is none of them is damaged, not of another kind."""
_MARKDOWN_NAME = re.compile(r"\.(?:md|markdown|mkd|mdown)$", re.IGNORECASE)
_HTML_NAME = re.compile(r"\.(?:html?|xhtml|xht)$", re.IGNORECASE)
_TABLE_NAME = re.compile(r"\.(?:csv|tsv)$", re.IGNORECASE)
_HTML_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*<")
_HTML_ROOT = re.compile(rb"<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE)
_FOREIGN = (
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a rar archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "a database"),
    (b"{\\rtf", "a rich text file"),
)


def read_text(text: str, kind: DocumentKind = DocumentKind.TEXT, title: str = "") -> Extracted:
    """A document from text that the caller holds: text, markdown, html or web.

    Raises ``UnsupportedKind`` for kinds that are bytes, ``NoUsableText``, ``InvalidParameter`` (lone
    surrogates), ``TextTooLong``.
    """
    text = clean_text(parted(text), field="text", max_characters=DOCUMENT_LIMIT)
    if not text.strip():
        raise NoUsableText("The text is empty.")
    return _read_decoded(text, kind, title, "")


def read_file(path: Path, kind: DocumentKind | None = None) -> Extracted:
    """As :func:`load_file`, without the digest."""
    return load_file(path, kind)[0]


def load_file(path: Path, kind: DocumentKind | None = None) -> tuple[Extracted, str]:
    """The document in a file and the sha256 of the bytes it was read from. Its kind goes by content when
    ``kind`` is None; its name is the title of last resort. The path must have passed :func:`allowed_path`.

    Raises ``UnreadableFile`` (missing, not a regular file, over 200 MB, damaged), ``NoUsableText``,
    ``NoTextLayer``, ``PasswordNeeded``, ``UnsupportedKind``.
    """
    data = read_allowed(path)
    document = read_bytes(data, kind, path.name)
    if not document.title:
        document = replace(document, title=clean_text(path.stem, field="title", max_characters=500))
    return document, hashlib.sha256(data).hexdigest()


def read_bytes(data: bytes, kind: DocumentKind | None = None, name: str = "", content_type: str = "") -> Extracted:
    """The document in ``data``. ``name`` is a file name or an address, ``content_type`` the header it
    came with; a page that came with one is read for its main content (``web``). Raises as ``read_file``.
    """
    if not data.strip():
        raise NoUsableText("The source is empty (0 bytes of text).")
    found = kind_of(data, name, content_type)
    # An address says "web" before anybody has seen what it serves.
    served_text = content_type != "" and found in (DocumentKind.TEXT, DocumentKind.MARKDOWN)
    if kind is None or (kind is DocumentKind.WEB and (served_text or found in (DocumentKind.PDF, DocumentKind.EPUB))):
        kind = found
    if kind is DocumentKind.PDF:
        from pegas_memory.ingest.pdf import read_pdf

        return read_pdf(data)
    if kind is DocumentKind.EPUB:
        from pegas_memory.ingest.epub import read_epub

        return read_epub(data)
    if kind in (DocumentKind.HTML, DocumentKind.WEB):
        from pegas_memory.ingest.html import decode_html

        return _read_decoded(decode_html(data, content_type), kind, "", name if "://" in name else "")
    from pegas_memory.ingest.decoding import decode

    try:
        text = decode(data, _charset(content_type))[0]
    except UnreadableFile as error:
        if PurePath(name).suffix.lower() in ("", *_KNOWN_SUFFIXES):
            raise
        raise UnsupportedKind("The file is binary, of a kind that is not read.") from error
    if kind is DocumentKind.CODE_REPO:
        from pegas_memory.ingest.code import read_code

        return read_code(text, name)
    if kind is DocumentKind.TEXT and _TABLE_NAME.search(name):
        from pegas_memory.ingest.delimited import read_delimited

        return read_delimited(text)
    return _read_decoded(text, kind, "", "")


def fetch(
    url: str,
    *,
    proxy_url: str = "",
    allow_private: bool = False,
    timeout: float = 20.0,
    etag: str = "",
    last_modified: str = "",
) -> Fetched | NotModified:
    """The bytes at a public http(s) address; see :func:`pegas_memory.ingest.download.fetch`."""
    from pegas_memory.ingest.download import fetch as fetch_address

    return fetch_address(
        url,
        proxy_url=proxy_url,
        allow_private=allow_private,
        timeout=timeout,
        etag=etag,
        last_modified=last_modified,
    )


def kind_of(data: bytes, name: str = "", content_type: str = "") -> DocumentKind:
    """The kind by magic bytes, then by header, look and file name; text when nothing says otherwise. ``code_repo``
    is a single source file.

    Raises ``UnsupportedKind`` for archives, images, Office files.
    """
    language = language_of_code(name, data[:200])
    if b"%PDF-" in data[: 5 if language else 1024]:  # a program may name the mark, a file may have junk before it
        return DocumentKind.PDF
    if data.startswith(b"PK\x03\x04") or (b"application/epub+zip" in data[:4096] and b"PK\x05\x06" in data[-70_000:]):
        if _is_epub(data):
            return DocumentKind.EPUB
        raise UnsupportedKind("The file is a zip archive (or an Office file), not an EPUB.")
    for magic, what in _FOREIGN:
        if data.startswith(magic):
            raise UnsupportedKind(f"The file is {what}.")
    path = name.partition("?")[0].partition("#")[0]
    media = content_type.partition(";")[0].strip().lower()
    if media in ("text/html", "application/xhtml+xml"):
        return DocumentKind.WEB
    if language and language not in DATA:
        return DocumentKind.CODE_REPO
    if media == "text/markdown" or _MARKDOWN_NAME.search(path):
        return DocumentKind.MARKDOWN
    if media == "text/plain":
        return DocumentKind.TEXT
    if (_HTML_START.match(data[:4096]) and _HTML_ROOT.search(data[:16_384])) or _HTML_NAME.search(path):
        return DocumentKind.WEB if "://" in name else DocumentKind.HTML
    return DocumentKind.TEXT


def _read_decoded(text: str, kind: DocumentKind, title: str, url: str) -> Extracted:
    match kind:
        case DocumentKind.TEXT:
            from pegas_memory.ingest.text import read_plain

            return read_plain(text, title)
        case DocumentKind.MARKDOWN:
            from pegas_memory.ingest.text import read_markdown

            return read_markdown(text, title)
        case DocumentKind.HTML:
            from pegas_memory.ingest.html import read_html

            return read_html(text, title)
        case DocumentKind.WEB:
            from pegas_memory.ingest.web import read_web

            return read_web(text, url, title)
        case DocumentKind.PDF | DocumentKind.EPUB:
            raise UnsupportedKind(
                f"A {kind.value} document is bytes, not text.", "Give its path or address as `source`."
            )
        case DocumentKind.CODE_REPO:
            from pegas_memory.ingest.code import read_code

            return read_code(text, title=title)
        case _:
            assert_never(kind)


def _charset(content_type: str) -> tuple[str, ...]:
    found = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type, re.IGNORECASE)
    return (found.group(1),) if found else ()


def _is_epub(data: bytes) -> bool:
    return b"application/epub+zip" in data[:4096] or b"META-INF/container.xml" in data
