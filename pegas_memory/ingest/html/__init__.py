"""HTML into blocks: the whole body less navigation, scripts and forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pegas_memory.ingest.blocks import BlockWriter, has_words, tidy_line
from pegas_memory.ingest.html.source import Page, decode_html, parse, parse_xhtml, without_traps
from pegas_memory.ingest.html.tables import code_language
from pegas_memory.ingest.html.walk import write_body
from pegas_memory.model import DocumentKind, Extracted

__all__ = [
    "Page",
    "code_language",
    "declared_language",
    "decode_html",
    "merged",
    "page_metadata",
    "parse",
    "parse_xhtml",
    "read_html",
    "without_traps",
    "write_body",
]


def read_html(text: str, title: str = "") -> Extracted:
    """The body of a page in reading order, without its navigation, headers, footers, asides and forms."""
    page = parse(text)
    root = page.root
    writer = BlockWriter()
    write_body(writer, root)
    about = page_metadata(root)
    return writer.finish(
        DocumentKind.HTML,
        title=title or str(about.pop("title", "")),
        declared_language=declared_language(root),
        metadata=about,
        warnings=page.warnings,
    )


def declared_language(root: Any) -> str:
    return str(root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang") or root.get("xml:lang") or "")


def page_metadata(root: Any) -> dict[str, str]:
    """title, author, description, canonical address: what the page's head says of itself."""
    found: dict[str, str] = {}
    for element in root.iter("meta"):
        name = (element.get("name") or element.get("property") or "").lower()
        key = {"author": "author", "description": "description", "og:site_name": "sitename"}.get(name)
        if key and element.get("content"):
            found.setdefault(key, element.get("content"))
    for element in root.iter("link"):
        if (element.get("rel") or "").lower() == "canonical" and element.get("href"):
            found.setdefault("canonical_url", element.get("href"))
    heading = next((e for e in [*root.iter("title"), *root.iter("h1")] if has_words(e.text_content())), None)
    if heading is not None:
        found["title"] = tidy_line(heading.text_content())
    return found


def merged(about: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """``about`` with the keys of ``more`` that it lacks."""
    return {**more, **{k: v for k, v in about.items() if v}}
