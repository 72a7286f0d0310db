"""Plain text, Markdown, HTML and saved web pages: blocks, encodings, traps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegas_memory.errors import InvalidParameter, NoUsableText, UnreadableFile, UnsupportedKind
from pegas_memory.ingest import read_bytes, read_text
from pegas_memory.model import BlockKind, DocumentKind, Extracted

RUSSIAN = "Кассовый разрыв возникает, когда деньги ещё не пришли, а платить уже пора. Ёжик в тумане."


def check(document: Extracted) -> Extracted:
    """Every block stands where its locator says, and only white space stands between blocks."""
    end = 0
    for block in document.blocks:
        assert document.text[block.locator.start : block.locator.end] == block.text
        assert not document.text[end : block.locator.start].strip()
        end = block.locator.end
    assert end == len(document.text)
    assert "\x00" not in document.text
    assert "\r" not in document.text
    return document


def kinds(document: Extracted) -> list[tuple[str, str]]:
    return [(block.kind.value, block.text) for block in document.blocks]


@pytest.mark.parametrize("kind", [DocumentKind.TEXT, DocumentKind.MARKDOWN, DocumentKind.HTML])
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=400))
def test_any_text_is_read_or_refused_by_name(kind: DocumentKind, text: str) -> None:
    try:
        check(read_text(text, kind))
    except (NoUsableText, InvalidParameter, UnreadableFile):
        return


def test_text_paragraphs_and_list_items() -> None:
    document = check(read_text("Первый\r\nабзац.\r\n\r\n\r\nСписок:\n- раз\n  и ещё\n- два\n\nКонец\x0c\x00главы."))
    assert kinds(document) == [
        ("paragraph", "Первый\nабзац."),
        ("paragraph", "Список:"),
        ("list_item", "- раз\n  и ещё"),
        ("list_item", "- два"),
        ("paragraph", "Конец\nглавы."),
    ]
    assert document.language == "ru"


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1251", "koi8-r", "cp866", "iso8859-5"],
)
def test_russian_text_in_any_encoding(encoding: str) -> None:
    text = RUSSIAN.replace("—", "-")
    assert read_bytes(text.encode(encoding)).text == text


def test_western_text_without_utf8() -> None:
    text = "Die Größe überschreitet das Maß: für Straße, Café und naïve Fälle gilt das ebenso wie für andere Wörter."
    assert read_bytes(text.encode("cp1252")).text == text


@pytest.mark.parametrize("data", [b"", b"  \n\t ", b"\xef\xbb\xbf", b"*** --- ***"])
def test_nothing_to_read_is_an_error(data: bytes) -> None:
    with pytest.raises(NoUsableText):
        read_bytes(data)


def test_binary_junk_is_refused() -> None:
    with pytest.raises(UnreadableFile):
        read_bytes(bytes(range(256)) * 40)
    with pytest.raises(UnsupportedKind):
        read_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with pytest.raises(UnsupportedKind):
        read_bytes(b"PK\x03\x04" + bytes(200))


def test_lone_surrogates_and_kinds_that_are_bytes_are_refused() -> None:
    with pytest.raises(InvalidParameter):
        read_text("бред \ud800")
    with pytest.raises(UnsupportedKind):
        read_text("x", DocumentKind.PDF)


MARKDOWN = """---
title: "Заметки"
tags: [касса, учёт]
authors:
  - Иванов
---
Вступление <!-- тайна -->здесь.

<!-- целый
блок -->

Глава
=====

Текст *главы*
на двух строках.

- пункт `один`
- пункт два

  продолжение

1. первый

> Цитата
> продолжается.

```python
def f():

    return 1
```

    отступ = 2

## Раздел ##

