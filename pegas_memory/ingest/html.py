"""HTML into blocks: the whole body less navigation, scripts and forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lxml import etree
from lxml import html as lxml_html

from pegas_memory.errors import NoUsableText, UnreadableFile
from pegas_memory.ingest.blocks import BlockWriter, has_words, tidy_line
from pegas_memory.ingest.decoding import decode
from pegas_memory.model import BlockKind, DocumentKind, Extracted

_NEVER = frozenset(
    "script style noscript template iframe object embed svg canvas head input select textarea button option "
    "datalist audio video map link meta title".split()
)
_FURNITURE = frozenset("nav aside footer".split())
_FURNITURE_ROLES = frozenset("navigation banner contentinfo search complementary menu menubar toolbar".split())
_FURNITURE_CLASS = re.compile(
    r"(?:^|\s)(?:nav(?:bar|igation|header|footer|links)?|menu|breadcrumbs?|site-?(?:header|footer|nav)|skip-?links?"
    r"|cookie-?(?:banner|notice|consent)|sr-only|visually-hidden)(?:\s|$)",
    re.IGNORECASE,
)
_BLOCK = frozenset(
    "p div section article main li dt dd h1 h2 h3 h4 h5 h6 pre table blockquote tr td th caption thead tbody tfoot "
    "figure figcaption address hr ul ol dl details summary fieldset legend header footer aside nav body center form "
    "menu hgroup dialog".split()
)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_HEADING = re.compile(r"h([1-6])$")
_LANGUAGE_CLASS = re.compile(r"(?:^|\s)(?:language|lang|highlight-source|brush:)[-\s]?([\w+#.-]{1,30})")
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{2,40})", re.IGNORECASE)
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_INLINE_TAG = re.compile(
    r"(?i)</?(?:a|abbr|acronym|b|big|center|code|del|em|font|i|ins|s|small|span|strike|strong|tt|u)\b[^<>]*>"
)
_WIDE_SPAN = re.compile(r"(?i)\b(colspan|rowspan)(\s*=\s*[\"']?\s*)(\d{4,})")
_TERM = "\x1f"
"""Marks the first line of a ``<dt>``, which shows no bullet."""
_MAX_CELL = 600
"""Characters of a cell beyond which a table is taken for page layout, not data."""
_LAYOUT_TAGS = ("table", "h1", "h2", "h3", "h4", "ul", "ol", "dl", "pre", "form", "blockquote")


def decode_html(data: bytes, content_type: str = "") -> str:
    """Text of an HTML file: byte order mark, then charset of the HTTP header, of ``<meta>``, of the
    XML declaration, each only where it fits the bytes, then detection. Raises ``UnreadableFile``."""
    declared = _HEADER_CHARSET.findall(content_type)
    for pattern, part in ((_META_CHARSET, data[:8192]), (_XML_ENCODING, data[:300])):
        declared += [m.decode("ascii") for m in pattern.findall(part)[:1]]
    return decode(data, tuple(declared))[0]


def without_traps(text: str) -> str:
    """The page without NUL and XML declaration (libxml2 stumbles over both) and with absurd spans
    (``colspan=1000000000``) cut, since readers of tables multiply by them."""
    return _WIDE_SPAN.sub(r"\1\g<2>1", _XML_DECLARATION.sub("", text.replace("\x00", ""), count=1))


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed page: its root element, the source that other parsers may read (None when they would
    lose what is nested deep), and warnings."""

    root: Any
    source: str | None
    warnings: tuple[str, ...] = ()


def parse(text: str) -> Page:
    """The page as a tree; entities are not fetched.

    libxml2 cuts a page off at 256 levels, which unclosed ``<b>`` and ``<font>`` reach: such a page is
    parsed again without inline tags and with the higher limit (2,048); what that loses is said.
    Raises ``NoUsableText`` for an empty page, ``UnreadableFile`` for one that no parser takes."""
    text = without_traps(text)
    if not text.strip():
        raise NoUsableText("The HTML is empty.")
    root, deep = _tree(text, huge=False)
    if not deep:
        return Page(root, text)
    root, deep = _tree(_INLINE_TAG.sub("", text), huge=True)
    return Page(root, None, ("Nested over 2,000 levels deep: the rest of the page is left out.",) if deep else ())


