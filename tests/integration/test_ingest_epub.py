"""EPUBs: spine order, chapter names, books that are not as they should be, bombs. Made here."""

from __future__ import annotations

import io
import zipfile

import pytest

from pegas_memory.errors import NoUsableText, PegasError, UnreadableFile, UnsupportedKind
from pegas_memory.ingest import epub, read_bytes
from pegas_memory.model import DocumentKind, Extracted
from tests.support.epub_files import archive, chapter, container, ncx, package

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


def test_a_missing_item_costs_only_itself() -> None:
    parts = dict(BOOK)
    parts["O/p.opf"] = package(["b.xhtml", "missing.xhtml", "a.xhtml"])
    document = check(read_bytes(archive(parts)))
    assert "Первый абзац." in document.text
    assert "Второй абзац." in document.text
    assert any("missing from the archive" in warning for warning in document.warnings)


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
    monkeypatch.setattr(epub, "MAX_UNPACKED", 1_000_000)
    with pytest.raises(UnreadableFile, match="unpacks to"):
        read_bytes(archive({**BOOK, "O/zero.bin": bytes(2_000_000)}))
    monkeypatch.setattr(epub, "MAX_ENTRIES", 20)
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
