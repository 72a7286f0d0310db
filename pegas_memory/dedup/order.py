"""Who does what to whom: when may the same words stand in another order?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from pegas_memory.dedup.alignment import Alignment
from pegas_memory.dedup.lexicon import NOUNS_LIKE_VERBS, SENTENCE_ADVERBS, SUBORDINATE
from pegas_memory.dedup.tokens import CYRILLIC, RU_ADJECTIVE, Kind, Reading, Token
from pegas_memory.dedup.vocabulary import poles, stem

RU_VERB = re.compile(
    r"(?:[аеиоуыя]л(?:а|о|и)?|[сзгкшдб]л(?:а|о|и)|ет|ит|ут|ют|ат|ят|ан|ен|ана|ена|ано|ено|аны|ены)(?:сь|ся)?$"
)
_RU_EITHER_CASE = re.compile(r"[бвгджзйклмнпрстфхцчшщьоеиы]$")
_RU_OBLIQUE = re.compile(r"[а-я]{3,}(?:ом|ем|ами|ями|ах|ях)$")
_SURNAME = re.compile(r"[а-я]{3,}[ое]в$")
_TOWNS = frozenset("ростов псков киев чернигов харьков львов саратов тамбов могилев азов краков".split())

_JOINING = frozenset("and or but и или а но".split())

Run = Sequence[tuple[int, int]]
"""Pairs (place in new, place in old) that stand side by side in both claims."""


def order(found: Alignment) -> str:
    """The first reason why the words of ``old`` may not stand as in ``new``, else ""."""
    pairs = found.pairs
    if all(a[1] < b[1] for a, b in pairwise(pairs)):
        return ""
    moved = next((a[0], b[0]) for a, b in pairwise(pairs) if a[1] > b[1])
    reason = "order of {!r} and {!r}".format(*(found.new.tokens[i].form for i in moved))
    if any(word in SUBORDINATE or word in _JOINING for word in (*found.new.plain, *found.old.plain)):
        return reason
    if _fronted(found.new, found.old):
        return ""
    if found.new.russian and found.old.russian:
        return "" if _is_russian_move(found, _runs(found)) else reason
    return "" if _is_english_move(found) else reason


def _fronted(a: Reading, b: Reading) -> bool:
    """«By default, X» and «X by default»: the same words, an opening phrase moved to the end."""
    for first, second in ((a, b), (b, a)):
        if first.fronted and second.plain == first.plain[first.fronted :] + first.plain[: first.fronted]:
            return True
    return False


def _is_english_move(found: Alignment) -> bool:
    """Only the one date of a claim, or an adverb of the whole sentence, may move, and only from or to its front."""
    tokens = found.new.tokens
    dates = [i for i, token in enumerate(tokens) if _temporal(token)]
    adverbs = [i for i, token in enumerate(tokens) if token.form in SENTENCE_ADVERBS]
    for movers in (dates, adverbs):
        if len(movers) != 1:
            continue
        rest = [j for i, j in found.pairs if i != movers[0]]
        at = dict(found.pairs).get(movers[0], -1)
        if all(a < b for a, b in pairwise(rest)) and (0 in (movers[0], at) or movers is dates):
            return True
    return False


def _temporal(token: Token) -> bool:
    year = token.kind is Kind.NUMBER and re.fullmatch(r"(?:1\d|20)\d\ds?", token.key) is not None
    return token.kind is Kind.DATE or year or any(p.startswith(("day", "weekday")) for p in poles(token.form))


def _runs(found: Alignment) -> list[Run]:
    """The pairs in the order of new, cut where old goes on elsewhere."""
    runs: list[list[tuple[int, int]]] = []
    taken = sorted(j for _, j in found.pairs)
    rank = {j: n for n, j in enumerate(taken)}
    for pair in found.pairs:
        if runs and rank[pair[1]] == rank[runs[-1][-1][1]] + 1:
            runs[-1].append(pair)
        else:
            runs.append([pair])
    return list(runs)


def _is_russian_move(found: Alignment, runs: list[Run]) -> bool:
    """Cases carry the roles: one phrase may go to the front («В Париже …») or two change places around their
    verb, if it stays clear which is the subject."""
    ranks = sorted(range(len(runs)), key=lambda n: runs[n][0][1])
    verbs = [all(is_verb(found.new.tokens[i]) for i, _ in run) for run in runs]
    if ranks == [2, 1, 0] and verbs == [False, True, False]:
        return _roles_are_clear(found, runs[0], runs[2])
    if ranks in ([1, 0], [1, 0, 2]):
        return _roles_are_clear(found, runs[0], runs[1])
    if ranks in ([0, 2, 1], [0, 2, 1, 3]) and (verbs[1] or verbs[2]):
        phrase = found.new.tokens[runs[1 if verbs[2] else 2][0][0]]
        return bool(phrase.before) or _temporal(phrase)
    return False


def _roles_are_clear(found: Alignment, first: Run, second: Run) -> bool:
    tokens, others = found.new.tokens, found.old.tokens
    if any(sum(is_verb(tokens[i]) and is_verb(others[j]) for i, j in run) > 1 for run in (first, second)):
        return False
    left, right = (
        [(i, j) for i, j in run if may_be_noun(tokens[i]) or may_be_noun(others[j])] for run in (first, second)
    )
    for i, j in left:
        for k, m in right:
            a, b = tokens[i], tokens[k]
            if a.before and a.before == b.before:
                return False
            if _open_to_both(a, others[j]) and _open_to_both(b, others[m]) and not (_temporal(a) or _temporal(b)):
                return False
            if a.form != others[j].form and b.form != others[m].form:
                return False
    lone = [run for run in (first, second) if all(is_verb(tokens[i]) for i, _ in run)]
    return len(lone) < 2


def is_verb(token: Token) -> bool:
    return token.kind in (Kind.WORD, Kind.POLE) and bool(RU_VERB.search(token.form)) and not _is_listed_noun(token)


def _is_listed_noun(token: Token) -> bool:
    return stem(token.form) in NOUNS_LIKE_VERBS or token.form in NOUNS_LIKE_VERBS


def may_be_noun(token: Token) -> bool:
    if token.kind in (Kind.NAME, Kind.IDENTIFIER):
        return True
    adjective = RU_ADJECTIVE.search(token.form) and not token.form.endswith(("ние", "тие", "вие"))
    return token.kind in (Kind.WORD, Kind.POLE) and not is_verb(token) and not adjective


def _open_to_both(token: Token, other: Token) -> bool:
    """Could be subject as well as object: no preposition, and a form that two cases share or that has none."""
    if token.before or not CYRILLIC.search(token.form):
        return not token.before
    if Kind.NAME in (token.kind, other.kind) and _SURNAME.fullmatch(token.form) and token.form not in _TOWNS:
        return False  # a person's accusative would end in а
    return bool(_RU_EITHER_CASE.search(token.form)) and (_is_listed_noun(token) or not _RU_OBLIQUE.search(token.form))
