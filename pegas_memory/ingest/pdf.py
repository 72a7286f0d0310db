"""PDF into blocks. PDFium reads text, outline, metadata and encryption in one pass; pypdf is asked only
about pages that show nothing (a second parser over all of a hostile file would double the risk).

PDFium is not safe in threads, so every call into it holds one lock, page by page.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from pegas_memory.errors import NoTextLayer, PasswordNeeded, UnreadableFile
from pegas_memory.ingest import pdf_layout as layout
from pegas_memory.ingest.blocks import BlockWriter, has_words, tidy_line
from pegas_memory.ingest.pdf_blank import damaged_pages
from pegas_memory.ingest.pdf_layout import Line, Paragraph
from pegas_memory.model import BlockKind, DocumentKind, Extracted

_PDFIUM = threading.RLock()
_PASSWORD_ERROR = 4
_MONO = re.compile(rb"mono|courier|consol|typewriter|cmtt|menlo|fixed|lettergothic|inconsol|sourcecode", re.IGNORECASE)
_BOLD = re.compile(rb"bold|black|heavy|cmbx|demi", re.IGNORECASE)
_RUNS = re.compile(r" {2,}")
_SPACES = re.compile(r"(?<=[^ ]) +(?=[^ ])")
_HYPHEN_MARKS = "\ufffe\x02"
_LINE = re.compile(f"[^\r\n{_HYPHEN_MARKS}]+[{_HYPHEN_MARKS}]?")
_UNMAPPED = re.compile("[\ufffd\ue000-\uf8ff]")
_MAX_HEADING = 200
_MAX_OBJECTS = 2_000
_HEADING_SIZE = 1.15
_MAX_BOLD_HEADING = 100
_RARE_BOLD = 0.15
_PDF_DATE = re.compile(r"D?:?(\d{4})(\d\d)?(\d\d)?")


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of the outline: ``page`` counts from 0, ``level`` from 1."""

    level: int
    title: str
    page: int


@dataclass(slots=True)
class _Scan:
    """What reading the pages found; page numbers from 1."""

    pages: list[list[Line]]
    broken: list[int]
    images: list[int]
    unmapped: list[int]
    bare: list[int]
    """Pages on which nothing at all is drawn."""


def read_pdf(data: bytes, title: str = "") -> Extracted:
    """Blocks with pages and, from the outline or from type sizes, headings. A block never spans pages.

    Raises ``PasswordNeeded`` (a password to open it; one for the owner only is no obstacle),
    ``NoTextLayer`` (naming the pages), ``UnreadableFile`` (no page can be read). Pages that are broken
    or images among others become warnings.
    """
    with _PDFIUM:
        document = _open(data)
    try:
        with _PDFIUM:
            count = len(document)
            about = _metadata(document)
            outline = _outline(document)
        scan = _scan(document, count)
        scan.broken = sorted([*scan.broken, *damaged_pages(data, scan.bare)])
    finally:
        with _PDFIUM:
            document.close()
    _refuse_empty(scan, count)
    writer = BlockWriter()
    _write(writer, scan, outline)
    return writer.finish(
        DocumentKind.PDF,
        title=title or str(about.pop("title", "")),
        pages=count,
        metadata=about,
        warnings=_warnings(scan),
    )


def _open(data: bytes) -> Any:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise PasswordNeeded("The PDF opens only with a password.") from error
        raise UnreadableFile("The PDF is damaged: its structure cannot be read.") from error


def _metadata(document: Any) -> dict[str, Any]:
    try:
        raw = document.get_metadata_dict()
    except (pypdfium2.PdfiumError, UnicodeError):
        return {}
    date = _PDF_DATE.match(raw.get("CreationDate") or "")
    return {
        "title": tidy_line(raw.get("Title") or ""),
        "author": raw.get("Author") or "",
        "subject": raw.get("Subject") or "",
        "keywords": raw.get("Keywords") or "",
        "producer": raw.get("Producer") or "",
        "date": "-".join(part for part in date.groups() if part) if date else "",
    }


