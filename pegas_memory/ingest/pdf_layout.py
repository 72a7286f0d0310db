"""From lines on pages to paragraphs: running heads dropped, hyphens joined, sentences whole. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from pegas_memory.text import sentences


@dataclass(frozen=True, slots=True)
class Line:
    """One visual line; a tab in ``text`` is a gap as wide as between columns.

    ``x0``/``x1`` and ``y`` (the baseline, growing upwards) are in points;
    ``size`` is the height of its character box; ``hyphen`` says that its last word goes on."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    mono: bool = False
    bold: bool = False
    hyphen: bool = False


@dataclass(slots=True)
class Paragraph:
    lines: list[Line] = field(default_factory=list)

    @property
    def size(self) -> float:
        return self.lines[0].size

    @property
    def mono(self) -> bool:
        return all(line.mono for line in self.lines)

    @property
    def table(self) -> bool:
        """Two rows or more, each with the gap of a column."""
        return len(self.lines) > 1 and not self.mono and all("\t" in line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Metrics:
    """``body`` is the size that most characters have; ``pitch`` the usual distance of baselines
    divided by the size."""

    body: float
    pitch: float
    bold_share: float = 0.0


BULLET = re.compile(r"^(?:[•▪●○■□◦‣∙·➢►✓]\s*|\(?\d{1,3}[.)]\s+|\(?[a-zа-я]\)\s+)(?=\S)")
DASH = re.compile(r"^[-–—*]\s+\S")
_NUMBERED = re.compile(r"^(?:\d+|[A-Z])(?:\.\d+)*\.?\s")
LEADER = re.compile(r"(?:\s*\.){4,}\s*|(?:\s*…){2,}\s*")
_ENDS = re.compile(r"[.!?…:;]['\"»”’)\]]*$")
_PAGE_NUMBER = re.compile(
    r"[\s\-–—|]*(?:page|стр(?:аница|\.)?|с\.|p\.)?\s*(?:\d{1,5}|[ivxlcdm]{1,8})"
    r"(?:\s*(?:of|из|/)\s*\d{1,5})?[\s\-–—|.]*",
    re.IGNORECASE,
)
_NEW_PARAGRAPH_GAP = 1.3
COLUMN_GAP = 2.0
"""Widths of a character box that part columns; justified prose stays below."""
_SIZE_CHANGE = 0.12
_REPEATS = 3
"""Pages on which a line must recur in the margin before it counts as a running head."""
_PREFIX = 8
_MARGIN = 0.12
"""Share of the printed height, at the top and at the bottom, where running lines are looked for."""


def measure(pages: Iterable[Sequence[Line]]) -> Metrics:
    """The usual size and line distance of a document, weighted by characters."""
    sizes: Counter[float] = Counter()
    gaps: list[float] = []
    bold = 0
    for lines in pages:
        for line in lines:
            sizes[round(line.size * 2) / 2] += len(line.text)
            bold += len(line.text) * line.bold
        for above, below in pairwise(lines):
            gap = above.y - below.y
            if 0.8 * below.size < gap < 2.5 * below.size and abs(above.size - below.size) < 0.1 * below.size:
                gaps.append(gap / below.size)
    body = sizes.most_common(1)[0][0] if sizes else 10.0
    pitch = min(max(median(gaps), 1.0), 2.2) if gaps else 1.2
    return Metrics(max(body, 1.0), pitch, bold / max(sizes.total(), 1))


# --- running heads and page numbers -------------------------------------------------------------------


def without_running_lines(pages: Sequence[list[Line]], titles: Iterable[str], metrics: Metrics) -> list[list[Line]]:
    """The pages less headers, footers and page numbers that recur in the same place."""
    known = {_letters(title) for title in titles}
    kept = [list(lines) for lines in pages]
    heights = [line.y for lines in pages for line in lines]
    margin = _MARGIN * (max(heights) - min(heights)) if heights else 0.0
    for number, top in enumerate((True, False, True, False)):
        bands = [_band(lines, top) for lines in kept]
        bands = [band if _in_margin(band, heights, margin, top) else [] for band in bands]
        dropped = _recurring(kept, bands, known, metrics, first=number < 2)
        for page in dropped:
            gone = {id(line) for line in bands[page]}
            kept[page] = [line for line in kept[page] if id(line) not in gone]
    return kept


def _in_margin(band: Sequence[Line], heights: Sequence[float], margin: float, top: bool) -> bool:
    if not band:
        return False
    return band[0].y > max(heights) - margin if top else band[0].y < min(heights) + margin


def _band(lines: Sequence[Line], top: bool) -> list[Line]:
    """The lines that share the outermost baseline of a page."""
    if not lines:
        return []
    edge = max(line.y for line in lines) if top else min(line.y for line in lines)
    return [line for line in lines if abs(line.y - edge) < 3.0]


def _recurring(
    pages: Sequence[list[Line]], bands: Sequence[list[Line]], known: set[str], metrics: Metrics, *, first: bool
) -> set[int]:
    same: dict[tuple[int, str], set[int]] = defaultdict(set)
    numbers: set[int] = set()
    apart = {p for p, band in enumerate(bands) if band and _stands_apart(pages[p], band, metrics)}
    for page, band in enumerate(bands):
        text = " ".join(line.text for line in band)
        if not text:
            continue
        if _PAGE_NUMBER.fullmatch(text):
            numbers.add(page)
        place = round(band[0].y / 4)
        # A second line inside the margin must be the same to the letter: it may be the text's own.
        key = re.sub(r"\d+", "#", text.casefold()) if first else text
        for near in (place - 1, place, place + 1):
            same[near, key].add(page)
            if first and page in apart:
                same[near, "^" + key[:_PREFIX]].add(page)
    dropped = set(numbers) if len(numbers) >= _REPEATS else set()
    for found in same.values():
        if len(found) >= _REPEATS:
            dropped |= found
    return dropped | _stragglers(bands, apart, dropped, known)


def _stragglers(bands: Sequence[list[Line]], apart: set[int], dropped: set[int], known: set[str]) -> set[int]:
    """Heads of short chapters: in the place of the others, in capitals or naming a heading."""
    places = [bands[page][0].y for page in dropped if bands[page]]
    if len(places) < _REPEATS:
        return set()
    found: set[int] = set()
    for page in apart - dropped:
        text = " ".join(line.text for line in bands[page])
        in_place = sum(abs(bands[page][0].y - y) < 2.0 for y in places) >= _REPEATS
        if in_place and (text == text.upper() or _letters(text) in known):
            found.add(page)
    return found


def _stands_apart(lines: Sequence[Line], band: Sequence[Line], metrics: Metrics) -> bool:
    edge = band[0].y
    others = [abs(line.y - edge) for line in lines if abs(line.y - edge) >= 3.0]
    return not others or min(others) > 1.25 * metrics.pitch * metrics.body


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalpha())


