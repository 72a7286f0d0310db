"""From lines to paragraphs: sentences whole, hyphens joined, lists and listings by their look. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pegas_memory.ingest.pdf.lines import Line, Metrics, Paragraph
from pegas_memory.text import sentences

BULLET = re.compile(r"^(?:[•▪●○■□◦‣∙·➢►✓]\s*|\(?\d{1,3}[.)]\s+|\(?[a-zа-я]\)\s+)(?=\S)")
DASH = re.compile(r"^[-–—*]\s+\S")
_NUMBERED = re.compile(r"^(?:\d+|[A-Z])(?:\.\d+)*\.?\s")
LEADER = re.compile(r"(?:\s*\.){4,}\s*|(?:\s*…){2,}\s*")
_ENDS = re.compile(r"[.!?…:;]['\"»”’)\]]*$")
_NEW_PARAGRAPH_GAP = 1.3
_SIZE_CHANGE = 0.12
_NOTE_SIZE = 0.9
"""Of the type of the text: notes below it are set smaller."""
# --- paragraphs ---------------------------------------------------------------------------------------


def paragraphs(lines: Sequence[Line], metrics: Metrics) -> list[Paragraph]:
    """Lines of one page grouped into paragraphs, list items, headings, listings and tables, in order."""
    found: list[Paragraph] = []
    rights = _right_edges(lines)
    for line in lines:
        if found and not line.rows and not found[-1].table and _continues(found[-1], line, rights, metrics):
            found[-1].lines.append(line)
        else:
            found.append(Paragraph([line]))
    return found


def joined_rows(lines: Sequence[Line]) -> list[Line]:
    """Neighbours on one baseline (superscripts, text after a formula or a wide space) as one line."""
    rows: list[Line] = []
    for line in lines:
        last = rows[-1] if rows else None
        if last is not None and not last.hyphen and not last.rows and not line.rows and _same_row(last, line):
            rows[-1] = _glued(last, line)
        else:
            rows.append(line)
    return rows


def _glued(last: Line, line: Line) -> Line:
    gap = last.x0 - line.x1 if line.rtl else line.x0 - last.x1
    mono = last.mono and line.mono
    if mono:
        width = max((last.x1 - last.x0) / max(len(last.text), 1), 1.0)
        space = " " * min(max(round(gap / width), 1), 60)
    else:
        space = "" if re.match(r"[,.;:!?)\]»”%]", line.text) else " "
    return replace(
        last if last.size >= line.size else line,
        text=last.text + space + line.text,
        x0=min(last.x0, line.x0),
        x1=max(last.x1, line.x1),
        size=max(last.size, line.size),
        mono=mono,
        bold=last.bold and line.bold,
        hyphen=line.hyphen,
        font=last.font if len(last.text) >= len(line.text) else line.font,
        unmapped=last.unmapped + line.unmapped,
    )


def _same_row(left: Line, right: Line) -> bool:
    if left.rtl != right.rtl:
        return False
    gap = left.x0 - right.x1 if right.rtl else right.x0 - left.x1
    if gap < -0.3 * left.size:
        return False
    rise = abs(left.y - right.y)
    if rise < 0.2 * max(left.size, right.size):
        return True
    return rise < 0.6 * max(left.size, right.size) and gap < 1.2 * left.size


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
    if last.garbled != line.garbled or last.aside != line.aside:
        return False
    if last.hyphen:
        return line.size > _NOTE_SIZE * last.size or line.text[:1].isalpha()
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
    if ended:
        return left_out < 0.12
    return left_out < 0.35 or line.text[:1].islower() or _ENDS.search(last.text) is not None


# --- text ---------------------------------------------------------------------------------------------

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_COMPOUND = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+|[^\W\d_]+")


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
    return text


def _unspaced(before: str, after: str) -> bool:
    """Between Chinese or Japanese characters, and inside an address, a line end is no space."""
    if _CJK.match(before[-1]) and _CJK.match(after[:1]):
        return True
    return _URL_CUT.search(before[-300:]) is not None and _URL_REST.match(after) is not None


_URL_CUT = re.compile(r"(?:https?|ftp)(?::|://[^\s()]*[/.\-_=?&#:])$")
_URL_REST = re.compile(r"[/a-z0-9][\w.~%/?#&=+-]*[/.)\]#=_-]|//")


def table(line: Line) -> str:
    """Rows on lines of their own, cells parted by `` | ``; empty ones keep their place, those that end a row
    only in the first: it says how many columns there are."""
    kept = [line.rows[0], *map(_trimmed, line.rows[1:])]
    rows = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in kept)
    return "\n".join(rows)


def _trimmed(row: Sequence[str]) -> Sequence[str]:
    used = max((n for n, cell in enumerate(row, 1) if cell), default=0)
    return row[:used]


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
