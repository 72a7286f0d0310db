"""Fetching one address over http(s), without being a way into the machine's own network.

Every address that a host resolves to is checked when the connection is made, and the connection goes to
the checked address, so a second answer of a name server changes nothing. Every redirect is a new check.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import httpcore
import httpx

from pegas_memory.errors import FetchFailed, FetchTimeout, UrlNotAllowed

TIMEOUT = 20.0
"""Seconds for everything together: names, handshakes, redirects, bytes."""
MAX_BYTES = 50_000_000
MAX_REDIRECTS = 5
PORTS = frozenset({80, 443, 8000, 8008, 8080, 8081, 8443, 8888})
"""Ports of public addresses that are fetched: those on which web pages are served."""


def _user_agent() -> str:
    try:
        return f"pegas-memory/{metadata.version('pegas-memory')}"
    except metadata.PackageNotFoundError:
        return "pegas-memory"


_ACCEPT = "text/html,application/xhtml+xml,application/pdf,application/epub+zip,text/plain;q=0.9,*/*;q=0.5"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Fetched:
    """``url`` is where the redirects ended; header names are in lower case; ``data`` is decoded from
    its transfer compression."""

    url: str
    data: bytes
    content_type: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def fetch(url: str, *, proxy_url: str = "", allow_private: bool = False, timeout: float = TIMEOUT) -> Fetched:
    """The body at ``url``, within ``timeout`` seconds over all hops and at most 50 MB.

    Raises ``UrlNotAllowed`` (scheme, port, or an address that is not public), ``FetchTimeout``,
    ``FetchFailed`` (status of 400 and up, no such host, too large, a loop of redirects).
    """
    deadline = time.monotonic() + timeout
    backend = _CheckedBackend(deadline, allow_private, _proxy_host(proxy_url))
    try:
        with httpx.Client(
            transport=_Transport(_pool(proxy_url, backend)),
            headers={"User-Agent": _user_agent(), "Accept": _ACCEPT, "Accept-Language": "*"},
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
        ) as client:
            return _follow(client, url, bool(proxy_url), backend)
    except (httpx.TimeoutException, httpcore.TimeoutException) as error:
        raise FetchTimeout(f"The address did not answer in full within {timeout:g} s.") from error
    except (httpx.HTTPError, httpx.StreamError, httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise FetchFailed(f"The address could not be fetched ({_reason(error)}).") from error
    except (httpcore.ProxyError, httpcore.UnsupportedProtocol, ssl.SSLError, OSError) as error:
        raise FetchFailed(f"The address could not be fetched ({_reason(error)}).") from error


def _reason(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__


def _follow(client: httpx.Client, url: str, proxied: bool, backend: _CheckedBackend) -> Fetched:
    address = _parsed(url)
    for _ in range(MAX_REDIRECTS + 1):
        _check_url(address, backend.allow_private)
        if proxied:
            backend.check_for_proxy(address)
        with client.stream("GET", address) as response:
            if response.status_code in _REDIRECTS and "location" in response.headers:
                address = _joined(address, response.headers["location"])
                continue
            if response.status_code >= 400:
                raise FetchFailed(f"The server answered {response.status_code} {response.reason_phrase}".rstrip() + ".")
            return _read(response, str(address), backend)
    raise FetchFailed(f"The address redirects more than {MAX_REDIRECTS} times.")


def _parsed(url: str) -> httpx.URL:
    try:
        return httpx.URL(url.strip())
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise UrlNotAllowed(
            "The address is not a valid URL.", "Give an address like https://example.org/page."
        ) from error


def _joined(base: httpx.URL, location: str) -> httpx.URL:
    try:
        return base.join(location)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise FetchFailed("The server redirects to something that is not an address.") from error


def _check_url(address: httpx.URL, allow_private: bool) -> None:
    if address.scheme not in ("http", "https") or not address.host:
        raise UrlNotAllowed(
            "Only http and https addresses are fetched.", "Give an address like https://example.org/page."
        )
    port = address.port or (443 if address.scheme == "https" else 80)
    if not allow_private and port not in PORTS:
        raise UrlNotAllowed(f"Port {port} is not one that public web pages are served on.")


def _read(response: httpx.Response, url: str, backend: _CheckedBackend) -> Fetched:
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MAX_BYTES:
        raise FetchFailed(f"The file is larger than {MAX_BYTES // 1_000_000} MB.")
    data = bytearray()
    for part in response.iter_bytes():
        data += part
        backend.remaining()
        if len(data) > MAX_BYTES:
            raise FetchFailed(f"The file is larger than {MAX_BYTES // 1_000_000} MB.")
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Fetched(url, bytes(data), headers.get("content-type", ""), response.status_code, headers)


# --- addresses --------------------------------------------------------------------------------------


def is_public(address: Address) -> bool:
    """True for an address of the open internet. What carries an IPv4 address inside is judged by it."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address.sixtofour is not None:
            return is_public(address.sixtofour)
        if address.teredo is not None:
            return False
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _resolve(host: str, port: int, timeout: float) -> list[Address]:
    """Addresses of ``host``, in any notation the system takes (2130706433 and 0x7f.1 too). In a thread:
    the system's resolver knows no deadline."""
    found: list[Any] = []
    failed: list[OSError] = []

    def ask() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failed.append(error if isinstance(error, OSError) else OSError(str(error)))

    thread = threading.Thread(target=ask, name="pegas-resolve", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise httpcore.ConnectTimeout("the name did not resolve in time")
    if failed or not found:
        raise httpcore.ConnectError("no such host")
    return list(dict.fromkeys(ipaddress.ip_address(entry[4][0].partition("%")[0]) for entry in found))


def _proxy_host(proxy_url: str) -> tuple[str, int] | None:
    if not proxy_url:
        return None
    address = _parsed(proxy_url)
    standard = {"http": 80, "https": 443}.get(address.scheme, 1080)
    return address.host, address.port or standard


class _CheckedBackend(httpcore.NetworkBackend):
    """Connects to checked addresses only, and lets no wait pass the deadline."""

    def __init__(self, deadline: float, allow_private: bool, proxy: tuple[str, int] | None) -> None:
        self.deadline = deadline
        self.allow_private = allow_private
        self.proxy = proxy
        self._inner = httpcore.SyncBackend()

    def remaining(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("out of time")
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - httpcore's face; the deadline rules
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = _resolve(host, port, self.remaining())
        if (host, port) != self.proxy:
            self._check(addresses)
        failure: Exception = httpcore.ConnectError("no address")
        for address in addresses:
            try:
                stream = self._inner.connect_tcp(str(address), port, self.remaining(), local_address, socket_options)
                return _DeadlineStream(stream, self)
            except httpcore.ConnectError as error:
                failure = error
        raise failure

    def connect_unix_socket(
        self,
        path: str,  # noqa: ARG002 - httpcore's face
        timeout: float | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        raise httpcore.UnsupportedProtocol("Unix sockets are not fetched from")

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(min(seconds, self.remaining()))

    def check_for_proxy(self, address: httpx.URL) -> None:
        """Through a proxy the name may resolve only there; what resolves here must be public."""
        try:
            found = _resolve(address.host, address.port or 80, min(self.remaining(), 5.0))
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            return
        self._check(found)

    def _check(self, addresses: list[Address]) -> None:
        if not self.allow_private and not all(is_public(address) for address in addresses):
            raise UrlNotAllowed("The address leads into a private or local network.")


class _DeadlineStream(httpcore.NetworkStream):
    """A stream whose every wait ends at the deadline: slow drops of bytes add up."""

    def __init__(self, inner: httpcore.NetworkStream, backend: _CheckedBackend) -> None:
        self._inner = inner
        self._backend = backend

    def _wait(self, timeout: float | None) -> float:
        left = self._backend.remaining()
        return left if timeout is None else min(timeout, left)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._wait(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._wait(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._inner.start_tls(ssl_context, server_hostname, self._wait(timeout))
        return _DeadlineStream(stream, self._backend)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


# --- httpx over the checked backend -----------------------------------------------------------------


def _pool(proxy_url: str, backend: _CheckedBackend) -> httpcore.ConnectionPool:
    context = httpx.create_ssl_context(trust_env=False)
    if not proxy_url:
        return httpcore.ConnectionPool(ssl_context=context, network_backend=backend)
    address = _parsed(proxy_url)
    auth = (address.username.encode(), address.password.encode()) if address.username else None
    bare = str(address.copy_with(username=None, password=None, path="/"))
    if address.scheme in ("socks5", "socks5h"):
        bare = bare.replace("socks5h://", "socks5://", 1)
        return httpcore.SOCKSProxy(bare, proxy_auth=auth, ssl_context=context, network_backend=backend)
    if address.scheme in ("http", "https"):
        return httpcore.HTTPProxy(bare, proxy_auth=auth, ssl_context=context, network_backend=backend)
    raise UrlNotAllowed("The proxy must be an http or socks5 address.", "Correct PROXY_URL.")


class _Transport(httpx.BaseTransport):
    """httpx's client on a pool of our making (its own transport takes no network backend)."""

    def __init__(self, pool: httpcore.ConnectionPool) -> None:
        self._pool = pool

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        sent = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        response = self._pool.handle_request(sent)
        return httpx.Response(
            status_code=response.status,
            headers=response.headers,
            stream=_Body(response),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()
