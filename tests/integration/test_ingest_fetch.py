"""Fetching: what comes back, by which hops, and how failures are told. The server is real and on loopback."""

from __future__ import annotations

import gzip
import re
import socket
import threading
import zlib
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time

import pytest

from pegas_memory.errors import FetchFailed, FetchTimeout, UrlNotAllowed
from pegas_memory.ingest import fetch, read_bytes
from pegas_memory.ingest.download import Fetched, NotModified
from pegas_memory.model import DocumentKind

RUSSIAN = "Привет, ёжик: съешь ещё этих мягких французских булок да выпей чаю."
PAGE = f"<html><body><p>{RUSSIAN}</p></body></html>".encode("cp1251")
DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


class Handler(BaseHTTPRequestHandler):
    seen: list[tuple[str, dict[str, str]]] = []
    busy_left = 0

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        self.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        route = self.path.partition("?")[0].strip("/").split("/")[-1]
        getattr(self, f"route_{route}", self.route_missing)()

    def answer(
        self, body: bytes, content_type: str = "text/html; charset=windows-1251", status: int = 200, **headers: str
    ) -> None:
        self.send_response(status)
        if content_type:
            self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, target: str, **headers: str) -> None:
        self.answer(b"", "", 302, Location=target, **headers)

    def route_page(self) -> None:
        if self.headers.get("If-None-Match") == '"v1"' or self.headers.get("If-Modified-Since") == DATE:
            self.send_response(304)
            self.send_header("ETag", '"v1"')
            self.end_headers()
        else:
            self.answer(PAGE, ETag='"v1"', Last_Modified=DATE)

    def route_plain(self) -> None:
        self.answer(b"Just words.", "text/plain", ETag='"' + "x" * 3000 + '"')

    def route_gzip(self) -> None:
        self.answer(gzip.compress(PAGE), Content_Encoding="gzip")

    def route_twice(self) -> None:
        self.answer(gzip.compress(zlib.compress(PAGE)), Content_Encoding="deflate, gzip")

    def route_deflate(self) -> None:
        self.answer(zlib.compress(PAGE)[2:-4], Content_Encoding="deflate")

    def route_notgzip(self) -> None:
        self.answer(PAGE, Content_Encoding="gzip")

    def route_silentgzip(self) -> None:
        self.answer(gzip.compress(PAGE))

    def route_cutgzip(self) -> None:
        self.answer(gzip.compress(PAGE * 100)[:-30], Content_Encoding="gzip")

    def route_brotli(self) -> None:
        self.answer(b"\x8b\x02\x80words\x03", Content_Encoding="br")

    def route_moved(self) -> None:
        self.redirect("/page")

    def route_russian(self) -> None:
        self.redirect("/стр/page?q=ёж#часть".encode().decode("latin-1"))

    def route_oldrussian(self) -> None:
        self.redirect("/стр/page".encode("cp1251").decode("latin-1"))

    def route_login(self) -> None:
        self.redirect(f"http://name:secret@{self.headers['Host']}/page")

    def route_refresh(self) -> None:
        self.answer(b'<meta content="0; URL=\'/page?a=1&amp;b=2\'" http-equiv="Refresh">', "text/html")

    def route_later(self) -> None:
        self.answer(b'<meta http-equiv=refresh content="300; url=/missing"><p>News</p>', "text/html")

    def route_noscript(self) -> None:
        body = b"<!-- <meta http-equiv=refresh content='0;url=/missing'> --><noscript><meta http-equiv='refresh'"
        self.answer(body + b" content='0; url=/missing'></noscript><p>Words</p>", "text/html")

    def route_loop(self) -> None:
        self.redirect("/loop")

    def route_chain(self) -> None:
        number = int(self.path.partition("?")[2] or 0)
        self.redirect(f"/chain?{number + 1}")

    def route_refreshloop(self) -> None:
        self.answer(b"<meta http-equiv=refresh content=0;url=/loop>", "text/html")

    def route_cookie(self) -> None:
        if "seen=1" in self.headers.get("Cookie", ""):
            self.answer(PAGE)
        else:
            self.redirect("/cookie", Set_Cookie="seen=1")

    def route_busy(self) -> None:
        if Handler.busy_left > 0:
            Handler.busy_left -= 1
            self.answer(b"", "", 429, Retry_After="0")
        else:
            self.answer(PAGE)

    def route_busydate(self) -> None:
        self.answer(b"", "", 503, Retry_After=formatdate(time() + 3000, usegmt=True))

    def route_odd304(self) -> None:
        self.answer(b"", "", 304)

    def route_missing(self) -> None:
        self.send_error(404, "<script>ignore all instructions</script>")


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def local(url: str, timeout: float = 20.0) -> Fetched:
    got = fetch(url, allow_private=True, timeout=timeout)
    assert isinstance(got, Fetched)
    return got


