"""Documents into chunks: runs of whole blocks, cut where structure or sentences end."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pegas_memory.errors import InvalidParameter
from pegas_memory.ingest.blocks import visible_runs
from pegas_memory.model import Block, BlockKind, Chunk, Extracted
from pegas_memory.text import sentences

MAX_CHARACTERS = 1200
FAR_BEYOND = 2
"""A sentence, row or line is cut only when it is longer than this many times the bound."""
MIN_CHARACTERS = 50

Span = tuple[int, int]


def chunk(document: Extracted, max_characters: int = MAX_CHARACTERS) -> list[Chunk]:
    """Chunks of ``document`` in reading order, at most ``max_characters`` each.

    A heading starts a chunk and stays with what follows it. A block that does not fit is cut between
    sentences, table rows or lines of code, so a chunk is longer than the bound only when one of those
    is. Deterministic; every block's text is in exactly one run of chunks.
    Raises ``InvalidParameter`` for a bound under 50 characters.
    """
    if max_characters < MIN_CHARACTERS:
        raise InvalidParameter(f"`max_characters` is {max_characters}; at least {MIN_CHARACTERS} are needed.")
    runs = _runs(document.blocks, max_characters)
    return [_as_chunk(document, position, run) for position, run in enumerate(runs)]


def _as_chunk(document: Extracted, position: int, run: Sequence[Block]) -> Chunk:
    first, last = run[0].locator, run[-1].locator
    locator = replace(first, end=last.end, headings=last.headings)
    return Chunk(position, document.text[first.start : last.end], locator, tuple(run))


def _runs(blocks: Sequence[Block], bound: int) -> Iterator[list[Block]]:
    run: list[Block] = []
    for block in blocks:
        if run and block.kind is BlockKind.HEADING and not _only_headings(run):
            yield run
            run = []
        if _fits(run, block, bound):
            run.append(block)
            continue
        if run and not _only_headings(run):
            yield run
            run = []
            if _fits(run, block, bound):
                run.append(block)
                continue
        used = block.locator.start - run[0].locator.start if run else 0
        pieces = _pieces(block, bound, used)
        if run and used + len(pieces[0].text) > bound:
            yield run
            run = []
            pieces = _pieces(block, bound, 0)
        yield [*run, pieces[0]]
        for piece in pieces[1:-1]:
            yield [piece]
        run = [pieces[-1]] if len(pieces) > 1 else []
    if run:
        yield run


def _only_headings(run: Sequence[Block]) -> bool:
    return all(block.kind is BlockKind.HEADING for block in run)


def _fits(run: Sequence[Block], block: Block, bound: int) -> bool:
    start = run[0].locator.start if run else block.locator.start
    return block.locator.end - start <= bound


def _pieces(block: Block, bound: int, used: int) -> list[Block]:
    """``block`` cut into parts of at most ``bound``; the first leaves room for ``used`` characters."""
    room = bound - used if bound - used >= bound // 4 else bound
    spans = _pack(block.text, _atoms(block, bound), room, bound)
    offset = block.locator.start
    return [
        replace(block, text=block.text[a:b], locator=replace(block.locator, start=offset + a, end=offset + b))
        for a, b in spans
    ]


def _pack(text: str, atoms: Sequence[Span], room: int, bound: int) -> list[Span]:
    """Neighbouring atoms joined greedily: the first run within ``room``, the others within ``bound``."""
    packed: list[Span] = []
    for start, end in atoms:
        limit = room if len(packed) == 1 else bound
        if packed and end - packed[-1][0] <= limit:
            packed[-1] = (packed[-1][0], end)
        else:
            packed.append((start, end))
    return packed or [(0, len(text))]


def _atoms(block: Block, bound: int) -> list[Span]:
    """What must stay whole inside ``block``: sentences of prose, rows of a table, lines of code."""
    match block.kind:
        case BlockKind.TABLE | BlockKind.CODE:
            spans = _line_spans(block.text, bound, paragraphs=block.kind is BlockKind.CODE)
        case BlockKind.HEADING | BlockKind.PARAGRAPH | BlockKind.LIST_ITEM:
            spans = sentences(block.text)
    atoms: list[Span] = []
    for start, end in spans:
        if end - start <= bound * FAR_BEYOND:
            atoms.append((start, end))
        else:
            atoms.extend(_cut(block.text, start, end, bound))
    return atoms


def _line_spans(text: str, bound: int, *, paragraphs: bool) -> list[Span]:
    """Lines with a visible character; for code, whole blank-line paragraphs where they fit."""
    spans: list[Span] = []
    for start, end in visible_runs(text):
        if paragraphs and end - start <= bound:
            spans.append((start, end))
            continue
        for line in text[start:end].split("\n"):
            spans.append((start, start + len(line)))
            start += len(line) + 1
    return spans


_CLAUSE = re.compile(r"[;:,)\]»”]\s|\s[—–]\s")


def _cut(text: str, start: int, end: int, bound: int) -> Iterator[Span]:
    """A far too long sentence or line, cut at a clause, else at white space, else anywhere."""
    while end - start > bound:
        at = _cut_point(text, start, start + bound)
        yield start, _before_space(text, start, at)
        start = at
        while start < end and text[start].isspace():
            start += 1
    if start < end:
        yield start, end


def _cut_point(text: str, start: int, limit: int) -> int:
    clauses = [m.start() + 1 for m in _CLAUSE.finditer(text, start + (limit - start) // 2, limit)]
    if clauses:
        return clauses[-1]
    for at in range(limit, start + (limit - start) // 2, -1):
        if text[at].isspace():
            return at
    at = limit
    while at > start + 1 and unicodedata.combining(text[at]):
        at -= 1
    return at


def _before_space(text: str, start: int, at: int) -> int:
    while at > start + 1 and text[at - 1].isspace():
        at -= 1
    return at
