"""Who does what to whom: when may the same words stand in another order?"""

from __future__ import annotations

import re
from itertools import pairwise

from pegas_memory.dedup.alignment import Alignment
from pegas_memory.dedup.tokens import CYRILLIC, RU_ADJECTIVE, Kind, Reading, Token, is_adverb

_RU_EITHER_CASE = re.compile(r"[бвгджзйклмнпрстфхцчшщьоеиы]$")
_RU_OBLIQUE = re.compile(r"(?:ым|им|ом|ем|ого|его|ому|ему|ыми|ими|ами|ями|ах|ях|ых|их)$")
_NOMINAL = frozenset((Kind.NAME, Kind.WORD, Kind.POLE))
RU_VERB = re.compile(r"(?:[аеиоуыя]л(?:а|о|и)?|ет|ит|ут|ют|ат|ят|ан|ен|ана|ена|ано|ено|аны|ены)(?:сь|ся)?$")


def order(found: Alignment) -> str:
    places = [j for _, j in found.pairs]
    if all(a < b for a, b in pairwise(places)) or _fronted(found.new, found.old):
        return ""
    if not (found.new.russian and found.old.russian):
        return _english_order(found)
    return _russian_order(found)


def _fronted(a: Reading, b: Reading) -> bool:
    """«By default, X» and «X by default»: the same words, an opening phrase moved to the end."""
    for first, second in ((a, b), (b, a)):
        if first.fronted and second.plain == first.plain[first.fronted :] + first.plain[: first.fronted]:
            return True
    return False


def _inversions(found: Alignment) -> list[tuple[int, int]]:
    """Pairs of positions in ``found.pairs`` that stand the other way round in old."""
    pairs = found.pairs
    return [(x, y) for x in range(len(pairs)) for y in range(x + 1, len(pairs)) if pairs[x][1] > pairs[y][1]]


def _english_order(found: Alignment) -> str:
    """Only the one date of a claim, or an adverb, may stand elsewhere."""
    tokens = found.new.tokens
    temporal = [i for i, token in enumerate(tokens) if _temporal(token)]
    for x, y in _inversions(found):
        movers = {i for i in (found.pairs[x][0], found.pairs[y][0]) if is_adverb(tokens[i]) or temporal == [i]}
        if not movers:
            return f"order of {tokens[found.pairs[x][0]].form!r} and {tokens[found.pairs[y][0]].form!r}"
    return ""


def _temporal(token: Token) -> bool:
    year = token.kind is Kind.NUMBER and re.fullmatch(r"(?:1\d|20)\d\ds?", token.key) is not None
    return token.kind is Kind.DATE or year or (token.kind is Kind.POLE and token.key.startswith(("day", "weekday")))


def _russian_order(found: Alignment) -> str:
    """Cases carry the roles: words may move when their forms stay, unless two of them could each be
    subject or object, or an adjective or number would change its noun."""
    for x, y in _inversions(found):
        reason = _swapped(found, x, y)
        if reason:
            return reason
    return _rebound(found)


def _swapped(found: Alignment, x: int, y: int) -> str:
    sides = [(found.new.tokens[i], found.old.tokens[j]) for i, j in (found.pairs[x], found.pairs[y])]
    if all(a.kind in (Kind.NUMBER, Kind.DATE, Kind.UNIT) for a, _ in sides):
        return f"order of {sides[0][0].form!r} and {sides[1][0].form!r}"
    nouns = [(a, b) for a, b in sides if _is_noun(a)]
    if len(nouns) < 2:
        return ""
    changed = [a for a, b in nouns if a.form != b.form and not (a.before and b.before)]
    moved_into_phrase = any(bool(a.before) != bool(b.before) for a, b in nouns)
    if len(changed) == 2 or moved_into_phrase or all(_open_to_both(a) for a, _ in nouns):
        return f"who does what to whom: {nouns[0][0].form!r}, {nouns[1][0].form!r}"
    return ""


def _is_noun(token: Token) -> bool:
    if token.kind is Kind.NAME:
        return len(token.form) > 1
    return token.kind in _NOMINAL and not RU_VERB.search(token.form) and not RU_ADJECTIVE.search(token.form)


def _open_to_both(token: Token) -> bool:
    """Could be subject as well as object: no preposition, and a form that two cases share or that has none."""
    if token.before or not CYRILLIC.search(token.form):
        return not token.before
    return bool(_RU_EITHER_CASE.search(token.form)) and not _RU_OBLIQUE.search(token.form)


def _rebound(found: Alignment) -> str:
    """An adjective or number that stands before another word than in the other claim."""
    there = dict(found.pairs)
    tokens, others = found.new.tokens, found.old.tokens
    for i, j in found.pairs:
        binds = tokens[i].kind is Kind.NUMBER or (
            tokens[i].kind in (Kind.WORD, Kind.POLE) and RU_ADJECTIVE.search(tokens[i].form)
        )
        if not binds or i + 1 not in there or j + 1 >= len(others) or there[i + 1] == j + 1:
            continue
        if j + 1 in there.values() or tokens[i].kind is Kind.NUMBER:
            return f"{tokens[i].form!r} belongs to {tokens[i + 1].form!r} / {others[j + 1].form!r}"
    return ""
