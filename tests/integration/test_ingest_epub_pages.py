"""What stands on the pages of a book: chapters inside a file, notes, formulas, ruby, drawings, XHTML as it is."""

from __future__ import annotations

import pytest

from pegas_memory.ingest import read_bytes
from pegas_memory.model import BlockKind, Extracted
from tests.support.epub_files import archive, chapter, container, item, nav, opf, refs


def book(body: str, rows: str = '<li><a href="a.xhtml">Глава</a></li>', **files: str | bytes) -> Extracted:
    manifest = item("a.xhtml") + item("nav.xhtml", more='properties="nav"')
    parts: dict[str, str | bytes] = {
        "META-INF/container.xml": container("O/p.opf"),
        "O/p.opf": opf(manifest, refs("a.xhtml")),
        "O/nav.xhtml": nav(rows),
        "O/a.xhtml": body if body.startswith("<") and "<html" in body[:300] else chapter(body),
    }
    document = read_bytes(archive({**parts, **files}))
    for block in document.blocks:
        assert document.text[block.locator.start : block.locator.end] == block.text
    return document


def texts(body: str) -> list[str]:
    return [block.text for block in book(body).blocks]


def test_a_chapter_begins_where_the_contents_say_inside_a_file_too() -> None:
    rows = """<li><a href="a.xhtml">Первая</a><ol><li><a href="a.xhtml#two">Вторая</a></li>
      <li><a href="a.xhtml#three">Третья</a></li><li><a href="a.xhtml#four">Четвёртая</a></li></ol></li>"""
    document = book(
        "<h1>Книга</h1><p>раз</p><section id='two'><p>два</p></section><h2><a id='three'></a>Глава 3</h2><p>три</p>"
        "<p>ещё три <a id='four'></a>и конец абзаца</p><p>четыре</p>",
        rows,
    )
    assert [(b.text, b.locator.chapter) for b in document.blocks] == [
        ("Книга", "Первая"),
        ("раз", "Первая"),
        ("два", "Вторая"),
        ("Глава 3", "Третья"),
        ("три", "Третья"),
        ("ещё три и конец абзаца", "Третья"),
        ("четыре", "Четвёртая"),
    ]
    assert document.blocks[-1].locator.headings == ("Книга", "Глава 3")


def test_parts_of_the_contents_head_the_path_of_headings() -> None:
    rows = """<li><span>Часть I</span><ol><li><a href="a.xhtml">Глава 1</a></li></ol></li>"""
    document = book("<h1>Начало</h1><p>текст</p>", rows)
    assert document.blocks[1].locator.headings == ("Часть I", "Начало")
    assert document.blocks[1].locator.chapter == "Глава 1"


def test_notes_are_kept_once_and_glue_to_no_word() -> None:
    assert texts(
        "<p>Слово<a epub:type='noteref' href='#n1'>1</a>. Другое<sup><a href='#n2'>2</a></sup> дальше"
        "<span epub:type='footnote'>внутренняя сноска</span>, конец.</p>"
        "<aside epub:type='footnote' id='n1'><p>Текст сноски.</p></aside>"
    ) == ["Слово 1. Другое 2 дальше, конец.", "внутренняя сноска", "Текст сноски."]


def test_numbers_of_printed_pages_do_not_cut_words() -> None:
    assert texts("<p>сло<span epub:type='pagebreak' id='p12'>12</span>во <span class='lnum'>80</span></p>") == [
        "слово 80"
    ]


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("<ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby>です", "漢字(かんじ)です"),
        ("<ruby>東京<rp>（</rp><rt>とうきょう</rt><rp>）</rp></ruby>", "東京(とうきょう)"),
        ("10<sup>6</sup> м<sup>2</sup>", "10^6 м2"),
        ("строка<br/>другая", "строка\nдругая"),
        ("ч<b>ас</b>ть", "часть"),
        ("<img src='t.png' alt='T'/>he end", "The end"),
        ("<img src='t.png' alt='a long description'/>he end", "he end"),
        (
            "<math xmlns='http://www.w3.org/1998/Math/MathML' alttext='no'><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo>"
            "<mn>1</mn></mrow></mfrac><mo>=</mo><msup><mi>x</mi><mn>2</mn></msup><msub><mi>y</mi><mi>i</mi></msub>"
            "</math> да",
            "a/(b + 1) = x^2 y[i] да",
        ),
        ("<math xmlns='http://www.w3.org/1998/Math/MathML' alttext='E=mc^2'></math> да", "E=mc^2 да"),
    ],
)
def test_inline_elements_say_what_a_reader_sees(inner: str, text: str) -> None:
    assert texts(f"<p>{inner}</p>") == [text]


