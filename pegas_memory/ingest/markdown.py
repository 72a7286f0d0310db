"""Markdown into blocks: its source, cut by CommonMark's rules with tables."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pegas_memory.errors import NoUsableText, UnreadableFile
from pegas_memory.ingest.blocks import BlockWriter, tidy, tidy_line
from pegas_memory.ingest.decoding import damage
from pegas_memory.ingest.html import parse, write_body
from pegas_memory.model import BlockKind, DocumentKind, Extracted

_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?)(?<=\n)(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_MAX_NESTING = 100
"""Levels of lists and quotations; what is nested deeper is lost (CommonMark's preset stops at 20)."""
_MAX_BRACKETS = 20_000
"""Beyond these, links in headings stay as they are written: the parser's time grows with the square of open brackets
(20,000 take 0.4 s, 125,000 took 12.6)."""
_DEEP = f"Nested over {_MAX_NESTING} levels deep: what stands deeper is left out."
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_QUOTE_MARK = re.compile(r"^[ \t]{0,3}>[ \t]?", re.MULTILINE)


def read_markdown(text: str, title: str = "") -> Extracted:
    """Blocks by CommonMark's rules with tables. A block's text is its source, without the ``>`` of a
    quotation; front matter becomes metadata; HTML inside is read as a page is, its comments are left out;
    the addresses and notes that links refer to stay where they are defined."""
    body, front = _front_matter(tidy(text))
    found: dict[str, Any] = {}
    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable("table")
    if body.count("[") > _MAX_BRACKETS:
        parser.disable(["link", "image"])
    tokens = parser.parse(body, found)
    writer = BlockWriter()
    definitions = sorted(tuple(known["map"]) for known in found.get("references", {}).values() if "map" in known)
    reader = _MarkdownReader(body.split("\n"), writer, definitions)
    reader.read(tokens)
    own_title = str(front.pop("title", ""))
    return writer.finish(
        DocumentKind.MARKDOWN,
        title=title or own_title or reader.first_title,
        metadata=front,
        warnings=(*damage(text), *((_DEEP,) if max((t.level for t in tokens), default=0) >= _MAX_NESTING - 2 else ())),
    )


class _MarkdownReader:
    def __init__(self, lines: list[str], writer: BlockWriter, definitions: list[tuple[int, int]]) -> None:
        self.lines = lines
        self.writer = writer
        self.definitions = definitions
        """First and last line of each definition of a link, in their order."""
        self.first_title = ""
        self._quotes = 0
        self._items: list[bool] = []

    def read(self, tokens: list[Token]) -> None:
        for index, token in enumerate(tokens):
            if token.map:
                self._define(token.map[0])
            match token.type:
                case "blockquote_open" | "blockquote_close":
                    self._quotes += token.nesting
                case "list_item_open":
                    self._items.append(True)
                case "list_item_close":
                    self._items.pop()
                case "heading_open":
                    self._heading(token, tokens[index + 1])
                case "paragraph_open":
                    self._paragraph(token, tokens[index + 1])
                case "table_open":
                    rows = self._source(token).split("\n")
                    self._add(BlockKind.TABLE, token, text="\n".join(row.strip() for row in rows))
                case "fence":
                    self._code(token, token.info.strip().split(" ")[0])
                case "code_block":
                    self._code(token, "")
                case "html_block":
                    self._html(token)
                case _:
                    continue
        self._define(len(self.lines))

    def _define(self, line: int) -> None:
        """Write the definitions that stand before ``line``."""
        gap = "\n\n"
        while self.definitions and self.definitions[0][0] < line:
            first, last = self.definitions.pop(0)
            text = "\n".join(self.lines[first:last])
            self.writer.add(BlockKind.PARAGRAPH, text.strip(" \t>"), gap=gap)
            gap = "\n"

    def _source(self, token: Token) -> str:
        first, last = token.map or (0, 0)
        text = "\n".join(self.lines[first:last]).rstrip()
        for _ in range(self._quotes):
            text = _QUOTE_MARK.sub("", text)
        return text

    def _add(self, kind: BlockKind, token: Token, **more: Any) -> None:
        self.writer.add(kind, more.pop("text", None) or self._source(token), **more)

    def _heading(self, token: Token, inline: Token) -> None:
        name = tidy_line(_plain(inline))
        level = int(token.tag[1])
        self._add(BlockKind.HEADING, token, level=level, name=name, text=_without_comments(self._source(token), inline))
        if not self.first_title and level == 1:
            self.first_title = name

    def _paragraph(self, token: Token, inline: Token) -> None:
        opening = bool(self._items) and self._items[-1]
        kind = BlockKind.LIST_ITEM if opening else BlockKind.PARAGRAPH
        if opening:
            self._items[-1] = False
        gap = "\n" if opening and token.hidden else "\n\n"
        self._add(kind, token, text=_without_comments(self._source(token), inline), gap=gap)

    def _code(self, token: Token, language: str) -> None:
        if self._items:
            self._items[-1] = False
        source = token.content if self._quotes or self._items else self._source(token)
        if token.type == "fence" and source is not token.content:
            _, *inner = source.split("\n")
            closed = bool(inner) and inner[-1].strip().startswith(token.markup[:3])
            source = "\n".join(inner[:-1] if closed else inner)
        self._add(BlockKind.CODE, token, text=source, language=tidy_line(language)[:40])

    def _html(self, token: Token) -> None:
        try:
            write_body(self.writer, parse(_COMMENT.sub("", self._source(token))).root, everything=True)
        except (NoUsableText, UnreadableFile):
            # A closing tag or a comment alone.
            return


def _without_comments(source: str, inline: Token) -> str:
    for child in inline.children or ():
        if child.type == "html_inline" and child.content.startswith("<!--"):
            source = source.replace(child.content, "", 1)
    return source


def _plain(inline: Token) -> str:
    parts = [
        c.content if c.type in ("text", "code_inline") else " " * (c.type == "softbreak") for c in inline.children or ()
    ]
    return "".join(parts)


def _front_matter(text: str) -> tuple[str, dict[str, Any]]:
    """The text without its front matter, and the simple pairs and lists of it: YAML, or TOML."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return text, {}
    if match[1] == "+++":
        try:
            pairs = tomllib.loads(match[2])
        except (tomllib.TOMLDecodeError, RecursionError):
            return text, {}
        return text[match.end() :], {
            key: value if isinstance(value, list) else str(value)
            for key, value in pairs.items()
            if value not in ("", []) and not isinstance(value, dict)
        }
    values: dict[str, Any] = {}
    key = ""
    for line in match[2].splitlines():
        pair = re.match(r"([\w-]+):[ \t]*(.*)$", line)
        item = re.match(r"[ \t]*-[ \t]+(.+)$", line)
        if pair:
            key, value = pair.group(1), pair.group(2).strip()
            values[key] = "" if value[:1] in ("|", ">") and len(value) < 4 else _scalar(value) if value else []
        elif item and isinstance(values.get(key), list):
            values[key].append(_unquoted(item.group(1)))
        elif line[:1] in (" ", "\t") and isinstance(values.get(key), str):
            # A text that goes on over several lines.
            values[key] = f"{values[key]} {line.strip()}".strip()
    return text[match.end() :], {k: v for k, v in values.items() if v not in ("", [])}


def _scalar(value: str) -> str | list[str]:
    if value.startswith("[") and value.endswith("]"):
        return [_unquoted(part) for part in value[1:-1].split(",") if part.strip()]
    return _unquoted(value)


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
