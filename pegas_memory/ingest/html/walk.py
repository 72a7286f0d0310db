"""One pass over a page: which elements are read, and where blocks begin and end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from lxml import etree

from pegas_memory.ingest.blocks import BlockWriter, has_words, tidy_line
from pegas_memory.ingest.html.inline import Alt, meanings, name_of, special_text, stands_apart
from pegas_memory.ingest.html.tables import code_language, is_gutter, is_layout, pre_text, table_text
from pegas_memory.model import BlockKind

_NEVER = frozenset(
    "script style noscript template iframe object embed svg canvas head input select textarea button option "
    "datalist audio video map link meta title rp pagenum".split()
)
_FALLBACKS = frozenset("object svg canvas audio video map title iframe".split())
"""Read in books: their content is what a reader without pictures and sound is meant to get."""
_FURNITURE = frozenset("nav aside footer".split())
_FURNITURE_ROLES = frozenset("navigation banner contentinfo search complementary menu menubar toolbar".split())
_FURNITURE_CLASS = re.compile(
    r"(?:^|\s)(?:nav(?:bar|igation|header|footer|links)?|menu|breadcrumbs?|site-?(?:header|footer|nav)|skip-?links?"
    r"|cookie-?(?:banner|notice|consent)|sr-only|visually-hidden)(?:\s|$)",
    re.IGNORECASE,
)
_TWICE_CLASS = re.compile(r"(?:^|\s)(?:katex-html|MathJax(?:_Preview|_SVG)?|mjx-chtml)(?:\s|$)")
"""Formulas drawn a second time beside their MathML."""
_CONTENTS_CLASS = re.compile(r"(?:^|[\s_-])(?:toc|table-?of-?contents)(?:[\s_-]|$)", re.IGNORECASE)
_BLOCK = frozenset(
    "p div section article main li dt dd h1 h2 h3 h4 h5 h6 pre table blockquote tr td th caption thead tbody tfoot "
    "figure figcaption address hr ul ol dl details summary fieldset legend header footer aside nav body center form "
    "menu hgroup dialog canvas object audio video iframe "
    "level level1 level2 level3 level4 level5 level6 hd list lic doctitle docauthor note prodnote sidebar line".split()
)
"""The last line is DTBook's."""
_BOXES = frozenset("aside blockquote figure details prodnote sidebar".split())
_BOX_CLASS = re.compile(
    r"(?:^|[\s_-])(?:note|tip|warning|caution|important|danger|hint|admonition(?:block)?|callout|sidebar|infobox)(?:\s|$)"
)
"""Their headings hold to their end: the text after a «Note» does not stand under it."""
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_HEADING = re.compile(r"h([1-6])$")
_PART_OF_TEXT = re.compile(r"\S{1,3}$|\S*[=+^_\\<>{∑√]\S*$")
"""Alternative texts without which a sentence is not whole: initial letters, formulas; the rest describes."""
_MARKED = frozenset("span small a aside".split())
_SET_APART = frozenset("footnote endnote rearnote note pagebreak".split())
"""Notes inside a sentence follow its paragraph; numbers of printed pages are left out."""
_TERM = "\x1f"
"""Marks the first line of a ``<dt>``, which shows no bullet."""


def write_body(
    writer: BlockWriter, root: Any, *, everything: bool = False, chapters: Mapping[str, str] | None = None
) -> None:
    """Write the blocks of ``root``'s body; ``everything`` keeps navigation and asides (in books they
    are contents lists and notes). ``chapters`` names the chapter that begins at an element's id."""
    body = root if root.tag in ("body", "svg") else next(iter(root.iter("body", "book")), root)
    _BodyWalk(writer, body, everything, chapters or {}).run()


