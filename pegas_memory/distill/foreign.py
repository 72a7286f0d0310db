"""Whether a passage is of a language that the distiller's rules know: Russian or English."""

from __future__ import annotations

import re

from pegas_memory.text import fold, language_of

_WORD = re.compile(r"[^\W\d_]+")
_FEWEST = 12
"""Words from which their choice tells the language; fewer are told by their script alone."""
_SHARE = 0.06
"""Of the words below; English prose has 0.25 and more, Russian 0.12, German, French, Spanish and Italian under 0.04
(the first 20,000 characters of texts at hand, November 2026)."""
_COMMON = frozenset(
    """
    the of and to is are was were that for with on by this be from not have has it its or which their they at an as you
    your can will if when
    и в на с по не что к из от как это для или при за до его их но а же то если может быть так только чтобы
    """.split()
)


def is_foreign(text: str) -> bool:
    """True for a passage of another script, or with hardly a word that Russian or English cannot do without."""
    words = _WORD.findall(text)
    if not words:
        return False
    if not language_of(text):
        return sum(map(len, words)) > 2
    return len(words) >= _FEWEST and sum(fold(word) in _COMMON for word in words) < _SHARE * len(words)
