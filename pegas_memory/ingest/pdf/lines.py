"""What a page is read into: words with places, lines of them, and what a document usually looks like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    x0: float
    x1: float


@dataclass(frozen=True, slots=True)
class Line:
    """One visual line, or the part of one between wide gaps; a table is one line with ``rows``.

    ``x0``/``x1`` and ``y`` (the baseline; of a table the top) are in points as the page is looked at, ``y``
    growing upwards; ``size`` is the height of a character box; ``hyphen`` says that its last word goes on;
    ``row`` numbers the lines of the content stream; ``artifact``: the file says that it is no content; ``aside``:
    it runs otherwise than the page's text; ``unmapped`` counts words whose font has no Unicode map."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    mono: bool = False
    bold: bool = False
    hyphen: bool = False
    font: str = ""
    row: int = -1
    rtl: bool = False
    artifact: bool = False
    aside: bool = False
    unmapped: int = 0
    garbled: bool = False
    words: tuple[Word, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    bottom: float = 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """A drawn line or the side of a box: along x when ``flat``, else along y; it lies at ``at``."""

    flat: bool
    at: float
    start: float
    end: float


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
    def garbled(self) -> bool:
        return self.lines[0].garbled

    @property
    def table(self) -> bool:
        return bool(self.lines[0].rows)


@dataclass(frozen=True, slots=True)
class Metrics:
    """``body`` is the size that most characters have; ``pitch`` the usual distance of baselines
    divided by the size."""

    body: float
    pitch: float
    bold_share: float = 0.0


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
