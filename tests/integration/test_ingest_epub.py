"""EPUBs: spine order, chapter names, books that are not as they should be, bombs. Made here."""

from __future__ import annotations

import io
import zipfile

import pytest

from pegas_memory.errors import (
    NoTextLayer,
    NoUsableText,
    PasswordNeeded,
    PegasError,
    UnreadableFile,
    UnsupportedKind,
)
from pegas_memory.ingest import read_bytes
from pegas_memory.ingest.epub import archive as epub_archive
from pegas_memory.model import DocumentKind, Extracted
from tests.support.epub_files import archive, chapter, container, item, nav, ncx, opf, package, refs

CHAPTERS = {
    "O/b.xhtml": chapter("<h1>Начало</h1><p>Первый <b>аб</b>зац.</p>"),
    "O/a.xhtml": chapter("<h1>Конец</h1><p>Второй абзац.</p><aside><p>Сноска.</p></aside>"),
}
NAMES = ncx({"b.xhtml": "Глава первая", "a.xhtml#part": "Глава вторая"})
BOOK = {
    "META-INF/container.xml": container("O/p.opf"),
    "O/p.opf": package(["b.xhtml", "a.xhtml"]),
    "O/toc.ncx": NAMES,
    **CHAPTERS,
}


def check(document: Extracted) -> Extracted:
    assert document.kind is DocumentKind.EPUB
    for block in document.blocks:
        assert document.text[block.locator.start : block.locator.end] == block.text
    return document


def test_chapters_in_spine_order_with_their_names() -> None:
    document = check(read_bytes(archive(BOOK)))
    assert [(b.text, b.locator.chapter, b.locator.headings) for b in document.blocks] == [
        ("Начало", "Глава первая", ("Начало",)),
        ("Первый абзац.", "Глава первая", ("Начало",)),
        ("Конец", "Глава вторая", ("Конец",)),
        ("Второй абзац.", "Глава вторая", ("Конец",)),
        ("Сноска.", "Глава вторая", ("Конец",)),
    ]
    assert (document.title, document.language, document.warnings) == ("Книга", "ru", ())
    assert document.metadata["author"] == ["А. Автор"]


@pytest.mark.fault(71)
def test_a_missing_item_costs_only_itself() -> None:
    parts = dict(BOOK)
    parts["O/p.opf"] = package(["b.xhtml", "missing.xhtml", "a.xhtml"])
    document = check(read_bytes(archive(parts)))
    assert "Первый абзац." in document.text
    assert "Второй абзац." in document.text
    assert document.warnings == ("1 item(s) named by the book are missing from the archive: O/missing.xhtml.",)


def test_a_spine_that_names_what_no_manifest_has() -> None:
    parts = dict(BOOK)
    parts["O/p.opf"] = package(["b.xhtml", "ghost", "a.xhtml"], manifest=["b.xhtml", "a.xhtml"])
    assert "Второй абзац." in check(read_bytes(archive(parts))).text


@pytest.mark.parametrize(
    "changes",
    [
        {"O/toc.ncx": ""},
        {"O/toc.ncx": None},
        {"O/p.opf": None},
        {"O/p.opf": "<package><broken"},
        {"META-INF/container.xml": None},
        {"META-INF/container.xml": "not xml"},
    ],
)
def test_books_that_the_library_refuses_are_read_from_the_archive(changes: dict[str, str | None]) -> None:
    parts = {name: content for name, content in {**BOOK, **changes}.items() if content is not None}
    document = check(read_bytes(archive(parts), DocumentKind.EPUB))
    assert "Первый абзац." in document.text
    assert "Второй абзац." in document.text


def test_the_first_of_several_packages_counts() -> None:
    parts = dict(BOOK)
    parts["META-INF/container.xml"] = container("O/p.opf", "X/p.opf")
    parts["X/p.opf"] = package(["z.xhtml"], title="Другая")
    parts["X/z.xhtml"] = chapter("<p>Чужой текст.</p>")
    document = check(read_bytes(archive(parts)))
    assert document.title == "Книга"
    assert "Чужой" not in document.text


