"""What makes two alike claims different. Each guard answers the reason, or "" when it sees none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from pegas_memory.dedup.alignment import Alignment, common_prefix, kin, root
from pegas_memory.dedup.lexicon import DROPPABLE, LOOSE_PREPOSITIONS, NEGATIVE_PREFIXES
from pegas_memory.dedup.order import is_verb, may_be_noun, order
from pegas_memory.dedup.tokens import CYRILLIC, STRICT, Kind, Token
from pegas_memory.dedup.vocabulary import poles

MAX_REWORDED = 0.34
"""Share of content words that may differ between copies; beyond it the claims say different things
whatever the cosine. Swept 0.2…0.6 with the thresholds of ``profiles`` on the same pairs."""

_RU_PAST = re.compile(r"[аеиоуыя]л(?:а|о|и)?(?:сь|ся)?$")
_RU_PASSIVE = re.compile(r"[аеиоуыя]н(?:а|о|ы)?$")
_YO = str.maketrans("ёЁ", "еЕ")
_RU_PRESENT = re.compile(r"(?:ет|ит|ут|ют|ат|ят)(?:ся)?$")


def conflict(found: Alignment) -> str:
    """The first reason why the two claims can't be copies, else ""."""
    guards = (
        *(_signs, _values, _spelling, _poles, _names, _negation, _quantity, _roles, _prefixes, _tense, _voice, _cases),
        *(order, _inflection, _slots, _replaced, _extent),
    )
    for guard in guards:
        if reason := guard(found):
            return reason
    return ""


_SAID = {
    Kind.NAME: "name", Kind.NUMBER: "number", Kind.DATE: "date", Kind.UNIT: "unit", Kind.IDENTIFIER: "identifier",
    Kind.PRONOUN: "pronoun",
}  # fmt: skip


def _signs(found: Alignment) -> str:
    if found.new.signs == found.old.signs:
        return ""
    return f"signs {' '.join(found.new.signs) or 'none'} / {' '.join(found.old.signs) or 'none'}"


def _values(found: Alignment) -> str:
    for token in (*found.only_new, *found.only_old):
        if token.kind in STRICT and not token.initials:
            return f"{_SAID[token.kind]} {token.form!r} stands on one side only"
        if token.compound and not CYRILLIC.search(token.form):
            return f"part {token.form!r} of a compound stands on one side only"
    return ""


def _spelling(found: Alignment) -> str:
    """Case is part of an identifier, an abbreviation and a unit; of a plain word only its first letter is not."""
    for i, j in found.pairs:
        a, b = found.new.tokens[i], found.old.tokens[j]
        if a.kind is not b.kind and Kind.IDENTIFIER in (a.kind, b.kind):
            return f"{a.raw!r} / {b.raw!r}"
        if (a.kind in (Kind.IDENTIFIER, Kind.UNIT) and a.key != b.key) or not _same_case(a, b, found):
            return f"{a.raw!r} / {b.raw!r}"
    return ""


def _same_case(a: Token, b: Token, found: Alignment) -> bool:
    first, second = a.raw.translate(_YO), b.raw.translate(_YO)
    if first == second or a.kind in (Kind.NUMBER, Kind.DATE):
        return True
    if a.form != b.form:
        listed = a.key == b.key and a.key.startswith("syn")
        return listed or not (_is_cased(a, found.new.shouted) or _is_cased(b, found.old.shouted))
    if first[1:] == second[1:]:
        return len(first) > 2 or a.kind is b.kind is Kind.PRONOUN
    shouted = (found.new.shouted and first.isupper(), found.old.shouted and second.isupper())
    plain = (first[1:].islower(), second[1:].islower())
    return len(first) > 2 and ((shouted[0] and plain[1]) or (shouted[1] and plain[0]))


def _is_cased(token: Token, shouted: bool) -> bool:
    return not shouted and any(letter.isupper() for letter in token.raw[1:])


def _poles(found: Alignment) -> str:
    """Words of one axis with unlike signs: rises / falls, before / after."""
    for a in found.only_new:
        for b in found.only_old:
            if a.kind is b.kind is Kind.POLE and _axes(a) & _axes(b):
                return f"{a.form!r} / {b.form!r}"
    return ""


def _axes(token: Token) -> set[str]:
    return {pole.split(" ")[0] for pole in poles(token.form)}


def _names(found: Alignment) -> str:
    for i, j in found.pairs:
        a, b = found.new.tokens[i], found.old.tokens[j]
        if a.kind is Kind.NAME and b.kind is Kind.NAME and a.key != b.key and not kin(a, b):
            return f"names {a.form!r} and {b.form!r}"
    return ""


def _negation(found: Alignment) -> str:
    if found.new.negations != found.old.negations:
        return "negation on one side only"
    for i, j in found.pairs:
        if found.new.tokens[i].negated != found.old.tokens[j].negated:
            return f"{found.new.tokens[i].form!r} is negated on one side only"
    return ""


def _quantity(found: Alignment) -> str:
    if found.new.quantifiers != found.old.quantifiers:
        differing = set(found.new.quantifiers) ^ set(found.old.quantifiers)
        return f"quantity or modality ({', '.join(sorted(differing)) or 'count'})"
    for i, j in found.pairs:
        a, b = found.new.tokens[i], found.old.tokens[j]
        if a.bound != b.bound:
            return f"{a.bound or 'nothing'} / {b.bound or 'nothing'} before {a.form!r}"
    return ""