def _outline(document: Any) -> list[_Entry]:
    entries: list[_Entry] = []
    try:
        for bookmark in document.get_toc(max_depth=8):
            target = bookmark.get_dest()
            page = target.get_index() if target is not None else None
            name = tidy_line(bookmark.get_title() or "")
            if page is not None and name and len(entries) < 20_000:
                entries.append(_Entry(bookmark.level + 1, name, page))
    except (pypdfium2.PdfiumError, UnicodeError):
        # A damaged outline costs the heading paths, never the text.
        return entries
    return entries


# --- pages ------------------------------------------------------------------------------------------


def _scan(document: Any, count: int) -> _Scan:
    scan = _Scan([], [], [], [], [])
    for index in range(count):
        try:
            with _PDFIUM:
                lines, shown = _read_page(document, index)
        except pypdfium2.PdfiumError:
            scan.broken.append(index + 1)
            lines, shown = [], Counter()
        if shown.get(pdfium.FPDF_PAGEOBJ_IMAGE) and not any(has_words(line.text) for line in lines):
            scan.images.append(index + 1)
        if not lines and not shown and index + 1 not in scan.broken:
            scan.bare.append(index + 1)
        text = "".join(line.text for line in lines)
        if len(_UNMAPPED.findall(text)) > 0.2 * max(len(text), 1):
            scan.unmapped.append(index + 1)
        scan.pages.append(lines)
    return scan


def _read_page(document: Any, index: int) -> tuple[list[Line], Counter[int]]:
    """Lines of a page in content order; without any, the kinds of objects that it shows."""
    page = document[index]
    try:
        text_page = page.get_textpage()
        try:
            lines = _lines(text_page)
        finally:
            text_page.close()
        shown = () if lines else islice(page.get_objects(max_depth=3), _MAX_OBJECTS)
        return lines, Counter(thing.type for thing in shown)
    finally:
        page.close()


def _lines(text_page: Any) -> list[Line]:
    count = text_page.count_chars()
    if count <= 0:
        return []
    text = text_page.get_text_range()
    if len(text) != count:
        # Offsets and characters disagree (astral characters, holes): ask one by one.
        text = "".join(_character(pdfium.FPDFText_GetUnicode(text_page.raw, n)) for n in range(count))
    found: list[Line] = []
    for match in _LINE.finditer(text):
        line = _line(text_page.raw, match)
        if line is not None:
            found.append(line)
    return found


def _character(code: int) -> str:
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def _line(raw: Any, match: re.Match[str]) -> Line | None:
    hyphen = match.group()[-1] in _HYPHEN_MARKS
    body = match.group().rstrip(_HYPHEN_MARKS)
    start = match.start() + len(body) - len(body.lstrip())
    body = body.strip()
    if not body:
        return None
    body = _with_columns(raw, body, start)
    middle = start + len(body) // 2
    end = start + len(body) - 1
    first, last = _box(raw, start), _box(raw, end)
    heights = sorted(top - bottom for _, bottom, _, top in (first, last, _box(raw, middle)))
    fonts = [_font(raw, n) for n in (start, middle, end)]
    return Line(
        text=layout.plain(_RUNS.sub(" ", body)),
        x0=min(first[0], last[0]),
        x1=max(first[2], last[2]),
        y=_baseline(raw, start),
        size=max(heights[1], 1.0),
        mono=all(_MONO.search(font) for font in fonts),
        bold=all(_BOLD.search(font) for font in fonts),
        hyphen=hyphen,
    )


def _box(raw: Any, index: int) -> tuple[float, float, float, float]:
    """(left, bottom, right, top) in points."""
    box = pdfium.FS_RECTF()
    if not pdfium.FPDFText_GetLooseCharBox(raw, index, box):
        return 0.0, 0.0, 0.0, 0.0
    return box.left, min(box.bottom, box.top), box.right, max(box.bottom, box.top)


