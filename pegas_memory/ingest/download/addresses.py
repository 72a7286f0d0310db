"""Addresses: their spelling, and which of them are of the open internet."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from typing import Any
from urllib.parse import quote

import httpcore
import httpx

from pegas_memory.errors import FetchFailed, UrlNotAllowed

PORTS = frozenset({80, 443, 8000, 8008, 8080, 8081, 8443, 8888})
"""Ports of public addresses that are fetched: those on which web pages are served."""
MAX_URL = 8_000

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(block)
    for block in (
        "192.88.99.0/24",  # relays of 6to4
        "64:ff9b:1::/48",  # NAT64 of a local network
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
    )
)
"""What Python's own tables (3.11) take for public."""
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)$")
_EXAMPLE = "Give an address like https://example.org/page."


def parsed(url: str) -> httpx.URL:
    """``url`` with its fragment and a closing dot of the host left out. Raises ``UrlNotAllowed``."""
    if len(url) > MAX_URL:
        raise UrlNotAllowed(f"The address is longer than {MAX_URL:,} characters.", _EXAMPLE)
    try:
        return _plain(httpx.URL(url.strip()))
    except (httpx.InvalidURL, ValueError, TypeError):
        # The library's words quote the address, and a password with it.
        raise UrlNotAllowed("The address is not a valid URL.", _EXAMPLE) from None


def joined(base: httpx.URL, location: bytes) -> httpx.URL:
    """Where a redirect leads; logins in it are not sent. Bytes that are not UTF-8 (a path in windows-1251)
    go back as they came. Raises ``FetchFailed``."""
    try:
        text = location.decode("utf-8")
    except UnicodeDecodeError:
        text = quote(location, safe="%/:=&?~#+!$,;'@()*[]")
    try:
        if len(text) > MAX_URL:
            raise ValueError("too long")
        return _plain(base.join(text.strip()).copy_with(userinfo=b""))
    except (httpx.InvalidURL, ValueError, TypeError):
        raise FetchFailed("The server redirects to something that is not an address.") from None


def _plain(address: httpx.URL) -> httpx.URL:
    host = address.host
    whole = address.copy_with(fragment=None)
    return whole.copy_with(host=host[:-1]) if host.endswith(".") and not host.endswith("..") else whole


def check_address(address: httpx.URL, *, any_port: bool = False) -> None:
    """Raises ``UrlNotAllowed`` for a scheme, port or spelling that is not fetched. An IPv4 address has one
    spelling: 2130706433, 0x7f.1 and 0127.0.0.1 are read differently by different programs."""
    host = host_of(address)
    if address.scheme not in ("http", "https") or not host:
        raise UrlNotAllowed("Only http and https addresses are fetched.", _EXAMPLE)
    if not _NAME.fullmatch(host) and not _is_a(ipaddress.IPv6Address, host):
        raise UrlNotAllowed("The host of the address is not a valid name.", _EXAMPLE)
    if _NUMBER.match(host.rpartition(".")[2]) and ":" not in host and not _is_a(ipaddress.IPv4Address, host):
        raise UrlNotAllowed("The host is a number that is not a usual IPv4 address.", _EXAMPLE)
    port = address.port or (443 if address.scheme == "https" else 80)
    if not any_port and port not in PORTS:
        raise UrlNotAllowed(f"Port {port} is not one that public web pages are served on.")


def host_of(address: httpx.URL) -> str:
    """The host as it is asked for: a name in ASCII (IDNA), an IPv4 address, an IPv6 one without brackets."""
    return address.raw_host.decode("ascii").strip("[]")


def _is_a(kind: type[Address], host: str) -> bool:
    try:
        return kind(host) is not None and "%" not in host
    except ValueError:
        return False


def check_public(addresses: list[Address]) -> None:
    """Raises ``UrlNotAllowed`` when one of them is not of the open internet."""
    if not all(is_public(address) for address in addresses):
        raise UrlNotAllowed("The address leads into a private or local network.")


def is_public(address: Address) -> bool:
    """True for an address of the open internet. What carries an IPv4 address inside is judged by it."""
    if isinstance(address, ipaddress.IPv6Address):
        low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address.sixtofour is not None:
            return is_public(address.sixtofour)
        if address.teredo is not None or address.is_site_local:
            return False
        if address in _NAT64:
            return is_public(low)
        if int(address) >> 32 & 0xFFFFFFFF in _ISATAP and not is_public(low):
            return False
    if any(address.version == block.version and address in block for block in _NOT_PUBLIC):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def resolve(host: str, port: int, timeout: float) -> list[Address]:
    """Addresses of ``host``. In a thread: the system's resolver knows no deadline. Raises
    ``httpcore.ConnectError`` and ``httpcore.ConnectTimeout``."""
    found: list[Any] = []
    failed: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            failed.append(error)

    thread = threading.Thread(target=ask, name="pegas-resolve", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise httpcore.ConnectTimeout("the name did not resolve in time")
    if failed or not found:
        raise httpcore.ConnectError("no such host")
    return list(dict.fromkeys(ipaddress.ip_address(entry[4][0].partition("%")[0]) for entry in found))
