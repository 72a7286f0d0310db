"""PDFs: paragraphs, running heads, hyphens, outline, passwords, damage. The files are made here."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from pegas_memory.errors import NoTextLayer, PasswordNeeded, PegasError, UnreadableFile
from pegas_memory.ingest import chunk, read_bytes, read_file
from pegas_memory.ingest.pdf import page_list
from pegas_memory.model import DocumentKind, Extracted
from tests.support.pdf_files import Text, locked, pdf, saved

PROSE = [
    "Кассовый разрыв возникает, когда деньги ещё не пришли, а платить",
    "уже пора. Чтобы его не было, считают поступления и пред-",
    "приятие держит запас.",
]


def prose(top: float = 700, lines: list[str] | None = None) -> list[Text]:
    return [Text(line, top - 12 * n) for n, line in enumerate(lines or PROSE)]


def check(document: Extracted) -> Extracted:
    assert document.kind is DocumentKind.PDF
    for block in document.blocks:
        assert document.text[block.locator.start : block.locator.end] == block.text
        assert block.locator.page is not None
    pages = [block.locator.page or 0 for block in document.blocks]
    assert pages == sorted(pages)
    return document


def kinds(document: Extracted) -> list[tuple[str, str]]:
    return [(block.kind.value, block.text) for block in document.blocks]


def test_lines_become_paragraphs_and_hyphens_are_joined() -> None:
    document = check(read_bytes(pdf([[*prose(700), *prose(640, ["Второй абзац стоит отдельно."])]])))
    assert kinds(document) == [
        (
            "paragraph",
            "Кассовый разрыв возникает, когда деньги ещё не пришли, а платить уже пора. "
            "Чтобы его не было, считают поступления и предприятие держит запас.",
        ),
        ("paragraph", "Второй абзац стоит отдельно."),
    ]
    assert (document.pages, document.language) == (1, "ru")


def test_a_compound_keeps_its_hyphen_when_the_document_writes_it_so() -> None:
    lines = [
        "A well-known fact about memory stores and how they are used by a well-",
        "known agent every day of the week.",
    ]
    document = read_bytes(pdf([prose(700, lines)]))
    assert (
        document.text
        == "A well-known fact about memory stores and how they are used by a well-known agent every day of the week."
    )


def test_ligatures_and_sentences_after_abbreviations() -> None:
    lines = ["The ﬁrst ofﬁce is described in detail elsewhere in this same book, so see", "p. 5 of it."]
    assert "The first office" in read_bytes(pdf([prose(700, lines)])).text
    lines = ["Если это не помогло или помогло не до конца и не во всём, тогда см.", "Раздел 12 этой книги."]
    assert len(read_bytes(pdf([prose(700, lines)])).blocks) == 1


def book(pages: int = 6) -> list[list[Text]]:
    return [
        [
            Text(f"Глава {n + 1}. Учёт денег", 800),
            *prose(700),
            *prose(640, [f"Особый абзац номер {n}."]),
            Text(str(n + 1), 40, 290),
        ]
        for n in range(pages)
    ]


def test_running_heads_and_page_numbers_are_dropped_when_repeated() -> None:
    document = check(read_bytes(pdf(book())))
    assert "Учёт денег" not in document.text
    assert [b.text for b in document.blocks if b.locator.page == 3][-1] == "Особый абзац номер 2."
    assert len(document.blocks) == 12
    once = read_bytes(pdf(book(1)))
    assert "Глава 1. Учёт денег" in once.text


def test_outline_gives_headings_and_metadata_is_read() -> None:
    pages = [
        [Text("1 Начало", 760, size=10), *prose()],
        [*prose(), Text("2 Конец", 600), *prose(570, ["Последний абзац."])],
    ]
    data = pdf(pages, [("Начало", 0), ("Конец", 1)], "Книга\x00 об учёте")
    document = check(read_bytes(data))
    headings = [(b.text, b.level, b.locator.page) for b in document.blocks if b.kind.value == "heading"]
    assert headings == [("1 Начало", 1, 1), ("2 Конец", 1, 2)]
    assert document.blocks[-1].locator.headings == ("2 Конец",)
    assert next(b.locator.headings for b in document.blocks if b.locator.page == 2) == ("1 Начало",)
    assert document.title == "Книга об учёте"
    assert document.metadata["author"] == "А. Автор"
    assert document.metadata["date"] == "2024-03-05"
    assert str(chunk(document)[-1].locator).startswith("p. 2, 2 Конец, chars ")


def test_large_type_gives_headings_where_there_is_no_outline() -> None:
    document = check(
        read_bytes(
            pdf([[Text("Большой заголовок", 760, size=20), *prose(), Text("Меньший", 640, size=14), *prose(600)]])
        )
    )
    assert [(b.text, b.level) for b in document.blocks if b.kind.value == "heading"] == [
        ("Большой заголовок", 1),
        ("Меньший", 2),
    ]


def test_lists_listings_and_tables_keep_their_lines() -> None:
    page = [
        *prose(),
        Text("• первый пункт", 640), Text("• второй пункт", 628),
        Text("def f(x):", 590, font="mono"), Text("return x", 578, x=96, font="mono"),
        Text("Месяц", 540), Text("Сумма", 540, x=250), Text("Март", 528), Text("100", 528, x=250),
        Text("Май", 516), Text("7", 516, x=250),
    ]  # fmt: skip
    assert kinds(check(read_bytes(pdf([page]))))[1:] == [
        ("list_item", "• первый пункт"),
        ("list_item", "• второй пункт"),
        ("code", "def f(x):\n    return x"),
        ("table", "Месяц | Сумма\nМарт | 100\nМай | 7"),
    ]


def test_passwords() -> None:
    data = pdf([prose()])
    assert "Кассовый разрыв" in read_bytes(locked(data, "", "owner")).text
    with pytest.raises(PasswordNeeded):
        read_bytes(locked(data, "user", "owner"))


def test_no_text_layer_names_the_pages() -> None:
    writer = PdfWriter()
    for _ in range(3):
        writer.add_blank_page(595, 842)
    with pytest.raises(NoTextLayer, match=r"pages 1–3 of 3"):
        read_bytes(saved(writer))
    assert page_list([2]) == "page 2"
    assert page_list([1, 2, 3, 7]) == "pages 1–3, 7"


def first_page_missing(data: bytes) -> bytes:
    return data.replace(b"/Kids [", b"/Kids [ 9999 0 R ", 1).replace(b"/Count 10", b"/Count 11", 1)


def first_page_garbled(data: bytes) -> bytes:
    start = data.index(b"BT /body")
    end = data.index(b"endstream", start)
    return data[:start] + bytes((n * 7 + 13) % 256 for n in range(end - start)) + data[end:]


def first_page_badly_compressed(data: bytes) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    for page in writer.pages:
        page.compress_content_streams()
    packed = saved(writer)
    start = packed.index(b"stream", packed.index(b"FlateDecode")) + 10
    return packed[:start] + b"\xaa" * 40 + packed[start + 40 :]


@pytest.mark.parametrize("damage", [first_page_missing, first_page_garbled, first_page_badly_compressed])
def test_a_broken_page_is_named_and_the_rest_is_kept(damage: Callable[[bytes], bytes]) -> None:
    document = check(read_bytes(damage(pdf(book(10)))))
    assert document.warnings == ("Damaged and left out: page 1.",)
    assert "Особый абзац номер 9." in document.text


def test_a_blank_page_is_no_damage() -> None:
    assert read_bytes(pdf([prose(), [], prose()])).warnings == ()


def test_nothing_but_broken_pages_is_unreadable() -> None:
    with pytest.raises(UnreadableFile):
        read_bytes(first_page_garbled(pdf([prose()])))


@pytest.mark.parametrize(
    "data", [b"%PDF-1.4\n", b"%PDF-1.7\n" + b"\x00" * 5000, b"%PDF-1.4\ntrailer << /Root 1 0 R >>"]
)
def test_a_ruin_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableFile):
        read_bytes(data)


def test_a_reference_table_that_points_at_itself_ends() -> None:
    data = pdf([prose()])
    start = data.rindex(b"xref\n0")
    looped = data.replace(b"trailer << ", b"trailer << /Prev %d " % start)
    assert "Кассовый разрыв" in read_bytes(looped).text


def test_any_cut_of_a_file_is_read_or_refused_by_name() -> None:
    data = pdf(book(2), [("Начало", 0)])
    for end in range(20, len(data), len(data) // 40):
        try:
            check(read_bytes(data[:end] + b"\xff" + data[end + 3 :]))
        except PegasError:
            continue


def test_threads_do_not_disturb_each_other() -> None:
    data = pdf(book(8))
    expected = read_bytes(data).text
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(read_bytes(data).text)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def test_the_file_name_is_the_title_of_last_resort(tmp_path: Path) -> None:
    (tmp_path / "Отчёт.pdf").write_bytes(pdf([prose()]))
    assert read_file(tmp_path / "Отчёт.pdf").title == "Отчёт"