def _baseline(raw: Any, index: int) -> float:
    x, y = ctypes.c_double(), ctypes.c_double()
    if not pdfium.FPDFText_GetCharOrigin(raw, index, x, y):
        return _box(raw, index)[1]
    return y.value


def _font(raw: Any, index: int) -> bytes:
    name = ctypes.create_string_buffer(128)
    flags = ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(raw, index, name, 128, flags)
    return name.value


def _with_columns(raw: Any, body: str, start: int) -> str:
    """``body`` with a tab for each run of spaces that is as wide as the gap between columns."""
    text = body
    for match in _SPACES.finditer(body):
        left, right = _box(raw, start + match.start() - 1), _box(raw, start + match.end())
        if right[0] - left[2] > layout.COLUMN_GAP * max(left[3] - left[1], 1.0):
            text = text[: match.start()] + "\t" + " " * (match.end() - match.start() - 1) + text[match.end() :]
    return text


# --- blocks -----------------------------------------------------------------------------------------


def _write(writer: BlockWriter, scan: _Scan, outline: Sequence[_Entry]) -> None:
    metrics = layout.measure(scan.pages)
    pages = layout.without_running_lines(scan.pages, (entry.title for entry in outline), metrics)
    words = layout.vocabulary(pages)
    by_page: dict[int, list[_Entry]] = {}
    for entry in outline:
        by_page.setdefault(entry.page, []).append(entry)
    sizes = _HeadingSizes(pages, metrics)
    for number, lines in enumerate(pages):
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
    return layout.table(paragraph) if paragraph.table else layout.joined(paragraph, words)


def _write_paragraph(writer: BlockWriter, paragraph: Paragraph, text: str, level: int) -> None:
    if level:
        writer.add(BlockKind.HEADING, text, level=level)
    elif paragraph.mono:
        writer.add(BlockKind.CODE, text)
    elif layout.LEADER.search(text):
        writer.add(BlockKind.LIST_ITEM, layout.LEADER.sub(" … ", text), gap="\n")
    elif paragraph.table:
        writer.add(BlockKind.TABLE, text)
    elif layout.BULLET.match(text) or (layout.DASH.match(text) and writer.in_list):
        writer.add(BlockKind.LIST_ITEM, text, gap="\n")
    else:
        writer.add(BlockKind.PARAGRAPH, text)


def _match_outline(entries: Sequence[_Entry], texts: Sequence[str]) -> dict[int, _Entry]:
    """Which paragraph is the heading that an outline entry of this page names."""
    matched: dict[int, _Entry] = {}
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

    def __init__(self, pages: Sequence[Sequence[Line]], metrics: layout.Metrics) -> None:
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


# --- what is said of the pages ------------------------------------------------------------------------


def _refuse_empty(scan: _Scan, count: int) -> None:
    if any(has_words(line.text) for lines in scan.pages for line in lines):
        return
    if count == 0 or len(scan.broken) == count:
        raise UnreadableFile("No page of the PDF can be read: the file is damaged.")
    empty = [n for n in range(1, count + 1) if n not in set(scan.broken)]
    raise NoTextLayer(f"The PDF has no text layer ({page_list(empty)} of {count}).")


def _warnings(scan: _Scan) -> tuple[str, ...]:
    said = []
    if scan.broken:
        said.append(f"Damaged and left out: {page_list(scan.broken)}.")
    if scan.images:
        said.append(f"Without a text layer (images only): {page_list(scan.images)}.")
    if scan.unmapped:
        said.append(f"Fonts without a Unicode map, the text may be unreadable: {page_list(scan.unmapped)}.")
    return tuple(said)


def page_list(pages: Sequence[int]) -> str:
    """``page 3`` or ``pages 1–4, 7``."""
    runs: list[list[int]] = []
    for page in pages:
        if runs and page == runs[-1][1] + 1:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    shown = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs[:20]) + (", …" if len(runs) > 20 else "")
    return f"{'page' if len(pages) == 1 else 'pages'} {shown}"
