"""Fetching where somebody means harm: private targets, endless answers, bombs, proxies. Real sockets on loopback."""

from __future__ import annotations

import base64
import gzip
import ipaddress
import logging
import socket
import ssl
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pegas_memory.errors import FetchFailed, FetchTimeout, UrlNotAllowed
from pegas_memory.ingest import fetch
from pegas_memory.ingest.download import Fetched, addresses
from tests.support.web_servers import head_of, http_proxy, raw_site, serving, socks_proxy

# ruff: noqa: E501 - long lists of addresses and of bytes read better unbroken
PAGE = "<p>Привет, ёжик</p>".encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE)
PRIVATE = [
    "http://127.0.0.1/", "http://localhost/", "https://localhost/", "http://[::1]/", "http://0.0.0.0/", "http://[::]/",
    "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest/", "http://10.0.0.1/", "http://192.168.1.1/",
    "http://172.16.0.1/", "http://100.64.0.1/", "http://2130706433/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://127.1/",
    "http://0/", "http://[::ffff:127.0.0.1]/", "http://[::127.0.0.1]/", "http://[fe80::1]/", "http://[fe80::1%25lo]/", "http://[fd00::1]/",
    "http://[64:ff9b::7f00:1]/", "http://[64:ff9b:1::1]/", "http://[2002:7f00:1::]/", "http://[2001:0:4136:e378::1]/",
    "http://224.0.0.1/", "http://[ff02::1]/", "http://255.255.255.255/", "http://240.0.0.1/", "http://localhost./",
    "http://127.0.0.1./", "http://127.0.0.1../", "http://127。0。0。1/", "http://１２７.0.0.1/", "http://127.0.0.1%2f/",
    "http://127.0.0.1\\@example.org/",
]  # fmt: skip
NOT_FETCHED = [
    "file:///etc/passwd", "ftp://example.org/", "gopher://example.org/", "http:///x", "http://8.8.8.8:22/", "not a url", "",
    "http://[::1", "javascript:alert(1)", "data:text/html,x", "http://user:pass@example.org/", "http://example.org/" + "x" * 9000,
]  # fmt: skip


@pytest.mark.fault(71)
@pytest.mark.parametrize("url", PRIVATE + NOT_FETCHED)
def test_private_addresses_and_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(UrlNotAllowed) as caught:
        fetch(url, timeout=5)
    assert "pass@" not in str(caught.value)


