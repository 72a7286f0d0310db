"""Which word of one claim is which word of the other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from pegas_memory.dedup.tokens import CYRILLIC, Kind, Reading, Token
from pegas_memory.dedup.vocabulary import stem

_NAME_ENDINGS = frozenset(
    """а я у ю е и ы ь й о ом ем ой ей ою ею ым им ого его ому ему ую юю ая яя ий ый ое ее ия ию ии ией ам ах ами ям ях
    ями ых их ыми ими""".split()
) | {""}
_SK = re.compile(r"[а-я]{0,3}ск[а-я]{2,3}$")
_VERB_TAIL = re.compile(r"[а-я]?[аеиоуыя]?(?:л|ла|ло|ли|н|на|но|ны|т|та|то|ты|ть)(?:ся|сь)?$")
_FLEETING = re.compile(r"([бвгджзклмнпрстфхцчшщ])[ео]([бвгджзклмнпрстфхцчшщ])$")


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which token of ``new`` is which of ``old``: ``pairs`` in the order of new; ``reworded`` counts pairs
    of different words of one sense."""

    new: Reading
    old: Reading
    pairs: tuple[tuple[int, int], ...]
    only_new: tuple[Token, ...]
    only_old: tuple[Token, ...]
    reworded: int

    @property
    def unlike(self) -> float:
        """Share of the content tokens that have no counterpart of the same word."""
        total = len(self.new.tokens) + len(self.old.tokens)
        return (len(self.only_new) + len(self.only_old) + 2 * self.reworded) / max(total, 1)


def align(new: Reading, old: Reading) -> Alignment:
    """Pair tokens: first by the very form, then by key, then by kinship of names and word stems."""
    free_new, free_old = dict(enumerate(new.tokens)), dict(enumerate(old.tokens))
    pairs: list[tuple[int, int]] = []
    for key in (_by_form, _by_key):
        pairs += _take_equal(free_new, free_old, key)
    reworded = sum(1 for i, j in pairs if _is_synonym(new.tokens[i], old.tokens[j]))
    plural = "all" in new.quantifiers and "all" in old.quantifiers
    for i, token in list(free_new.items()):
        j = next(
            (j for j, other in free_old.items() if kin(token, other) or (plural and _is_plural(token, other))), None
        )
        if j is not None:
            pairs.append((i, j))
            del free_new[i], free_old[j]
    return Alignment(new, old, tuple(sorted(pairs)), tuple(free_new.values()), tuple(free_old.values()), reworded)


def _by_form(token: Token) -> str:
    return token.form


def _by_key(token: Token) -> str:
    """Latin names are compared as they are: Williams is not William."""
    return token.form if token.kind is Kind.NAME and not CYRILLIC.search(token.form) else token.key


def root(token: Token) -> str:
    return stem(token.form)[:5]


def _is_synonym(a: Token, b: Token) -> bool:
    return a.form != b.form and a.kind in (Kind.WORD, Kind.POLE) and root(a) != root(b)


def _is_plural(a: Token, b: Token) -> bool:
    """All users receive, every user receives."""
    shorter, longer = sorted((a.form, b.form), key=len)
    nominal = a.kind in (Kind.WORD, Kind.POLE) and b.kind in (Kind.WORD, Kind.POLE)
    return nominal and len(shorter) > 2 and longer == f"{shorter}s" and shorter[-1] != "s"


def _take_equal(
    free_new: dict[int, Token], free_old: dict[int, Token], key: Callable[[Token], str]
) -> list[tuple[int, int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for j, token in free_old.items():
        places[key(token)].append(j)
    taken = []
    for i, token in list(free_new.items()):
        if found := places.get(key(token)):
            j = found.pop(0)
            taken.append((i, j))
            del free_new[i], free_old[j]
    return taken


def kin(a: Token, b: Token) -> bool:
    """Whether two tokens of unlike key are one name, or forms of one Russian verb."""
    if Kind.NAME in (a.kind, b.kind):
        if a.kind in (Kind.NAME, Kind.WORD) and b.kind in (Kind.NAME, Kind.WORD):
            return same_name(a.form, b.form) or _initial_of(a, b) or _derived(a.form, b.form)
        return False
    if a.kind is not Kind.WORD or b.kind is not Kind.WORD:
        return False
    common = common_prefix(a.form, b.form)
    return common >= 5 and all(_VERB_TAIL.match(token.form, common - 1) for token in (a, b))


def _initial_of(a: Token, b: Token) -> bool:
    return a.initials != b.initials and a.form[0] == b.form[0]


def _derived(a: str, b: str) -> bool:
    """A Cyrillic name and its adjective: Москва, московский."""
    common = common_prefix(a, b)
    tails = (a[common:], b[common:])
    kin_tail = 3 if common >= 4 else 0
    return common >= 3 and any(
        _SK.match(x) and (y in _NAME_ENDINGS or len(y) <= kin_tail or _SK.match(y)) for x, y in (tails, tails[::-1])
    )


def common_prefix(a: str, b: str) -> int:
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length


def same_name(a: str, b: str) -> bool:
    """Two folded forms of one name: equal, or Cyrillic and differing in case endings only. Surname
    suffixes are no case endings: Иван is not Иванов."""
    if a == b:
        return True
    if not (CYRILLIC.search(a) and CYRILLIC.search(b)):
        return False
    return any(_same_paradigm(x, y) for x in _stems(a) for y in _stems(b))


def _stems(name: str) -> tuple[str, ...]:
    """The name, and with its fleeting vowel dropped (Павел → Павл)."""
    dropped = _FLEETING.sub(r"\1\2", name)
    return (name,) if dropped == name else (name, dropped)


def _same_paradigm(a: str, b: str) -> bool:
    common = common_prefix(a, b)
    cuts = (cut for cut in (common, common - 1) if cut >= 3)
    return any(a[cut:] in _NAME_ENDINGS and b[cut:] in _NAME_ENDINGS for cut in cuts)
