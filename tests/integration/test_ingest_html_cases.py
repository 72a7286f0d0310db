"""HTML as it comes: tables and lists that must keep their order, repeated and hidden text, pages without an end."""

from __future__ import annotations

import time

import pytest

from pegas_memory.ingest import read_text
from pegas_memory.model import BlockKind, DocumentKind, Extracted

WORDS = "Кассовый разрыв возникает, когда деньги ещё не пришли, а платить уже пора."


def read(body: str, head: str = "") -> Extracted:
    document = read_text(f"<html><head>{head}</head><body>{body}</body></html>", DocumentKind.HTML)
    for block in document.blocks:
        assert document.text[block.locator.start : block.locator.end] == block.text
    return document


def texts(body: str) -> list[str]:
    return [block.text for block in read(body).blocks]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("<tr><th>A<th>B<th>C<tr><td colspan=2>1<td>2<tr><td>3<td>4<td>5", "A | B | C\n1 |  | 2\n3 | 4 | 5"),
        ("<tr><th>A<th>B<tr><td rowspan=2>x<td>1<tr><td>2<tr><td>y<td>3", "A | B\nx | 1\n | 2\ny | 3"),
        ("<tr><td><th>Q1<th>Q2<tr><th>a<td>1<td>2", "| Q1 | Q2\na | 1 | 2"),
        ("<tr><th colspan=3>Всё<tr><th>a<td>b<td>c", "Всё\na | b | c"),
        ("<caption>Имя <b>таб</b>лицы</caption><tr><th>a<td>b|c", "Имя таблицы\na | b\\|c"),
        ("<tr><th>a<th>b<tr><td><ul><li>раз<li>два</ul><td><p>три</p><p>четыре</p>", "a | b\nраз два | три четыре"),
        ("<tr><th>a<th>b<tr><td>вкл<td><img src=x alt=да>", "a | b\nвкл | да"),
        ("<tr><td>x<sup>2</sup><td>10<sup>3</sup><td><span hidden>нет</span>да", "x2 | 10^3 | да"),
    ],
)
def test_tables_keep_rows_and_columns(rows: str, text: str) -> None:
    document = read(f"<table>{rows}</table>")
    assert [(b.kind, b.text) for b in document.blocks] == [(BlockKind.TABLE, text)]


@pytest.mark.fault(71)
def test_nothing_is_read_twice_or_dropped() -> None:
    body = (
        "<ul><li>один<ul><li>два<ol><li>три</ol></ul><li><table><tr><th>четыре<td>пять</table></ul>"
        "<table><tr><td><table><tr><td>шесть<td>семь</table><td>восемь</table>"
        "<dl><dt>девять<dd>десять<dd><ul><li>одиннадцать</ul></dl><details><summary>двенадцать</summary>тринадцать</details>"
    )
    words = "один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать".split()
    text = read(body).text
    assert [text.split().count(word) for word in words] == [1] * len(words)


@pytest.mark.fault(71)
def test_absurd_spans_cost_nothing() -> None:
    rows = "<tr><td colspan=1000000000 rowspan=65000>a<td colspan=999 rowspan=999>b<td>c</tr>" * 2_000
    started = time.perf_counter()
    document = read(f"<p>{WORDS}</p><table>{rows}</table>")
    assert len(document.text) < 2_000_000
    assert time.perf_counter() - started < 10


def test_what_a_browser_hides_is_not_read() -> None:
    assert texts(
        "<p>видно</p><p hidden>1</p><p style='display : none'>2</p><dialog>3</dialog><template>4</template>"
        "<span class='katex'><math><mi>x</mi></math><span class='katex-html' aria-hidden='true'>x</span></span>"
        "<p hidden='until-found'>найдётся</p><noscript>5</noscript><dialog open>диалог</dialog>"
    ) == ["видно", "x", "найдётся", "диалог"]


def test_a_list_of_contents_that_repeats_the_headings_is_navigation() -> None:
    contents = "<div class='toc'><b>Contents</b><a href='#a'>Глава А</a> <a href='p.html#b'>Глава Б</a></div>"
    body = "<h2 id='a'>Глава А</h2><p>раз</p><h2><a name='b'></a>Глава Б</h2><p>два</p>"
    assert texts(contents + body) == ["Глава А", "раз", "Глава Б", "два"]
    # Elsewhere it is the only place where the chapters are named.
    assert "Глава В" in read(contents.replace("p.html#b", "other.html#c").replace("Глава Б", "Глава В") + body).text


