"""Fetching: what is refused, what is bounded, what comes back. The server is real and on loopback."""

from __future__ import annotations

import gzip
import ipaddress
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pegas_memory.errors import FetchFailed, FetchTimeout, UrlNotAllowed
from pegas_memory.ingest import download, fetch, read_bytes
from pegas_memory.model import DocumentKind

PAGE = "<html><body><p>Привет, ёжик</p></body></html>".encode("cp1251")


class Handler(BaseHTTPRequestHandler):
    seen: list[tuple[str, str]] = []

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("User-Agent", "")))
        route = self.path.partition("?")[0].strip("/").split("/")[-1]
        getattr(self, f"route_{route}", self.route_missing)()

    def answer(self, body: bytes, content_type: str = "text/html; charset=windows-1251", **headers: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def route_page(self) -> None:
        self.answer(PAGE, ETag='"v1"')

    def route_plain(self) -> None:
        self.answer(b"Just words.", "text/plain")

    def route_gzip(self) -> None:
        self.answer(gzip.compress(PAGE), Content_Encoding="gzip")

    def route_bomb(self) -> None:
        self.answer(gzip.compress(bytes(80_000_000)), Content_Encoding="gzip")

    def route_moved(self) -> None:
        self.redirect("/page")

    def route_loop(self) -> None:
        self.redirect("/loop")

    def route_file(self) -> None:
        self.redirect("file:///etc/passwd")

    def route_home(self) -> None:
        self.redirect("http://localhost:1/")

    def route_missing(self) -> None:
        self.send_error(404, "Not Found")

    def route_huge(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "99000000")
        self.end_headers()

    def route_drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.drip()

    def route_dripheaders(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self.drip()

    def drip(self) -> None:
        try:
            for _ in range(200):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            self.close_connection = True


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def local(url: str, timeout: float = 20.0) -> download.Fetched:
    return fetch(url, proxy_url="", allow_private=True, timeout=timeout)


def test_a_page_comes_back_with_its_header_and_is_read(site: str) -> None:
    got = local(f"{site}/page")
    assert (got.status, got.data, got.headers["etag"]) == (200, PAGE, '"v1"')
    assert Handler.seen[-1][1].startswith("pegas-memory")
    assert read_bytes(got.data, DocumentKind.HTML, got.url, got.content_type).text == "Привет, ёжик"
    plain = local(f"{site}/plain")
    assert read_bytes(plain.data, None, plain.url, plain.content_type).kind is DocumentKind.TEXT


def test_redirects_and_compression_are_followed(site: str) -> None:
    got = local(f"{site}/moved")
    assert got.url == f"{site}/page"
    assert local(f"{site}/gzip").data == PAGE


def test_the_host_name_is_resolved_and_kept(site: str) -> None:
    assert local(site.replace("127.0.0.1", "localhost") + "/page").data == PAGE


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing", "404"),
        ("loop", "redirects more than 5"),
        ("huge", "larger than 50 MB"),
        ("bomb", "larger than 50 MB"),
    ],
)
def test_failures_say_what_happened(site: str, path: str, words: str) -> None:
    with pytest.raises(FetchFailed, match=words):
        local(f"{site}/{path}")


@pytest.mark.parametrize("path", ["drip", "dripheaders"])
def test_dripping_bytes_do_not_outlast_the_limit(site: str, path: str) -> None:
    with pytest.raises(FetchTimeout):
        local(f"{site}/{path}", timeout=0.5)


def test_nobody_listening_and_no_such_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FetchFailed):
        local(f"http://127.0.0.1:{port}/")
    with pytest.raises(FetchFailed):
        local("http://no-such-host.invalid/")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://localhost/", "https://localhost/", "http://[::1]/", "http://0.0.0.0/", "http://[::]/",
        "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://192.168.1.1/", "http://100.64.0.1/",
        "http://2130706433/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1]/", "http://[fd00::1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://224.0.0.1/",
        "http://user:pass@127.0.0.1/", "file:///etc/passwd", "ftp://example.org/", "gopher://example.org/", "http:///x",
        "http://8.8.8.8:22/", "not a url", "", "http://[::1", "javascript:alert(1)",
    ],
)  # fmt: skip
def test_private_addresses_and_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(UrlNotAllowed):
        fetch(url, proxy_url="", allow_private=False, timeout=5)


@pytest.mark.parametrize("path", ["file", "home"])
def test_a_redirect_is_checked_like_an_address(site: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hop is let through by name, as a public server would be; its redirect is not."""
    port = int(site.rpartition(":")[2])
    monkeypatch.setattr(download, "PORTS", frozenset({port, 1}))
    real = download.is_public
    monkeypatch.setattr(download, "is_public", lambda address: str(address) == "127.0.0.2" or real(address))
    server = ThreadingHTTPServer(("127.0.0.2", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(UrlNotAllowed):
            fetch(f"http://127.0.0.2:{port}/{path}", proxy_url="", allow_private=False, timeout=5)
    finally:
        server.shutdown()
        server.server_close()


def test_a_name_that_changes_its_answer_is_checked_where_it_connects(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: public on the first question, loopback on the second. One question is asked."""
    port = int(site.rpartition(":")[2])
    asked: list[str] = []

    def answers(host: str, *rest: object, **more: object) -> list[object]:
        asked.append(host)
        address = "203.0.113.1" if len(asked) > 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(download, "PORTS", frozenset({port}))
    monkeypatch.setattr(download.socket, "getaddrinfo", answers)
    before = len(Handler.seen)
    with pytest.raises(UrlNotAllowed):
        fetch(f"http://rebind.example:{port}/page", proxy_url="", allow_private=False, timeout=5)
    assert asked == ["rebind.example"]
    assert len(Handler.seen) == before


@pytest.mark.parametrize(
    ("address", "public"),
    [("8.8.8.8", True), ("2606:4700::1111", True), ("2002:808:808::1", True), ("64:ff9b::808:808", True),
     ("255.255.255.255", False), ("::ffff:10.0.0.1", False), ("2001:0:4136:e378::1", False), ("fec0::1", False)],
)  # fmt: skip
def test_addresses_are_judged_by_what_they_carry(address: str, public: bool) -> None:
    assert download.is_public(ipaddress.ip_address(address)) is public


def test_an_http_proxy_is_used_and_private_targets_stay_refused(site: str) -> None:
    """The proxy's own address is on loopback and exempt; it is asked for the whole address."""
    got = fetch("http://no-such-host.invalid/page", proxy_url=site, allow_private=False, timeout=5)
    assert got.data == PAGE
    assert Handler.seen[-1][0] == "http://no-such-host.invalid/page"
    for url in ("http://127.0.0.1/page", "http://localhost/page", "http://169.254.169.254/"):
        with pytest.raises(UrlNotAllowed):
            fetch(url, proxy_url=site, allow_private=False, timeout=5)


def test_a_socks5_proxy_resolves_the_name_itself(site: str) -> None:
    port = int(site.rpartition(":")[2])
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            client.recv(64)
            client.sendall(b"\x05\x00")
            asked.append(client.recv(300))
            client.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
            with socket.create_connection(("127.0.0.1", port)) as upstream:
                upstream.sendall(client.recv(4096))
                while part := upstream.recv(4096):
                    client.sendall(part)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    proxy = f"socks5://127.0.0.1:{listener.getsockname()[1]}"
    got = fetch("http://no-such-host.invalid/page", proxy_url=proxy, allow_private=False, timeout=5)
    assert got.data == PAGE
    assert b"no-such-host.invalid" in asked[0]
    thread.join(5)
    listener.close()
