"""Fetching one address over http(s), without being a way into the machine's own network.

Every address that a host resolves to is checked when the connection is made, and the connection goes to
the checked address, so a second answer of a name server changes nothing. Every redirect is a new check.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import httpx

from pegas_memory.errors import FetchFailed, UrlNotAllowed
from pegas_memory.ingest.download.addresses import check_address, joined, parsed
from pegas_memory.ingest.download.body import MAX_BYTES, TOO_LARGE, inflated
from pegas_memory.ingest.download.connection import CheckedBackend, client_for
from pegas_memory.ingest.download.refresh import refresh_target
from pegas_memory.ingest.download.trouble import refused, told
from pegas_memory.version import VERSION

__all__ = ["MAX_BYTES", "MAX_REDIRECTS", "TIMEOUT", "Fetched", "NotModified", "fetch"]

TIMEOUT = 20.0
"""Seconds for everything together: names, handshakes, redirects, bytes."""
MAX_REDIRECTS = 5
MAX_WAIT = 5.0
"""Seconds that a server may ask to wait (``Retry-After``) before the one second try."""
MAX_VALIDATOR = 1_000
"""Characters of an ETag or a date; longer ones are not kept, since half of one is none."""
_HEADERS = {
    "User-Agent": f"Mozilla/5.0 (compatible; pegas-memory/{VERSION}; +https://github.com/pegas-memory/pegas-memory)",
    "Accept": "text/html,application/xhtml+xml,application/pdf,application/epub+zip,text/plain;q=0.9,*/*;q=0.5",
    "Accept-Language": "en,ru;q=0.9,*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "close",
}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BUSY = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Fetched:
    """``url`` is where the redirects ended; header names are in lower case; ``data`` is decoded from
    its transfer compression. ``etag`` and ``last_modified`` are for the next :func:`fetch`, or empty."""

    url: str
    data: bytes
    content_type: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: str = ""
    last_modified: str = ""


@dataclass(frozen=True, slots=True)
class NotModified:
    """The server says that what was fetched before still stands."""

    url: str
    etag: str = ""
    last_modified: str = ""


def fetch(
    url: str,
    *,
    proxy_url: str = "",
    allow_private: bool = False,
    timeout: float = TIMEOUT,
    etag: str = "",
    last_modified: str = "",
) -> Fetched | NotModified:
    """The body at ``url``, within ``timeout`` seconds over all hops and at most 50 MB. With the ``etag`` or
    ``last_modified`` of an earlier answer the server may say that nothing changed.

    Raises ``UrlNotAllowed`` (scheme, port, login in the address, or an address that is not public),
    ``FetchTimeout``, ``FetchFailed`` (status of 400 and up, no such host, too large, a circle of redirects,
    the proxy).
    """
    start = parsed(url)
    if start.userinfo:
        raise UrlNotAllowed("An address with a name or password in it is not fetched.", "Leave out what is before @.")
    backend = CheckedBackend(time.monotonic() + timeout, allow_private)
    known = {"If-None-Match": _validator(etag), "If-Modified-Since": _validator(last_modified)}
    headers = _HEADERS | {name: value for name, value in known.items() if value}
    with told(timeout, backend), client_for(proxy_url, backend, headers) as client:
        return _follow(client, start, backend)


def _validator(value: str) -> str:
    """As a header may carry it; empty when it may not."""
    return value if len(value) <= MAX_VALIDATOR and value.isascii() and value.isprintable() else ""


def _follow(client: httpx.Client, address: httpx.URL, backend: CheckedBackend) -> Fetched | NotModified:
    been: list[httpx.URL] = []
    while len(been) <= MAX_REDIRECTS:
        check_address(address, any_port=backend.allow_private)
        backend.check_for_proxy(address)
        been.append(address)
        got = _patiently(client, address, backend)
        if not isinstance(got, bytes):
            return got
        address = joined(address, got)
    circle = "in a circle" if len(set(been)) < len(been) else f"more than {MAX_REDIRECTS} times"
    raise FetchFailed(f"The address redirects {circle}.")


def _patiently(client: httpx.Client, address: httpx.URL, backend: CheckedBackend) -> Fetched | NotModified | bytes:
    """One answer: a page, or the bytes of where it sends its reader. A busy server that asks for a short wait
    is asked once more."""
    with client.stream("GET", address) as response:
        wait = _asked_wait(response) if response.status_code in _BUSY else None
        if wait is None or wait >= min(MAX_WAIT, backend.remaining()):
            return _answer(response, address, backend)
    time.sleep(wait)
    with client.stream("GET", address) as response:
        return _answer(response, address, backend)


def _answer(response: httpx.Response, address: httpx.URL, backend: CheckedBackend) -> Fetched | NotModified | bytes:
    status, headers = response.status_code, response.headers
    etag, modified = _validator(headers.get("etag", "")), _validator(headers.get("last-modified", ""))
    asked = response.request.headers
    if status in _REDIRECTS and "location" in headers:
        return next(value for name, value in headers.raw if name.lower() == b"location")
    if status == 304 and ("if-none-match" in asked or "if-modified-since" in asked):
        return NotModified(str(address), etag, modified)
    if status >= 300:
        raise refused(status, backend.proxy is not None)
    content_type = headers.get("content-type", "")
    data = inflated(_raw(response, backend), headers.get("content-encoding", ""), content_type, backend.remaining)
    target = refresh_target(data) if "html" in content_type.lower() or not content_type else b""
    if target and joined(address, target) != address:
        return target
    kept = {name.lower(): value for name, value in headers.items()}
    return Fetched(str(address), data, content_type, status, kept, etag, modified)


def _raw(response: httpx.Response, backend: CheckedBackend) -> bytes:
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 12 or int(declared) > MAX_BYTES):
        raise FetchFailed(TOO_LARGE)
    data = bytearray()
    for part in response.iter_raw():
        data += part
        backend.remaining()
        if len(data) > MAX_BYTES:
            raise FetchFailed(TOO_LARGE)
    return bytes(data)


def _asked_wait(response: httpx.Response) -> float | None:
    """Seconds of its ``Retry-After``, a number or a date; None when it says neither."""
    value = response.headers.get("retry-after", "")
    if value.isascii() and value.isdecimal():
        return float(value[:9])
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