| a | b |
|---|---|
| 1 | 2 |
"""


def test_markdown_blocks_are_source_slices() -> None:
    document = check(read_text(MARKDOWN, DocumentKind.MARKDOWN))
    assert kinds(document) == [
        ("paragraph", "Вступление здесь."),
        ("heading", "Глава\n====="),
        ("paragraph", "Текст *главы*\nна двух строках."),
        ("list_item", "- пункт `один`"),
        ("list_item", "- пункт два"),
        ("paragraph", "продолжение"),
        ("list_item", "1. первый"),
        ("paragraph", "Цитата\nпродолжается."),
        ("code", "def f():\n\n    return 1"),
        ("code", "    отступ = 2"),
        ("heading", "## Раздел ##"),
        ("table", "| a | b |\n|---|---|\n| 1 | 2 |"),
    ]
    assert document.title == "Заметки"
    assert document.metadata == {"tags": ["касса", "учёт"], "authors": ["Иванов"]}
    assert document.blocks[8].language == "python"
    assert document.blocks[-1].locator.headings == ("Глава", "Раздел")
    assert "тайна" not in document.text
    assert "блок -->" not in document.text


def test_markdown_without_front_matter_takes_its_first_heading_as_title() -> None:
    assert read_text("# Имя *важное*\n\nТекст.", DocumentKind.MARKDOWN).title == "Имя важное"


PAGE = """<!DOCTYPE html><html lang="ru-RU"><head><title>Страница  о ёжике</title>
<meta name="author" content="А. Автор"><style>p {}</style></head><body>
<header><h1>Сайт</h1></header><nav><ul><li>Главная</li></ul></nav>
<div class="navbar">Меню</div>
<main><h1>Ёжик</h1><p>Первый <b>аб</b>зац<br>со строкой.</p>
<ul><li>раз<ul><li>внутри</li></ul></li><li><p>два</p><p>ещё</p></li></ul>
<ol start="3"><li>три</li></ol>
<h2>Таблица</h2><table><tr><th>Имя</th><th>Сумма</th></tr><tr><td>А<br>Б</td><td>5</td></tr></table>
<table><tr><td><p>Раскладка</p><table><tr><td>x</td><td>y</td></tr></table></td></tr></table>
<pre class="language-python"><code>x = 1
  y = 2</code></pre><!-- нет --><script>var a = 'скрипт';</script>
