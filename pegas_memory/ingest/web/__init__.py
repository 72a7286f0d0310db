"""The main content of a web page, by trafilatura, with what the page says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lxml import etree

from pegas_memory.errors import NoUsableText
from pegas_memory.ingest.blocks import BlockWriter
from pegas_memory.ingest.html import declared_language, parse, write_body
from pegas_memory.ingest.web.about import about_page, json_ld
from pegas_memory.ingest.web.content import main_content
from pegas_memory.ingest.web.walls import PAYWALL_NOTE, behind_paywall, refuse_wall
from pegas_memory.ingest.web.writing import TreeWriter
from pegas_memory.model import DocumentKind, Extracted
from pegas_memory.progress import tell

__all__ = ["read_web"]

MIN_BODY = 200
"""Characters of page body that are taken as content when trafilatura finds none."""
MAX_ELEMENTS = 30_000
MAX_LEVELS = 250
"""Elements and levels beyond which a page is not given to trafilatura and htmldate, whose time grows with the
square of both; its body is read."""
_WHOLE_BODY = "No main content was recognised; the whole page body was read."


def read_web(text: str, url: str = "", title: str = "") -> Extracted:
    """Main content as blocks: headings, paragraphs, lists, tables, code; comments are left out.

    Where trafilatura finds nothing, the body is read when it holds enough text, with a warning. What a
    paywall lets through is kept, with a warning and ``metadata["access"] == "paywall"``.
    Raises ``NoUsableText`` when a page holds no content (script-only, consent, login, bot check, not
    found), saying which.
    """
    page = parse(text)
    described = json_ld(page.root)
    huge = _is_huge(page.root)
    tell("steps", 1, 4)
    about = about_page(page.root, described, url, plain=huge)
    tell("steps", 2, 4)
    body = None if huge else main_content(page, url)
    tell("steps", 3, 4)
    document = None
    if body is not None:
        writer = BlockWriter()
        TreeWriter(writer, page.root, (title, str(about.get("title") or ""))).write(body)
        document = _finished(writer, about, title, declared_language(page.root), page.warnings)
    if document is None:
        writer = BlockWriter()
        write_body(writer, page.root)
        document = _finished(writer, about, title, declared_language(page.root), (*page.warnings, _WHOLE_BODY))
    refuse_wall(document, page.root)
    if document is None or (_WHOLE_BODY in document.warnings and len(document.text) < MIN_BODY):
        raise NoUsableText("The page shows almost no text without scripts or consent.")
    if behind_paywall(document, page.root, described):
        return replace(
            document,
            metadata={**document.metadata, "access": "paywall"},
            warnings=(*document.warnings, PAYWALL_NOTE),
        )
    return document


def _is_huge(root: Any) -> bool:
    elements = depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        elements += event == "start"
        if elements > MAX_ELEMENTS or depth > MAX_LEVELS:
            return True
    return False


def _finished(
    writer: BlockWriter, about: dict[str, Any], title: str, language: str, warnings: tuple[str, ...]
) -> Extracted | None:
    """The document; None when no block holds a letter."""
    rest = {k: v for k, v in about.items() if k != "title"}
    try:
        return writer.finish(
            DocumentKind.WEB,
            title=title or str(about.get("title") or ""),
            declared_language=language,
            metadata=rest,
            warnings=warnings,
        )
    except NoUsableText:
        return None
