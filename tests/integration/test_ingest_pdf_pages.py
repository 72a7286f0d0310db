"""PDFs page by page: columns and what stands around them, turned pages, hidden and filled-in text, foreign codes,
tables to the cell. Each file is written here."""

from __future__ import annotations

import pytest

from pegas_memory.errors import PasswordNeeded
from pegas_memory.ingest import read_bytes
from pegas_memory.ingest.pdf import about
from pegas_memory.ingest.pdf.aligned import aligned_tables
from pegas_memory.ingest.pdf.lines import Line
from pegas_memory.model import BlockKind, Extracted
from tests.support.pdf_files import Text, drawn, pdf, shown

RUSSIAN = "Кассовый разрыв возникает, когда деньги ещё не пришли, а платить уже пора."


def column(name: str, x: float, lines: int = 8, top: float = 700) -> list[Text]:
    return [Text(f"{name} column has line {n} here", top - 12 * n, x=x, size=8) for n in range(lines)]


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def tables(document: Extracted) -> list[str]:
    return [block.text for block in document.blocks if block.kind is BlockKind.TABLE]


def grid(xs: tuple[int, ...], ys: tuple[int, ...]) -> bytes:
    flat = b"".join(b"%d %d m %d %d l S\n" % (xs[0], y, xs[-1], y) for y in ys)
    return flat + b"".join(b"%d %d m %d %d l S\n" % (x, ys[0], x, ys[-1]) for x in xs)


# --- order ------------------------------------------------------------------------------------------


def test_three_columns_drawn_line_by_line() -> None:
    sides = [column(name, x) for name, x in (("first", 30), ("second", 210), ("third", 390))]
    document = read_bytes(pdf([[line for row in zip(*sides, strict=True) for line in row]]))
    assert in_order(document.text, *(f"{name} column has line {n}" for name in ("first", "second", "third")
                                     for n in (0, 7)))  # fmt: skip
    assert tables(document) == []


def test_a_note_below_two_columns_comes_last() -> None:
    sides = [column("left", 50), column("right", 320)]
    page = [line for row in zip(*sides, strict=True) for line in row]
    note = "1 A note that runs below both of the columns, from the left margin to the right one."
    text = read_bytes(pdf([[Text(note, 560, x=50, size=8), *page]])).text
    assert in_order(text, "left column has line 0", "left column has line 7", "right column has line 7", "1 A note")


def test_heads_that_change_sides_are_dropped() -> None:
    pages = [
        [
            Text(f"{n + 1} The Book of Accounts" if n % 2 else f"A Long Chapter {n + 1}", 800, x=50 if n % 2 else 380),
            *(
                Text(f"{word} {chr(97 + n) * 3} is what a line of this page is about.", 700 - 12 * k)
                for k, word in enumerate("Alpha Beta Gamma Delta".split())
            ),
        ]
        for n in range(8)
    ]
    text = read_bytes(pdf(pages)).text
    assert "Accounts" not in text
    assert "Long Chapter" not in text
    assert text.count("is what a line") == 32


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_a_turned_page_reads_like_any_other(angle: int) -> None:
    """Its text is drawn so that it stands upright for the reader."""
    matrix = {90: (0, 1, -1, 0), 180: (-1, 0, 0, -1), 270: (0, -1, 1, 0)}[angle]
    x, y, dx, dy = {90: (200, 50, 12, 0), 180: (500, 600, 0, 12), 270: (200, 800, -12, 0)}[angle]
    content = b"".join(
        b"BT /F 10 Tf %d %d %d %d %d %d Tm (turned line %d of the page) Tj ET\n" % (*matrix, x + n * dx, y + n * dy, n)
        for n in range(6)
    )
    document = read_bytes(drawn([content], page=b"/Rotate %d" % angle))
    assert document.text == " ".join(f"turned line {n} of the page" for n in range(6))


# --- text that is not simply drawn --------------------------------------------------------------------


