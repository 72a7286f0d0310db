"""Is a page that shows nothing blank, or damaged? PDFium draws both the same; pypdf reads the streams."""

from __future__ import annotations

import io
import logging
import re
import zlib
from collections.abc import Sequence

from pypdf import PdfReader
from pypdf.errors import PyPdfError

MAX_PAGES = 50
"""Pages looked at; a document with more of them is judged by these."""
_EMPTY_STREAM = 20
"""Bytes of a compressed stream that may well hold nothing."""
_TOKEN = re.compile(rb"[^\s\[\]<>()]+")
# Operators that set state and draw nothing.
_SILENT = frozenset(
    b"q Q cm gs w J j M d ri i g G rg RG k K cs CS sc SC scn SCN BT ET Tf Tm Td TL BMC BDC EMC n W".split()
)
_NUMBER_OR_NAME = re.compile(rb"[-+.\d]+|/\S*")
_ERRORS = (
    PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OSError, zlib.error,
    NotImplementedError, AssertionError, MemoryError,
)  # fmt: skip

# It logs every irregularity; the verdict here is all that matters.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def damaged_pages(data: bytes, pages: Sequence[int]) -> list[int]:
    """Those of ``pages`` (from 1) that are not provably blank: their content does not decode, or holds
    drawing operators that drew nothing."""
    if not pages:
        return []
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        return [page for page in pages[:MAX_PAGES] if not _is_blank(reader, page - 1)]
    except _ERRORS:
        return list(pages)


def _is_blank(reader: PdfReader, index: int) -> bool:
    try:
        page = reader.pages[index]
        contents = page.get_contents()
        content = contents.get_data() if contents is not None else b""
        stored = sum(_stored_length(part) for part in _parts(page.get("/Contents")))
    except _ERRORS:
        return False
    if not content.strip():
        return stored <= _EMPTY_STREAM
    tokens = _TOKEN.findall(content[:100_000])
    return all(token in _SILENT or _NUMBER_OR_NAME.fullmatch(token) for token in tokens)


def _parts(contents: object) -> list[object]:
    found = contents.get_object() if hasattr(contents, "get_object") else contents
    return list(found) if isinstance(found, list) else [found]


def _stored_length(part: object) -> int:
    """Bytes of a stream as the file holds them; pypdf drops ``/Length`` and tells it nowhere else."""
    stream = part.get_object() if hasattr(part, "get_object") else part
    return len(getattr(stream, "_data", b""))