<p hidden>не видно</p><p style="display: none">и это</p></main>
<aside>Сбоку</aside><form><input value="z">Форма</form><footer>Подвал</footer></body></html>"""


def test_html_body_without_furniture() -> None:
    document = check(read_bytes(PAGE.encode(), name="page.html"))
    assert document.kind is DocumentKind.HTML
    assert kinds(document) == [
        ("heading", "Ёжик"),
        ("paragraph", "Первый абзац\nсо строкой."),
        ("list_item", "- раз"),
        ("list_item", "- внутри"),
        ("list_item", "- два"),
        ("paragraph", "ещё"),
        ("list_item", "3. три"),
        ("heading", "Таблица"),
        ("table", "Имя | Сумма\nА Б | 5"),
        ("paragraph", "Раскладка"),
        ("table", "x | y"),
        ("code", "x = 1\n  y = 2"),
    ]
    assert document.title == "Страница о ёжике"
    assert document.metadata == {"language": "ru-RU", "author": "А. Автор"}
    assert document.language == "ru"
    assert document.blocks[-1].language == "python"
    assert document.blocks[-1].locator.headings == ("Ёжик", "Таблица")


def page_in(encoding: str, meta: str = "", body: str = RUSSIAN) -> bytes:
    head = f'<meta charset="{meta}">' if meta else ""
    return f"<html><head>{head}<title>Страница</title></head><body><p>{body}</p></body></html>".encode(encoding)


@pytest.mark.parametrize(
    ("encoding", "meta", "header"),
    [
        ("cp1251", "windows-1251", ""),
        ("cp1251", "", "text/html; charset=windows-1251"),
        ("cp1251", "", ""),
        ("cp1251", "utf-8", "text/html; charset=utf-8"),
        ("cp1251", "koi8-r", ""),
        ("koi8-r", "", ""),
        ("koi8-r", "koi8-r", "text/html; charset=windows-1251"),
        ("koi8-r", "", "text/html; charset=nonsense"),
        ("utf-8", "windows-1251", "text/html; charset=koi8-r"),
        ("utf-16", "", "text/html; charset=utf-8"),
    ],
)
def test_html_charsets_that_are_missing_or_wrong(encoding: str, meta: str, header: str) -> None:
    document = read_bytes(page_in(encoding, meta), DocumentKind.HTML, content_type=header)
    assert document.text == RUSSIAN
    assert document.title == "Страница"


@pytest.mark.parametrize("kind", [DocumentKind.HTML, DocumentKind.WEB])
def test_absurd_spans_and_depth_do_not_blow_up(kind: DocumentKind) -> None:
    rows = "<tr><td colspan=1000000000 rowspan='99999999'>Ячейка большая</td><td>Вторая</td></tr>" * 3
    table = check(read_text(f"<html><body><p>{RUSSIAN * 5}</p><table>{rows}</table></body></html>", kind))
    assert len(table.text) < 5_000
    assert "Ячейка большая" in table.text


@pytest.mark.parametrize("kind", [DocumentKind.HTML, DocumentKind.WEB])
def test_what_is_nested_deep_is_read_or_said_to_be_left_out(kind: DocumentKind) -> None:
    unclosed = "<html><body>" + "".join(f"<p><font><b>{RUSSIAN} Абзац {n}." for n in range(400))
    assert "Абзац 399." in check(read_text(unclosed, kind)).text
    divs = f"<html><body><p>{RUSSIAN * 5}</p>" + "<div>" * 1500 + f"<p>глубоко {RUSSIAN}</p>"
    assert "глубоко" in check(read_text(divs, DocumentKind.HTML)).text
    deeper = check(read_text(f"<html><body><p>{RUSSIAN * 5}</p>" + "<div>" * 20_000 + "глубоко", kind))
    assert RUSSIAN in deeper.text
    assert any("levels deep" in warning for warning in deeper.warnings)


def test_entities_are_not_fetched() -> None:
    page = '<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/hostname">]><html><body><p>Текст &x; тут</p></body></html>'
    assert read_text(page, DocumentKind.HTML).text == "Текст &x; тут"


ARTICLE = f"""<html lang="ru"><head><title>Как закрыть разрыв — Журнал</title>
<meta property="og:site_name" content="Журнал"><meta name="author" content="Анна Иванова">
<meta property="article:published_time" content="2024-03-05T10:00:00Z">
<link rel="canonical" href="https://example.org/gap"></head><body>
<nav><a href="/">Главная</a> <a href="/news">Новости дня и ночи</a></nav>
<article><h1>Как закрыть разрыв</h1>
{"".join(f"<p>{RUSSIAN} Абзац номер {n} рассказывает о деньгах подробно и спокойно.</p>" for n in range(8))}
<h2>Что делать</h2><ul><li>Считать поступления каждый день</li><li>Держать запас на счёте</li></ul>
<table><tr><th>Месяц</th><th>Сумма</th></tr><tr><td>Март</td><td>100 рублей</td></tr></table>
<pre><code>gap = paid - received</code></pre></article>
<footer>Все права защищены. Подписывайтесь на рассылку.</footer></body></html>"""


def test_web_keeps_main_content_with_structure_and_metadata() -> None:
    document = check(
        read_bytes(ARTICLE.encode("cp1251"), None, "https://example.org/gap?x=1", "text/html; charset=windows-1251")
    )
    assert document.kind is DocumentKind.WEB
    found = {(block.kind, block.text) for block in document.blocks}
    assert (BlockKind.LIST_ITEM, "- Держать запас на счёте") in found
    assert (BlockKind.TABLE, "Месяц | Сумма\nМарт | 100 рублей") in found
    assert any(kind is BlockKind.HEADING and text == "Что делать" for kind, text in found)
    assert any("gap = paid - received" in text for _, text in found)
    assert "Подписывайтесь" not in document.text
    assert "Новости дня" not in document.text
    assert document.title.startswith("Как закрыть разрыв")
    assert document.metadata["author"] == "Анна Иванова"
    assert document.metadata["date"] == "2024-03-05"
    assert document.metadata["canonical_url"] == "https://example.org/gap"
    assert document.language == "ru"


def test_a_page_of_scripts_has_no_usable_text() -> None:
    body = "<div id=root></div><noscript>Enable JavaScript to run this app.</noscript><script>x()</script>"
    page = f"<html><head><title>App</title></head><body>{body}</body></html>"
    with pytest.raises(NoUsableText):
        read_text(page, DocumentKind.WEB)


def test_what_an_address_serves_decides() -> None:
    assert (
        read_bytes(b"Plain words here.", DocumentKind.WEB, "https://example.org/a", "text/plain").kind
        is DocumentKind.TEXT
    )
    assert read_bytes(b"# Title\n\nWords.", None, "https://example.org/a.md", "").kind is DocumentKind.MARKDOWN
