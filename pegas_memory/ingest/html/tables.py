"""Tables as rows and columns of text; code with its language."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from lxml import etree

from pegas_memory.ingest.html.inline import name_of

_LANGUAGE_CLASS = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|brush:)[-\s]?([\w+#.-]{1,30})")
_GUTTER_CLASS = re.compile(r"(?:^|\s)(?:linenos?|lineno(?:div)?|gutter|line-?numbers?|blob-num)(?:\s|$)", re.IGNORECASE)
_MAX_CELL = 600
"""Characters of a cell beyond which a table without headers is taken for page layout, not data."""
_LAYOUT_TAGS = frozenset("h1 h2 h3 h4 ul ol dl pre form blockquote".split())
_MAX_SPAN = 20
"""Columns and rows that a cell may take: enough for real tables, too few to blow up a hostile one."""
_MAX_COLUMNS = 100
"""Columns in which cells are followed down several rows."""


def is_layout(table: Any) -> bool:
    """True for a table that arranges a page: it holds tables, or, without header cells, headings,
    lists and long texts; and one with a single column."""
    if (table.get("role") or "").lower() in ("presentation", "none"):
        return True
    rows = widest = 0
    headers = next(table.iter("th"), None) is not None
    for element in table.iter():
        tag = name_of(element)
        if element is not table and (tag == "table" or (tag in _LAYOUT_TAGS and not headers)):
            return True
        if tag == "tr":
            rows += 1
            widest = max(widest, sum(name_of(cell) in ("td", "th") for cell in element))
        elif tag == "td" and not headers and len("".join(element.itertext())) > _MAX_CELL:
            return True
    return rows == 0 or widest < 2


def table_text(table: Any, text_of: Callable[[Any], str]) -> str:
    """One line a row, cells parted by `` | ``; the caption stands first. A cell that spans columns or
    rows stands where it begins and leaves the rest of its places empty, so that columns stay columns."""
    lines = [text_of(caption) for caption in table.iter("caption")]
    taken: dict[int, int] = {}
    for row in table.iter("tr"):
        line: list[str] = []
        for cell in row:
            if name_of(cell) not in ("td", "th"):
                continue
            while taken.get(len(line), 0) > 0:
                taken[len(line)] -= 1
                line.append("")
            below = _span(cell, "rowspan") - 1
            wide = _span(cell, "colspan")
            if below and len(line) < _MAX_COLUMNS:
                taken.update(dict.fromkeys(range(len(line), len(line) + wide), below))
            line += [text_of(cell).replace("|", "\\|"), *[""] * (wide - 1)]
        taken = {column: left - (column >= len(line)) for column, left in taken.items() if left > 0}
        while line and not line[-1]:
            line.pop()
        lines.append(" | ".join(line))
    return "\n".join(line for line in lines if line)


def _span(cell: Any, name: str) -> int:
    value = (cell.get(name) or "1").strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() and len(value) < 4 else 1


def pre_text(element: Any) -> str:
    """Preformatted text as it stands, without the line numbers that some highlighters put beside it."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end", "comment"))
    for event, node in walk:
        if event == "start" and node is not element and is_gutter(node):
            walk.skip_subtree()
        elif event == "start" and name_of(node) == "br":
            parts.append("\n")
        elif event == "start":
            parts.append(node.text or "")
        elif node is not element:
            parts.append(node.tail or "")
    return "".join(parts)


def is_gutter(element: Any) -> bool:
    """True for a column or a mark that holds the line numbers of code and nothing else."""
    if not _GUTTER_CLASS.search(element.get("class") or ""):
        return False
    return not "".join(element.itertext()).strip("0123456789 \t\r\n\u00a0")


def code_language(element: Any) -> str:
    """Language of a code element by the class names that highlighters agree on."""
    for node in [element, *element.iter("code")]:
        match = _LANGUAGE_CLASS.search(node.get("class") or "")
        if match:
            return match.group(1).lower()
    return ""
