"""Signs are values: №, ✅, ★★★, →, ², +. What stands in a text besides words, numbers and mere punctuation."""

from __future__ import annotations

import re
import unicodedata

_READ_AS_UNITS = frozenset("%$€£₽¥")
"""Read by ``reading`` as units ($500 is 500 dollars)."""
_VALUES = frozenset("#&*@/\\§‰‱†‡′″‴[]{}")
"""Punctuation by Unicode, but part of what is said."""
_MARKS = frozenset("`´¨")
_PRESENTATION = frozenset("\ufe0e\ufe0f\u0301")
_DASHES = "-−–—"
_MINUS = re.compile(r"(?<!\w)[-–—](?=\d)|(?<=\d)[-–—](?=\d)")
"""A sign of a number (-5), or between two of them (5–10)."""
_ISO_DATE = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")


def signs(text: str) -> tuple[str, ...]:
    """The signs of an NFC text in their order, with the question a text ends in, inch marks and minus signs."""
    found: list[str] = []
    quotes = {"'": 0, '"': 0}
    before = " "
    for place, sign in enumerate(text := _ISO_DATE.sub("", text)):
        if sign in quotes:
            quotes[sign] += 1
            if before.isdigit() and quotes[sign] % 2:
                found.append(sign)
        elif sign in _DASHES:
            if sign == "−" or _MINUS.match(text, place):
                found.append("-")
        elif _is_sign(sign):
            found.append(sign)
        before = sign
    if "?" in text:
        found.append("?")
    return tuple(found)


def _is_sign(sign: str) -> bool:
    if sign.isascii() and (sign.isalnum() or sign.isspace()):
        return False
    if sign in _VALUES:
        return True
    if sign in _READ_AS_UNITS or sign in _MARKS or sign in _PRESENTATION:
        return False
    category = unicodedata.category(sign)
    return category[0] == "S" or category in ("No", "Nl", "Mn", "Me", "Co")
