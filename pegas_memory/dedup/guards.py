"""What makes two alike claims different. Each guard answers the reason, or "" when it sees none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pegas_memory.dedup.alignment import Alignment, common_prefix, kin, root
from pegas_memory.dedup.lexicon import LOOSE_PREPOSITIONS, NEGATIVE_PREFIXES
from pegas_memory.dedup.order import RU_VERB, order
from pegas_memory.dedup.tokens import CYRILLIC, STRICT, Kind, Token

MAX_REWORDED = 0.34
"""Share of content words that may differ between copies; beyond it the claims say different things
whatever the cosine. Swept 0.2…0.6 with the thresholds of ``profiles`` on the same pairs."""

_RU_PAST = re.compile(r"[аеиоуыя]л(?:а|о|и)?(?:сь|ся)?$")
_RU_PRESENT = re.compile(r"(?:ет|ит|ут|ют|ат|ят)(?:ся)?$")


def conflict(found: Alignment) -> str:
    """The first reason why the two claims can't be copies, else ""."""
    for guard in (_values, _poles, _names, _negation, _quantity, _roles, _prefixes, _tense, order, _slots, _extent):
        if reason := guard(found):
            return reason
    return ""


_SAID = {
    Kind.NAME: "name", Kind.NUMBER: "number", Kind.DATE: "date", Kind.UNIT: "unit", Kind.IDENTIFIER: "identifier",
    Kind.PRONOUN: "pronoun",
}  # fmt: skip


def _values(found: Alignment) -> str:
    for token in (*found.only_new, *found.only_old):
        if token.kind in STRICT and not (token.kind is Kind.NAME and len(token.form) == 1):
            return f"{_SAID[token.kind]} {token.form!r} stands on one side only"
        if token.compound and not CYRILLIC.search(token.form):
            return f"part {token.form!r} of a compound stands on one side only"
    return ""


def _poles(found: Alignment) -> str:
    """Words of one axis with unlike signs: rises / falls, before / after."""
    for a in found.only_new:
        for b in found.only_old:
            if a.kind is b.kind is Kind.POLE and _axes(a) & _axes(b):
                return f"{a.form!r} / {b.form!r}"
    return ""


def _axes(token: Token) -> set[str]:
    return {pole.split(" ")[0] for pole in token.key.split("|")}


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
    return ""


def _roles(found: Alignment) -> str:
    """Prepositions that say a direction or role must stand before the same words."""
    for i, j in found.pairs:
        a, b = found.new.tokens[i], found.old.tokens[j]
        if a.before != b.before and not (a.before in LOOSE_PREPOSITIONS and b.before in LOOSE_PREPOSITIONS):
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


def replaced(found: Alignment) -> str:
    """A word of new in the very place of another word of old, between the same neighbours: what an update
    of a value looks like («… на Redis», «… на Memcached»). Russian verbs are let be."""
    there = dict(found.pairs)
    paired_old = set(there.values())
    size_new, size_old = len(found.new.tokens), len(found.old.tokens)
    for i, token in enumerate(found.new.tokens):
        if i in there:
            continue
        j = there[i - 1] + 1 if i - 1 in there else (0 if i == 0 else -1)
        if not 0 <= j < size_old or j in paired_old:
            continue
        follows = there.get(i + 1) == j + 1 or (i + 1 == size_new and j + 1 == size_old)
        other = found.old.tokens[j]
        if follows and not (RU_VERB.search(token.form) and RU_VERB.search(other.form)):
            return f"{token.form!r} in the place of {other.form!r}"
    return ""
