"""Bytes into text: code pages, marks and declarations that lie, damage, what is no text."""

from __future__ import annotations

import pytest

from pegas_memory.errors import UnreadableFile
from pegas_memory.ingest import read_bytes
from pegas_memory.ingest.decoding import decode
from pegas_memory.model import DocumentKind

SENTENCE = "Кассовый разрыв возникает, когда деньги ещё не пришли, а платить уже пора."


@pytest.mark.fault(71)
@pytest.mark.parametrize("page", ["cp1251", "koi8-r", "cp866", "iso8859-5", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        "Привет",
        "касса",
        "ПРИКАЗ О НАЗНАЧЕНИИ ДИРЕКТОРА",
        "Ф.И.О. Иванов И.И.",
        "Ёжик в тумане",
        "Install the package GPT-модель 2.0 on the server; see README for details. Модель готова.",
        SENTENCE,
    ],
)
def test_short_russian_texts_in_any_page(page: str, text: str) -> None:
    assert decode(text.encode(page))[0] == text


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("Їжак і ґанок: Україна має свої літери є та ї.", "cp1251"),
        ("Їжак і ґанок: Україна має свої літери є та ї.", "koi8-u"),
        ("Българският език няма букви ы и э.", "cp1251"),
        ("Ђорђе и Љиљана живе у Београду.", "cp1251"),
        ("Η ελληνική γλώσσα έχει μακρά ιστορία και πλούσια λογοτεχνία.", "cp1253"),
        ("Zażółć gęślą jaźń: polski tekst z ogonkami, proszę państwa, dziękuję.", "cp1250"),
        ("日本語のテキストです。文字コードを自動判別できるでしょうか。", "shift_jis"),
        ("日本語のテキストです。文字コードを自動判別できるでしょうか。", "euc_jp"),
        ("日本語のテキストです。文字コードを自動判別できるでしょうか。", "iso2022_jp"),
        ("这是一个中文文本，用于测试编码的自动识别功能。", "gb18030"),
        ("Das naïve Café – “Größe” kostet 5 €.", "cp1252"),
    ],
)
def test_other_scripts_without_a_word_about_their_page(text: str, page: str) -> None:
    assert decode(text.encode(page))[0] == text


@pytest.mark.parametrize(
    ("text", "page", "declared", "read"),
    [
        ("5 € за “штуку”", "utf-8", "iso-8859-1", "5 € за “штуку”"),
        ("costs 5 € “only”", "cp1252", "iso-8859-1", "costs 5 € “only”"),
        ("שלום עולם, זהו טקסט", "cp1255", "windows-1255", "שלום עולם, זהו טקסט"),
        ("Türkçe ğ ş ı İ", "cp1254", "iso-8859-9", "Türkçe ğ ş ı İ"),
        (SENTENCE, "cp1251", "iso-8859-1", SENTENCE),
        (SENTENCE, "koi8-r", "windows-1251", SENTENCE),
        (SENTENCE, "cp1251", "utf-16", SENTENCE),
        (SENTENCE, "cp1251", "no-such-page", SENTENCE),
    ],
)
def test_declared_pages_are_taken_at_their_word_only_where_they_fit(
    text: str, page: str, declared: str, read: str
) -> None:
    assert decode(text.encode(page), (declared,))[0] == read


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\x00\x00"])
def test_a_mark_that_the_rest_contradicts_is_passed_over(mark: bytes) -> None:
    page = f"<html><body><p>{SENTENCE}</p></body></html>".encode()
    assert read_bytes(mark + page, DocumentKind.HTML).text == SENTENCE
    assert read_bytes(b"\xef\xbb\xbf" + SENTENCE.encode("cp1251")).text == SENTENCE
    assert decode(b"\xff\xfe" + "漢字".encode("utf-16-le"))[0] == "漢字"


def test_damaged_utf8_stays_utf8_and_says_so() -> None:
    data = bytearray((f"{SENTENCE}\n" * 200).encode())
    data[::23] = b"\xff" * len(data[::23])
    document = read_bytes(bytes(data))
    assert document.text.count("деньги") > 20
    assert any("damaged character" in warning for warning in document.warnings)
    cut = read_bytes(SENTENCE.encode()[:-2])
    assert cut.text.startswith("Кассовый разрыв")


def test_a_text_put_together_of_two_encodings_is_read_line_by_line() -> None:
    lines = [SENTENCE.encode(), SENTENCE.encode("cp1251"), b"plain", SENTENCE.encode("cp1251")] * 5
    assert read_bytes(b"\n".join(lines)).text == "\n".join([SENTENCE, SENTENCE, "plain", SENTENCE] * 5)


def test_letters_far_behind_the_markup_still_tell_the_page() -> None:
    page = b"<html><head><style>" + b"p {} " * 60_000 + b"</style></head><body>" + SENTENCE.encode("koi8-r")
    assert read_bytes(page, DocumentKind.HTML).text == SENTENCE


@pytest.mark.parametrize(
    "head",
    [
        '<?xml version="1.0" encoding="koi8-r"?><html><head><meta charset="windows-1251">',
        '<html><head><meta http-equiv="Content-Type" content="text/html; charset=utf-8"><meta charset="windows-1251">',
        '<html><head><meta charset="windows-1251"><meta charset="utf-8">',
    ],
)
def test_pages_that_declare_two_charsets(head: str) -> None:
    page = f"{head}<title>Имя</title></head><body><p>{SENTENCE}</p></body></html>".encode("cp1251")
    document = read_bytes(page, DocumentKind.HTML)
    assert (document.text, document.title) == (SENTENCE, "Имя")


@pytest.mark.parametrize(
    "data",
    [
        b"1 0 obj\n<</Type /Catalog>>\nendobj\n" * 5 + b"xref\n0 3\ntrailer\nstartxref\n99\n%%EOF\n",
        b"K\x03\x04 plain names " + b"PK\x01\x02 name" * 3 + b"PK\x05\x06" + bytes(18),
    ],
)
def test_documents_that_lost_their_head_are_not_text(data: bytes) -> None:
    with pytest.raises(UnreadableFile):
        read_bytes(data, DocumentKind.TEXT)
