"""What a claim is read into."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

CYRILLIC = re.compile("[а-я]")
RU_ADJECTIVE = re.compile(r"(?:ый|ий|ой|ая|яя|ое|ее|ые|ие|ого|его|ому|ему|ым|им|ых|их|ую|юю|ыми|ими)$")


class Kind(IntEnum):
    WORD = 0
    NAME = 1
    NUMBER = 2
    DATE = 3
    UNIT = 4
    IDENTIFIER = 5
    POLE = 6
    PRONOUN = 7


STRICT = frozenset(Kind) - {Kind.WORD, Kind.POLE}
"""Kinds of which none may be missing or extra on either side."""


@dataclass(frozen=True, slots=True)
class Token:
    """One content token. ``key`` is equal for inflections of one word; ``before`` is the preposition, ``be``
    the tense of a form of *to be*, directly in front; ``negated`` that a negation stands in front."""

    kind: Kind
    key: str
    form: str
    before: str = ""
    be: str = ""
    negated: bool = False
    initial: bool = False
    capital: bool = False
    compound: bool = False
    raw: str = ""
    """As it is written, letter for letter."""
    bound: str = ""
    """The quantifier or modal directly in front."""
    initials: bool = False
    """One letter in front of a surname: Э.Сноуден."""


@dataclass(frozen=True, slots=True)
class Reading:
    tokens: tuple[Token, ...]
    quantifiers: tuple[str, ...]
    negations: int
    plain: tuple[str, ...]
    """Folded words without articles and punctuation."""
    fronted: int
    """How many of ``plain`` stand before a first comma, when the claim opens with a preposition; else 0."""
    russian: bool
    signs: tuple[str, ...]
    shouted: bool
    """Written in capitals throughout."""