def _tree(text: str, *, huge: bool) -> tuple[Any, bool]:
    """The root element and whether the parser stopped at its depth limit."""
    parser = lxml_html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=huge, remove_pis=True)
    try:
        root = lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError as error:
        raise NoUsableText("The HTML holds no element.") from error
    except (etree.XMLSyntaxError, ValueError, AssertionError, RecursionError) as error:
        raise UnreadableFile("The HTML cannot be parsed.") from error
    return root, any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log)


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


def write_body(writer: BlockWriter, root: Any, *, everything: bool = False) -> None:
    """Write the blocks of ``root``'s body; ``everything`` keeps navigation and asides (in books they
    are contents lists and notes)."""
    body = root if root.tag == "body" else next(iter(root.iter("body")), root)
    _BodyWalk(writer, body, everything).run()


class _BodyWalk:
    """One pass over the tree, without recursion: depth is the page's to choose."""

    def __init__(self, writer: BlockWriter, body: Any, everything: bool) -> None:
        self.writer = writer
        self.body = body
        self.everything = everything
        self._buffer: list[str] = []
        self._kind: list[tuple[Any, BlockKind, int]] = []
        self._lists: list[int | None] = []
        self._marker = ""
        self._forms_hold = _forms_share(body)

    def run(self) -> None:
        walk = etree.iterwalk(self.body, events=("start", "end", "comment"))
        for event, element in walk:
            if event == "comment" or not isinstance(element.tag, str):
                self._tail(element)
            elif event == "end":
                self._end(element)
                self._tail(element)
            elif self._leave_out(element) or self._whole(element):
                walk.skip_subtree()
            else:
                self._start(element)
        self._flush()

    def _tail(self, element: Any) -> None:
        if element is not self.body and element.tail:
            self._buffer.append(element.tail)

    def _leave_out(self, element: Any) -> bool:
        tag = _name(element)
        if tag in _NEVER:
            return True
        if element.get("hidden") is not None or _HIDDEN_STYLE.search(element.get("style") or ""):
            return True
        if self.everything or element is self.body:
            return False
        if tag == "form":
            return not self._forms_hold
        if tag in _FURNITURE or (element.get("role") or "").lower() in _FURNITURE_ROLES:
            return True
        if tag == "header":
            return not any(_name(a) in ("article", "section", "main") for a in element.iterancestors())
        return _FURNITURE_CLASS.search(element.get("class") or "") is not None

    def _whole(self, element: Any) -> bool:
        """Elements that are one block with all that is in them."""
        tag = _name(element)
        if tag == "pre":
            self._flush()
            self.writer.add(BlockKind.CODE, _pre_text(element), language=code_language(element))
            return True
        if tag == "table" and not _is_layout(element):
            self._flush()
            self.writer.add(BlockKind.TABLE, table_text(element))
            return True
        return False

    def _start(self, element: Any) -> None:
        tag = _name(element)
        if tag == "br":
            self._buffer.append("\n")
        elif tag in _BLOCK:
            self._flush()
            self._open_block(element, tag)
        if element.text:
            self._buffer.append(_one_line(element.text))

    def _open_block(self, element: Any, tag: str) -> None:
        heading = _HEADING.match(tag)
        if heading:
            self._kind.append((element, BlockKind.HEADING, int(heading.group(1))))
        elif tag in ("ul", "ol", "menu"):
            start = element.get("start") or "1"
            self._lists.append((int(start) if start.isdecimal() and len(start) < 6 else 1) if tag == "ol" else None)
        elif tag == "dt":
            self._kind.append((element, BlockKind.LIST_ITEM, 0))
            self._marker = _TERM
        elif tag == "li":
            self._kind.append((element, BlockKind.LIST_ITEM, 0))
            number = self._lists[-1] if self._lists else None
            self._marker = "- " if number is None else f"{number}. "
            if number is not None:
                self._lists[-1] = number + 1

    def _end(self, element: Any) -> None:
        tag = _name(element)
        if tag not in _BLOCK:
            return
        self._flush()
        if self._kind and self._kind[-1][0] is element:
            self._kind.pop()
        if tag in ("ul", "ol", "menu") and self._lists:
            self._lists.pop()
        if tag in ("li", "dt"):
            self._marker = ""

    def _flush(self) -> None:
        text = _inline_text(self._buffer)
        self._buffer.clear()
        if not has_words(text):
            return
        kind, level = (self._kind[-1][1], self._kind[-1][2]) if self._kind else (BlockKind.PARAGRAPH, 0)
        if kind is BlockKind.HEADING:
            text = tidy_line(text)
        elif kind is BlockKind.LIST_ITEM:
            # A second paragraph inside an item has no marker of its own.
            kind = BlockKind.LIST_ITEM if self._marker else BlockKind.PARAGRAPH
            text, self._marker = self._marker.removesuffix(_TERM) + text, ""
        self.writer.add(kind, text, level=level, gap="\n" if kind is BlockKind.LIST_ITEM else "\n\n")