@pytest.mark.fault(71)
@pytest.mark.parametrize("target", ["file:///etc/passwd", "http://localhost:8080/", "http://[::1]:8080/", "//2130706433/", "http://10.0.0.1/"])  # fmt: skip
@pytest.mark.parametrize("by", ["location", "refresh"])
def test_a_redirect_is_checked_like_an_address(target: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hop is let through, as a public server would be; what it redirects to is not."""
    body = f'<meta http-equiv="refresh" content="0;url={target}">'.encode()
    reply = (
        f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()
        if by == "location"
        else b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    )

    def answer(client: socket.socket) -> None:
        head_of(client)
        client.sendall(reply)

    real = addresses.is_public
    monkeypatch.setattr(addresses, "is_public", lambda address: str(address) == "127.0.0.2" or real(address))
    with serving(answer, "127.0.0.2") as port:
        monkeypatch.setattr(addresses, "PORTS", frozenset({80, 8080, port}))
        with pytest.raises(UrlNotAllowed):
            fetch(f"http://127.0.0.2:{port}/", timeout=5)


def test_a_name_that_changes_its_answer_is_checked_where_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: one question is asked, and the connection goes to the address that was checked."""
    asked: list[str] = []

    def answers(host: str, port: int, **_: object) -> list[object]:
        asked.append(host)
        address = "203.0.113.1" if len(asked) > 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", answers)
    with pytest.raises(UrlNotAllowed):
        fetch("http://rebind.example:8080/page", timeout=5)
    assert asked == ["rebind.example"]


@pytest.mark.parametrize(
    ("address", "public"),
    [("8.8.8.8", True), ("2606:4700::1111", True), ("2002:808:808::1", True), ("64:ff9b::808:808", True),
     ("2a00:1450::200:5efe:8.8.8.8", True), ("2a00:1450::200:5efe:10.0.0.1", False), ("192.88.99.1", False), ("198.18.0.1", False),
     ("255.255.255.255", False), ("::ffff:10.0.0.1", False), ("2001:0:4136:e378::1", False), ("fec0::1", False),
     ("2001:db8::1", False), ("3fff::1", False), ("100::1", False), ("192.0.2.1", False), ("64:ff9b::a9fe:a9fe", False)],
)  # fmt: skip
def test_addresses_are_judged_by_what_they_carry(address: str, public: bool) -> None:
    assert addresses.is_public(ipaddress.ip_address(address)) is public


# --- answers without end ------------------------------------------------------------------------------


def endless(start: bytes, part: bytes, pause: float) -> AbstractContextManager[int]:
    def answer(client: socket.socket) -> None:
        head_of(client)
        client.sendall(start)
        while True:
            client.sendall(part)
            time.sleep(pause)

    return serving(answer)


@pytest.mark.parametrize(
    ("start", "drop"),
    [(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
     (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n")],
)  # fmt: skip
def test_dripping_bytes_do_not_outlast_the_limit(start: bytes, drop: bytes) -> None:
    began = time.monotonic()
    with endless(start, drop, 0.05) as port, pytest.raises(FetchTimeout):
        fetch(f"http://127.0.0.1:{port}/", allow_private=True, timeout=0.6)
    assert time.monotonic() - began < 3


def test_a_dripping_handshake_does_not_outlast_the_limit() -> None:
    def answer(client: socket.socket) -> None:
        client.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
        while True:
            client.sendall(b"x")
            time.sleep(0.05)

    began = time.monotonic()
    with serving(answer) as port, pytest.raises(FetchTimeout):
        fetch(f"https://127.0.0.1:{port}/", allow_private=True, timeout=0.6)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("head", "part", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", b"x" * 65536, "larger than 50 MB"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1_000_000, "larger than 50 MB"),
        (b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"y" * 1000 + b"\r\n", "proper HTTP"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"y" * 65536, "proper HTTP"),
    ],
)
def test_answers_without_end_are_cut(head: bytes, part: bytes, words: str) -> None:
    with endless(head, part, 0) as port, pytest.raises(FetchFailed, match=words):
        fetch(f"http://127.0.0.1:{port}/", allow_private=True, timeout=20)


@pytest.mark.parametrize(
    "reply",
    [b"<html>HTTP/0.9 says only this</html>", b"", b"\x00" * 500, b"HTTP/1.1 abc\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n",
     b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nshort", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
     b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n"],
)  # fmt: skip
def test_junk_is_told_without_repeating_it(reply: bytes) -> None:
    with raw_site(reply) as url, pytest.raises(FetchFailed) as caught:
        fetch(url, allow_private=True, timeout=5)
    assert "says only this" not in str(caught.value)


def _deflate_bomb(bits: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, bits)
    return b"".join(packer.compress(bytes(1_000_000)) for _ in range(300)) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "make"),
    [("gzip", lambda: _deflate_bomb(31)), ("deflate", lambda: _deflate_bomb(15)), ("deflate", lambda: _deflate_bomb(-15)),
     ("gzip, gzip", lambda: gzip.compress(_deflate_bomb(31))), ("gzip", lambda: gzip.compress(bytes(1000)) * 200_000)],
)  # fmt: skip
def test_bombs_are_stopped_by_what_they_unfold_to(encoding: str, make: Callable[[], bytes]) -> None:
    body = make()
    reply = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with raw_site(reply) as url, pytest.raises(FetchFailed, match="larger than 50 MB"):
        fetch(url, allow_private=True, timeout=20)


@pytest.mark.parametrize(("encoding", "words"), [("br", "not asked for"), ("zstd", "not asked for"), (", ".join(["gzip"] * 9), "9 times")])  # fmt: skip
def test_other_and_many_encodings_are_refused(encoding: str, words: str) -> None:
    reply = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 4\r\n\r\nabcd".encode()
    with raw_site(reply) as url, pytest.raises(FetchFailed, match=words):
        fetch(url, allow_private=True, timeout=5)


# --- proxies ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site_port() -> Iterator[int]:
    def answer(client: socket.socket) -> None:
        head = head_of(client)
        if b"/home" in head.split(b"\r\n", 1)[0]:
            client.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:8080/\r\nContent-Length: 0\r\n\r\n")
        else:
            client.sendall(ANSWER)

    with serving(answer) as port:
        yield port


def test_an_http_proxy_is_asked_for_the_whole_address(site_port: int) -> None:
    """The proxy's own address is on loopback and exempt from the check."""
    asked: list[str] = []
    with http_proxy(site_port, asked) as port:
        got = fetch("http://no-such-host.invalid/page", proxy_url=f"http://127.0.0.1:{port}", timeout=5)
    assert isinstance(got, Fetched)
    assert got.data == PAGE
    assert asked == ["GET http://no-such-host.invalid/page HTTP/1.1"]


def test_an_http_proxy_tunnels_what_is_secure(tmp_path: Path) -> None:
    """Its certificate is nobody's, which is told: the handshake went through the tunnel."""
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificate(tmp_path))

    def answer(client: socket.socket) -> None:
        with secure.wrap_socket(client, server_side=True) as inner:
            inner.sendall(ANSWER)

    asked: list[str] = []
    with serving(answer) as target, http_proxy(target, asked) as port, pytest.raises(FetchFailed, match="certificate is not valid"):  # fmt: skip
        fetch("https://no-such-host.invalid/", proxy_url=f"http://127.0.0.1:{port}", timeout=5)
    assert asked == ["CONNECT no-such-host.invalid:443 HTTP/1.1"]


def certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "no-such-host.invalid")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / "cert.pem"
    pem, pkcs8, bare = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(pem, pkcs8, bare) + made.public_bytes(pem))
    return path


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_a_socks_proxy_resolves_the_name_itself(site_port: int, scheme: str) -> None:
    asked: list[bytes] = []
    with socks_proxy(site_port, asked, (b"me", b"pass word")) as port:
        proxy = f"{scheme}://me:pass%20word@localhost:{port}"
        got = fetch("http://no-such-host.invalid/page", proxy_url=proxy, timeout=5)
    assert isinstance(got, Fetched)
    assert got.data == PAGE
    assert asked == [b"no-such-host.invalid"]


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_private_targets_stay_refused_through_a_proxy(site_port: int, kind: str) -> None:
    asked: list[Any] = []
    with (http_proxy if kind == "http" else socks_proxy)(site_port, asked) as port:
        proxy = f"{kind}://127.0.0.1:{port}"
        for url in (*PRIVATE, f"http://127.0.0.1:{port}/"):
            with pytest.raises(UrlNotAllowed):
                fetch(url, proxy_url=proxy, timeout=5)
        assert asked == []
        with pytest.raises(UrlNotAllowed):
            fetch("http://no-such-host.invalid/home", proxy_url=proxy, timeout=5)
        assert len(asked) == 1


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_that_wants_another_login_is_told_without_its_password(
    site_port: int, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = "http://no-such-host.invalid/"
    wanted = base64.b64encode(b"me:right")
    proxies = {"http": http_proxy(site_port, [], wanted), "socks5": socks_proxy(site_port, [], (b"me", b"right"))}
    with proxies[scheme] as port:
        with pytest.raises(FetchFailed, match=r"proxy.*name and password") as caught:
            fetch(url, proxy_url=f"{scheme}://me:s3cret@127.0.0.1:{port}", timeout=5)
        got = fetch(url, proxy_url=f"{scheme}://me:right@127.0.0.1:{port}", timeout=5)
    assert isinstance(got, Fetched)
    assert "PROXY_URL" in caught.value.hint
    secrets = ("s3cret", base64.b64encode(b"me:s3cret").decode())
    said = caplog.text + repr(caught.value) + str(caught.value.__cause__)
    assert not any(secret in said for secret in secrets)


@pytest.mark.parametrize("scheme", ["http", "https", "socks5", "socks5h"])
def test_a_proxy_that_is_down_is_told(scheme: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FetchFailed, match=r"proxy.*does not answer") as caught:
        fetch("http://no-such-host.invalid/", proxy_url=f"{scheme}://me:s3cret@127.0.0.1:{port}", timeout=5)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["ftp://127.0.0.1:1", "socks4://127.0.0.1", "127.0.0.1:3128", "http://me:s3cret@[::1", "http://"])  # fmt: skip
