"""How long a text is for a model, and where it may be cut between characters."""

from __future__ import annotations

import math
import re
import unicodedata

_PIECE = re.compile(r"[A-Za-z]?[a-z]{1,47}|[\u0400-\u04ff]?[\u0430-\u045f]{1,47}|[ \t]{1,48}|\n{1,48}|.", re.DOTALL)
"""Ordinary words, white space, and any other character by itself; none is longer than 48 characters."""


def tokens_bound(text: str) -> int:
    """An upper bound of what common tokenizers count (checked against cl100k, o200k and the bundled model's).

    An ordinary English word costs a token for each 3 letters, a Russian one for each 1.5, white space
    before a word nothing, an end of line one; anything else (digits, capitals, signs) as many as its UTF-8
    bytes. So the bounds of texts that are put together with a space between them add up.
    """
    return sum(_cost(match[0]) for match in _PIECE.finditer(text))


def token_limit(text: str, start: int, end: int, tokens: int) -> int:
    """The furthest position up to ``end`` such that what stands from ``start`` costs at most ``tokens``; never
    within a word, nor at ``start`` itself."""
    spent, at = 0, start
    for match in _PIECE.finditer(text, start, end):
        spent += _cost(match[0])
        if spent > tokens and at > start:
            return at
        at = match.end()
    return end


def _cost(piece: str) -> int:
    if piece.isspace():
        return 0 if piece == " " else len(piece)
    if piece.isascii():
        return math.ceil(len(piece) / 3)
    if piece[0] < "\u0500" and len(piece) > 1:
        return math.ceil(len(piece) / 1.5)
    return len(piece.encode("utf-8", "replace"))


_LOOK_BACK = 64
"""No character that people write is made of more code points; a longer heap of accents may be cut."""
_EXTENDS = re.compile("[\u200c\u200d\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")
_VOWEL_JAMO = re.compile("[\u1160-\u11ff]")


def whole_before(text: str, at: int, lowest: int) -> int:
    """``at``, or the nearest position before it (above ``lowest``) where a cut tears no letter from its accents,
    no emoji from its parts and no flag in two; ``at`` itself when there is none near."""
    for cut in range(at, max(lowest, at - _LOOK_BACK), -1):
        if not _torn(text, cut, lowest):
            return cut
    return at


def _torn(text: str, at: int, lowest: int) -> bool:
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if after.isascii():
        return before == "\r" and after == "\n"
    if unicodedata.category(after)[0] == "M" or _EXTENDS.match(after) or _VOWEL_JAMO.match(after):
        return True
    if before == "\u200d":
        return True
    return bool(_FLAG.match(after)) and _flags_before(text, at, lowest) % 2 == 1


def _flags_before(text: str, at: int, lowest: int) -> int:
    """How many halves of flags stand directly before ``at``, down to ``lowest``."""
    first = at
    while first > lowest and _FLAG.match(text[first - 1]):
        first -= 1
    return at - first
