"""Files whose bytes were hurt: marks that lie, lost heads, quotes without an end, pages and books too large."""

from __future__ import annotations

import io
import zipfile

import pytest

from pegas_memory.errors import UnreadableFile
from pegas_memory.ingest import read_bytes
from pegas_memory.ingest.decoding import decode
from pegas_memory.model import DocumentKind

PAGE = "<html><body>" + "<p>Глава 11 is about the engine and its valves.</p>" * 20 + "</body></html>"
BEHEADED = b"""roducer (pypdf)
>>
endobj
2 0 obj
<<
/Type /Pages
/Kids [ 4 0 R ]
>>
endobj
"""
ROWS = b"0000000113 00000 n \n0000000162 00000 n \ntrailer\n<<\n/Size 7\n>>\nstartxref\n463\n%%EOF\n"


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_a_mark_of_utf16_before_a_utf8_page_with_zeros_is_passed_over(mark: bytes) -> None:
    page = PAGE.encode()
    assert "Глава 11" in decode(mark + page[:500] + b"\0\0\0" + page[500:])[0]


def test_the_mark_of_the_other_byte_order_is_passed_over() -> None:
    assert "Глава 11" in decode(b"\xfe\xff\xff\xfe" + PAGE.encode("utf-16-le"))[0]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["Заметки\nо\nклапанах двигателя", "发动机的阀门和活塞", "plain words", "Безпробеловсовсем"]
)
def test_a_true_mark_is_believed(encoding: str, text: str) -> None:
    assert decode(("\ufeff" + text * 9).encode(encoding))[0] == text * 9


@pytest.mark.parametrize("data", [BEHEADED, ROWS])
def test_what_is_left_of_a_pdf_is_no_text(data: bytes) -> None:
    for name in ("a.pdf", "a.txt", ""):
        with pytest.raises(UnreadableFile, match="damaged PDF"):
            read_bytes(data, None, name)


def test_a_text_may_quote_a_pdf() -> None:
    honest = (
        "# How a PDF is built\n\nAn object begins with its number:\n\n"
        "    1 0 obj\n    << /Type /Page >>\n    endobj\n\n"
        "The table at the end says where each object stands, and the trailer names the first of them.\n\n"
        "    xref\n    0000000016 00000 n\n    trailer\n\nA reader starts at the last line and goes back.\n\n"
        "It is told where the table begins.\n\nThe rest is streams.\n\nThey are deflated.\n"
    )
    assert "1 0 obj" in read_bytes(honest.encode(), None, "pdf.md").text
    fenced = b"A file:\n```\n" + BEHEADED + b"```\n"
    assert "endobj" in read_bytes(fenced, None, "pdf.md").text


def test_a_style_without_its_quote_does_not_hide_the_article() -> None:
    page = PAGE.replace("<p>", "<div style='display:none><p>", 1).replace("</body>", "<p>It's over.</p></body>")
    document = read_bytes(page.encode(), DocumentKind.HTML)
    assert document.text.count("valves") >= 19
    assert any("attribute without an end" in warning for warning in document.warnings)


def test_a_web_page_nested_without_end_is_read_by_its_body() -> None:
    page = "<html><body>" + "<div>" * 1000 + "The engine has valves. " * 40 + "</div>" * 1000 + "</body></html>"
    document = read_bytes(page.encode(), DocumentKind.WEB)
    assert "The engine has valves." in document.text
    assert any("whole page body" in warning for warning in document.warnings)


def test_a_book_of_too_many_bytes_says_so() -> None:
    head = b'<html xmlns="http://www.w3.org/1999/xhtml"><body><p>'
    chapter = head + b"The engine has valves. " * 1_900_000 + b"</p></body></html>"
    items = "".join(f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(4))
    refs = "".join(f'<itemref idref="c{n}"/>' for n in range(4))
    book = io.BytesIO()
    with zipfile.ZipFile(book, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="p.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        )
        archive.writestr(
            "p.opf",
            f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata/><manifest>{items}</manifest>'
            f"<spine>{refs}</spine></package>",
        )
        for number in range(4):
            archive.writestr(f"c{number}.xhtml", chapter)
    with pytest.raises(UnreadableFile, match="too large"):
        read_bytes(book.getvalue())
