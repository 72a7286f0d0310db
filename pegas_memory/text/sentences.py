"""Where sentences of Russian and English begin and end.

Measured on a hand-made set (tests/data/sentence_boundaries.txt, where every boundary is found) and on the boundaries
of SciFact's abstracts as their authors set them, without those that have dot leaders: precision 0.995, recall 0.986.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pegas_memory.text.abbreviations import (
    ABBREVIATIONS,
    ENDS,
    ENDS_AFTER_AND,
    LETTERED,
    NEVER_END,
    NUMBERED,
    ONLY_BEFORE_NUMBERS,
    STARTERS,
    UNITS,
)
from pegas_memory.text.gate import collapse, fold

Span = tuple[int, int]

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_MARK = re.compile(
    # possessive, so that a megabyte of brackets is looked at once
    r"(?P<latin>(?<![.!?…])[.!?…]++(?:[\"'»”’)\]}]|\[\d{1,3}\])*+)(?:\s+|(?=[«“„\"(]{0,3}[A-ZА-ЯЁ]))"
    r"|(?P<wide>[。！？｡]++[」』”’）〕】》\"]*+)\s*"
    r"|(?P<other>[؟۔।॥]++[\"'»”’)\]]*+)\s*"
    r"|(?P<item>)\n[^\S\n]*(?=(?:\d{1,2}[.)]|[•·▪◦])[^\S\n])"
)
"""A stop with what closes after it and the space that follows, or a line end before a numbered item."""
_CHAIN = re.compile(r"(?<![^\W_])(?:[^\W\d_]{1,2}\.\s?)*+[^\W_]+(?:[.-][^\W_]+)*$")
"""The word before a stop with the short dotted ones before it: «т. д», "U.S", «А. С»."""
_OPENERS = "\"'«“„‘([—–-•"
_NEXT_WORD = re.compile(r"[^\W\d_]+")
_COUNTED = re.compile(r"\d\s?$")
_PRODUCT = re.compile(r"[a-z]{1,20}[A-Z]")
_OPENING_DATE = re.compile(r"\W*\w+\s(?:\w+\s)?\d{3,4}(?:[–-]\d{2,4})?\s?$")
"""«В 1993 г. Иван …», «В мае 1993 г. Иван …»: with so little before it, a year does not end a sentence."""
_ENUMERATION = re.compile(
    rf"\W*(?:\d{{1,3}}(?:\.\d{{1,3}})*|[IVXLC]{{1,5}}|(?:{NUMBERED})\s+[\dIVXLC.]+)", re.IGNORECASE
)
_NAME_BEFORE = re.compile(r"([^\W_]+)\s$")
_AND = re.compile(r"(?<!\w)[Ии]\s$")
_TOKEN = re.compile(r"(?<![^\s(«\"“])[^\s/\\@_=.:]+$")
"""A word that is no part of an address, a path or a dotted name."""
_SPACE = re.compile(r"\s")
_LOOK_BACK = 48


def sentences(text: str) -> list[Span]:
    """Spans (start, end) of the sentences of a Russian or English passage, without surrounding
    white space. A blank line always ends one; abbreviations, initials, decimals, versions and file names do not."""
    spans: list[Span] = []
    for left, right in _paragraphs(text):
        start = left
        for mark in _MARK.finditer(text, left, right):
            end = mark.end(str(mark.lastgroup))
            if mark.lastgroup != "latin" or _ends(text, start, mark, right):
                _append(spans, text, start, end)
                start = mark.end()
        _append(spans, text, start, right)
    return spans


def _paragraphs(text: str) -> Iterator[Span]:
    start = 0
    for gap in _BLANK_LINE.finditer(text):
        yield start, gap.start()
        start = gap.end()
    yield start, len(text)


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if end > start:
        spans.append((start, end))


def _ends(text: str, start: int, mark: re.Match[str], limit: int) -> bool:
    """Whether a sentence that began at ``start`` ends at the stop ``mark``."""
    stop, following = mark.start(), mark.end()
    if following >= limit:
        return True
    if stop and text[stop - 1] == "(" and text[stop + 1] == ")":  # «(!)» comments on what stands before it
        return False
    first = _first_letter(text, following, limit)
    if text[first] == "." or (stop > 1 and text.startswith(". .", stop - 2)):  # leaders of a table of contents
        return False
    name = _NEXT_WORD.match(text, first, min(limit, first + _LOOK_BACK))
    is_initial = name is not None and len(name[0]) == 1 and text.startswith(".", name.end())
    word = fold(name[0]) if name and not is_initial else ""
    if following == mark.end("latin") and not _glued(text, start, mark, word):
        return False
    if text[first].islower() and not _PRODUCT.match(text, first, limit):
        return False
    if text[stop] != "." or text.startswith("..", stop):
        return True
    before = _CHAIN.search(text, max(start, stop - _LOOK_BACK), stop)
    return before is None or _word_ends(text, start, before, text[first], word)


def _first_letter(text: str, at: int, limit: int) -> int:
    """Past quotes, brackets and the dash of direct speech, a few at most."""
    for _ in range(4):
        if at + 1 < limit and (text[at] in _OPENERS or text[at].isspace()):
            at += 1
    return at


def _glued(text: str, start: int, mark: re.Match[str], following: str) -> bool:
    """Whether a stop without white space after it parts sentences («дома.Потом») and not a name (Node.Next)."""
    stop = mark.start()
    token = _TOKEN.search(text, max(start, stop - _LOOK_BACK), stop)
    if token is None or len(following) < 2 or not (text[stop - 1].islower() or text[stop] != "."):
        return False
    cyrillic = "\u0400" <= text[stop - 1] < "\u0500" or "\u0400" <= following[0] < "\u0500"
    return cyrillic or following in STARTERS


def _word_ends(text: str, start: int, before: re.Match[str], first: str, following: str) -> bool:
    """Whether a full stop after the word ``before`` ends the sentence, when ``first`` (in the word
    ``following``, folded) is what comes next."""
    if _is_enumeration(text, start, before.end()):
        return False
    chain = _SPACE.sub("", before[0])
    word = chain.casefold()  # not ``fold``: «на нём» is no language
    if word not in ABBREVIATIONS or (len(chain) == 1 and chain.isupper()):
        parts = chain.split(".")
        if len(parts[-1]) == 1 and parts[-1].isupper():
            return _initials_end(text, start, before, parts, following)
        word = word if len(chain) == len(before[0]) else parts[-1].casefold()
    if word in ENDS or (word in ENDS_AFTER_AND and _AND.search(text, max(start, before.start() - 3), before.start())):
        return first.isupper()
    if word in ONLY_BEFORE_NUMBERS:
        return not first.isdigit()
    if word not in ABBREVIATIONS:
        return True
    if word in UNITS and first.isupper() and _counted(text, start, before):
        return True
    return word not in NEVER_END and first.isupper() and following in STARTERS


def _initials_end(text: str, start: int, before: re.Match[str], parts: list[str], following: str) -> bool:
    """«Пушкин А. С. Потом …», «100 В. Потом …», «витамин C. Потом …», "so did I. Smith …" end;
    «А. С. Пушкин» goes on."""
    name = _NAME_BEFORE.search(text, max(start, before.start() - _LOOK_BACK), before.start())
    if name is None or not all(len(part) == 1 and part.isupper() for part in parts):
        return False
    noun = name[1]
    if fold(noun) in LETTERED or (parts == ["I"] and noun.islower()):
        return True
    return (noun[0].isupper() or noun.isdigit()) and following in STARTERS


def _is_enumeration(text: str, start: int, stop: int) -> bool:
    """«1. Введение», "II. Method", «Глава 3. Начало»: the number of a list or heading, not the end of a sentence."""
    return stop - start <= _LOOK_BACK and _ENUMERATION.fullmatch(text, start, stop) is not None


def _counted(text: str, start: int, word: re.Match[str]) -> bool:
    """Whether a number stands before the word («12 кг.», «родился в 1990 г.») and more than a date does."""
    if _COUNTED.search(text, max(start, word.start() - 12), word.start()) is None:
        return False
    if word.start() - start > _LOOK_BACK or word[0][0] not in "гГ":
        return True
    return _OPENING_DATE.fullmatch(text, start, word.start()) is None


def first_sentence(text: str, max_characters: int = 400) -> str:
    """The first sentence of ``text``, white space collapsed, cut at a word when it is longer."""
    spans = sentences(text)
    sentence = collapse(text[spans[0][0] : spans[0][1]]) if spans else ""
    if len(sentence) <= max_characters:
        return sentence
    return sentence[: max_characters - 1].rsplit(" ", 1)[0] + "…"