def test_breaks_part_lines_and_two_of_them_paragraphs() -> None:
    assert texts("раз<br>два<br><br>три <b>а</b>\n<i>б</i><br/>\n<br/>четыре") == ["раз\nдва", "три а б", "четыре"]


def test_code_keeps_its_lines_and_language_and_loses_the_numbers_beside_it() -> None:
    listing = (
        "<table class='highlighttable'><tr><td class='linenos'><pre>1\n2</pre></td><td class='code'>"
        "<pre class='language-python'><span class='lineno'>1 </span>def f():\n<span class='lineno'>2 </span>"
        "    return 1"
        "</pre></td></tr></table>"
    )
    document = read(listing)
    assert [(b.kind, b.text, b.language) for b in document.blocks] == [
        (BlockKind.CODE, "def f():\n    return 1", "python")
    ]


def test_the_heading_of_a_box_ends_with_the_box() -> None:
    document = read(
        "<h1>Глава</h1><h3>Раздел</h3><div class='note'><h3>Note</h3><p>в рамке</p></div><p>дальше</p>"
        "<blockquote><h2>Цитата</h2><p>внутри</p></blockquote><p>ещё</p>"
    )
    assert [(b.text, b.locator.headings) for b in document.blocks if b.kind is BlockKind.PARAGRAPH] == [
        ("в рамке", ("Глава", "Note")),
        ("дальше", ("Глава", "Раздел")),
        ("внутри", ("Глава", "Цитата")),
        ("ещё", ("Глава", "Раздел")),
    ]


def test_numbers_of_lists_are_their_own() -> None:
    assert texts("<ol start=4><li>а<li value=9>б<li>в</ol><ul><li>г</ul>") == ["4. а", "9. б", "10. в", "- г"]


def test_a_heading_that_is_an_image_is_called_as_the_image() -> None:
    assert texts("<h1><img src=x alt='Имя раздела'></h1><p><img src=y alt='не текст'>слова</p>") == [
        "Имя раздела",
        "слова",
    ]


@pytest.mark.parametrize(
    ("opening", "note"),
    [
        ("<!-- забыли", "comment without an end"),
        ("<script>x()</p>", "<script> without an end"),
        ("<style>p {}</p>", "<style> without an end"),
        ("<textarea>x</p>", "<textarea> without an end"),
        ("<a href='забыли", "attribute without an end"),
    ],
)
def test_what_would_swallow_the_rest_of_a_page_does_not(opening: str, note: str) -> None:
    document = read(f"<p>до {opening}</p><p>{WORDS}</p><p>после</p>")
    assert WORDS in document.text
    assert "после" in document.text
    assert any(note in warning for warning in document.warnings)


def test_a_page_that_breaks_off_says_so() -> None:
    document = read_text(f"<html><body><p>{WORDS}</p><p>и тут", DocumentKind.HTML)
    assert document.warnings == ("The page has no end: it may have been cut off.",)
    assert read_text(f"<p>{WORDS}</p>", DocumentKind.HTML).warnings == ()


@pytest.mark.fault(69)
def test_nul_in_a_page_does_not_reach_text_title_or_metadata() -> None:
    head = "<title>Имя\x00</title><meta name='author' content='А\x00втор'>"
    document = read(f"<p>Текст\x00 &#0; {WORDS}</p>", head)
    assert "\x00" not in document.text + document.title + str(document.metadata)
    assert (document.title, document.metadata["author"]) == ("Имя", "Автор")


@pytest.mark.fault(71)
@pytest.mark.slow
def test_a_page_of_50_megabytes_is_read_in_time() -> None:
    page = "<html><body>" + f"<p>{WORDS}</p>\n" * 350_000 + "</body></html>"
    started = time.process_time()
    document = read_text(page, DocumentKind.HTML)
    assert len(document.blocks) == 350_000
    # 10 s on an idle machine of 2026; a limit of time grows with the size of a file.
    assert time.process_time() - started < 60