def _roles(found: Alignment) -> str:
    """Prepositions that say a direction or role must stand before the same words."""
    for i, j in found.pairs:
        a, b = found.new.tokens[i], found.old.tokens[j]
        if a.before != b.before and not ("" in (a.before, b.before) and {a.before, b.before} <= LOOSE_PREPOSITIONS):
            return f"{a.before or 'no preposition'} / {b.before or 'no preposition'} before {a.form!r}"
    return ""


def _prefixes(found: Alignment) -> str:
    for a in found.only_new:
        for b in found.only_old:
            longer, shorter = sorted((a.form, b.form), key=len, reverse=True)
            tail = _root_of_negated(longer)
            if any(common_prefix(rest, shorter) >= max(3, len(shorter) - 3) for rest in tail):
                return f"{a.form!r} / {b.form!r} are opposites"
    return ""


def _root_of_negated(word: str) -> list[str]:
    return [word[len(p) :] for p in NEGATIVE_PREFIXES if word.startswith(p) and len(word) - len(p) >= 3]


def _tense(found: Alignment) -> str:
    for i, j in found.pairs:
        a, b = found.new.tokens[i], found.old.tokens[j]
        if a.be != b.be and (a.be or b.be) and {a.be, b.be} != {"be", ""}:
            return f"{a.be or 'no'} / {b.be or 'no'} form of to be before {a.form!r}"
        if a.form != b.form and root(a) == root(b) and _shifted(a.form, b.form):
            return f"tense of {a.form!r} / {b.form!r}"
    return ""


def _shifted(a: str, b: str) -> bool:
    if CYRILLIC.search(a):
        return {_russian_tense(a), _russian_tense(b)} == {"past", "present"}
    return a.endswith("ed") != b.endswith("ed")


def _russian_tense(form: str) -> str:
    return "past" if _RU_PAST.search(form) else "present" if _RU_PRESENT.search(form) else ""


def _voice(found: Alignment) -> str:
    """Задержала / задержана: the one who acts becomes the one acted on, unless nobody is named (задержали)."""
    for i, j in found.pairs:
        forms = (found.new.tokens[i].form, found.old.tokens[j].form)
        for active, passive in (forms, forms[::-1]):
            if active == passive or not (_RU_PAST.search(active) and _RU_PASSIVE.search(passive)):
                continue
            if not active.endswith(("ли", "лись")) or passive.endswith("ны"):
                return f"{active!r} / {passive!r}"
    return ""


def _cases(found: Alignment) -> str:
    """Анна обвинила Бориса / Анну обвинил Борис."""
    changed: list[int] = []
    for i, j in found.pairs:
        a, b = found.new.tokens[i], found.old.tokens[j]
        if a.kind in (Kind.NAME, Kind.WORD) and a.form != b.form and not a.before and not b.before and may_be_noun(a):
            changed.append(i)
    if any(y - x > 1 for x, y in pairwise(changed)):
        return f"cases of {forms([found.new.tokens[i] for i in changed])}"
    return ""


def _inflection(found: Alignment) -> str:
    """One noun or adjective in another form while all else stays is no rewording: насос сломан, насосы сломаны
    changes two words, отчёт / отчёты one: another number."""
    pairs = [(found.new.tokens[i], found.old.tokens[j]) for i, j in found.pairs]
    changed = [(a, b) for a, b in pairs if a.form != b.form and a.kind in (Kind.WORD, Kind.POLE, Kind.NAME)]
    if len(changed) != 1 or found.only_new or found.only_old:
        return ""
    a, b = changed[0]
    if Kind.NAME in (a.kind, b.kind):
        return (
            f"{a.form!r} / {b.form!r}"
            if {a.form, b.form} == {a.form[:-1], f"{a.form[:-1]}а"}
            or {a.form, b.form} == {b.form[:-1], f"{b.form[:-1]}а"}
            else ""
        )
    if CYRILLIC.search(a.form) and not a.key.startswith("syn") and not (is_verb(a) or is_verb(b)):
        return f"{a.form!r} / {b.form!r}"
    return ""


def _slots(found: Alignment) -> str:
    """Two capitalised words that open their claims may be names: «Алиса …» / «Борис …»."""
    opening = (
        [t for t in found.only_new if t.initial and t.capital],
        [t for t in found.only_old if t.initial and t.capital],
    )
    if all(opening):
        return f"openings {opening[0][0].form!r} and {opening[1][0].form!r}"
    return ""


def _extent(found: Alignment) -> str:
    return f"{found.unlike:.0%} of the words differ" if found.unlike > MAX_REWORDED else ""


def forms(tokens: Sequence[Token]) -> str:
    return ", ".join(token.form for token in tokens)


def _replaced(found: Alignment) -> str:
    """A word that one claim has and the other has not is an update: of a value («… на Redis», «… на Memcached»)
    or of what is known («… on Friday»). No cosine tells these from rewordings."""
    if found.only_new and found.only_old:
        return f"{forms(found.only_new)} instead of {forms(found.only_old)}"
    for token in (*found.only_new, *found.only_old):
        if token.form not in DROPPABLE and not token.initials:
            return f"{token.form!r} stands on one side only"
    return ""
