"""Plain text into blocks; Markdown is next door and comes in by the same name."""

from __future__ import annotations

import re

from pegas_memory.ingest.blocks import BlockWriter, tidy, visible_runs
from pegas_memory.ingest.decoding import damage
from pegas_memory.ingest.markdown import read_markdown
from pegas_memory.model import BlockKind, DocumentKind, Extracted

__all__ = ["read_markdown", "read_plain"]

_BULLET = re.compile(r"[ \t]*(?:[-*•–▪◦‣]|\d{1,3}[.)]|[a-zа-я][)])[ \t]+\S")
_RULE = re.compile(r"([=~^\"'#*+`:._-])\1{2,}[ \t]*")
_CHAPTER = re.compile(
    r"(?P<word>part|book|часть|книга|том|chapter|глава|appendix|приложение|section|раздел)\s+"
    r"(?:\d{1,4}|[IVXLC]{1,7}|[A-ZА-Я])(?:\s*[.:—–-]?\s*|\s*[.:—–-]\s*\S.*|\s+[A-ZА-ЯЁ].*)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){1,4})\.?\s+[A-ZА-ЯЁ].*")
_CHAPTER_LEVELS = {"part": 1, "book": 1, "часть": 1, "книга": 1, "том": 1, "section": 3, "раздел": 3}
_LONGEST_HEADING = 100


def read_plain(text: str, title: str = "") -> Extracted:
    """Paragraphs parted by blank lines; a paragraph of bulleted or numbered lines becomes list items.
    Headings are what is plainly one: a line with a rule under it, a line in capitals, «Chapter 3»,
    «2.1 Scope», each with a paragraph's space around it."""
    text = tidy(text)
    writer = BlockWriter()
    rules: list[str] = []
    runs = list(visible_runs(text))
    for number, (start, end) in enumerate(runs):
        run = text[start:end]
        if found := _heading(run, rules, last=number == len(runs) - 1):
            level, lines, name = found
            writer.add(BlockKind.HEADING, "\n".join(run.split("\n")[:lines]), level=level, name=name)
            run = "\n".join(run.split("\n")[lines:])
        for position, (kind, part) in enumerate(_items(run) if run else []):
            writer.add(kind, part, gap="\n" if position or found else "\n\n")
    return writer.finish(DocumentKind.TEXT, title=title, warnings=damage(text))


def _heading(run: str, rules: list[str], *, last: bool) -> tuple[int, int, str] | None:
    """(level, lines, name) of the heading that ``run`` begins with. ``rules`` collects the kinds of
    rules in the order in which they appear, which is the order of their levels."""
    lines = run.split("\n", 3)
    over = len(lines) > 2 and lines[0].strip() == lines[2].strip()
    name = (lines[1] if over else lines[0]).strip()
    rule = (lines[2] if over else lines[1] if len(lines) > 1 else "").strip()
    if not name or len(name) > _LONGEST_HEADING or not any(c.isalpha() for c in name):
        return None
    if _RULE.fullmatch(rule) and len(rule) + 1 >= len(name):
        kind = rule[0] * (2 if over else 1)
        if kind not in rules:
            rules.append(kind)
        return min(rules.index(kind) + 1, 6), 3 if over else 2, name
    if len(lines) > 1 or last or name.endswith((",", ";", ":")):
        return None
    if chapter := _CHAPTER.fullmatch(name):
        return (_CHAPTER_LEVELS.get(chapter["word"].lower(), 2), 1, name) if _no_sentence(name) else None
    if numbered := _NUMBERED.fullmatch(name):
        return (numbered[1].count(".") + 2, 1, name) if _no_sentence(name) else None
    letters = sum(c.isalpha() for c in name)
    shouted = name.isupper() and letters >= 4 and letters * 10 > 7 * len(name.replace(" ", ""))
    return (2, 1, name) if shouted and _no_sentence(name) else None


def _no_sentence(name: str) -> bool:
    return len(name.split()) < 4 or not name.endswith((".", "!", "?", "…"))


def _items(paragraph: str) -> list[tuple[BlockKind, str]]:
    lines = paragraph.splitlines()
    starts = [n for n, line in enumerate(lines) if _BULLET.match(line)]
    if len(starts) < 2:
        return [(BlockKind.PARAGRAPH, paragraph)]
    parts = [(BlockKind.PARAGRAPH, "\n".join(lines[: starts[0]]))] if starts[0] else []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        parts.append((BlockKind.LIST_ITEM, "\n".join(lines[start:stop])))
    return parts
