"""Documents into chunks: runs of whole blocks, cut where structure or sentences end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pegas_memory.errors import InvalidParameter
from pegas_memory.ingest.blocks import visible_runs
from pegas_memory.model import Block, BlockKind, Chunk, Extracted
from pegas_memory.text import sentences, token_limit, tokens_bound, whole_before

MAX_TOKENS = 640
"""By ``tokens_bound``, which overstates: of 4,500 prose chunks (Russian, English; manuals, encyclopaedia, abstracts)
the bundled model, whose window is 512, counted 213–333 in the median one and 496 in the longest (500 gave 391)."""
HEADING_SHARE = 5
"""What may stand above one block that fits alone, as a part of the bound."""
OVERLAP_SHARE = 8
WHOLE = 4
"""A code block is kept whole up to this many times the bound (2,560: about 130 lines of Python); so is a row of a
table, and a paragraph or line of a longer code block."""
MIN_TOKENS = 50


def chunk(document: Extracted, max_tokens: int = MAX_TOKENS) -> list[Chunk]:
    """Chunks of ``document`` in reading order, at most ``max_tokens`` each by ``tokens_bound``.

    A heading starts a chunk and stays with what follows it; a block that fits alone is never cut, not for its
    headings' sake either. One that does not is cut between sentences, rows of a table, paragraphs or lines of
    code, and within one of these only when it is too long by itself. The next piece of a cut paragraph begins
    with the last sentence of the piece before, when that is short. Deterministic, in linear time.
    Raises ``InvalidParameter`` for a bound under 50 tokens.
    """
    if max_tokens < MIN_TOKENS:
        raise InvalidParameter(f"`max_tokens` is {max_tokens}; at least {MIN_TOKENS} are needed.")
    return [_as_chunk(document, position, run) for position, run in enumerate(_runs(document.blocks, max_tokens))]


@dataclass(slots=True)
class _Run:
    """Blocks that make a chunk. The first ``overlap`` characters stand in the run before as well."""

    blocks: list[Block] = field(default_factory=list)
    tokens: int = 0
    overlap: int = 0

    def with_(self, block: Block, tokens: int) -> int:
        """Tokens of the run with ``block`` added; the white space between them counts a token a character."""
        gap = block.locator.start - self.blocks[-1].locator.end if self.blocks else 0
        return self.tokens + gap + tokens

    def add(self, block: Block, tokens: int) -> None:
        self.tokens = self.with_(block, tokens)
        self.blocks.append(block)

    @property
    def waits(self) -> bool:
        """Whether it holds nothing but headings, for what follows them."""
        return not self.blocks or self.blocks[-1].kind is BlockKind.HEADING


@dataclass(frozen=True, slots=True)
class _Part:
    """[start, end) of a block's text that stays whole."""

    start: int
    end: int
    tokens: int
    is_sentence: bool = False


@dataclass(frozen=True, slots=True)
class _Piece:
    """[start, end) of a block's text; ``overlap`` characters of it stand in the piece before as well."""

    start: int
    end: int
    tokens: int
    overlap: int = 0


def _as_chunk(document: Extracted, position: int, run: _Run) -> Chunk:
    first, last = run.blocks[0].locator, run.blocks[-1].locator
    locator = replace(first, end=last.end, headings=last.headings)
    return Chunk(position, document.text[first.start : last.end], locator, tuple(run.blocks), run.overlap)


