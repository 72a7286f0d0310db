"""trafilatura's tree as blocks, with the code, tables and lists of the page itself put back in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lxml import etree

from pegas_memory.ingest.blocks import BlockWriter, tidy_line
from pegas_memory.ingest.html.tables import code_language, pre_text
from pegas_memory.model import BlockKind

_HEAD_LEVEL = re.compile(r"h?([1-6])$")
_APART = frozenset("lb p item list row cell head quote".split())
_PARTS = frozenset("p list table head quote code".split())
_SPACE = re.compile(r"\s+")
_DIGITS = re.compile(r"[\d\s]*")
_SHY = "\u00ad"
_MAX_DEPTH = 60
"""Levels below which an element is read as one run of text."""
_MAX_CELL = 600
"""Characters of a cell beyond which a table is taken for page layout, not data."""


class TreeWriter:
    """Writes the tree once. ``titles`` are what the document is called: a first heading that says the same
    stands in the heading path, not in the text."""

    def __init__(self, writer: BlockWriter, root: Any, titles: Iterable[str]) -> None:
        self._writer = writer
        self._titles = {_squeezed(title) for title in titles if title}
        self._begun = False
        self._pre = dict(_listings(root))

    def write(self, body: Any) -> None:
        self._flow(body, 0)

    def _add(self, kind: BlockKind, text: str, *, level: int = 0, language: str = "", gap: str = "\n\n") -> None:
        self._begun = self._begun or bool(text)
        self._writer.add(kind, text, level=level, language=language, gap=gap)

    def _flow(self, element: Any, depth: int, marker: str | None = None) -> None:
        """Runs of inline text as paragraphs (the first one a list item when there is a ``marker``), parted
        by the blocks that stand between them."""
        run = [element.text or ""]
        for child in element:
            if not self._is_block(child, depth):
                run += [_marked_text(child), child.tail or ""]
                continue
            marker = self._run(run, marker)
            if marker is not None and child.tag == "p":
                marker = self._run([_marked_text(child)], marker)
            else:
                self._block(child, depth + 1)
            run = [child.tail or ""]
        self._run(run, marker)

    def _run(self, parts: list[str], marker: str | None) -> str | None:
        """Writes one run; the marker that is still to be shown comes back."""
        text = _lines("".join(parts))
        if not text:
            return marker
        if marker is not None:
            self._add(BlockKind.LIST_ITEM, marker + text, gap="\n" if self._writer.in_list else "\n\n")
        else:
            self._add(BlockKind.PARAGRAPH, text)
        return None

    def _is_block(self, element: Any, depth: int) -> bool:
        if depth >= _MAX_DEPTH or element.tag not in _PARTS | {"div", "item", "row", "cell"}:
            return False
        return element.tag != "code" or self._listing(element) is not None

    def _listing(self, element: Any) -> tuple[str, str] | None:
        """(text, language) of what was a ``<pre>`` in the page, whatever became of it in the tree."""
        text = "".join(element.itertext())
        found = self._pre.get(_squeezed(text))
        if found is None and element.tag == "code" and "\n" in text.strip():
            return text, code_language(element)
        return found

    def _block(self, element: Any, depth: int) -> None:
        listing = self._listing(element) if element.tag in ("code", "quote", "p") else None
        if listing is not None:
            self._add(BlockKind.CODE, listing[0], language=listing[1])
            return
        match element.tag:
            case "head":
                self._heading(element)
            case "list":
                self._list(element, depth)
            case "table" if not self._is_layout(element):
                self._add(BlockKind.TABLE, _table(element))
            case "p" if not any(child.tag in _PARTS for child in element):
                self._add(BlockKind.PARAGRAPH, _lines(_marked_text(element)))
            case _:
                self._flow(element, depth)

    def _heading(self, element: Any) -> None:
        text = tidy_line(_lines(_marked_text(element)))
        level = _HEAD_LEVEL.search(element.get("rend") or "h2")
        depth = int(level.group(1)) if level else 2
        if not self._begun and _squeezed(text) in self._titles:
            self._writer.enter(depth, text)
        else:
            self._add(BlockKind.HEADING, text, level=depth)

    def _list(self, element: Any, depth: int) -> None:
        for item in element:
            if item.tag == "item":
                self._flow(item, depth, _marker(item.get("rend") or ""))
            elif isinstance(item.tag, str):
                self._block(item, depth)

    def _is_layout(self, table: Any) -> bool:
        widest = 0
        for row in table.iter("row"):
            cells = [cell for cell in row if cell.tag == "cell" and "".join(cell.itertext()).strip()]
            widest = max(widest, len(cells))
            if any(len("".join(cell.itertext())) > _MAX_CELL or self._holds_listing(cell) for cell in cells):
                return True
        return widest < 2 or next(table.iterdescendants("table", "head"), None) is not None

    def _holds_listing(self, cell: Any) -> bool:
        return any(self._listing(part) is not None for part in cell.iterdescendants("code", "quote"))


def _listings(root: Any) -> Iterable[tuple[str, tuple[str, str]]]:
    """Each ``<pre>`` of the page: what it is known by, its text and language. Line numbers beside code,
    which some highlighters put into a ``<pre>`` of their own, have an empty text."""
    for element in root.iter("pre"):
        text = pre_text(element)
        shown = "" if _DIGITS.fullmatch(text) and "\n" in text.strip() else text
        for known_by in {_squeezed(text), _squeezed("".join(element.itertext()))} - {""}:
            yield known_by, (shown, _language(element))


def _marker(role: str) -> str | None:
    """Terms show no bullet, and what defines them is a paragraph."""
    return None if role.startswith("dd") else "" if role.startswith("dt") else "- "


def _language(element: Any) -> str:
    """Of the element, else of the box that a highlighter put round it."""
    for box in (element, *list(element.iterancestors("div", "figure"))[:2]):
        found = code_language(box)
        if found:
            return found
    return ""


def _table(element: Any) -> str:
    rows = []
    for row in element.iter("row"):
        cells = [_cell(cell) for cell in row if cell.tag == "cell"]
        while cells and not cells[-1]:
            cells.pop()
        rows.append(" | ".join(cells))
    return "\n".join(row for row in rows if row)


def _cell(element: Any) -> str:
    return _lines(_marked_text(element)).replace("\n", " ").replace("|", "\\|")


def _marked_text(element: Any) -> str:
    """Text of an element; NUL marks where a line ends (``<lb/>``, inner blocks)."""
    parts: list[str] = []
    for event, node in etree.iterwalk(element, events=("start", "end")):
        apart = node.tag in _APART or (node.tag == "code" and "\n" in (node.text or ""))
        if event == "start":
            parts += ["\x00" if apart and node is not element else "", node.text or ""]
        elif node is not element:
            parts += ["\x00" if apart and node.tag != "lb" else "", node.tail or ""]
    return "".join(parts) if element.tag != "lb" else "\x00"


def _lines(marked: str) -> str:
    lines = (tidy_line(line) for line in marked.replace(_SHY, "").split("\x00"))
    return "\n".join(line for line in lines if line)


def _squeezed(text: str) -> str:
    return _SPACE.sub("", text).replace(_SHY, "")