def test_fallbacks_drawings_and_branches_are_read_once() -> None:
    assert texts(
        "<canvas>Дерево на холсте</canvas><p>до</p>"
        "<svg xmlns='http://www.w3.org/2000/svg'><title>Схема</title><text>Узел <tspan>один</tspan></text></svg>"
        "<epub:switch><epub:case required-namespace='http://example.org/x'><p>чужое</p></epub:case>"
        "<epub:default><p>обычное</p></epub:default></epub:switch><p hidden='hidden'>тайна</p>"
    ) == ["Дерево на холсте", "до", "Схема\nУзел один", "обычное"]


def test_tables_lists_and_code_of_a_book_keep_their_kinds() -> None:
    document = book(
        "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table><ol start='3'><li>три</li></ol>"
        "<pre>x = 1\n y</pre>"
    )
    assert [(b.kind, b.text) for b in document.blocks] == [
        (BlockKind.TABLE, "A | B\n1 | 2"),
        (BlockKind.LIST_ITEM, "3. три"),
        (BlockKind.CODE, "x = 1\n y"),
    ]


def test_empty_elements_and_named_entities_are_those_of_xhtml() -> None:
    page = (
        '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x.dtd" '
        '[<!ENTITY own "своё">]><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x.js"/></head>'
        '<body><div id="top"/><p>Это&nbsp;&own; &mdash; <i/>текст &amp; &unknown;всё</p></body></html>'
    )
    assert texts(page) == ["Это своё — текст & &unknown;всё"]


def test_a_page_that_is_not_well_formed_is_read_as_html() -> None:
    document = book("<p>раз<p>два &copy; <b>три<p>четыре")
    assert [b.text for b in document.blocks] == ["раз", "два © три", "четыре"]


def test_right_to_left_text_stays_in_logical_order() -> None:
    arabic = "هذا نص عربي من اليمين إلى اليسار"
    assert texts(f"<div dir='rtl'><p>{arabic}</p><p>שלום עולם</p></div>") == [arabic, "שלום עולם"]


def test_dtbook_pages_are_read() -> None:
    page = """<dtbook xmlns="http://www.daisy.org/z3986/2005/dtbook/"><head><title>x</title></head><book><bodymatter>
    <level1><h1>Глава</h1><p>Текст <pagenum>7</pagenum>дальше.</p><list type="ul"><li>пункт</li></list></level1>
    </bodymatter></book></dtbook>"""
    manifest = item("a.xml", kind="application/x-dtbook+xml")
    parts = {"META-INF/container.xml": container("p.opf"), "p.opf": opf(manifest, refs("a.xml")), "a.xml": page}
    document = read_bytes(archive(parts))
    assert [b.text for b in document.blocks] == ["Глава", "Текст дальше.", "- пункт"]


@pytest.mark.fault(69)
def test_nul_in_pages_and_metadata_does_not_reach_the_text() -> None:
    parts = {
        "META-INF/container.xml": container("p.opf"),
        "p.opf": opf(item("a.xhtml"), refs("a.xhtml"), metadata="<dc:title>Имя\x00 книги</dc:title>"),
        "a.xhtml": chapter("<p>Текст\x00 с нулём &#0; и так</p>"),
    }
    document = read_bytes(archive(parts))
    assert "\x00" not in document.text + document.title + str(document.metadata)
    assert "с нулём" in document.text
