"""PDFs written by hand for the tests: lines of text at given places, an outline, damage, passwords."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from pypdf import PdfReader, PdfWriter


@dataclass(frozen=True)
class Text:
    """One line; ``font`` is body, bold or mono; ``y`` grows upwards from the bottom of a 842 point page."""

    text: str
    y: float
    x: float = 72
    size: float = 10
    font: str = "body"


FONTS = {"body": "Helvetica", "bold": "Helvetica-Bold", "mono": "Courier"}


def pdf(pages: Sequence[Sequence[Text]], outline: Sequence[tuple[str, int]] = (), title: str = "") -> bytes:
    """A PDF whose characters, Cyrillic too, map to Unicode through one ToUnicode table."""
    codes = {c: n for n, c in enumerate(sorted({c for page in pages for line in page for c in line.text}), 33)}
    assert len(codes) < 220
    objects: list[bytes] = []

    def add(body: bytes) -> int:
        objects.append(body)
        return len(objects)

    rows = "".join(f"<{n:02x}> <{c.encode('utf-16-be').hex()}>\n" for c, n in codes.items())
    cmap = add(
        stream(
            f"""/CIDInit /ProcSet findresource begin begincmap /CMapName /X def /CMapType 2 def
1 begincodespacerange <00> <ff> endcodespacerange
{len(codes)} beginbfchar
{rows}endbfchar endcmap end""".encode()
        )
    )
    widths = " ".join("600" for _ in range(256))
    fonts = " ".join(
        f"/{name} "
        + str(add(f"<< /Type /Font /Subtype /Type1 /BaseFont /{base} /FirstChar 0 /LastChar 255 /Widths [{widths}] "
                  f"/ToUnicode {cmap} 0 R >>".encode()))
        + " 0 R"
        for name, base in FONTS.items()
    )  # fmt: skip
    contents = []
    for page in pages:
        lines = "\n".join(
            f"BT /{t.font} {t.size} Tf 1 0 0 1 {t.x} {t.y} Tm <{''.join(f'{codes[c]:02x}' for c in t.text)}> Tj ET"
            for t in page
        )
        contents.append(add(stream(lines.encode())))
    tree = len(objects) + len(pages) + 1
    kids = [
        add(f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 595 842] /Contents {content} 0 R "
            f"/Resources << /Font << {fonts} >> >> >>".encode())
        for content in contents
    ]  # fmt: skip
    add(f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(f'{k} 0 R' for k in kids)}] >>".encode())
    root = add(f"<< /Type /Catalog /Pages {tree} 0 R >>".encode())
    data = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(data)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    data += b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets)
    data += f"trailer << /Size {len(objects) + 1} /Root {root} 0 R >>\nstartxref\n{start}\n%%EOF".encode()
    if not outline and not title:
        return bytes(data)
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(bytes(data))))
    for name, page in outline:
        writer.add_outline_item(title=name, page_number=page)
    if title:
        writer.add_metadata({"/Title": title, "/Author": "А. Автор", "/CreationDate": "D:20240305100000Z"})
    return saved(writer)


def stream(body: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(body), body)


def saved(writer: PdfWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def locked(data: bytes, user: str, owner: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(user, owner, algorithm="RC4-128")
    return saved(writer)


def drawn(contents: Sequence[bytes], *, packed: bool = False, page: bytes = b"", more: Sequence[bytes] = ()) -> bytes:
    """A PDF of pages with the content streams given; the font /F has WinAnsi codes and no Unicode map. ``page`` is
    added to each page's dictionary; the objects ``more`` are numbered on from ``4 + 2 * len(contents)``."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>"
        % (len(contents), b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(len(contents)))),
        b"<< /Type /Font /Subtype /TrueType /BaseFont /Arial /Encoding /WinAnsiEncoding /FirstChar 0 /LastChar 255 "
        b"/Widths [" + b"500 " * 256 + b"] >>",
    ]
    for n, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F 3 0 R >> >> %s >>" % (5 + 2 * n, page)
        )
        body = zlib.compress(content) if packed else content
        flate = b"/Filter /FlateDecode " if packed else b""
        objects.append(b"<< %s/Length %d >>\nstream\n%s\nendstream" % (flate, len(body), body))
    objects += more
    data = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, item in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    data += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(data)


def shown(text: str, x: float, y: float, *, size: float = 10, encoding: str = "cp1252") -> bytes:
    return b"BT /F %g Tf 1 0 0 1 %g %g Tm <%s> Tj ET\n" % (size, x, y, text.encode(encoding).hex().encode())
