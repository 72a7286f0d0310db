"""What a PDF says of itself: title, author, dates (its own record, else XMP) and its outline."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any

import pypdfium2

from pegas_memory.ingest.blocks import tidy_line
from pegas_memory.ingest.pdf.garbled import repaired

_DATE = re.compile(r"\s*(?:D:)?(\d{4})(?:[-/.]?(0[1-9]|1[0-2])(?:[-/.]?(0[1-9]|[12]\d|3[01]))?)?")
_PRINTED_BY = re.compile(r"^Microsoft (?:Office )?(?:Word|PowerPoint|Excel) - ")
_NAMED = re.compile(r"[^\W\d_]{2}|[\u3040-\u9fff]")
_PACKET_EDGE = re.compile(rb"<(/?)(?:x:xmpmeta|rdf:RDF)\b")
_MAX_PACKET = 200_000
_OF_A_PDF = re.compile(rb"application/pdf|ns\.adobe\.com/pdf/1\.3/")
_TAG = re.compile(r"<[^>]*>")
_XMP = {
    "title": "dc:title", "author": "dc:creator", "subject": "dc:description", "keywords": "pdf:Keywords",
    "producer": "pdf:Producer", "date": "xmp:CreateDate", "modified": "xmp:ModifyDate",
}  # fmt: skip
_MAX_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the outline: ``page`` counts from 0, ``level`` from 1."""

    level: int
    title: str
    page: int


def metadata(document: Any, data: bytes) -> dict[str, Any]:
    """title, author, subject, keywords, producer, date and modified (as far as they are known, ISO), attachments."""
    try:
        raw = document.get_metadata_dict()
    except (pypdfium2.PdfiumError, UnicodeError):
        raw = {}
    names = ("Title", "Author", "Subject", "Keywords", "Producer", "CreationDate", "ModDate")
    found = {key: repaired(tidy_line(raw.get(name) or "")) for key, name in zip(_XMP, names, strict=True)}
    if not all(found.values()):
        packet = _packet(data)
        found = {key: value or _xmp(packet, _XMP[key]) for key, value in found.items()}
    found["title"] = _PRINTED_BY.sub("", found["title"]) if _NAMED.search(found["title"]) else ""
    for key in ("date", "modified"):
        date = _DATE.match(found[key])
        found[key] = "-".join(part for part in date.groups() if part) if date else ""
    return {**found, "attachments": document.count_attachments() or None}


def _packet(data: bytes) -> str:
    """The last XMP packet that is of a PDF, not of a picture in it."""
    start, last = -1, b""
    for edge in _PACKET_EDGE.finditer(data):
        if not edge.group(1):
            start = edge.start() if start < 0 else start
            continue
        packet = data[start : edge.start()] if 0 <= edge.start() - start <= _MAX_PACKET and start >= 0 else b""
        last = packet if _OF_A_PDF.search(packet) else last
        start = -1
    return last.decode("utf-8", "replace")


def _xmp(packet: str, name: str) -> str:
    found = re.search(rf"<{name}\b[^>]*>(.*?)</{name}>|\b{name}\s*=\s*[\"']([^\"']*)", packet, re.DOTALL)
    if found is None:
        return ""
    items = re.findall(r"<rdf:li\b[^>]*>(.*?)</rdf:li>", found.group(1) or "", re.DOTALL)
    value = ", ".join(items) if items else found.group(1) or found.group(2) or ""
    if items and "<rdf:Alt" in found.group(1):
        # One text in several languages, not several texts.
        default = re.search(r"<rdf:li\b[^>]*x-default[^>]*>(.*?)</rdf:li>", found.group(1), re.DOTALL)
        value = default.group(1) if default else items[0]
    return tidy_line(html.unescape(_TAG.sub("", value)))


def outline(document: Any) -> list[Entry]:
    entries: list[Entry] = []
    try:
        for bookmark in document.get_toc(max_depth=8):
            target = bookmark.get_dest()
            page = target.get_index() if target is not None else None
            name = repaired(tidy_line(bookmark.get_title() or ""))
            if page is not None and name:
                entries.append(Entry(bookmark.level + 1, name, page))
            if len(entries) >= _MAX_ENTRIES:
                break
    except (pypdfium2.PdfiumError, UnicodeError):
        # A damaged outline costs the heading paths, never the text.
        return entries
    return entries
