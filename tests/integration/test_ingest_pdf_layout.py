"""PDFs whose order, tables or letters are not plain: columns, grids, right-to-left, fonts without a map, damage."""

from __future__ import annotations

import pytest

from pegas_memory.distill import chunk_atoms, distill_extractive
from pegas_memory.errors import GarbledText, NoTextLayer, PasswordNeeded
from pegas_memory.ingest import chunk, read_bytes
from pegas_memory.model import BlockKind
from tests.support.pdf_files import Text, drawn, locked, pdf, shown

LEFT = [f"left column line number {n} goes on" for n in range(8)]
RIGHT = [f"right column line number {n} goes on" for n in range(8)]
RUSSIAN = "Кассовый разрыв возникает, когда деньги ещё не пришли, а платить уже пора."


def in_order(text: str, *parts: str) -> bool:
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


def test_columns_drawn_line_by_line_are_read_one_after_another() -> None:
    page = [Text("A heading over both columns of this page", 740, size=16)]
    for n in range(8):
        page += [Text(LEFT[n], 700 - 12 * n, x=50), Text(RIGHT[n], 700 - 12 * n, x=320)]
    text = read_bytes(pdf([page])).text
    assert in_order(text, "A heading over both", *LEFT[:1], "number 7", "right column line number 0")


def test_a_title_drawn_last_comes_first() -> None:
    text = read_bytes(pdf([[*(Text(line, 700 - 12 * n) for n, line in enumerate(LEFT)), Text("The title", 760)]])).text
    assert in_order(text, "The title", "number 0", "number 7")


def test_a_ruled_table_keeps_empty_and_long_cells() -> None:
    lines = b"".join(b"50 %d m 350 %d l S\n" % (y, y) for y in (700, 670, 640, 610))
    lines += b"".join(b"%d 610 m %d 700 l S\n" % (x, x) for x in (50, 150, 250, 350))
    cells = [("Name", 55, 685), ("Sum", 155, 685), ("Note", 255, 685), ("March", 55, 655), ("first", 255, 657),
             ("second", 255, 645), ("May", 55, 625), ("7", 155, 625)]  # fmt: skip
    document = read_bytes(drawn([lines + b"".join(shown(text, x, y) for text, x, y in cells)]))
    assert [(b.kind, b.text) for b in document.blocks] == [
        (BlockKind.TABLE, "Name | Sum | Note\nMarch |  | first second\nMay | 7")
    ]


def test_numbers_that_end_under_one_another_are_a_table_and_a_contents_list_is_none() -> None:
    rows = [("Apples", "1 200", "7"), ("Pears", "30", "15"), ("Plums", "4", "900")]
    page = [
        Text(cell, 700 - 14 * n, x=right - 6 * len(cell) if right > 100 else right)
        for n, row in enumerate(rows) for cell, right in zip(row, (50, 250, 330), strict=True)
    ]  # fmt: skip
    [block] = read_bytes(pdf([page])).blocks
    assert (block.kind, block.text) == (BlockKind.TABLE, "Apples | 1 200 | 7\nPears | 30 | 15\nPlums | 4 | 900")
    contents = [
        part for n, page in enumerate((1, 5, 9, 30))
        for part in (Text(f"A chapter about number {n}", 700 - 14 * n, x=50), Text(str(page), 700 - 14 * n, x=400))
    ]  # fmt: skip
    assert all(block.kind is not BlockKind.TABLE for block in read_bytes(pdf([contents])).blocks)


def test_heads_of_a_short_document_are_dropped() -> None:
    pages = [
        [Text("The yearly report", 800), *(Text(f"{line} {n}", 700 - 12 * k) for k, line in enumerate(LEFT)),
         Text(f"Page {n} of 2", 40)]
        for n in (1, 2)
    ]  # fmt: skip
    text = read_bytes(pdf(pages)).text
    assert "yearly" not in text
    assert "of 2" not in text


@pytest.mark.fault(67)
def test_locked_scanned_and_damaged_files_each_say_what_they_are() -> None:
    data = pdf([[Text(RUSSIAN, 700)]])
    assert RUSSIAN in read_bytes(locked(data, "", "owner")).text
    with pytest.raises(PasswordNeeded):
        read_bytes(locked(data, "user", "owner"))
    with pytest.raises(NoTextLayer, match="page 1 of 1"):
        read_bytes(drawn([b"q 0 0 100 100 re f Q"]))
    body = [b"".join(shown(f"{line} of page {n}", 50, 700 - 12 * k) for k, line in enumerate(LEFT)) for n in range(10)]
    packed = bytearray(drawn(body, packed=True))
    middle = packed.index(b"stream\n") + 150
    packed[middle : middle + 20] = b"\xaa" * 20
    document = read_bytes(bytes(packed))
    assert [warning for warning in document.warnings if warning.startswith("Damaged")] != []
    assert any("page 1." in warning for warning in document.warnings)
    assert "of page 9" in document.text


@pytest.mark.fault(68)
def test_right_to_left_text_is_in_logical_order() -> None:
    hebrew = "שלום עולם"
    assert hebrew in read_bytes(pdf([[Text(hebrew[::-1], 700)]])).text


@pytest.mark.fault(68)
def test_cyrillic_without_a_unicode_map_is_put_right_and_said() -> None:
    document = read_bytes(drawn([shown(RUSSIAN, 50, 700, encoding="cp1251")]))
    assert RUSSIAN in document.text
    assert "put right: page 1" in document.warnings[0]
    assert not any(block.garbled for block in document.blocks)


@pytest.mark.parametrize("text", ["Déjà vu à l'été où naître être fêté", "Größe über Äpfel öfter süß", "À É È ÇA ÔÙ"])
def test_accents_are_no_fault(text: str) -> None:
    document = read_bytes(drawn([shown(text, 50, 700)]))
    assert (document.text, document.warnings) == (text, ())


@pytest.mark.fault(68)
def test_noise_gives_no_claims() -> None:
    words = """xkcd qwrt zxpl mnbv wqxz ghjk plkj vbnm tyrw zxcv qpwz lkjh mzxn bvcq wrtp sdfg hjkl xcvb nmqw rtyp
    vjqx zkwf gwpq bxzj hqvk""".split()
    noise = drawn([b"".join(shown(" ".join(words[n : n + 5]), 50, 700 - 12 * n) for n in range(0, 25, 5))])
    document = read_bytes(noise)
    assert all(block.garbled for block in document.blocks)
    assert "noise and gives no claims: page 1" in document.warnings[0]
    for make in (distill_extractive, chunk_atoms):
        with pytest.raises(GarbledText):
            make(document, chunk(document))


def test_a_count_of_millions_of_pages_ends() -> None:
    data = drawn([shown("One page only.", 50, 700)]).replace(b"/Count 1", b"/Count 99999999")
    assert "One page only." in read_bytes(data).text


def test_bold_by_printing_twice_is_read_once() -> None:
    page = shown("Printed twice.", 50, 700) + shown("Other.", 50, 600) + shown("Printed twice.", 50.4, 700)
    assert read_bytes(drawn([page])).text.count("Printed twice.") == 1
