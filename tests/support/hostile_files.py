"""Files made to do harm to whoever reads them."""

from __future__ import annotations

import zlib

from tests.support import epub_files

BILLION_LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY a0 "ha ha ha ha ha ha ha ha ha ha">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    + ']><html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>'
    "<body><p>&a11;</p><p>Pegasus is a horse that flies.</p></body></html>"
)


def deflated(megabytes: int, pattern: bytes) -> bytes:
    """``pattern`` over and over, packed about a thousand times smaller."""
    packer = zlib.compressobj(9)
    piece = pattern * (1_000_000 // len(pattern))
    return b"".join([*(packer.compress(piece) for _ in range(megabytes)), packer.flush()])


def pdf_with_content(stream: bytes, filters: str = "/FlateDecode") -> bytes:
    """A PDF of one page, whose content is ``stream`` behind ``filters``."""
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R >>",
        b"<< /Length %d /Filter %s >>\nstream\n%s\nendstream" % (len(stream), filters.encode(), stream),
    ]
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return data + (
        b"xref\n0 5\n0000000000 65535 f \n%strailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (rows, len(data))
    )


def epub_with_page(page: str | bytes) -> bytes:
    return epub_files.archive(
        {
            "META-INF/container.xml": epub_files.container("a.opf"),
            "a.opf": epub_files.package(["page.xhtml"]),
            "toc.ncx": epub_files.ncx({"page.xhtml": "One"}),
            "page.xhtml": page,
        }
    )
