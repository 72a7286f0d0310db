"""Connections to checked addresses only, direct or by a proxy, none of which outlasts the deadline."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import httpcore
import httpx

from pegas_memory.errors import UrlNotAllowed
from pegas_memory.ingest.download.addresses import check_public, host_of, resolve

# Its debug lines show the proxy's password.
logging.getLogger("httpcore.socks").setLevel(logging.INFO)

_RESOLVE_FOR_PROXY = 5.0
_STANDARD_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_BAD_PROXY = "PROXY_URL is not an http, https or socks5 address."


class CheckedBackend(httpcore.NetworkBackend):
    """Connects to checked addresses only, and lets no wait pass the deadline. The proxy's own address is
    exempt from the check."""

    def __init__(self, deadline: float, allow_private: bool) -> None:
        self.deadline = deadline
        self.allow_private = allow_private
        self.proxy: tuple[str, int] | None = None
        self._inner = httpcore.SyncBackend()
        self._sockets: list[socket.socket] = []

    @property
    def late(self) -> bool:
        return time.monotonic() >= self.deadline

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
        to_proxy = (host, port) == self.proxy
        failure: Exception = httpcore.ConnectError("no address")
        try:
            addresses = resolve(host, port, self.remaining())
            if not to_proxy and not self.allow_private:
                check_public(addresses)
            for number, address in enumerate(addresses):
                share = self.remaining() / (len(addresses) - number)
                try:
                    stream = self._inner.connect_tcp(str(address), port, share, local_address, socket_options)
                    return self.watched(stream)
                except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                    failure = error
            raise failure
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            if to_proxy:
                raise httpcore.ProxyError("it does not answer") from error
            raise

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
        if self.proxy is None or self.allow_private:
            return
        try:
            found = resolve(host_of(address), address.port or 80, min(self.remaining(), _RESOLVE_FOR_PROXY))
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            return
        check_public(found)

    def watched(self, stream: httpcore.NetworkStream) -> httpcore.NetworkStream:
        self._sockets.append(stream.get_extra_info("socket"))
        return _DeadlineStream(stream, self)

    def hang_up(self) -> None:
        """Ends every wait on the sockets, from another thread."""
        for connection in self._sockets:
            with contextlib.suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """httpcore leaves a connection open whose proxy refused."""
        for connection in self._sockets:
            connection.close()


class _DeadlineStream(httpcore.NetworkStream):
    """A stream whose every wait ends at the deadline: slow drops of bytes add up."""

    def __init__(self, inner: httpcore.NetworkStream, backend: CheckedBackend) -> None:
        self._inner = inner
        self._backend = backend

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the deadline rules
        return self._inner.read(max_bytes, self._backend.remaining())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._inner.write(buffer, self._backend.remaining())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        return self._backend.watched(self._inner.start_tls(ssl_context, server_hostname, self._backend.remaining()))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


@contextlib.contextmanager
def client_for(proxy_url: str, backend: CheckedBackend, headers: Mapping[str, str]) -> Iterator[httpx.Client]:
    """A client that reads no environment, follows nothing by itself and keeps no connection. Raises
    ``UrlNotAllowed`` for a proxy that is none."""
    watch = threading.Timer(backend.remaining(), backend.hang_up)
    watch.daemon = True
    with httpx.Client(
        transport=_Transport(_pool(proxy_url, backend)),
        headers=headers,
        timeout=backend.remaining(),
        follow_redirects=False,
        trust_env=False,
    ) as client:
        # A TLS handshake inside a proxy's TLS has no deadline of its own.
        watch.start()
        try:
            yield client
        finally:
            watch.cancel()
            backend.close()


def _pool(proxy_url: str, backend: CheckedBackend) -> httpcore.ConnectionPool:
    context = httpx.create_ssl_context(trust_env=False)
    common: dict[str, Any] = {
        "ssl_context": context, "network_backend": backend, "max_keepalive_connections": 0,
    }  # fmt: skip
    if not proxy_url:
        return httpcore.ConnectionPool(**common)
    try:
        address = httpx.URL(proxy_url.strip())
        standard = _STANDARD_PORTS[address.scheme]
        host, port = host_of(address), address.port or standard
        auth = (address.username.encode(), address.password.encode()) if address.username else None
    except (httpx.InvalidURL, ValueError, TypeError, KeyError):
        # The library's words quote the address, and the password with it.
        raise UrlNotAllowed(_BAD_PROXY, "Correct PROXY_URL.") from None
    if not host:
        raise UrlNotAllowed(_BAD_PROXY, "Correct PROXY_URL.")
    backend.proxy = (host, port)
    scheme = "socks5" if address.scheme.startswith("socks5") else address.scheme
    bare = httpcore.URL(scheme=scheme, host=address.raw_host, port=port, target="/")
    if scheme == "socks5":
        return httpcore.SOCKSProxy(bare, proxy_auth=auth, **common)
    secure = context if scheme == "https" else None
    return httpcore.HTTPProxy(bare, proxy_auth=auth, proxy_ssl_context=secure, **common)


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
