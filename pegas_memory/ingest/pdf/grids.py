"""Ruled tables: lines that cross make a grid, words fall into its cells. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pegas_memory.ingest.pdf.lines import Line, Rule

_NEAR = 3.0
"""Points within which two lines are one, or touch."""
_MAX_RULES = 400
_MAX_CELL = 1_500
"""Characters of a cell beyond which the grid is taken for page layout."""


@dataclass(frozen=True, slots=True)
class _Grid:
    xs: list[float]
    ys: list[float]
    """From the bottom up."""
    flats: list[Rule]
    uprights: list[Rule]

    def parted(self, x: float, y: float) -> bool:
        """True when a line stands at ``x`` where the row at ``y`` is."""
        return any(abs(u.at - x) <= 2 * _NEAR and u.start - 1 <= y <= u.end + 1 for u in self.uprights)

    def floored(self, x: float, y: float) -> bool:
        """True when a line lies at ``y`` below the cell at ``x``."""
        return any(abs(f.at - y) <= 2 * _NEAR and f.start - 1 <= x <= f.end + 1 for f in self.flats)


def ruled_tables(lines: Sequence[Line], rules: Sequence[Rule]) -> list[Line]:
    """``lines`` with those that stand in a ruled grid replaced by one table, where the first of them stood."""
    kept = list(lines)
    for grid in _grids(rules):
        inside = [line for line in kept if not line.rows and _within(line, grid)]
        table = _table(grid, inside) if len(inside) > 1 else None
        if table is None:
            continue
        at = next(n for n, line in enumerate(kept) if line is inside[0])
        gone = {id(line) for line in inside}
        kept = [line for line in kept[:at] if id(line) not in gone] + [table] + [
            line for line in kept[at:] if id(line) not in gone
        ]  # fmt: skip
    return kept


def _within(line: Line, grid: _Grid) -> bool:
    middle = (line.x0 + line.x1) / 2
    return grid.xs[0] - 1 <= middle <= grid.xs[-1] + 1 and grid.ys[0] - 1 <= line.y + 0.3 * line.size <= grid.ys[-1] + 1


# --- grids ------------------------------------------------------------------------------------------


def _grids(rules: Sequence[Rule]) -> list[_Grid]:
    flats = _merged(rule for rule in rules if rule.flat)
    uprights = _merged(rule for rule in rules if not rule.flat)
    if not flats or not uprights or len(flats) > _MAX_RULES or len(uprights) > _MAX_RULES:
        return []
    parent = list(range(len(flats) + len(uprights)))

    def root(n: int) -> int:
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    for i, flat in enumerate(flats):
        for j, upright in enumerate(uprights, len(flats)):
            if (
                flat.start - _NEAR <= upright.at <= flat.end + _NEAR
                and upright.start - _NEAR <= flat.at <= upright.end + _NEAR
            ):
                parent[root(i)] = root(j)
    parts: dict[int, tuple[list[Rule], list[Rule]]] = defaultdict(lambda: ([], []))
    for n, rule in enumerate([*flats, *uprights]):
        parts[root(n)][not rule.flat].append(rule)
    grids = [_grid(*part) for part in parts.values() if part[0] and part[1]]
    return [grid for grid in grids if len(grid.xs) > 2 and len(grid.ys) > 1]


def _grid(flats: list[Rule], uprights: list[Rule]) -> _Grid:
    xs = _spread([u.at for u in uprights], [f.start for f in flats], [f.end for f in flats])
    ys = _spread([f.at for f in flats], [u.start for u in uprights], [u.end for u in uprights])
    return _Grid(xs, ys, flats, uprights)


def _spread(places: list[float], starts: list[float], ends: list[float]) -> list[float]:
    """Places of lines, with the open edges of the crossing ones; near ones once."""
    found: list[float] = []
    for place in sorted([*places, min(starts), max(ends)]):
        if not found or place - found[-1] > 2 * _NEAR:
            found.append(place)
    return found


def _merged(rules: Iterable[Rule]) -> list[Rule]:
    """Pieces of one line as one."""
    found: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: (round(rule.at), rule.start)):
        for n in range(len(found) - 1, max(len(found) - 4, -1), -1):
            last = found[n]
            if abs(last.at - rule.at) < 1.5 and rule.start <= last.end + _NEAR:
                found[n] = replace(last, end=max(last.end, rule.end))
                break
        else:
            found.append(rule)
    return found


# --- cells ------------------------------------------------------------------------------------------


def _table(grid: _Grid, lines: Sequence[Line]) -> Line | None:
    columns, bands = len(grid.xs) - 1, len(grid.ys) - 1
    cells: dict[tuple[int, int], list[tuple[Line, str]]] = defaultdict(list)
    for line in lines:
        y = line.y + 0.3 * line.size
        band = min(max(bisect_right(grid.ys, y) - 1, 0), bands - 1)
        by_column: dict[int, list[str]] = defaultdict(list)
        for word in line.words:
            column = min(max(bisect_right(grid.xs, (word.x0 + word.x1) / 2) - 1, 0), columns - 1)
            while column and not grid.parted(grid.xs[column], y):
                column -= 1
            by_column[column].append(word.text)
        for column, words in by_column.items():
            middle = (grid.xs[column] + grid.xs[column + 1]) / 2
            row = band
            while row < bands - 1 and not grid.floored(middle, grid.ys[row + 1]):
                row += 1
            cells[row, column].append((line, " ".join(words)))
    rows: list[tuple[str, ...]] = []
    for band in range(bands - 1, -1, -1):
        found = {column: cells[band, column] for column in range(columns) if cells.get((band, column))}
        rows += [_row(part, columns) for part in _split(found, bands)]
    rows = _without_empty_columns([row for row in rows if any(row)])
    if not _is_table(rows):
        return None
    size = sorted(line.size for line in lines)[len(lines) // 2]
    unmapped = sum(line.unmapped for line in lines)
    return Line(
        text="\n".join(" ".join(row) for row in rows), x0=grid.xs[0], x1=grid.xs[-1], y=grid.ys[-1], bottom=grid.ys[0],
        size=size, rows=tuple(rows), row=lines[0].row, font=lines[0].font, unmapped=unmapped,
    )  # fmt: skip


def _split(cells: dict[int, list[tuple[Line, str]]], bands: int) -> list[dict[int, list[tuple[Line, str]]]]:
    """A band that holds many rows (no lines between them) row by row, where the columns' baselines agree."""
    by_line: dict[int, dict[int, list[tuple[Line, str]]]] = defaultdict(lambda: defaultdict(list))
    for column, parts in cells.items():
        for line, text in parts:
            key = next((y for y in by_line if abs(y - round(line.y)) <= 0.3 * line.size), round(line.y))
            by_line[key][column].append((line, text))
    shared = sum(len(found) > 1 for found in by_line.values())
    if bands > 3 or len(by_line) < 3 or shared < 0.6 * len(by_line):
        return [cells]
    return [by_line[y] for y in sorted(by_line, reverse=True)]


def _row(cells: dict[int, list[tuple[Line, str]]], columns: int) -> tuple[str, ...]:
    return tuple(cell_text(cells.get(column, [])) for column in range(columns))


def cell_text(parts: Sequence[tuple[Line, str]]) -> str:
    """Lines of a cell as one; a word parted at a line end is put together."""
    text = ""
    for n, (line, piece) in enumerate(parts):
        glued = n > 0 and parts[n - 1][0].hyphen and parts[n - 1][0] is not line
        text += piece if glued or not text else f" {piece}"
    return text


def _without_empty_columns(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    used = [any(row[n] for row in rows) for n in range(len(rows[0]))] if rows else []
    return [tuple(cell for cell, kept in zip(row, used, strict=True) if kept) for row in rows]


def _is_table(rows: Sequence[tuple[str, ...]]) -> bool:
    """Two rows and two columns or more, most rows with more than one cell filled, no cell a page of its own."""
    if len(rows) < 2 or len(rows[0]) < 2 or max(len(cell) for row in rows for cell in row) > _MAX_CELL:
        return False
    return sum(sum(map(bool, row)) > 1 for row in rows) >= max(2, len(rows) / 3)
