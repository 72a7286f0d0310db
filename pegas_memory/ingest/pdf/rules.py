"""What a page draws besides text: the straight lines that may rule a table, and the kinds of its objects.

Sides of coloured fields count only where a page has no lines of its own: cells are often painted line by line."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pypdfium2.raw as pdfium

from pegas_memory.ingest.pdf.lines import Rule

_MAX_OBJECTS = 6_000
_MAX_SEGMENTS = 1_000
_THIN = 2.5
_SHORT = 5.0
"""Points; a shorter line rules nothing."""
Point = tuple[float, float]
Matrix = tuple[float, float, float, float, float, float]
_PLAIN: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def look(page: Any, turn: int, width: float, height: float) -> tuple[list[Rule], Counter[int]]:
    """Rules of a page as it is looked at after ``turn`` quarters, and how many objects of each kind it shows."""
    kinds: Counter[int] = Counter()
    lines: list[Rule] = []
    edges: list[Rule] = []
    for thing, outer in _objects(page.raw):
        kind = pdfium.FPDFPageObj_GetType(thing)
        kinds[kind] += 1
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            for start, end, drawn in _strokes(thing, outer, 0.85 * width, 0.85 * height):
                (lines if drawn else edges).extend(
                    _rule(_turned(start, turn, width, height), _turned(end, turn, width, height))
                )
    ruled = sum(line.flat for line in lines) > 1 and sum(not line.flat for line in lines) > 1
    return lines if ruled else lines + edges, kinds


def _objects(page: Any) -> Iterator[tuple[Any, Matrix]]:
    """Objects of a page and of the forms on it, with the matrix of their form."""
    left = _MAX_OBJECTS
    for n in range(min(pdfium.FPDFPage_CountObjects(page), left)):
        thing = pdfium.FPDFPage_GetObject(page, n)
        yield thing, _PLAIN
        if pdfium.FPDFPageObj_GetType(thing) != pdfium.FPDF_PAGEOBJ_FORM:
            continue
        matrix = _matrix(thing)
        inner = min(pdfium.FPDFFormObj_CountObjects(thing), left)
        left -= inner
        for m in range(inner):
            yield pdfium.FPDFFormObj_GetObject(thing, m), matrix


def _matrix(thing: Any) -> Matrix:
    m = pdfium.FS_MATRIX()
    return (m.a, m.b, m.c, m.d, m.e, m.f) if pdfium.FPDFPageObj_GetMatrix(thing, m) else _PLAIN


def _apply(m: Matrix, p: Point) -> Point:
    return m[0] * p[0] + m[2] * p[1] + m[4], m[1] * p[0] + m[3] * p[1] + m[5]


def _strokes(thing: Any, outer: Matrix, widest: float, highest: float) -> Iterator[tuple[Point, Point, bool]]:
    """Straight pieces of a path, and whether they are lines (else sides of a coloured field); of a thin box its
    middle line; nothing of a curve or of the page's background."""
    a, b, c, d = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(thing, a, b, c, d):
        return
    low, high = _apply(outer, (a.value, b.value)), _apply(outer, (c.value, d.value))
    width, height = abs(high[0] - low[0]), abs(high[1] - low[1])
    if width > widest and height > highest:
        return
    if width < _THIN or height < _THIN:
        middle = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
        if width > height:
            yield (low[0], middle[1]), (high[0], middle[1]), True
        else:
            yield (middle[0], low[1]), (middle[0], high[1]), True
        return
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(thing, fill, stroke)
    drawn = bool(stroke.value)
    own = _matrix(thing)
    first = last = (0.0, 0.0)
    x, y = ctypes.c_float(), ctypes.c_float()
    for n in range(min(pdfium.FPDFPath_CountSegments(thing), _MAX_SEGMENTS)):
        segment = pdfium.FPDFPath_GetPathSegment(thing, n)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        point = _apply(outer, _apply(own, (x.value, y.value)))
        match pdfium.FPDFPathSegment_GetType(segment):
            case pdfium.FPDF_SEGMENT_MOVETO:
                first = point
            case pdfium.FPDF_SEGMENT_LINETO:
                yield last, point, drawn
        if pdfium.FPDFPathSegment_GetClose(segment):
            yield point, first, drawn
        last = point


def _turned(p: Point, turn: int, width: float, height: float) -> Point:
    match turn:
        case 1:
            return p[1], width - p[0]
        case 2:
            return width - p[0], height - p[1]
        case 3:
            return height - p[1], p[0]
        case _:
            return p


def _rule(a: Point, b: Point) -> list[Rule]:
    wide, tall = abs(a[0] - b[0]), abs(a[1] - b[1])
    if max(wide, tall) < _SHORT or min(wide, tall) > 1.0:
        return []
    if wide > tall:
        return [Rule(True, (a[1] + b[1]) / 2, min(a[0], b[0]), max(a[0], b[0]))]
    return [Rule(False, (a[0] + b[0]) / 2, min(a[1], b[1]), max(a[1], b[1]))]
