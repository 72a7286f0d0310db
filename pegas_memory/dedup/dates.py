"""Months, and dates put together of day, month and year."""

from __future__ import annotations

import re

from pegas_memory.dedup import lexicon
from pegas_memory.dedup.tokens import CYRILLIC, Kind, Token


def month_of(raw: str, word: str, before: str, after_number: bool) -> int:
    """The month (1…12) that one word names, else 0."""
    if word in lexicon.MONTHS and not CYRILLIC.search(word):
        ambiguous = word in ("may", "march", "mar", "jan", "sep", "dec")
        return (
            lexicon.MONTHS[word]
            if raw[0].isupper() and (not ambiguous or before or after_number or word == "may")
            else 0
        )
    if CYRILLIC.search(word):
        if word in lexicon.MONTHS and word.startswith("ма"):
            return lexicon.MONTHS[word]
        base = word[:-1] if word[-1] in "ьяюеойуа" else word.removesuffix("ем").removesuffix("ом")
        base = base if base in lexicon.MONTHS else word
        return lexicon.MONTHS.get(base, 0) if not base.startswith("ма") or base == "март" else 0
    return 0


def joined_dates(tokens: list[Token]) -> list[Token]:
    """Day, month and year that stand together as one date token."""
    out: list[Token] = []
    skip = 0
    for index, token in enumerate(tokens):
        if skip:
            skip -= 1
            continue
        if token.kind is not Kind.DATE or not token.key.startswith("m"):
            out.append(token)
            continue
        day = first = out.pop() if out and _is_day(out[-1]) else None
        rest = tokens[index + 1 : index + 3]
        if day is None and rest and _is_day(rest[0]):
            day, skip, rest = rest[0], 1, rest[1:]
        year = rest[0] if rest and re.fullmatch(r"(?:1\d|20)\d\d", rest[0].key) else None
        skip += year is not None
        key = f"{year.key if year else ''}-{token.key[1:]}-{day.key.lstrip('#') if day else ''}"
        first = first or token
        out.append(Token(Kind.DATE, key, key, first.before, first.be, first.negated, first.initial))
    return out


def _is_day(token: Token) -> bool:
    return token.kind is Kind.NUMBER and bool(re.fullmatch(r"#?(?:[12]?\d|3[01])", token.key))