def _name(element: Any) -> str:
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _inline_text(parts: list[str]) -> str:
    """Inline runs as a browser would set them; only ``<br>`` (a lone newline part) breaks the line."""
    joined = "".join(part if part == "\n" else _one_line(part) for part in parts)
    return "\n".join(line for line in (tidy_line(line) for line in joined.split("\n")) if line)


def _forms_share(body: Any) -> bool:
    """True when forms hold most of the page's text (old ASP.NET pages are one form)."""
    inside = sum(len("".join(form.itertext()).strip()) for form in body.iter("form"))
    return inside * 2 > len("".join(body.itertext()).strip())


def _is_layout(table: Any) -> bool:
    rows = 0
    widest = 0
    for element in table.iter():
        tag = _name(element)
        if element is not table and tag in _LAYOUT_TAGS:
            return True
        if tag == "tr":
            rows += 1
            widest = max(widest, sum(_name(cell) in ("td", "th") for cell in element))
        elif tag == "td" and len("".join(element.itertext())) > _MAX_CELL:
            return True
    return rows == 0 or widest < 2


def table_text(table: Any) -> str:
    """One line a row, cells parted by `` | ``; the caption stands first."""
    lines = [tidy_line("".join(e.itertext())) for e in table.iter("caption")]
    for row in table.iter("tr"):
        cells = [tidy_line(_spaced_text(cell)) for cell in row if _name(cell) in ("td", "th")]
        if any(cells):
            lines.append(" | ".join(cells))
    return "\n".join(line for line in lines if line)


def _spaced_text(element: Any) -> str:
    """Text of a cell; elements that a browser would part are parted."""
    parts: list[str] = []
    for event, node in etree.iterwalk(element, events=("start", "end")):
        spaced = _name(node) in _BLOCK or _name(node) == "br"
        parts.append(" " if spaced else "")
        if event == "start" and _name(node) not in _NEVER:
            parts.append(node.text or "")
        elif event == "end" and node is not element:
            parts.append(node.tail or "")
    return "".join(parts)


def _pre_text(element: Any) -> str:
    parts: list[str] = []
    for event, node in etree.iterwalk(element, events=("start", "end", "comment")):
        if event == "start" and _name(node) == "br":
            parts.append("\n")
        elif event == "start":
            parts.append(node.text or "")
        elif node is not element:
            parts.append(node.tail or "")
    return "".join(parts)


def code_language(element: Any) -> str:
    """Language of a code element by the class names that highlighters agree on."""
    for node in [element, *element.iter("code")]:
        match = _LANGUAGE_CLASS.search(node.get("class") or "")
        if match:
            return match.group(1).lower()
    return ""


def merged(about: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """``about`` with the keys of ``more`` that it lacks."""
    return {**more, **{k: v for k, v in about.items() if v}}