# --- paragraphs ---------------------------------------------------------------------------------------


def paragraphs(lines: Sequence[Line], metrics: Metrics) -> list[Paragraph]:
    """Lines of one page grouped into paragraphs, list items, headings and listings, in order."""
    found: list[Paragraph] = []
    lines = _only_table_gaps(_joined_rows(lines))
    rights = _right_edges(lines)
    for line in lines:
        if found and _continues(found[-1], line, rights, metrics):
            found[-1].lines.append(line)
        else:
            found.append(Paragraph([line]))
    return found


def _joined_rows(lines: Sequence[Line]) -> list[Line]:
    """Neighbours on one baseline (superscripts, table cells, text after a formula) as one line."""
    rows: list[Line] = []
    for line in lines:
        last = rows[-1] if rows else None
        if last is not None and not last.hyphen and _same_row(last, line):
            size = max(last.size, line.size)
            space = "" if re.match(r"[,.;:!?)\]»”%]", line.text) else " "
            space = "\t" if line.x0 - last.x1 > COLUMN_GAP * size else space
            baseline = last.y if last.size >= line.size else line.y
            text, right = last.text + space + line.text, max(last.x1, line.x1)
            mono, bold = last.mono and line.mono, last.bold and line.bold
            rows[-1] = Line(text, last.x0, right, baseline, size, mono, bold, line.hyphen)
        else:
            rows.append(line)
    return rows