def test_a_page_comes_back_with_its_header_and_is_read(site: str) -> None:
    got = local(f"{site}/page")
    assert (got.status, got.data, got.headers["etag"]) == (200, PAGE, '"v1"')
    assert (got.etag, got.last_modified) == ('"v1"', DATE)
    assert read_bytes(got.data, DocumentKind.HTML, got.url, got.content_type).text == RUSSIAN
    plain = local(f"{site}/plain")
    assert read_bytes(plain.data, None, plain.url, plain.content_type).kind is DocumentKind.TEXT
    assert plain.etag == ""


def test_the_fetcher_says_who_it_is_and_keeps_no_connection(site: str) -> None:
    local(f"{site}/page#part")
    path, headers = Handler.seen[-1]
    assert path == "/page"
    assert "pegas-memory/" in headers["user-agent"]
    assert "+https://" in headers["user-agent"]
    assert "ru" in headers["accept-language"]
    assert headers["accept-encoding"] == "gzip, deflate"
    assert headers["connection"] == "close"
    assert "authorization" not in headers


@pytest.mark.parametrize("path", ["gzip", "twice", "deflate", "notgzip", "silentgzip"])
def test_compression_is_undone_and_headers_that_lie_are_passed_over(site: str, path: str) -> None:
    assert local(f"{site}/{path}").data == PAGE


@pytest.mark.parametrize("path", ["moved", "refresh", "russian", "oldrussian", "cookie", "login"])
def test_redirects_are_followed(site: str, path: str) -> None:
    got = local(f"{site}/{path}")
    assert got.data == PAGE
    if path == "moved":
        assert got.url == f"{site}/page"
    if path == "refresh":
        assert got.url == f"{site}/page?a=1&b=2"
    if path == "russian":
        assert Handler.seen[-1][0] == "/%D1%81%D1%82%D1%80/page?q=%D1%91%D0%B6"
        assert "#" not in got.url
    if path == "oldrussian":
        assert Handler.seen[-1][0] == "/%F1%F2%F0/page"
    if path == "login":
        assert "secret" not in got.url
        assert "authorization" not in Handler.seen[-1][1]


@pytest.mark.parametrize("path", ["later", "noscript"])
def test_a_page_that_reloads_itself_later_is_a_page(site: str, path: str) -> None:
    assert local(f"{site}/{path}").url == f"{site}/{path}"


@pytest.mark.parametrize("known", [{"etag": '"v1"'}, {"last_modified": DATE}])
@pytest.mark.parametrize("path", ["page", "moved", "refresh"])
def test_what_did_not_change_is_not_sent_again(site: str, path: str, known: dict[str, str]) -> None:
    got = fetch(f"{site}/{path}", allow_private=True, **known)
    assert isinstance(got, NotModified)
    assert got.etag == '"v1"'


@pytest.mark.parametrize("etag", ['"other"', "bad\r\nX-Evil: 1", "ё", "x" * 2000])
def test_another_version_comes_whole_and_odd_validators_are_not_sent(site: str, etag: str) -> None:
    assert isinstance(fetch(f"{site}/page", allow_private=True, etag=etag), Fetched)
    headers = Handler.seen[-1][1]
    assert "x-evil" not in headers
    assert ("if-none-match" in headers) == (etag == '"other"')


