"""Redirects that a page makes itself: ``<meta http-equiv="refresh">``."""

from __future__ import annotations

import re

MAX_DELAY = 5.0
"""Seconds after which a page is taken to stand on its own, and to reload itself for news."""
_HEAD = 100_000
_TOKEN = re.compile(rb"(<!--)|-->|<(/?)(noscript|script|style|template)\b|(<meta\b[^>]{0,2000}>)", re.IGNORECASE)
_REFRESH = re.compile(rb"http-equiv\s*=\s*[\"']?\s*refresh\b", re.IGNORECASE)
_CONTENT = re.compile(rb"\bcontent\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))", re.IGNORECASE)
_TARGET = re.compile(rb"\s*(\d{1,6}(?:\.\d*)?|\.\d+)\s*[;,\s]\s*(?:url\s*=\s*)?[\"']?\s*([^\"']+)", re.IGNORECASE)


def refresh_target(data: bytes) -> bytes:
    """Where the page at once sends its reader, as bytes of a ``Location``; empty for none. What stands in
    comments, scripts and for those without scripts does not count."""
    for tag in _metas(data[:_HEAD]):
        content = _CONTENT.search(tag)
        if content is None or not _REFRESH.search(tag):
            continue
        target = _TARGET.match(content[1] or content[2] or content[3] or b"")
        if target is not None and float(target[1]) <= MAX_DELAY:
            return target[2].strip().replace(b"&amp;", b"&")
    return b""


def _metas(head: bytes) -> list[bytes]:
    found: list[bytes] = []
    inside = b""
    for token in _TOKEN.finditer(head):
        comment, closing, name, meta = token.groups()
        if inside:
            ends = token[0] == b"-->" if inside == b"<!--" else closing and name.lower() == inside
            inside = b"" if ends else inside
        elif meta:
            found.append(meta)
        elif comment or (name and not closing):
            inside = comment or name.lower()
    return found
