"""Plain text and Markdown into blocks."""

from __future__ import annotations

import re
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pegas_memory.ingest.blocks import BlockWriter, tidy, tidy_line, visible_runs
from pegas_memory.model import BlockKind, DocumentKind, Extracted

_BULLET = re.compile(r"[ \t]*(?:[-*•–▪◦‣]|\d{1,3}[.)]|[a-zа-я][)])[ \t]+\S")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_QUOTE_MARK = re.compile(r"^[ \t]{0,3}>[ \t]?", re.MULTILINE)


def read_plain(text: str, title: str = "") -> Extracted:
    """Paragraphs parted by blank lines; a paragraph of bulleted or numbered lines becomes list items."""
    text = tidy(text)
    writer = BlockWriter()
    for start, end in visible_runs(text):
        for number, (kind, part) in enumerate(_items(text[start:end])):
            writer.add(kind, part, gap="\n" if number else "\n\n")
    return writer.finish(DocumentKind.TEXT, title=title)


def _items(paragraph: str) -> list[tuple[BlockKind, str]]:
    lines = paragraph.splitlines()
    starts = [n for n, line in enumerate(lines) if _BULLET.match(line)]
    if len(starts) < 2:
        return [(BlockKind.PARAGRAPH, paragraph)]
    parts = [(BlockKind.PARAGRAPH, "\n".join(lines[: starts[0]]))] if starts[0] else []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        parts.append((BlockKind.LIST_ITEM, "\n".join(lines[start:stop])))
    return parts


def read_markdown(text: str, title: str = "") -> Extracted:
    """Blocks by CommonMark's rules with tables. A block's text is its source, without the ``>`` of a
    quotation; front matter becomes metadata; HTML comments are left out."""
    body, front = _front_matter(tidy(text))
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    writer = BlockWriter()
    reader = _MarkdownReader(body.split("\n"), writer)
    reader.read(tokens)
    found = title or str(front.pop("title", "")) or reader.first_title
    return writer.finish(DocumentKind.MARKDOWN, title=found, metadata=front)


class _MarkdownReader:
    def __init__(self, lines: list[str], writer: BlockWriter) -> None:
        self.lines = lines
        self.writer = writer
        self.first_title = ""
        self._quotes = 0
        self._items: list[bool] = []

    def read(self, tokens: list[Token]) -> None:
        for index, token in enumerate(tokens):
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
                    self._add(BlockKind.TABLE, token)
                case "fence":
                    self._code(token, token.info.strip().split(" ")[0])
                case "code_block":
                    self._code(token, "")
                case "html_block":
                    self._html(token)
                case _:
                    continue

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
        text = re.sub(r"<[^<>]*>", " ", _COMMENT.sub("", self._source(token)))
        self.writer.add(BlockKind.PARAGRAPH, "\n".join(tidy_line(line) for line in text.splitlines() if line.strip()))


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
    """The text without its YAML front matter, and the simple ``key: value`` pairs and lists of it."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return text, {}
    values: dict[str, Any] = {}
    key = ""
    for line in match.group(1).splitlines():
        pair = re.match(r"([\w-]+):[ \t]*(.*)$", line)
        item = re.match(r"[ \t]*-[ \t]+(.+)$", line)
        if pair:
            key, value = pair.group(1), pair.group(2).strip()
            values[key] = _scalar(value) if value else []
        elif item and isinstance(values.get(key), list):
            values[key].append(_unquoted(item.group(1)))
    return text[match.end() :], {k: v for k, v in values.items() if v not in ("", [])}


def _scalar(value: str) -> str | list[str]:
    if value.startswith("[") and value.endswith("]"):
        return [_unquoted(part) for part in value[1:-1].split(",") if part.strip()]
    return _unquoted(value)


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