def test_an_invisible_layer_of_recognised_text_is_kept() -> None:
    hidden = b"3 Tr " + shown("Words that a scanner has recognised.", 50, 700)
    assert read_bytes(drawn([hidden])).text == "Words that a scanner has recognised."


def test_bold_by_printing_each_letter_again_is_read_once() -> None:
    page = b"".join(shown(letter, 50 + 5 * n + shift, 700) for n, letter in enumerate("Double") for shift in (0, 0.3))
    assert read_bytes(drawn([page])).text.replace(" ", "") == "Double"


def test_what_the_file_says_in_xmp_counts_where_its_own_record_is_silent() -> None:
    packet = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description dc:format="application/pdf">
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">Книга &amp; учёт</rdf:li></rdf:Alt></dc:title>
<dc:creator><rdf:Seq><rdf:li>А. Первый</rdf:li><rdf:li>Б. Второй</rdf:li></rdf:Seq></dc:creator>
<xmp:CreateDate>2021-07-09T10:00:00Z</xmp:CreateDate></rdf:Description></rdf:RDF></x:xmpmeta>""".encode()
    stream = b"<< /Type /Metadata /Subtype /XML /Length %d >>\nstream\n%s\nendstream" % (len(packet), packet)
    document = read_bytes(drawn([shown("Some text of it.", 50, 700)], more=[stream]))
    assert document.title == "Книга & учёт"
    assert (document.metadata["author"], document.metadata["date"]) == ("А. Первый, Б. Второй", "2021-07-09")


def test_what_is_filled_into_a_form_is_read() -> None:
    look = shown("Ivanov", 2, 5)
    form = (
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F 3 0 R >> >> /Length %d >>\n"
        b"stream\n%s\nendstream" % (len(look), look)
    )
    field = (
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Ivanov) /F 4 /Rect [120 695 320 715] "
        b"/AP << /N 6 0 R >> >>"
    )
    document = read_bytes(drawn([shown("Surname:", 50, 700)], page=b"/Annots [7 0 R]", more=[form, field]))
    assert document.text == "Surname: Ivanov"


# --- letters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["cp1251", "koi8_r", "mac_cyrillic"])
def test_russian_in_the_codes_of_another_alphabet_is_put_right(encoding: str) -> None:
    document = read_bytes(drawn([shown(RUSSIAN, 50, 700, encoding=encoding)]))
    assert RUSSIAN in document.text
    assert "put right: page 1" in document.warnings[0]


@pytest.mark.parametrize(
    "lines",
    [
        ["שלום עולם זה משפט ראשון", "וזה משפט שני שעומד מתחתיו"],
        ["هذه جملة عربية قصيرة هنا", "وهذه جملة ثانية تحتها"],
    ],
)
def test_right_to_left_lines_are_in_logical_order(lines: list[str]) -> None:
    page = [Text(line[::-1], 700 - 14 * n, x=400 - 6 * len(line)) for n, line in enumerate(lines)]
    document = read_bytes(pdf([page]))
    assert in_order(document.text, *lines)
    assert not any(block.garbled for block in document.blocks)


@pytest.mark.parametrize(
    "text",
    [
        "Η γρήγορη αλεπού πηδάει πάνω από το σκυλί", "これは日本語の文章です。今日は晴れ",
        "这是一个中文句子，今天天气很好", "นี่คือประโยคภาษาไทยสั้น ๆ", "for (i = 0; i < n; i++) x[i] += f(y[i], z_k);",
        "at 12.03.2024 14:05 10/02/2012", "p20-40.qxd 10/02/2012 16:24 Page 12",
        "E = mc2, x_{n+1} = x_n - f(x_n)/f'(x_n)",
    ],
)  # fmt: skip
def test_what_is_no_prose_in_latin_letters_is_no_noise(text: str) -> None:
    document = read_bytes(pdf([[Text(text, 700)]]))
    assert not document.blocks[0].garbled
    assert document.warnings == ()
    if text.isascii():
        assert not read_bytes(drawn([shown(text, 50, 700)])).blocks[0].garbled


# --- tables -----------------------------------------------------------------------------------------


def test_a_ruled_table_to_the_cell() -> None:
    cells = [("Item", 55, 685), ("Sum", 155, 685), ("Note", 255, 685), ("Rent", 55, 655), ("paid by", 255, 659),
             ("the bank", 255, 647), ("Light", 55, 625), ("40", 155, 625), ("late", 255, 625)]  # fmt: skip
    page = grid((50, 150, 250, 350), (610, 640, 670, 700)) + b"".join(shown(*cell) for cell in cells)
    assert tables(read_bytes(drawn([page]))) == ["Item | Sum | Note\nRent |  | paid by the bank\nLight | 40 | late"]


def test_a_table_without_lines_whose_numbers_end_under_one_another() -> None:
    rows = [("Month", "Income", "Cost"), ("March", "1 200", "7"), ("April", "30", "1 500"), ("May", "4", "90")]
    page = [
        Text(cell, 700 - 14 * n, x=50 if not k else 200 + 100 * k - 6 * len(cell))
        for n, row in enumerate(rows) for k, cell in enumerate(row)
    ]  # fmt: skip
    assert tables(read_bytes(pdf([page]))) == ["\n".join(" | ".join(row) for row in rows)]


def test_prose_in_two_columns_and_a_table_of_contents_are_no_tables() -> None:
    sides = [column("left", 50), column("right", 320)]
    prose = [line for row in zip(*sides, strict=True) for line in row]
    contents = [
        Text(f"{n}. A chapter of this book {'.' * 30} {7 * n + 1}", 700 - 14 * n, x=50) for n in range(1, 9)
    ]  # fmt: skip
    parted = [
        part for n in range(1, 9)
        for part in (Text(f"Chapter about number {n}", 700 - 14 * n, x=50), Text(str(7 * n), 700 - 14 * n, x=400))
    ]  # fmt: skip
    for page in (prose, contents, parted):
        assert tables(read_bytes(pdf([page]))) == []


# --- damage -----------------------------------------------------------------------------------------


def test_operators_within_a_string_and_objects_within_a_content_are_damage() -> None:
    body = b"".join(b"BT /F 10 Tf 1 0 0 1 50 %d Tm (line) Tj 20 0 Td (more) Tj ET\n" % (700 - 12 * n) for n in range(9))
    for hurt in (body.replace(b"(line) Tj 20", b"(line Tj (a)Tj 3 0 Td (b)Tj 3 0 Td (c)Tj 3 0 Td) Tj 20", 1),
                 body.replace(b" ET\n", b" endobj ET\n", 1)):  # fmt: skip
        assert "Damaged and read only in part: page 1." in read_bytes(drawn([hurt])).warnings
    assert read_bytes(drawn([body])).warnings == ()


PROSE = [
    ("We keep to the target price that was named and", "pressures that are owed to the outlook while the"),
    ("the advice that was given after the last report in", "changes in the forecasts were few in this quarter"),
    ("which the company was able to raise its margins", "and the market stays hard in the early part of it"),
    ("and to grow in the year that comes after this one", "though bids are going to pick up in the autumn and"),
]


def test_prose_side_by_side_is_no_table() -> None:
    page = [
        Text(text, 700 - 12 * n, x=x) for n, row in enumerate(PROSE) for text, x in zip(row, (20, 320), strict=True)
    ]
    rows = aligned_tables(
        [Line(t.text, t.x, t.x + 5 * len(t.text), t.y, 10) for t in page]  # as they come when no column was found
    )
    assert not any(line.rows for line in rows)


def test_boxes_side_by_side_are_read_one_after_another() -> None:
    left = [("Net profit", "10", "20"), ("Other income", "30", "40"), ("Total", "40", "60")]
    lines = [
        Line(cell, x, x + 5 * len(cell), 700 - 24 * n, 10)
        for n, row in enumerate(left) for cell, x in zip(row, (50, 150, 200), strict=True)
    ]  # fmt: skip
    wide = Line("A heading over the left box, as wide as it is", 50, 225, 740, 10)
    right = [Line(f"what the other box says {n}", 330, 460, 741 - 13 * n, 10) for n in range(7)]
    found = aligned_tables([wide, *lines, *right])
    assert [line.rows or line.text for line in found] == [wide.text, tuple(left), *(line.text for line in right)]


def test_a_note_under_the_left_column_stays_out_of_the_sentence_that_goes_on_in_the_right_one() -> None:
    left = [f"left column line number {n} goes on" for n in range(7)]
    page = [Text(text, 700 - 12 * n, x=40) for n, text in enumerate(left)]
    page += [
        Text("and it ends in the middle of this", 616, x=40),
        Text("1A note about it, in small type.", 590, x=40, size=7),
    ]
    page += [Text(f"right column line number {n} goes on", 700 - 12 * n, x=320) for n in range(8)]
    text = read_bytes(pdf([page])).text
    assert "middle of this right column line number 0" in " ".join(text.split())
    assert text.endswith("1A note about it, in small type.")


def test_a_pdf_encrypted_for_a_certificate_says_so() -> None:
    data = drawn([shown("secret", 72, 700)]).replace(
        b"/Root 1 0 R",
        b"/Root 1 0 R /ID [<00> <00>] /Encrypt << /Filter /Adobe.PubSec /V 4 /SubFilter /adbe.pkcs7.s5 >>",
    )
    with pytest.raises(PasswordNeeded, match="certificate"):
        read_bytes(data)


def test_private_codes_of_the_symbol_font_and_of_small_capitals_are_read() -> None:
    data = pdf([[Text("Let a \uf02b b \uf03d c \uf0b7 \uf076", 700), Text("\uf76f\uf770\uf765\uf76e text", 680)]])
    text = read_bytes(data).text
    assert "OPEN text" in text
    assert "\uf02b" in text
    assert "Let a + b = c • ϖ" in read_bytes(data.replace(b"/Helvetica ", b"/SymbolMTX ")).text


def test_a_title_in_several_languages_is_taken_once_and_a_number_is_no_title() -> None:
    assert read_bytes(pdf([[Text("Some words here", 700)]], title="5")).title != "5"
    item = '<rdf:li xml:lang="{}">{}</rdf:li>'
    packet = f"<dc:title><rdf:Alt>{item.format('de', 'Zwei')}{item.format('x-default', 'Two')}</rdf:Alt></dc:title>"
    assert about._xmp(packet, "dc:title") == "Two"
    assert about._xmp(packet.replace("x-default", "en"), "dc:title") == "Zwei"
    assert about._xmp(packet.replace("Alt", "Seq"), "dc:title") == "Zwei, Two"


def test_a_heading_over_several_columns_keeps_their_number() -> None:
    lines = b"".join(b"50 %d m 350 %d l S\n" % (y, y) for y in (700, 670, 640, 610))
    lines += b"".join(b"%d 610 m %d 700 l S\n" % (x, x) for x in (50, 150, 250, 350))
    cells = [("Limits", 155, 685), ("air", 155, 655), ("water", 255, 655), ("Lead", 55, 625), ("7", 155, 625),
             ("9", 255, 625)]  # fmt: skip
    [block] = read_bytes(drawn([lines + b"".join(shown(text, x, y) for text, x, y in cells)])).blocks
    assert [row.count("|") for row in block.text.split("\n")] == [2, 2, 2]


def test_figures_in_typewriter_type_are_a_table_and_one_word_is_no_listing() -> None:
    rows = [(f"STATION {n}", str(100 + n), f"{n}.5") for n in range(5)]
    page = [
        Text(cell, 700 - 12 * n, x=x, font="mono")
        for n, row in enumerate(rows) for cell, x in zip(row, (50, 200, 300), strict=True)
    ]  # fmt: skip
    blocks = read_bytes(pdf([[*page, Text("500", 400, font="mono")]])).blocks
    assert [block.kind for block in blocks] == [BlockKind.TABLE, BlockKind.PARAGRAPH]
