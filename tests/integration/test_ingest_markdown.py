"""Markdown and plain text: what stands inside lists and quotations, definitions, HTML, front matter, headings."""

from __future__ import annotations

import pytest

from pegas_memory.ingest import read_text
from pegas_memory.model import DocumentKind


def markdown(text: str) -> list[tuple[str, str]]:
    document = read_text(text, DocumentKind.MARKDOWN)
    for block in document.blocks:
        assert document.text[block.locator.start : block.locator.end] == block.text
    return [(block.kind.value, block.text) for block in document.blocks]


def test_code_and_tables_inside_lists_and_quotations_are_kept() -> None:
    assert markdown(
        "- пункт\n\n  ```py\n  x = 1\n  ```\n\n  | a | b |\n  |---|---|\n  | 1 | 2 |\n\n  - внутри\n- [ ] дело\n\n"
        "> цитата\n>\n> | a | b |\n> |---|---|\n> | 3 | 4 |\n"
    ) == [
        ("list_item", "- пункт"),
        ("code", "x = 1"),
        ("table", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("list_item", "- внутри"),
        ("list_item", "- [ ] дело"),
        ("paragraph", "цитата"),
        ("table", "| a | b |\n|---|---|\n| 3 | 4 |"),
    ]


def test_lists_nested_deep_are_kept() -> None:
    text = "".join(f"{'  ' * level}- слово{level}\n" for level in range(40))
    assert [found for _, found in markdown(text)] == [f"- слово{level}" for level in range(40)]


def test_what_is_nested_too_deep_is_said_to_be_left_out() -> None:
    document = read_text(f"Слово.\n\n{'>' * 500} глубоко", DocumentKind.MARKDOWN)
    assert document.text == "Слово."
    assert any("levels deep" in warning for warning in document.warnings)


def test_definitions_of_links_and_notes_stay_where_they_are() -> None:
    assert markdown('Слово [ссылка][1] и сноска[^a].\n\n[1]: https://example.org/x "Имя"\n[^a]: Примечание.\n') == [
        ("paragraph", "Слово [ссылка][1] и сноска[^a]."),
        ("paragraph", '[1]: https://example.org/x "Имя"'),
        ("paragraph", "[^a]: Примечание."),
    ]


def test_html_inside_is_read_as_a_page_is() -> None:
    assert markdown(
        "<details><summary>Итог</summary>\n\nВнутри **так**.\n\n</details>\n\n"
        "<table><tr><th>H</th><th>G</th></tr><tr><td>1</td><td>2</td></tr></table>\n\n"
        "<script>alert('нет')</script>\n\n<div hidden>тайна</div>\n\n<p align=center>Сло<b>во</b><br>строка</p>\n"
    ) == [
        ("paragraph", "Итог"),
        ("paragraph", "Внутри **так**."),
        ("table", "H | G\n1 | 2"),
        ("paragraph", "Слово\nстрока"),
    ]


@pytest.mark.parametrize(
    ("front", "title", "metadata"),
    [
        (
            "---\r\ntitle: Имя\r\ntext: >\r\n  две\r\n  строки\r\ntags: [a, b]\r\n---\r\n",
            "Имя",
            {"text": "две строки", "tags": ["a", "b"]},
        ),
        ('+++\ntitle = "Имя"\ntags = ["a"]\ndate = 2024-01-02\n+++\n', "Имя", {"tags": ["a"], "date": "2024-01-02"}),
        ("+++\nno toml\n+++\n", "", {}),
    ],
)
def test_front_matter_is_metadata(front: str, title: str, metadata: dict[str, object]) -> None:
    document = read_text(f"{front}\nТекст здесь.", DocumentKind.MARKDOWN)
    assert (document.title, document.metadata) == (title, metadata)
    assert document.text.endswith("Текст здесь.")


@pytest.mark.fault(69)
def test_nul_in_front_matter_and_text() -> None:
    document = read_text("---\nti\x00tle: И\x00мя\nke\x00y: v\x00\n---\nТек\x00ст.", DocumentKind.MARKDOWN)
    assert (document.title, document.text, document.metadata) == ("Имя", "Текст.", {"key": "v"})


def test_headings_of_plain_text() -> None:
    text = """Большой заголовок
=================

Вступление.

Раздел
------
Текст сразу под ним.

~~~~~~~~~
 Рамка
~~~~~~~~~

Ещё текст.

ТРЕБОВАНИЯ К УЧЁТУ

Обычный текст.

2.1 Область применения

Последний абзац.
"""
    document = read_text(text)
    assert [(b.locator.headings, b.text) for b in document.blocks if b.kind.value != "heading"] == [
        (("Большой заголовок",), "Вступление."),
        (("Большой заголовок", "Раздел"), "Текст сразу под ним."),
        (("Большой заголовок", "Раздел", "Рамка"), "Ещё текст."),
        (("Большой заголовок", "ТРЕБОВАНИЯ К УЧЁТУ"), "Обычный текст."),
        (("Большой заголовок", "ТРЕБОВАНИЯ К УЧЁТУ", "2.1 Область применения"), "Последний абзац."),
    ]
    assert document.blocks[0].text == "Большой заголовок\n================="


@pytest.mark.parametrize(
    "text",
    [
        "Обычное предложение, за которым следует черта.\n---\n\nДальше.",
        "Глава 5 рассказывает о том, как жить дальше.\n\nДальше.",
        "НЕТ: СПИСОК, А НЕ ЗАГОЛОВОК:\n\nДальше.",
        "Chapter 5 discusses the method in depth.\n\nNext.",
        "3.5 кг муки и вода.\n\nДальше.",
        "Имя   Сумма\n----  -----\nА     5\n\nДальше.",
        "КОНЕЦ",
    ],
)
def test_what_only_looks_like_a_heading_is_text(text: str) -> None:
    assert all(block.kind.value != "heading" for block in read_text(text).blocks)


def test_chapters_of_plain_books_are_headings() -> None:
    document = read_text("ЧАСТЬ I\n\nГлава 1. Начало\n\nТекст.\n\nГлава 2\n\nДругой.\n\nEND\n")
    assert [b.locator.headings for b in document.blocks if b.text in ("Текст.", "Другой.")] == [
        ("ЧАСТЬ I", "Глава 1. Начало"),
        ("ЧАСТЬ I", "Глава 2"),
    ]