_MARKER_GAP = re.compile(r"^([•▪●○■□◦‣∙·➢►✓*–—-]|\(?\w{1,3}[.)])\t\s*")


def _only_table_gaps(lines: Sequence[Line]) -> list[Line]:
    """Tabs stay where neighbouring lines have them too; one line alone is loose prose or a marker."""
    lines = [replace(line, text=_MARKER_GAP.sub(r"\1 ", line.text)) for line in lines]
    wide = [False, *("\t" in line.text for line in lines), False]
    return [
        line if wide[n] or wide[n + 2] else replace(line, text=" ".join(line.text.replace("\t", " ").split()))
        for n, line in enumerate(lines)
    ]


def _same_row(left: Line, right: Line) -> bool:
    if right.x0 < left.x1 - 0.3 * left.size:
        return False
    rise = abs(left.y - right.y)
    if rise < 0.2 * max(left.size, right.size):
        return True
    return rise < 0.6 * max(left.size, right.size) and right.x0 - left.x1 < 1.2 * left.size


def _right_edges(lines: Sequence[Line]) -> dict[int, float]:
    """By left edge (rounded to 20 points): how far lines that start there reach."""
    edges: dict[int, float] = defaultdict(float)
    for line in lines:
        bucket = round(line.x0 / 20)
        for near in (bucket - 1, bucket, bucket + 1):
            edges[near] = max(edges[near], line.x1)
    return edges


def _continues(paragraph: Paragraph, line: Line, rights: dict[int, float], metrics: Metrics) -> bool:
    last = paragraph.lines[-1]
    gap = last.y - line.y
    if last.hyphen:
        return True
    if paragraph.mono and line.mono:
        return -0.5 * line.size < gap < 3.2 * line.size
    if abs(last.size - line.size) > _SIZE_CHANGE * max(last.size, line.size):
        return False
    ended = _ends_before(last.text, line.text)
    if gap < -0.5 * line.size:
        return not ended and line.text[:1].islower()
    if gap > _NEW_PARAGRAPH_GAP * metrics.pitch * line.size:
        return False
    if _starts_anew(paragraph, line):
        return False
    return _same_flow(paragraph, line, ended, rights)


def _starts_anew(paragraph: Paragraph, line: Line) -> bool:
    """By its look: a bullet, a line of a contents list, a row of a table, a listing, after a bold title."""
    last = paragraph.lines[-1]
    if BULLET.match(line.text) or LEADER.search(last.text) or (LEADER.search(line.text) and _NUMBERED.match(line.text)):
        return True
    if DASH.match(line.text) and _list_dash(paragraph, line):
        return True
    if (line.mono or paragraph.mono) and len(line.text) > 20:
        return True
    if ("\t" in line.text) != ("\t" in last.text):
        return True
    return last.bold and not line.bold and len(paragraph.lines) < 3 and len(last.text) < 80


def _ends_before(text: str, following: str) -> bool:
    """True when a sentence (or a clause before a list) ends between two lines; not after «см.»."""
    if _ENDS.search(text) is None or following.startswith("//"):
        return False
    if text[-1] in ":;":
        return True
    tail = text[-80:]
    return any(start == len(tail) + 1 for start, _ in sentences(f"{tail} {following[:80]}"))


def _list_dash(paragraph: Paragraph, line: Line) -> bool:
    last = paragraph.lines[-1]
    first = paragraph.lines[0]
    return (
        _ENDS.search(last.text) is not None or abs(line.x0 - last.x0) > 0.7 * line.size or bool(DASH.match(first.text))
    )