class _BodyWalk:
    """Without recursion: depth is the page's to choose."""

    def __init__(self, writer: BlockWriter, body: Any, everything: bool, chapters: Mapping[str, str]) -> None:
        self.writer = writer
        self.body = body
        self.everything = everything
        self.chapters = chapters
        self._never = _NEVER - _FALLBACKS if everything else _NEVER
        self._buffer: list[str] = []
        self._kind: list[tuple[Any, BlockKind, int]] = []
        self._lists: list[int | None] = []
        self._marker = ""
        self._boxes: list[tuple[Any, tuple[tuple[int, str], ...]]] = []
        self._notes: list[str] = []
        self._next_chapter = ""
        self._forms_hold = _forms_share(body)

    def run(self) -> None:
        walk = etree.iterwalk(self.body, events=("start", "end", "comment"))
        for event, element in walk:
            if event == "comment":
                self._tail(element)
            elif event == "end":
                self._end(element)
                self._tail(element)
            else:
                tag = name_of(element)
                self._begin_chapter(element, tag)
                if self._leave_out(element, tag) or self._whole(element, tag):
                    walk.skip_subtree()
                else:
                    self._start(element, tag)
        self._flush()

    @property
    def _in_heading(self) -> bool:
        return bool(self._kind) and self._kind[-1][1] is BlockKind.HEADING

    def _tail(self, element: Any) -> None:
        if element is not self.body and element.tail:
            self._buffer.append(_one_line(element.tail))

    def _begin_chapter(self, element: Any, tag: str) -> None:
        """A chapter begins at a block at once, at a mark inside a paragraph with the next block."""
        if not self.chapters or not element.keys():
            return
        name = self.chapters.get(element.get("id") or (element.get("name") if tag == "a" else "") or "")
        if not name:
            return
        if tag in _BLOCK:
            self._flush()
        if self._in_heading or not has_words("".join(self._buffer)):
            self.writer.chapter = name
        else:
            self._next_chapter = name

    def _leave_out(self, element: Any, tag: str) -> bool:
        if tag in self._never or _hidden(element, tag):
            return True
        if element is self.body:
            return False
        if self.everything:
            return tag in ("case", "default") and _other_case(element)
        if tag == "form":
            return not self._forms_hold
        if tag in _FURNITURE or (element.get("role") or "").lower() in _FURNITURE_ROLES:
            return True
        if tag == "header":
            return not any(name_of(a) in ("article", "section", "main") for a in element.iterancestors())
        return _FURNITURE_CLASS.search(element.get("class") or "") is not None or self._repeats_headings(element)

    def _repeats_headings(self, element: Any) -> bool:
        """True for a list of contents whose every link leads to a place of this same page."""
        if not _CONTENTS_CLASS.search(f"{element.get('class') or ''} {element.get('id') or ''}"):
            return False
        links = [link for link in element.iter("a") if link.get("href")]
        targets = {(link.get("href") or "").partition("#")[2] for link in links}
        inside = sum(len(link.text_content().strip()) for link in links)
        return len(links) > 1 and targets <= self._anchors and inside * 2 > len("".join(element.itertext()).strip())

    @cached_property
    def _anchors(self) -> frozenset[str]:
        named = [link.get("name") for link in self.body.iter("a")]
        return frozenset(filter(None, [*self.body.xpath("//@id"), *named]))

    def _whole(self, element: Any, tag: str) -> bool:
        """Elements that are one piece with all that is in them."""
        if tag == "pre":
            self._flush()
            self.writer.add(BlockKind.CODE, pre_text(element), language=code_language(element))
            self._inner_chapter(element)
        elif tag == "table" and not is_layout(element):
            self._flush()
            self.writer.add(BlockKind.TABLE, table_text(element, self._cell))
            self._inner_chapter(element)
        elif tag in _MARKED and element.keys() and (meant := meanings(element) & _SET_APART):
            if not self._buffer and "pagebreak" not in meant:
                return False
            self._notes += [] if "pagebreak" in meant else [self._cell(element)]
        else:
            said = special_text(element, tag, self._buffer[-1] if self._buffer else "", book=self.everything)
            if said is None:
                return False
            self._buffer.append(said)
        return True

    def _inner_chapter(self, element: Any) -> None:
        for node in element.iterdescendants() if self.chapters else ():
            self.writer.chapter = self.chapters.get(node.get("id") or node.get("name") or "") or self.writer.chapter

    def _start(self, element: Any, tag: str) -> None:
        if tag == "br":
            self._buffer.append("\n")
        elif tag in _BLOCK:
            self._flush()
            self._open_block(element, tag)
        elif stands_apart(element, tag):
            self._buffer.append(" ")
        if element.text:
            self._buffer.append(_one_line(element.text))

    def _open_block(self, element: Any, tag: str) -> None:
        if tag in _BOXES or (tag in ("div", "section") and _BOX_CLASS.search(element.get("class") or "")):
            self._boxes.append((element, self.writer.outline()))
        heading = _HEADING.match(tag)
        if heading:
            self._kind.append((element, BlockKind.HEADING, int(heading.group(1))))
        elif tag in ("ul", "ol", "menu"):
            numbered = tag == "ol" and not any(name_of(a) == "nav" for a in element.iterancestors())
            self._lists.append(_number(element.get("start"), 1) if numbered else None)
        elif tag == "dt":
            self._kind.append((element, BlockKind.LIST_ITEM, 0))
            self._marker = _TERM
        elif tag == "li":
            self._kind.append((element, BlockKind.LIST_ITEM, 0))
            number = self._lists[-1] if self._lists else None
            if number is not None:
                number = _number(element.get("value"), number)
                self._lists[-1] = number + 1
            self._marker = "- " if number is None else f"{number}. "

    def _end(self, element: Any) -> None:
        tag = name_of(element)
        if tag not in _BLOCK:
            return
        self._flush()
        if self._kind and self._kind[-1][0] is element:
            self._kind.pop()
        if self._boxes and self._boxes[-1][0] is element:
            self.writer.return_to(self._boxes.pop()[1])
        if tag in ("ul", "ol", "menu") and self._lists:
            self._lists.pop()
        if tag in ("li", "dt"):
            self._marker = ""

    def _flush(self) -> None:
        if not self._buffer:
            return
        heading = self._in_heading
        written = [part for part in self._buffer if not isinstance(part, Alt)]
        if has_words("".join(written)):
            if self.everything and len(written) < len(self._buffer):
                written = [p for p in self._buffer if not isinstance(p, Alt) or _PART_OF_TEXT.match(p)]
        elif heading:
            # A heading that is nothing but an image is called what the image is called.
            written = self._buffer
        paragraphs = _paragraphs(written)
        self._buffer = []
        if heading:
            self.writer.add(BlockKind.HEADING, " ".join(" ".join(paragraphs).split()), level=self._kind[-1][2])
        else:
            for text in paragraphs:
                self._write(text)
        for note in self._notes:
            self.writer.add(BlockKind.PARAGRAPH, note)
        self._notes.clear()
        self.writer.chapter, self._next_chapter = self._next_chapter or self.writer.chapter, ""

    def _write(self, text: str) -> None:
        if not has_words(text):
            return
        # A second paragraph inside an item has no marker of its own.
        if self._kind and self._marker:
            text, self._marker = self._marker.removesuffix(_TERM) + text, ""
            self.writer.add(BlockKind.LIST_ITEM, text, gap="\n")
        else:
            self.writer.add(BlockKind.PARAGRAPH, text)

    def _cell(self, element: Any) -> str:
        """Text of a cell, a caption, a note on one line; elements that a browser would part are parted."""
        if not len(element):
            return tidy_line(element.text or "")
        parts: list[str] = []
        walk = etree.iterwalk(element, events=("start", "end", "comment"))
        for event, node in walk:
            if event == "comment":
                parts.append(node.tail or "")
                continue
            tag = name_of(node)
            spaced = tag in _BLOCK or tag == "br"
            parts.append(" " if spaced else "")
            if event == "end":
                parts.append((node.tail or "") if node is not element else "")
            elif node is not element and (tag in self._never or _hidden(node, tag) or is_gutter(node)):
                walk.skip_subtree()
            elif (said := special_text(node, tag, parts[-2] if len(parts) > 1 else "", book=self.everything)) is None:
                parts += [" " if stands_apart(node, tag) else "", node.text or ""]
            else:
                walk.skip_subtree()
                parts.append(said)
        said = tidy_line("".join(part for part in parts if self.everything or not isinstance(part, Alt)))
        # An image alone in a cell (a tick, a flag) is what the cell says.
        return said or tidy_line("".join(parts))