def test_items_out_of_the_linear_order_come_last() -> None:
    parts = dict(BOOK)
    parts["O/p.opf"] = package(["b.xhtml", "a.xhtml"], apart=["b.xhtml"])
    document = check(read_bytes(archive(parts)))
    assert document.text.index("Второй") < document.text.index("Первый")


def test_a_chapter_that_the_spine_repeats_is_read_once() -> None:
    for extra in ({}, {"META-INF/container.xml": container("O/p.opf", "O/other.opf")}):
        parts = {
            **BOOK,
            **extra,
            "O/p.opf": package(["b.xhtml", "a.xhtml", *["b.xhtml"] * 50], manifest=["b.xhtml", "a.xhtml"]),
        }
        document = check(read_bytes(archive(parts)))
        assert document.text.count("Первый абзац.") == 1
        assert document.text.index("Первый") < document.text.index("Второй")


def test_any_damage_is_read_or_refused_by_name() -> None:
    data = archive(BOOK)
    for at in range(0, len(data) - 8, max(len(data) // 60, 1)):
        for damaged in (data[:at] + b"\xff\x00" + data[at + 2 :], data[:at] + data[at + 7 :]):
            try:
                check(read_bytes(damaged, DocumentKind.EPUB))
            except PegasError:
                continue


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (archive({"META-INF/container.xml": container("p.opf"), "p.opf": package([])}), NoUsableText),
        (archive({**BOOK, "O/a.xhtml": chapter(""), "O/b.xhtml": chapter("<img src='x'/>")}), NoUsableText),
        (b"PK\x03\x04mimetypeapplication/epub+zip" + bytes(100), UnreadableFile),
        (archive({})[:-30], UnreadableFile),
    ],
)
def test_nothing_to_read_is_an_error(data: bytes, error: type[PegasError]) -> None:
    with pytest.raises(error):
        read_bytes(data, DocumentKind.EPUB)


def test_other_zip_archives_are_not_epubs() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("word/document.xml", "<w/>")
    with pytest.raises(UnsupportedKind):
        read_bytes(out.getvalue())


def test_bombs_are_refused_before_they_unpack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epub_archive, "MAX_UNPACKED", 1_000_000)
    with pytest.raises(UnreadableFile, match="unpacks to"):
        read_bytes(archive({**BOOK, "O/zero.bin": bytes(2_000_000)}))
    monkeypatch.setattr(epub_archive, "MAX_ENTRIES", 20)
    with pytest.raises(UnreadableFile, match="entries"):
        read_bytes(archive({**BOOK, **{f"O/{n}.txt": "" for n in range(30)}}))


def test_entities_and_traps_inside_a_book_are_harmless() -> None:
    laughs = '<!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b "' + "&a;" * 50 + '"><!ENTITY c "' + "&b;" * 50 + '">'
    laughs += (
        '<!ENTITY d "' + "&c;" * 50 + '"><!ENTITY e "' + "&d;" * 50 + '"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
    )
    parts = dict(BOOK)
    parts["O/b.xhtml"] = laughs + chapter("<p>Смех &e; и &f; тут</p>")
    document = check(read_bytes(archive(parts)))
    assert len(document.text) < 10_000
    assert "root:" not in document.text


def made(manifest: str, spine: str, *, files: dict[str, str | bytes] | None = None, **more: str) -> Extracted:
    """A book of two pages in ``O/`` under the given package."""
    parts: dict[str, str | bytes] = {
        "META-INF/container.xml": container("O/p.opf"),
        "O/p.opf": opf(manifest, spine, **more),
        "O/a.xhtml": chapter("<p>Страница первая.</p>"),
        "O/Text/Глава 2.xhtml": chapter("<p>Страница вторая.</p>"),
    }
    return check(read_bytes(archive({**parts, **(files or {})})))