def _same_flow(paragraph: Paragraph, line: Line, ended: bool, rights: dict[int, float]) -> bool:
    """Indents and short last lines, as typesetters use them."""
    last = paragraph.lines[-1]
    shift = line.x0 - last.x0
    if abs(shift) > 0.7 * line.size:
        settled = len(paragraph.lines) > 1 and abs(last.x0 - paragraph.lines[-2].x0) < 0.3 * line.size
        if ended or settled:
            return not ended and line.text[:1].islower()
    right = rights.get(round(last.x0 / 20), last.x1)
    left_out = (right - last.x1) / max(right - last.x0, 1.0)
    if "\t" in line.text:
        return True
    if ended:
        return left_out < 0.12
    return left_out < 0.35 or line.text[:1].islower() or _ENDS.search(last.text) is not None


# --- text ---------------------------------------------------------------------------------------------

_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u00ad": "", "\u00a0": " "}
)
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+|[^\W\d_]+")


def plain(text: str) -> str:
    """Ligatures as letters, soft hyphens gone, no-break spaces as spaces."""
    return text.translate(_LIGATURES)


def vocabulary(pages: Iterable[Sequence[Line]]) -> Counter[str]:
    """Words that stand whole on a line, compounds with their hyphens."""
    words: Counter[str] = Counter()
    for lines in pages:
        for line in lines:
            found = _COMPOUND.findall(line.text.casefold())
            words.update(found[:-1] if line.hyphen else found)
    return words


def joined(paragraph: Paragraph, words: Counter[str]) -> str:
    """The paragraph on one line; a word parted at a line end is put together again."""
    text = ""
    hyphen = False
    for line in paragraph.lines:
        if hyphen:
            text += _hyphen_between(text, line.text, words) + line.text
        else:
            text += ("" if not text or _unspaced(text, line.text) else " ") + line.text
        hyphen = line.hyphen
    return text.replace("\t", " ")


def _unspaced(before: str, after: str) -> bool:
    """Between Chinese or Japanese characters, and inside an address, a line end is no space."""
    if _CJK.match(before[-1]) and _CJK.match(after[:1]):
        return True
    return _URL_CUT.search(before[-300:]) is not None and _URL_REST.match(after) is not None


_URL_CUT = re.compile(r"(?:https?|ftp)(?::|://[^\s()]*[/.\-_=?&#:])$")
_URL_REST = re.compile(r"[/a-z0-9][\w.~%/?#&=+-]*[/.)\]#=_-]|//")


def table(paragraph: Paragraph) -> str:
    """Rows on lines of their own, cells parted by `` | ``."""
    return "\n".join(" | ".join(cell.strip() for cell in line.text.split("\t")) for line in paragraph.lines)


def _hyphen_between(before: str, after: str, words: Counter[str]) -> str:
    """``-`` when the document elsewhere writes the word with it (``well-`` / ``known``), else nothing."""
    left = re.search(r"[^\W\d_]+(?:-[^\W\d_]+)*$", before[-100:].casefold())
    right = re.match(r"[^\W\d_]+(?:-[^\W\d_]+)*", after.casefold())
    if left is None or right is None:
        return "-"
    whole, parted = words[left.group() + right.group()], words[left.group() + "-" + right.group()]
    return "-" if parted > whole else ""


def listing(paragraph: Paragraph) -> str:
    """A listing with its line ends, indents by position and blank lines by distance."""
    left = min(line.x0 for line in paragraph.lines)
    rows: list[str] = []
    for number, line in enumerate(paragraph.lines):
        width = max((line.x1 - line.x0) / max(len(line.text), 1), 1.0)
        if number and paragraph.lines[number - 1].y - line.y > 1.8 * line.size:
            rows.append("")
        rows.append(" " * min(round((line.x0 - left) / width), 60) + line.text)
    return "\n".join(rows)
