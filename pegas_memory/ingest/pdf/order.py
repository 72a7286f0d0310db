"""Reading order of a page: columns one after another, and what was drawn too late put where it stands. Pure.

The order of the content stream is kept where nothing speaks against it; generators write columns line by
line, titles last and footers first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from pegas_memory.ingest.pdf.lines import Line

_MIN_LINES = 3
"""Lines that make a column."""
_MIN_CHARACTERS = 16
_MIN_WORDS = 3
"""Medians of a line of prose in a column; cells of a table are shorter."""
_MIN_PROSE = 6
"""Lines that are surely prose, in a column that has many others."""
_NOTE = re.compile(r"(?:\d{1,2}|[*†‡§¶])\)?\s?[^\W\d]")
_NOTE_SIZE = 0.9
_MAX_LINES = 3_000
_DEPTH = 4


def regions(lines: Sequence[Line]) -> list[list[Line]]:
    """``lines`` in reading order, parted into the runs that belong together (a column, what spans columns)."""
    once = _without_doubles(lines)
    if len(once) > _MAX_LINES:
        return [once]
    return [in_place(part) for part in _columns(once, _DEPTH)]


def _without_doubles(lines: Sequence[Line]) -> list[Line]:
    """Text that is printed twice on the same spot (bold by overprinting, shadows) once."""
    seen: dict[str, list[Line]] = {}
    kept: list[Line] = []
    for line in lines:
        twins = seen.setdefault(line.text, [])
        near = 0.25 * line.size
        if any(abs(t.x0 - line.x0) < near and abs(t.y - line.y) < near for t in twins) and not line.rows:
            continue
        twins.append(line)
        kept.append(line)
    return kept


def in_place(lines: Sequence[Line]) -> list[Line]:
    """The order of the stream, but a line drawn after what stands below it comes before that."""
    found: list[Line] = []
    tops: list[float] = []
    lowest = float("inf")
    for line in lines:
        at, floor = len(found), _floor(line)
        if lowest < floor:
            at = next((n for n, top in enumerate(tops) if top < floor and _below(found[n], line)), at)
        found.insert(at, line)
        tops.insert(at, _top(line))
        lowest = min(lowest, tops[at])
    return found


def _floor(line: Line) -> float:
    return line.bottom if line.rows else line.y


def _top(line: Line) -> float:
    return line.y if line.rows else line.y + 0.8 * line.size


def _below(other: Line, line: Line) -> bool:
    """``other`` begins more than a line under ``line``, in its column."""
    if _top(other) > _floor(line) - 0.2 * min(line.size, other.size):
        return False
    shared = min(other.x1, line.x1) - max(other.x0, line.x0)
    return shared > 0.3 * min(other.x1 - other.x0, line.x1 - line.x0)


# --- columns ------------------------------------------------------------------------------------------


def _columns(lines: list[Line], depth: int) -> list[list[Line]]:
    best: list[tuple[list[Line], list[Line], list[Line]]] = []
    most = 0
    for x in _candidates(lines):
        bands = list(_bands(lines, x))
        count = sum(len(left) + len(right) for _, left, right in bands if left)
        if count > most:
            best, most = bands, count
    if not depth or not best:
        return [lines]
    rtl = sum(len(line.text) for line in lines if line.rtl) > sum(len(line.text) for line in lines) / 2
    found: list[list[Line]] = []
    for across, left, right in best:
        if across:
            found.append(across)
        first, notes = _without_notes(left) if right and not rtl else (left, [])
        for side in (right, first) if rtl else (first, right):
            if side:
                found += _columns(side, depth - 1)
        if notes:
            found.append(notes)
    return found


def _without_notes(column: list[Line]) -> tuple[list[Line], list[Line]]:
    """A column whose sentence goes on in the next one, and the notes at its foot: small type after a mark."""
    down = sorted(column, key=lambda line: -_top(line))
    small = _NOTE_SIZE * median(line.size for line in column)
    text = [line.rows or (line.size > small and not line.text.isdecimal()) for line in down]  # a page number is none
    at = next((n for n in range(len(down), 0, -1) if text[n - 1]), 0)
    notes = {id(line) for line in down[at:]}
    if not 0 < at < len(down) or _NOTE.match(down[at].text) is None or down[at - 1].text.endswith((".", "!", "?")):
        return column, []
    return [line for line in column if id(line) not in notes], [line for line in column if id(line) in notes]


def _candidates(lines: Sequence[Line]) -> list[float]:
    """Left edges that several lines share: where a column may begin."""
    edges = Counter(round(line.x0 / 3) for line in lines)
    return [3.0 * edge for edge, count in edges.items() if count + edges[edge + 1] + edges[edge - 1] >= _MIN_LINES][:60]


def _bands(lines: Sequence[Line], x: float) -> Iterator[tuple[list[Line], list[Line], list[Line]]]:
    """From the top: (what crosses ``x`` or stands in no pair of columns, left column, right column)."""
    across: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    order = {id(line): n for n, line in enumerate(lines)}
    pending: list[Line] = []

    def close() -> tuple[list[Line], list[Line], list[Line]] | None:
        if not _pair(left, right):
            pending.extend([*left, *right])
            return None
        before = sorted(pending, key=lambda line: order[id(line)])
        pending.clear()
        return before, sorted(left, key=lambda n: order[id(n)]), sorted(right, key=lambda n: order[id(n)])

    for line in sorted(lines, key=lambda line: -_top(line)):
        if line.x0 < x - 4 and line.x1 > x - 1:
            if (band := close()) is not None:
                yield band
            left, right = [], []
            pending.append(line)
        elif line.x0 >= x - 4:
            right.append(line)
        else:
            left.append(line)
    band = close()
    if band is not None:
        yield band
    across = sorted(pending, key=lambda line: order[id(line)])
    if across:
        yield across, [], []


def _pair(left: Sequence[Line], right: Sequence[Line]) -> bool:
    """Two columns of prose side by side."""
    if not (_prose(left) and _prose(right)):
        return False
    high, low = min(_top(left[0]), _top(right[0])), max(left[-1].y, right[-1].y)
    shorter = min(_top(left[0]) - left[-1].y, _top(right[0]) - right[-1].y)
    return high - low > 0.4 * shorter


def _prose(lines: Sequence[Line]) -> bool:
    text = [line for line in lines if not line.rows]
    if len(text) < _MIN_LINES or len({round(line.y) for line in text}) < _MIN_LINES:
        return False
    lengths = sorted((len(line.text) for line in text), reverse=True)
    words = [line.text.count(" ") + 1 for line in text]
    if median(lengths) >= _MIN_CHARACTERS and median(words) >= _MIN_WORDS:
        return True
    # Formulas and lists of contents are many short pieces between lines that are prose all the same.
    prose = [n for n, count in zip(map(len, (line.text for line in text)), words, strict=True) if n >= 25 and count > 4]
    return len(prose) >= _MIN_PROSE and sum(prose) > 0.5 * sum(lengths)