@pytest.mark.fault(71)
@pytest.mark.parametrize(
    "href",
    [
        "Text/Глава 2.xhtml",
        "Text/%D0%93%D0%BB%D0%B0%D0%B2%D0%B0%202.xhtml",
        "text/глава 2.XHTML",
        "./x/../Text/Глава 2.xhtml",
        "../../O/Text/Глава 2.xhtml",
        "/O/Text/Глава 2.xhtml",
        "Text\\Глава 2.xhtml#top",
        "O/Text/Глава 2.xhtml",
    ],
)
def test_addresses_that_differ_a_little_are_found(href: str) -> None:
    document = made(item("a.xhtml") + item(href, name="b"), refs("a.xhtml", "b"))
    assert [b.text for b in document.blocks] == ["Страница первая.", "Страница вторая."]
    assert document.warnings == ()


@pytest.mark.parametrize(
    ("manifest", "spine"),
    [
        (item("a.xhtml", kind="image/jpeg"), refs("a.xhtml")),
        (item("a.xhtml", kind="text/plain"), refs("a.xhtml")),
        ('<item href="a.xhtml" media-type="application/xhtml+xml"/>', refs("a.xhtml")),
        (item("gone.xhtml", name="x") + item("a.xhtml", name="x"), refs("x")),
        (
            item("data.json", kind="application/json", more='fallback="a"', name="d") + item("a.xhtml", name="a"),
            refs("d"),
        ),
        (
            item("d", name="x", more='fallback="y"') + item("e", name="y", more='fallback="x"') + item("a.xhtml"),
            refs("x", "a.xhtml"),
        ),
    ],
)
def test_wrong_types_missing_and_doubled_ids_and_fallbacks(manifest: str, spine: str) -> None:
    assert "Страница первая." in made(manifest, spine, files={"O/data.json": "{}"}).text


def test_the_nav_counts_and_the_ncx_speaks_for_what_it_leaves_out() -> None:
    pages = item("a.xhtml") + item("Text/Глава 2.xhtml", name="b")
    tables = item("nav.xhtml", more='properties="nav"') + item("toc.ncx", kind="application/x-dtbncx+xml", name="ncx")
    files = {
        "O/nav.xhtml": nav('<li><a href="a.xhtml"><img src="x.png" alt="Имя из картинки"/></a></li>'),
        "O/toc.ncx": ncx({"a.xhtml": "Другое имя", "Text/%D0%93%D0%BB%D0%B0%D0%B2%D0%B0%202.xhtml": "Из NCX"}),
    }
    document = made(pages + tables, refs("a.xhtml", "b"), files=files, attributes='toc="ncx"')
    assert [b.locator.chapter for b in document.blocks] == ["Имя из картинки", "Из NCX"]


@pytest.mark.fault(71)
def test_without_contents_headings_name_the_chapters_and_other_pages_go_on() -> None:
    files = {"O/a.xhtml": chapter("<h1>Глава</h1><p>раз</p>"), "O/c.xhtml": chapter("<p>дальше</p>")}
    document = made(item("a.xhtml") + item("c.xhtml"), refs("a.xhtml", "c.xhtml"), files=files)
    assert [(b.locator.chapter, b.locator.headings) for b in document.blocks] == [("Глава", ("Глава",))] * 3


def test_pages_that_no_reading_order_names_are_read_or_named() -> None:
    manifest = (
        item("a.xhtml")
        + item("Text/Глава 2.xhtml", name="b")
        + item("c.xhtml")
        + item("nav.xhtml", more='properties="nav"')
    )
    files = {"O/c.xhtml": chapter("<p>лишняя</p>"), "O/nav.xhtml": nav('<li><a href="Text/Глава 2.xhtml">Два</a></li>')}
    document = made(manifest, refs("a.xhtml"), files=files)
    assert [b.text for b in document.blocks] == ["Страница первая.", "Страница вторая."]
    assert any("in no reading order; they come last: O/Text" in warning for warning in document.warnings)
    assert any("were left out: O/c.xhtml" in warning for warning in document.warnings)


def test_drawings_are_pages_and_pictures_are_said_to_be_pictures() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><text>Подпись</text></svg>'
    drawing, picture = item("d.svg", kind="image/svg+xml"), item("p.png", kind="image/png")
    document = made(drawing + picture, refs("d.svg", "p.png"), files={"O/d.svg": svg, "O/p.png": b"\x89PNG"})
    assert (document.text, document.warnings[-1]) == ("Подпись", "1 page(s) are pictures without text.")
    with pytest.raises(NoTextLayer):
        made(picture, refs("p.png"), files={"O/p.png": b"\x89PNG"})