def _runs(blocks: Sequence[Block], bound: int) -> Iterator[_Run]:
    run = _Run()
    for block in blocks:
        tokens = tokens_bound(block.text)
        fits = run.with_(block, tokens) <= bound
        if not run.waits and (block.kind is BlockKind.HEADING or not fits):
            yield run
            run = _Run()
        elif not fits and run.tokens > bound // HEADING_SHARE:
            above, run = _last_headings(run, bound // HEADING_SHARE)
            yield from above
        if fits or tokens <= (bound * WHOLE if block.kind is BlockKind.CODE else bound):
            run.add(block, tokens)
            continue
        pieces = _pieces(block, bound, bound - run.with_(block, 0))
        for number, (part, piece) in enumerate(_cut_out(block, pieces)):
            if number:
                yield run
                run = _Run(overlap=piece.overlap)
            run.add(part, piece.tokens)
    if run.blocks:
        yield run


def _last_headings(run: _Run, room: int) -> tuple[list[_Run], _Run]:
    """Headings that are too many to stand above a block, and the last of them, that may."""
    costs = [tokens_bound(block.text) for block in run.blocks]
    kept = len(costs)
    while kept and sum(costs[kept - 1 :]) <= room:
        kept -= 1
    above, below = _Run(), _Run()
    for number, (block, tokens) in enumerate(zip(run.blocks, costs, strict=True)):
        (above if number < kept else below).add(block, tokens)
    return ([above] if above.blocks else []), below


def _cut_out(block: Block, pieces: Iterable[_Piece]) -> Iterator[tuple[Block, _Piece]]:
    at, line, counted = block.locator, block.locator.line, 0
    for piece in pieces:
        if line is not None:
            line += block.text.count("\n", counted, piece.start)
            counted = piece.start
        locator = replace(at, start=at.start + piece.start, end=at.start + piece.end, line=line)
        yield replace(block, text=block.text[piece.start : piece.end], locator=locator), piece


def _pieces(block: Block, bound: int, room: int) -> Iterator[_Piece]:
    """``block`` in pieces of at most ``bound`` tokens, the first one of ``room`` when one of its parts fits there."""
    piece: _Piece | None = None
    before: _Part | None = None
    for part in _parts(block, bound):
        if piece is None or before is None:
            piece = _Piece(part.start, part.end, part.tokens)
        elif (longer := piece.tokens + part.start - before.end + part.tokens) <= room:
            piece = replace(piece, end=part.end, tokens=longer)
        else:
            yield piece
            room, piece = bound, _after(piece, before, part, bound)
        before = part
    if piece is not None:
        yield piece


def _after(piece: _Piece, before: _Part, part: _Part, bound: int) -> _Piece:
    """The piece that begins with ``part``, led by the sentence ``before`` it when that is short."""
    short = before.is_sentence and before.start > piece.start and before.tokens <= bound // OVERLAP_SHARE
    tokens = before.tokens + part.start - before.end + part.tokens
    if short and tokens <= bound:
        return _Piece(before.start, part.end, tokens, part.start - before.start)
    return _Piece(part.start, part.end, part.tokens)


def _parts(block: Block, bound: int) -> Iterator[_Part]:
    """What stays whole inside ``block``: sentences of prose, rows of a table, paragraphs or lines of code."""
    text = block.text
    match block.kind:
        case BlockKind.TABLE:
            spans, longest, prose = _rows(text), bound * WHOLE, False
        case BlockKind.CODE:
            spans, longest, prose = _code_spans(text, bound * WHOLE), bound * WHOLE, False
        case BlockKind.HEADING | BlockKind.PARAGRAPH | BlockKind.LIST_ITEM:
            spans, longest, prose = iter(sentences(text)), bound, True
    for start, end in spans:
        tokens = tokens_bound(text[start:end])
        if tokens <= longest:
            yield _Part(start, end, tokens, is_sentence=prose)
        else:
            for left, right in _fragments(text, start, end, bound):
                yield _Part(left, right, tokens_bound(text[left:right]))


_RULE_ROW = re.compile(r"[\s|:+=-]+")


def _rows(text: str) -> Iterator[tuple[int, int]]:
    """Lines with something visible; a head and the rule below it are one."""
    lines = _lines(text, 0)
    head = next(lines, None)
    for start, end in lines:
        if head is not None and _RULE_ROW.fullmatch(text, start, end):
            start = head[0]
        elif head is not None:
            yield head
        head = None
        yield start, end
    if head is not None:
        yield head


def _code_spans(text: str, longest: int) -> Iterator[tuple[int, int]]:
    for start, end in visible_runs(text):
        if tokens_bound(text[start:end]) <= longest:
            yield start, end
        else:
            yield from _lines(text[start:end], start)


def _lines(text: str, offset: int) -> Iterator[tuple[int, int]]:
    for line in text.split("\n"):
        if line and not line.isspace():
            yield offset, offset + len(line)
        offset += len(line) + 1


_CLAUSE = re.compile(r"[;:,)\]»”]\s|\s[—–]\s|[，、；：]")


def _fragments(text: str, start: int, end: int, bound: int) -> Iterator[tuple[int, int]]:
    """A sentence, row or line that is too long, cut at a clause, else at white space, else between characters."""
    while start < end:
        if text[start].isspace():
            start += 1
            continue
        limit = token_limit(text, start, end, bound)
        at = limit if limit == end else _cut_point(text, start, limit)
        yield start, start + len(text[start:at].rstrip())
        start = at


def _cut_point(text: str, start: int, limit: int) -> int:
    middle = start + (limit - start) // 2
    if clauses := [found.start() + 1 for found in _CLAUSE.finditer(text, middle, limit)]:
        return clauses[-1]
    space = next((at for at in range(limit, middle, -1) if text[at].isspace()), 0)
    return space or whole_before(text, limit, start)
