"""Lines of the pages into blocks: headings by the outline or by type, lists, listings, tables, paragraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pegas_memory.ingest.blocks import BlockWriter
from pegas_memory.ingest.pdf import paragraphs as layout
from pegas_memory.ingest.pdf.about import Entry
from pegas_memory.ingest.pdf.lines import Line, Metrics, Paragraph, measure
from pegas_memory.ingest.pdf.running import without_running_lines
from pegas_memory.model import BlockKind
from pegas_memory.progress import tell

_MAX_HEADING = 200
_HEADING_SIZE = 1.15
_MAX_BOLD_HEADING = 100
_RARE_BOLD = 0.15


def write(writer: BlockWriter, scanned: Sequence[list[Line]], outline: Sequence[Entry]) -> None:
    """The blocks of ``scanned`` pages; none spans two."""
    metrics = measure(scanned)
    pages = without_running_lines(scanned, (entry.title for entry in outline), metrics)
    words = layout.vocabulary(pages)
    by_page: dict[int, list[Entry]] = {}
    for entry in outline:
        by_page.setdefault(entry.page, []).append(entry)
    sizes = _HeadingSizes(pages, metrics)
    for number, lines in enumerate(pages):
        tell("pages", number, len(pages))
        writer.page = number + 1
        found = layout.paragraphs(lines, metrics)
        texts = [_paragraph_text(paragraph, words) for paragraph in found]
        entries = by_page.get(number, [])
        matched = _match_outline(entries, texts)
        if entries:
            sizes.leave_to_outline()
        for entry in entries:
            if entry not in matched.values():
                writer.enter(entry.level, entry.title)
        for index, (paragraph, text) in enumerate(zip(found, texts, strict=True)):
            level = matched[index].level if index in matched else sizes.level(paragraph, text)
            _write_paragraph(writer, paragraph, text, level)


def _paragraph_text(paragraph: Paragraph, words: Counter[str]) -> str:
    if paragraph.mono:
        return layout.listing(paragraph)
    return layout.table(paragraph.lines[0]) if paragraph.table else layout.joined(paragraph, words)


def _write_paragraph(writer: BlockWriter, paragraph: Paragraph, text: str, level: int) -> None:
    if paragraph.garbled:
        # No heading either: it would lend its noise to what stands below it.
        writer.add(BlockKind.TABLE if paragraph.table else BlockKind.PARAGRAPH, text, garbled=True)
    elif level:
        writer.add(BlockKind.HEADING, text, level=level)
    elif paragraph.mono and len(text.split()) > 1:
        writer.add(BlockKind.CODE, text)
    elif paragraph.table:
        writer.add(BlockKind.TABLE, text)
    elif layout.LEADER.search(text):
        writer.add(BlockKind.LIST_ITEM, layout.LEADER.sub(" … ", text), gap="\n")
    elif layout.BULLET.match(text) or (layout.DASH.match(text) and writer.in_list):
        writer.add(BlockKind.LIST_ITEM, text, gap="\n")
    else:
        writer.add(BlockKind.PARAGRAPH, text)


def _match_outline(entries: Sequence[Entry], texts: Sequence[str]) -> dict[int, Entry]:
    """Which paragraph is the heading that an outline entry of this page names."""
    matched: dict[int, Entry] = {}
    for entry in entries:
        wanted = _squeezed(entry.title)
        for index, text in enumerate(texts):
            if index in matched or len(text) > len(entry.title) + 25:
                continue
            if wanted and _squeezed(text).endswith(wanted):
                matched[index] = entry
                break
    return matched


def _squeezed(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


class _HeadingSizes:
    """Headings of a document that has no outline (yet): larger type, largest first, at most four
    levels; then short bold lines, where bold is rare."""

    def __init__(self, pages: Sequence[Sequence[Line]], metrics: Metrics) -> None:
        sizes = {round(line.size) for lines in pages for line in lines if line.size > _HEADING_SIZE * metrics.body}
        self.levels = {size: min(rank, 4) for rank, size in enumerate(sorted(sizes, reverse=True), 1)}
        self.bold = min(len(sizes) + 1, 5) if metrics.bold_share < _RARE_BOLD else 0

    def leave_to_outline(self) -> None:
        """From its first entry on the outline knows the headings; large type is then a box or a caption."""
        self.levels.clear()
        self.bold = 0

    def level(self, paragraph: Paragraph, text: str) -> int:
        """0 for body text."""
        if paragraph.mono or paragraph.table or len(paragraph.lines) > 4 or len(text) > _MAX_HEADING:
            return 0
        if text.rstrip().endswith((".", ";", ",", ":")) or layout.BULLET.match(text) or layout.LEADER.search(text):
            return 0
        # A bold line that ends in a number stands in a table of contents.
        bold = all(line.bold for line in paragraph.lines) and len(text) <= _MAX_BOLD_HEADING and not text[-1:].isdigit()
        return self.levels.get(round(paragraph.size), 0) or (self.bold if bold else 0)
