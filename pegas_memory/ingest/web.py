"""The main content of a web page, by trafilatura, with what the page says of itself."""

from __future__ import annotations

import logging
import re
from typing import Any

import trafilatura
from lxml import etree
from trafilatura.settings import use_config

from pegas_memory.errors import NoUsableText
from pegas_memory.ingest.blocks import BlockWriter, tidy_line
from pegas_memory.ingest.html import Page, code_language, declared_language, merged, page_metadata, parse, write_body
from pegas_memory.model import BlockKind, DocumentKind, Extracted

MIN_BODY = 200
"""Characters of page body that are taken as content when trafilatura finds none."""
MAX_WALL = 500
_ALMOST_NOTHING = "The page shows almost no text without scripts or consent."
_WALL = re.compile(
    r"(?:enable|activate|requires?|turn on|without)\s+java\s?script|java\s?script\s+(?:is\s+)?(?:disabled|required)"
    r"|(?:включите|требуется|поддержк[ауи]|отключен)\s+java\s?script|(?:accept|enable)\s+(?:all\s+)?cookies"
    r"|checking your browser|verify (?:that )?you are (?:a )?human|проверка браузера",
    re.IGNORECASE,
)
_HEAD_LEVEL = re.compile(r"h?([1-6])$")

_APART = frozenset("lb p item list row head quote".split())

# Its log lines quote the page; a stdio server's log is no place for that.
logging.getLogger("trafilatura").setLevel(logging.ERROR)
logging.getLogger("htmldate").setLevel(logging.ERROR)


def read_web(text: str, url: str = "", title: str = "") -> Extracted:
    """Main content as blocks: headings, paragraphs, lists, tables, code; comments are left out.

    Where trafilatura finds nothing, the body is read when it holds enough text, with a warning.
    Raises ``NoUsableText`` when neither does (script-only and consent pages).
    """
    page = parse(text)
    root = page.root
    language = declared_language(root)
    about: dict[str, Any] = dict(page_metadata(root))
    found = _main_content(page, url)
    writer = BlockWriter()
    warnings = page.warnings
    if found is not None:
        about = merged(_metadata(found), about)
        _write(writer, found.body)
    try:
        return _without_wall(_finish(writer, about, title, language, warnings))
    except NoUsableText:
        writer = BlockWriter()
        write_body(writer, root)
        warnings = (*warnings, "No main content was recognised; the whole page body was read.")
        document = _without_wall(_finish(writer, about, title, language, warnings))
        if len(document.text) < MIN_BODY:
            raise NoUsableText(_ALMOST_NOTHING) from None
        return document


def _without_wall(document: Extracted) -> Extracted:
    """Refuse the few words that a page shows to those who run no scripts or did not consent."""
    if len(document.text) < MAX_WALL and _WALL.search(document.text):
        raise NoUsableText(_ALMOST_NOTHING)
    return document


def _finish(
    writer: BlockWriter, about: dict[str, Any], title: str, language: str, warnings: tuple[str, ...]
) -> Extracted:
    rest = {k: v for k, v in about.items() if k != "title"}
    return writer.finish(
        DocumentKind.WEB,
        title=title or str(about.get("title") or ""),
        declared_language=language,
        metadata=rest,
        warnings=warnings,
    )


def _main_content(page: Page, url: str) -> Any | None:
    config = use_config()
    config.set("DEFAULT", "EXTRACTION_TIMEOUT", "0")
    try:
        return trafilatura.bare_extraction(
            page.source or page.root,
            url=url or None,
            include_comments=False,
            include_tables=True,
            with_metadata=True,
            config=config,
        )
    except (RecursionError, MemoryError, ValueError, TypeError, AttributeError, KeyError, etree.LxmlError):
        # A page that breaks the extractor is read by the fallback, which says so.
        return None


def _metadata(found: Any) -> dict[str, Any]:
    return {
        "title": found.title or "",
        "author": found.author or "",
        "date": found.date or "",
        "canonical_url": found.url or "",
        "sitename": found.sitename or "",
        "description": found.description or "",
    }


def _write(writer: BlockWriter, body: Any) -> None:
    """trafilatura's elements as blocks: head, p, list/item, table/row/cell, code, quote."""
    if body is None:
        return
    for element in body:
        _write_element(writer, element)


def _write_element(writer: BlockWriter, element: Any) -> None:
    match element.tag:
        case "head":
            level = _HEAD_LEVEL.search(element.get("rend") or "h2")
            writer.add(BlockKind.HEADING, tidy_line(_text(element)), level=int(level.group(1)) if level else 2)
        case "list":
            for number, item in enumerate(element):
                writer.add(BlockKind.LIST_ITEM, "- " + _text(item), gap="\n" if number else "\n\n")
        case "table":
            writer.add(BlockKind.TABLE, _table(element))
        case "code":
            writer.add(BlockKind.CODE, "".join(element.itertext()), language=code_language(element))
        case "div" | "quote" if any(child.tag in ("p", "list", "table", "head", "code") for child in element):
            _write_mixed(writer, element)
        case tag if isinstance(tag, str):
            writer.add(BlockKind.PARAGRAPH, _text(element))
        case _:
            return
    if element.tail and element.tail.strip():
        writer.add(BlockKind.PARAGRAPH, tidy_line(element.tail))


def _write_mixed(writer: BlockWriter, element: Any) -> None:
    if element.text and element.text.strip():
        writer.add(BlockKind.PARAGRAPH, tidy_line(element.text))
    for child in element:
        _write_element(writer, child)


def _table(element: Any) -> str:
    rows = []
    for row in element.iter("row"):
        cells = [tidy_line(_text(cell).replace("\n", " ")) for cell in row if cell.tag == "cell"]
        if any(cells):
            rows.append(" | ".join(cells))
    return "\n".join(rows) or tidy_line(" ".join(element.itertext()))


def _text(element: Any) -> str:
    """Text of an element: ``<lb/>`` and inner blocks break the line, the rest is one line."""
    parts: list[str] = []
    for event, node in etree.iterwalk(element, events=("start", "end")):
        apart = node is not element and (node.tag in _APART or (node.tag == "code" and "\n" in (node.text or "")))
        if event == "start":
            parts += ["\x00" if apart else "", node.text or ""]
        elif node is not element:
            parts += ["\x00" if apart and node.tag != "lb" else "", node.tail or ""]
    lines = (tidy_line(line) for line in "".join(parts).split("\x00"))
    return "\n".join(line for line in lines if line)