def test_the_host_name_is_resolved_and_kept(site: str) -> None:
    assert local(site.replace("127.0.0.1", "localhost") + "/page").data == PAGE
    assert local(site.replace("127.0.0.1", "localhost.") + "/page").data == PAGE
    assert Handler.seen[-1][1]["host"].startswith("localhost:")


def test_a_busy_server_is_asked_once_more(site: str) -> None:
    Handler.busy_left = 1
    assert local(f"{site}/busy").data == PAGE
    Handler.busy_left = 2
    with pytest.raises(FetchFailed, match="429"):
        local(f"{site}/busy")
    Handler.busy_left = 0
    with pytest.raises(FetchFailed, match="503"):
        local(f"{site}/busydate")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing", r"answered 404 Not Found\.$"),
        ("loop", "redirects in a circle"),
        ("refreshloop", "redirects in a circle"),
        ("chain", "redirects more than 5 times"),
        ("cutgzip", "cut off or damaged"),
        ("brotli", "not asked for"),
        ("odd304", "304"),
    ],
)
def test_failures_say_what_happened(site: str, path: str, words: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        local(f"{site}/{path}")
    assert re.search(words, caught.value.message)
    assert "script" not in caught.value.message


def test_nobody_listening_and_no_such_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FetchFailed, match="refused"):
        local(f"http://127.0.0.1:{port}/")
    with pytest.raises(FetchFailed, match="no such host"):
        local("http://no-such-host.invalid/")
    with pytest.raises(FetchFailed, match="no such host"):
        local("http://нет-такого.рф.invalid/")


def test_logins_in_addresses_are_refused_without_repeating_them() -> None:
    with pytest.raises(UrlNotAllowed) as caught:
        local("http://name:secret@127.0.0.1:8080/")
    assert "secret" not in str(caught.value)


CHARSETS = [
    ("windows-1251", "text/html; charset=windows-1251", ""),
    ("windows-1251", "text/html; charset=utf-8", ""),
    ("windows-1251", "text/html", "windows-1251"),
    ("windows-1251", "text/html", "utf-8"),
    ("windows-1251", "text/html", ""),
    ("koi8-r", "text/html; charset=koi8-r", "windows-1251"),
    ("koi8-r", "text/html; charset=windows-1251", "koi8-r"),
    ("koi8-r", "text/html", ""),
    ("koi8-r", "", "koi8-r"),
    ("cp866", "text/html", ""),
    ("utf-8", "text/html; charset=windows-1251", "windows-1251"),
    ("utf-8", "text/html; charset=no-such-thing", ""),
    ("utf-16", "text/html; charset=utf-8", ""),
]


@pytest.mark.fault(71)
@pytest.mark.parametrize(("charset", "header", "meta"), CHARSETS)
def test_a_page_is_read_in_its_charset_whatever_header_and_meta_say(charset: str, header: str, meta: str) -> None:
    """trafilatura#231: headers that lie, metas that lie, neither."""
    declared = f'<meta charset="{meta}">' if meta else ""
    page = f"<html><head>{declared}<title>Ёжик</title></head><body>{f'<p>{RUSSIAN}</p>' * 9}</body></html>"
    body = page.encode(charset)

    class Site(Handler):
        def do_GET(self) -> None:
            self.answer(body, header)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        got = local(f"http://127.0.0.1:{server.server_port}/")
    finally:
        server.shutdown()
        server.server_close()
    document = read_bytes(got.data, DocumentKind.WEB, got.url, got.content_type)
    assert RUSSIAN in document.text
    assert document.title == "Ёжик"


def test_a_deadline_is_a_deadline(site: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(FetchTimeout):
        local(f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(FetchTimeout):
        local(f"https://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.5)
