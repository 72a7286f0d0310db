"""Real servers on loopback for the fetch tests: one that speaks raw bytes, an HTTP proxy, a SOCKS5 proxy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def serving(answer: Callable[[socket.socket], None], host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A server that gives each connection to ``answer`` in a thread of its own; yields its port."""
    listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)

    def one(client: socket.socket) -> None:
        with client, suppress(OSError):
            answer(client)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=one, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def head_of(client: socket.socket) -> bytes:
    """A request's head, to the empty line."""
    data = b""
    while b"\r\n\r\n" not in data and (part := client.recv(4096)):
        data += part
    return data


@contextmanager
def raw_site(reply: bytes) -> Iterator[str]:
    """A site that says ``reply`` to whatever it is asked, and hangs up; yields its address."""

    def answer(client: socket.socket) -> None:
        head_of(client)
        client.sendall(reply)

    with serving(answer) as port:
        yield f"http://127.0.0.1:{port}/"


def relay(one: socket.socket, other: socket.socket) -> None:
    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(65536):
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=pump, args=(other, one), daemon=True)
    back.start()
    pump(one, other)
    back.join(10)


@contextmanager
def http_proxy(to_port: int, asked: list[str], login: bytes = b"") -> Iterator[int]:
    """Sends everybody to ``to_port``, whatever they ask for. ``login`` is the base64 that it wants."""

    def answer(client: socket.socket) -> None:
        head = head_of(client)
        asked.append(head.split(b"\r\n", 1)[0].decode())
        if login and b"proxy-authorization: basic " + login.lower() not in head.lower():
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", to_port)) as upstream:
            if head.startswith(b"CONNECT"):
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream.sendall(head)
            relay(client, upstream)

    with serving(answer) as port:
        yield port


@contextmanager
def socks_proxy(to_port: int, asked: list[bytes], login: tuple[bytes, bytes] | None = None) -> Iterator[int]:
    """SOCKS5, likewise: ``asked`` collects the names and addresses that it was given."""

    def answer(client: socket.socket) -> None:
        _, count = client.recv(2)
        client.recv(count)
        client.sendall(b"\x05\x02" if login else b"\x05\x00")
        if login:
            _, size = client.recv(2)
            name = client.recv(size)
            fits = (name, client.recv(client.recv(1)[0])) == login
            client.sendall(b"\x01\x00" if fits else b"\x01\x01")
            if not fits:
                return
        _, _, _, kind = client.recv(4)
        asked.append(client.recv({1: 4, 4: 16}.get(kind) or client.recv(1)[0]))
        client.recv(2)
        client.sendall(b"\x05\x00\x00\x01" + bytes(6))
        with socket.create_connection(("127.0.0.1", to_port)) as upstream:
            relay(client, upstream)

    with serving(answer) as port:
        yield port