def _hidden(element: Any, tag: str) -> bool:
    if not element.keys():
        return tag == "dialog"
    hidden = element.get("hidden")
    return (
        (hidden is not None and hidden.lower() != "until-found")
        or _HIDDEN_STYLE.search(element.get("style") or "") is not None
        or (tag == "dialog" and element.get("open") is None)
        or (tag in ("span", "div") and _TWICE_CLASS.search(element.get("class") or "") is not None)
        or (tag in ("td", "div", "span") and is_gutter(element))
    )


def _other_case(element: Any) -> bool:
    """True for the branches of an ``epub:switch`` that are not taken: formulas are read, else the default."""
    parent = element.getparent()
    if parent is None or name_of(parent) != "switch":
        return False
    formula = next((case for case in parent if "MathML" in (case.get("required-namespace") or "")), None)
    return element is not formula if formula is not None else name_of(element) == "case"


def _number(value: str | None, default: int) -> int:
    return int(value) if value and value.isdecimal() and len(value) < 6 else default


def _one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _paragraphs(parts: list[str]) -> list[str]:
    """Inline runs as a browser would set them: a ``<br>`` (newlines stand for nothing else) breaks the
    line, two of them the paragraph."""
    found: list[list[str]] = [[]]
    for line in "".join(parts).split("\n"):
        line = tidy_line(line)
        if line:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return ["\n".join(lines) for lines in found if lines]


def _forms_share(body: Any) -> bool:
    """True when forms hold most of the page's text (old ASP.NET pages are one form)."""
    outer = (form for form in body.iter("form") if next(form.iterancestors("form"), None) is None)
    inside = sum(len("".join(form.itertext()).strip()) for form in outer)
    return inside * 2 > len("".join(body.itertext()).strip())
