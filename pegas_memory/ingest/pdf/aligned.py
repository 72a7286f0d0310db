"""Tables without lines: rows whose cells stand under one another. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from pegas_memory.ingest.pdf.grids import cell_text
from pegas_memory.ingest.pdf.lines import Line

_MARKER = re.compile(r"(?:[•▪●○■□◦‣∙·➢►✓*–—-]|\(?\w{1,3}[.)]|\[\w{1,12}\]|\d+(?:\.\d+)+\.?)")
_FORMULA_NUMBER = re.compile(r"\(?\d+(?:\.\d+)*[a-z]?\)")
_LEADER = re.compile(r"(?:\s*\.){4,}|(?:\s*…){2,}")
_NUMBER = re.compile(r"[-+−–(]?[$€£₽]?\s?\d[\d\s.,:%/–-]*[)%]?")
_PAGE = re.compile(r"\d{1,4}|[ivxlc]{1,7}")
_ROW_DISTANCE = 3.0
"""Character boxes between the baselines of two rows at most."""
_WIDE = 1.5
"""Gap, in character boxes, that two columns of words need; narrower ones occur in justified prose."""
_CELL = 60
"""Median characters of a cell at most: above it the columns are prose."""
_PROSE = 40
_RUNS_ON = 0.3
"""Median characters of a line, and share of lines that go on below, that a column of prose has at least."""
_FIGURES = 0.6
"""Share of numbers after the first cells that makes a table of typewriter type; listings have fewer."""
Span = tuple[float, float]


def aligned_tables(lines: Sequence[Line], depth: int = 6) -> list[Line]:
    """``lines`` of one region with runs of aligned rows replaced by tables; boxes side by side are looked into
    ``depth`` times."""
    rows = _rows(lines)
    found: list[tuple[list[Line], list[Line]]] = []
    n = 0
    while n < len(rows):
        length = _run(rows, n) if len(rows[n]) > 1 else 0
        block = rows[n : n + length]
        columns = _occupied([line for row in block for line in row])
        if depth and length and len(columns) > 1 and _is_layout(block, columns):
            found.append(_parted(lines, block, columns, depth - 1))
            n += length
        elif length and _is_table(block, columns):
            found.append(([line for row in block for line in row], [_table(block, columns)]))
            n += length
        else:
            n += 1
    return _replaced(lines, found) if found else list(lines)


def _replaced(lines: Sequence[Line], found: Sequence[tuple[list[Line], list[Line]]]) -> list[Line]:
    owner = {id(line): new for old, new in found for line in old}
    kept: list[Line] = []
    for line in lines:
        new = owner.get(id(line))
        if new is None:
            kept.append(line)
        else:
            kept += new
            new.clear()
    return kept


def _parted(
    lines: Sequence[Line], rows: Sequence[list[Line]], columns: Sequence[Span], depth: int
) -> tuple[list[Line], list[Line]]:
    """The lines of boxes side by side, and what they become when those left of the widest gap are read first."""
    inside = {id(line) for row in rows for line in row}
    box = [line for line in lines if id(line) in inside]
    _, n = max((right[0] - left[1], n) for n, (left, right) in enumerate(pairwise(columns)))
    left = [line for line in box if _column(line, columns) <= n]
    right = [line for line in box if _column(line, columns) > n]
    return box, [*aligned_tables(left, depth), *aligned_tables(right, depth)]


def _rows(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines on one baseline, from the top, each row from the left."""
    rows: list[list[Line]] = []
    for line in sorted((line for line in lines if not line.rows), key=lambda line: -line.y):
        if rows and rows[-1][0].y - line.y < 0.3 * max(line.size, rows[-1][0].size):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.x0) for row in rows]


def _run(rows: Sequence[list[Line]], first: int) -> int:
    """How many rows from ``first`` on keep apart the columns that they share; the last has several cells."""
    columns = _occupied(rows[first])
    last = first
    for n in range(first + 1, len(rows)):
        above, row = rows[n - 1][0], rows[n]
        if above.y - row[0].y > _ROW_DISTANCE * max(above.size, row[0].size):
            break
        joined = _occupied_spans([*columns, *((line.x0, line.x1) for line in row)], 0.5 * row[0].size)
        if len(joined) < 2 or (len(row) == 1 and len(joined) < len(columns)):
            break
        if len(joined) < len(columns) - 1 and n - first > 1:
            break
        columns = joined
        if len(row) > 1:
            last = n
    return last - first + 1


def _occupied(lines: Sequence[Line]) -> list[Span]:
    return _occupied_spans([(line.x0, line.x1) for line in lines], 0.5 * max((n.size for n in lines), default=1.0))


