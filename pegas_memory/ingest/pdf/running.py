"""Headers, footers and page numbers: lines that recur in the margins, or that the file itself marks. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from pegas_memory.ingest.pdf.lines import Line, Metrics

_PAGE_NUMBER = re.compile(
    r"[\s\-–—|]*(?:page|стр(?:аница|\.)?|с\.|p\.)?\s*(?:\d{1,5}|[ivxlcdm]{1,8})"
    r"(?:\s*(?:of|из|/)\s*\d{1,5})?[\s\-–—|.]*",
    re.IGNORECASE,
)
_REPEATS = 3
"""Pages on which a line must recur in the margin before it counts as a running head."""
_SHORT = 6
"""In a document of fewer pages two are enough, where the line stands apart from the text."""
_PREFIX = 8
_MAX_ARTIFACTS = 0.3
_MARGIN = 0.12
"""Share of the printed height, at the top and at the bottom, where running lines are looked for."""


def without_running_lines(pages: Sequence[list[Line]], titles: Iterable[str], metrics: Metrics) -> list[list[Line]]:
    """The pages less headers, footers and page numbers that recur in the same place, and stamps on every page."""
    known = {_letters(title) for title in titles}
    kept = _without_stamps(_without_artifacts(pages))
    heights = [line.y for lines in pages for line in lines]
    if not heights:
        return kept
    low, high = min(heights), max(heights)
    margin = _MARGIN * (high - low)
    for number, top in enumerate((True, False, True, False)):
        bands = [_band(lines, top) for lines in kept]
        bands = [
            band if band and (band[0].y > high - margin if top else band[0].y < low + margin) else [] for band in bands
        ]
        dropped = _recurring(kept, bands, known, metrics, first=number < 2)
        for page in dropped:
            gone = {id(line) for line in bands[page]}
            kept[page] = [line for line in kept[page] if id(line) not in gone]
    return kept


def _without_artifacts(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Without what a tagged file marks as no content; a file that marks much of its text so is not believed."""
    marked = sum(len(line.text) for lines in pages for line in lines if line.artifact)
    if marked > _MAX_ARTIFACTS * sum(len(line.text) for lines in pages for line in lines):
        return [list(lines) for lines in pages]
    return [[line for line in lines if not line.artifact] for lines in pages]


def _without_stamps(pages: Sequence[list[Line]]) -> list[list[Line]]:
    """Without text that runs across the page (a watermark) or up its side on several pages."""
    seen = Counter(text for lines in pages for text in {line.text for line in lines if line.aside})
    often = {text for text, count in seen.items() if count >= min(_REPEATS, max(len(pages), 2))}
    return [[line for line in lines if not (line.aside and line.text in often)] for lines in pages]


def _band(lines: Sequence[Line], top: bool) -> list[Line]:
    """The lines that share the outermost baseline of a page; none where a table stands there."""
    upright = [line for line in lines if not line.aside]
    if not upright:
        return []
    edge = max(line.y for line in upright) if top else min(line.bottom if line.rows else line.y for line in upright)
    band = [line for line in upright if abs((line.bottom if line.rows and not top else line.y) - edge) < 3.0]
    return [] if any(line.rows for line in band) else band


def _recurring(
    pages: Sequence[list[Line]], bands: Sequence[list[Line]], known: set[str], metrics: Metrics, *, first: bool
) -> set[int]:
    same: dict[tuple[int, str], set[int]] = defaultdict(set)
    numbers: set[int] = set()
    repeats = 2 if len(pages) < _SHORT else _REPEATS
    dropped: set[int] = set()
    apart = {p for p, band in enumerate(bands) if band and _stands_apart(pages[p], band, metrics)}
    for page, band in enumerate(bands):
        text = " ".join(line.text for line in band)
        if not text:
            continue
        if _PAGE_NUMBER.fullmatch(text):
            numbers.add(page)
            if page in apart and re.findall(r"\d+", text)[:1] == [str(page + 1)]:
                dropped.add(page)
        place = round(band[0].y / 4)
        # A second line inside the margin must be the same to the letter: it may be the text's own.
        key = re.sub(r"\d+", "#", text.casefold()) if first else text
        for near in (place - 1, place, place + 1):
            same[near, key].add(page)
            if first and page in apart:
                same[near, "^" + key[:_PREFIX]].add(page)
    if len(numbers) >= repeats:
        dropped |= numbers
    for found in same.values():
        if len(found) >= _REPEATS or (len(found) >= repeats and first and found <= apart):
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