def test_a_proxy_that_is_none_is_told_without_its_password(proxy: str) -> None:
    with pytest.raises(UrlNotAllowed, match="PROXY_URL") as caught:
        fetch("http://no-such-host.invalid/", proxy_url=proxy, timeout=5)
    told = "".join(traceback.format_exception(caught.value))
    assert "s3cret" not in told.replace(repr(proxy), "")


@pytest.mark.parametrize(
    "reply", [b"", b"\x00\x01 go away\r\n\r\n", b"\x05", b"\x05\x00\x05", b"\x05\xff", b"HTTP/1.1 502 \xff\r\n\r\n"]
)
@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
def test_junk_from_a_proxy_is_told(scheme: str, reply: bytes) -> None:
    def answer(client: socket.socket) -> None:
        client.sendall(reply)
        client.recv(4096)

    with serving(answer) as port, pytest.raises((FetchFailed, FetchTimeout)):
        fetch("https://no-such-host.invalid/", proxy_url=f"{scheme}://127.0.0.1:{port}", timeout=2)


def test_no_thread_stays_behind() -> None:
    before = threading.active_count()
    with raw_site(ANSWER) as url:
        for _ in range(5):
            fetch(url, allow_private=True, timeout=5)
    time.sleep(0.2)
    assert threading.active_count() <= before + 1