def _occupied_spans(spans: Sequence[Span], apart: float) -> list[Span]:
    """Spans along x as the columns that they cover: those nearer than ``apart`` are one."""
    found: list[Span] = []
    for left, right in sorted(spans):
        if found and left - found[-1][1] < apart:
            found[-1] = (found[-1][0], max(found[-1][1], right))
        else:
            found.append((left, right))
    return found


def _is_table(rows: Sequence[list[Line]], columns: Sequence[Span]) -> bool:
    full = [row for row in rows if len(row) > 1]
    lines = [line for row in rows for line in row]
    numbers = sum(bool(_NUMBER.fullmatch(line.text)) for row in full for line in row[1:])
    share = numbers / max(sum(len(row) - 1 for row in full), 1)
    mono = sum(line.mono for line in lines) > 0.5 * len(lines)
    if len(full) < 2 or len(columns) < 2 or (mono and (share < _FIGURES or len(full) < 4)):
        return False
    if any(_LEADER.search(line.text) for line in lines) or any(line.rtl for line in lines):
        return False
    firsts = [row[0].text for row in full]
    lasts = [row[-1].text for row in full]
    if len(columns) == 2 and sum(bool(_MARKER.fullmatch(text)) for text in firsts) > 0.5 * len(firsts):
        return False
    if sum(bool(_FORMULA_NUMBER.fullmatch(text)) for text in lasts) > 0.5 * len(lasts):
        return False
    if len(columns) == 2 and _is_contents(firsts, lasts):
        return False
    if median(len(line.text) for line in lines) > _CELL:
        return False
    if any(_is_prose(rows, columns, n) for n in range(len(columns))):
        return False
    between = [(right.x0 - left.x1) / max(left.size, 1.0) for row in full for left, right in pairwise(row)]
    if len(full) < 3:
        return min(between) > 2.0 and len(full) == len(rows)
    return share > 0.5 or median(between) > _WIDE


def _is_prose(rows: Sequence[list[Line]], columns: Sequence[Span], column: int) -> bool:
    """Long lines most of which run on into the next: sentences, which a row of a table would tear."""
    texts = [line.text for row in rows for line in row if _column(line, columns) == column]
    if len(texts) < 2 or median(map(len, texts)) < _PROSE:
        return False
    on = sum(text[-1:] not in ".!?:" and below[:1].islower() for text, below in pairwise(texts))
    return on >= _RUNS_ON * (len(texts) - 1)


def _is_layout(rows: Sequence[list[Line]], columns: Sequence[Span]) -> bool:
    """Boxes side by side: what stands in one has no counterpart beside it, and has columns of its own."""
    filled = [{_column(line, columns) for line in row} for row in rows]
    alone = Counter(min(found) for found in filled if len(found) == 1)
    shared = sum(len(row) > len(found) for row, found in zip(rows, filled, strict=True))
    if alone.total() <= 0.5 * len(rows) or shared <= 0.2 * len(rows) or any(line.rtl for row in rows for line in row):
        return False
    # Only on one side: paragraphs behind their bullets or numbers.
    return sum(count >= 0.1 * len(rows) for count in alone.values()) > 1


def _is_contents(titles: Sequence[str], pages: Sequence[str]) -> bool:
    """Titles with page numbers that only grow."""
    if not all(_PAGE.fullmatch(page) for page in pages) or sum(map(len, titles)) < 8 * len(titles):
        return False
    numbers = [int(page) for page in pages if page.isdecimal()]
    return numbers == sorted(numbers)


def _table(rows: Sequence[list[Line]], columns: Sequence[Span]) -> Line:
    cells: list[list[list[tuple[Line, str]]]] = []
    places: list[float] = []
    distance = median(above[0].y - row[0].y for above, row in pairwise(rows))
    for row in rows:
        filled = [[(line, line.text) for line in row if _column(line, columns) == n] for n in range(len(columns))]
        tight = bool(places) and places[-1] - row[0].y < 0.8 * distance
        if tight and (len(row) < len(columns)):
            for cell, more in zip(cells[-1], filled, strict=True):
                cell += more
        else:
            cells.append(filled)
        places.append(row[0].y)
    texts = tuple(tuple(cell_text(cell) for cell in row) for row in cells)
    lines = [line for row in rows for line in row]
    top = rows[0][0]
    return Line(
        text="\n".join(" ".join(row) for row in texts), x0=columns[0][0], x1=columns[-1][1], y=top.y + 0.8 * top.size,
        bottom=rows[-1][0].y, size=median(line.size for line in lines), rows=texts, row=top.row, font=top.font,
        unmapped=sum(line.unmapped for line in lines),
    )  # fmt: skip


def _column(line: Line, columns: Sequence[Span]) -> int:
    middle = (line.x0 + line.x1) / 2
    return min(range(len(columns)), key=lambda n: max(columns[n][0] - middle, middle - columns[n][1], 0.0))