def test_metadata_of_the_package() -> None:
    metadata = """<dc:title>Имя</dc:title><dc:title>Подзаголовок</dc:title><dc:creator>А</dc:creator>
      <dc:creator>Б</dc:creator><dc:language>ar</dc:language><dc:publisher>Изд</dc:publisher>
      <dc:date opf:event="modification">2020</dc:date><dc:date opf:event="publication">1999-01-02</dc:date>
      <dc:identifier>other</dc:identifier><dc:identifier id="id">urn:x</dc:identifier><dc:subject>Тема</dc:subject>
      <dc:description>&lt;p&gt;О &lt;b&gt;книге&lt;/b&gt;&lt;/p&gt;</dc:description>"""
    document = made(item("a.xhtml"), refs("a.xhtml"), metadata=metadata, attributes='page-progression-direction="rtl"')
    assert document.title == "Имя"
    assert document.metadata == {
        "language": "ar",
        "author": ["А", "Б"],
        "publisher": "Изд",
        "date": "1999-01-02",
        "identifier": "urn:x",
        "description": "О книге",
        "subject": ["Тема"],
        "other_titles": ["Подзаголовок"],
        "direction": "rtl",
    }


ENCRYPTION = """<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"
 xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData><e:EncryptionMethod Algorithm="{}"/><e:CipherData>
 <e:CipherReference URI="{}"/></e:CipherData></e:EncryptedData></encryption>"""


@pytest.mark.parametrize("method", ["http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"])
def test_obfuscated_fonts_lock_nothing(method: str) -> None:
    lock = ENCRYPTION.format(method, "O/font.otf")
    assert check(read_bytes(archive({**BOOK, "META-INF/encryption.xml": lock}))).warnings == ()


def test_encrypted_pages_are_said_and_encrypted_books_refused() -> None:
    lock = ENCRYPTION.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc", "O/a.xhtml")
    document = check(read_bytes(archive({**BOOK, "META-INF/encryption.xml": lock})))
    assert "Второй абзац." not in document.text
    assert document.warnings == ("1 chapter(s) are encrypted and were left out: O/a.xhtml.",)
    alone = {**BOOK, "O/p.opf": package(["a.xhtml"]), "META-INF/encryption.xml": lock}
    with pytest.raises(PasswordNeeded, match="encrypted"):
        read_bytes(archive(alone))


def test_entries_under_a_password_are_refused_by_name() -> None:
    data = bytearray(archive(BOOK))
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(magic)
        while at >= 0:
            data[at + flags] |= 1
            at = data.find(magic, at + 4)
    with pytest.raises(PasswordNeeded):
        read_bytes(bytes(data), DocumentKind.EPUB)


def test_a_page_with_a_wrong_checksum_is_said_and_the_rest_kept() -> None:
    data = bytearray(archive(BOOK))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as packed:
        entry = packed.getinfo("O/a.xhtml")
    at = entry.header_offset + 30 + len(entry.filename.encode()) + entry.compress_size // 2
    data[at] ^= 0x55
    document = check(read_bytes(bytes(data)))
    assert "Первый абзац." in document.text
    assert document.warnings == ("1 chapter(s) are damaged, or unpack too far, and were left out: O/a.xhtml.",)


def test_a_page_of_filler_is_left_out_and_lying_headers_stop_at_what_they_declare() -> None:
    parts = {**BOOK, "O/a.xhtml": chapter("<p>x</p>" + " " * 30_000_000)}
    assert check(read_bytes(archive(parts))).warnings == (
        "1 chapter(s) are damaged, or unpack too far, and were left out: O/a.xhtml.",
    )


def test_archives_written_as_streams_with_something_before_them_or_the_mimetype_elsewhere() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    out = Pipe()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in [*BOOK.items(), ("mimetype", "application/epub+zip")]:
            packed.writestr(name, content)
    assert "Второй абзац." in check(read_bytes(out.getvalue(), DocumentKind.EPUB)).text
    assert "Второй абзац." in check(read_bytes(b"junk" * 50 + archive(BOOK))).text
