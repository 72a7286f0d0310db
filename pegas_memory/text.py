"""The text gate, and the pure text functions that SQL must not do (locale and extensions differ
between servers): folding, sentence spans, language, normal forms, hashes."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from pegas_memory.errors import EmptyText, InvalidParameter, TextTooLong

CLAIM_LIMIT = 8_000
CONTENT_LIMIT = 200_000
DOCUMENT_LIMIT = 100_000_000
NAME_LIMIT = 500
TAG_LIMIT = 100
URI_LIMIT = 4_000
METADATA_LIMIT = 64_000

# C0 and C1 controls but tab and newline; U+FEFF (a byte order mark) inside a text is noise as well.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85]")
_SPACE = re.compile(r"\s+")


def clean_text(value: str, *, field: str, max_characters: int, multiline: bool = True) -> str:
    """The gate that every string passes on its way in: NFC, line ends as \\n, no control characters.

    Everything else comes back exactly as it was. Raises ``InvalidParameter`` for a lone surrogate
    (it cannot be stored as UTF-8) and ``TextTooLong``; the message names ``field``, not the text.
    """
    if len(value) > max_characters * 2:
        raise TextTooLong(f"`{field}` has {len(value):,} characters; at most {max_characters:,} fit.")
    text = _LINE_END.sub("\n", value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidParameter(
            f"`{field}` holds a lone surrogate at character {error.start}; it is not valid Unicode.",
            "Decode the text with its real encoding before sending it.",
        ) from error
    text = unicodedata.normalize("NFC", _CONTROL.sub("", text))
    if not multiline:
        text = _SPACE.sub(" ", text).strip()
    if len(text) > max_characters:
        raise TextTooLong(f"`{field}` has {len(text):,} characters; at most {max_characters:,} fit.")
    return text


def clean_name(value: str, *, field: str, max_characters: int = NAME_LIMIT) -> str:
    """A one-line string: white space collapsed, empty refused with ``EmptyText``."""
    text = clean_text(value, field=field, max_characters=max_characters, multiline=False)
    if not text:
        raise EmptyText(f"`{field}` is empty.")
    return text


def clean_tags(values: Iterable[str]) -> tuple[str, ...]:
    """Tags without empties and repeats, in the order given."""
    cleaned = (clean_text(v, field="tags", max_characters=TAG_LIMIT, multiline=False) for v in values)
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


def clean_json(value: Any, *, field: str, depth: int = 0) -> Any:
    """A JSON value with every string, keys included, passed through the gate."""
    if depth > 32:
        raise InvalidParameter(f"`{field}` is nested deeper than 32 levels.")
    if isinstance(value, str):
        return clean_text(value, field=field, max_characters=METADATA_LIMIT)
    if isinstance(value, Mapping):
        return {
            clean_text(str(k), field=field, max_characters=NAME_LIMIT): clean_json(v, field=field, depth=depth + 1)
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [clean_json(v, field=field, depth=depth + 1) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise InvalidParameter(f"`{field}` holds a number that JSON cannot carry (NaN or infinity).")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InvalidParameter(f"`{field}` holds a {type(value).__name__}; only JSON values are stored.")


def collapse(text: str) -> str:
    """NFC with white space collapsed: the form in which claims are compared."""
    return _SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip()


def fold(text: str) -> str:
    """Case folded, composed, ё as е: the form in which words and names are compared."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).replace("ё", "е")


def tail_of(text: str, max_characters: int) -> str:
    """The end of ``text``, marked when its beginning was left out; a locator says the most at its end."""
    return text if len(text) <= max_characters else "…" + text[1 - max_characters :]


# Direction marks and line separators would let a quoted text look like something else.
_DECEPTIVE = re.compile("[\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def quoted(text: str) -> str:
    """``text`` as one JSON string on one line: stored data that cannot end its own quotes or start a line."""
    return _DECEPTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def sha256(*parts: str) -> str:
    """Hex digest over parts that cannot run into each other."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


# --- sentences --------------------------------------------------------------------------------------

_ABBREVIATIONS = frozenset(
    """
    mr mrs ms dr prof st sr jr vs etc e.g i.e cf al fig figs eq no vol ed eds pp p ch sec approx inc ltd co corp dept
    gen col sgt capt lt rev hon jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k ph.d
    г гг в вв т д п пп ст др пр см ср рис табл гл стр с им ул пл просп акад проф доц тыс млн млрд трлн руб коп
    кг км мм чел экз напр т.е т.д т.п т.к т.н и.о н.э до.н.э д.н.э обл р оз о-в мин сек ч ок изд ред яз англ лат рус
    нем фр итал исп греч э н bros ave blvd
    """.split()
)
_ENDS_ANYWHERE = frozenset({"etc", "т.д", "т.п"})
_AFTER_NUMBERS = frozenset("г гг тыс млн млрд трлн руб коп кг км м мм см чел мин сек ч ок стр с".split())
"""Units and the like: before a capital they end the sentence when a number stands before them, while
«г. Москва» and «ул. Ленина» go on."""
_NUMBER_BEFORE = re.compile(r"\d\s?$")
_OPENING_DATE = re.compile(r"\W*\w+\s(?:\w+\s)?\d{3,4}(?:[–-]\d{2,4})?\s?$")
"""«В 1993 г. Иван …», «В мае 1993 г. Иван …»: with so little before it, a year does not end a sentence."""
_BREAK = re.compile(r"(?<![.!?…])([.!?…]+[\"'»”’)\]]*)(\s+)")
_LAST_WORD = re.compile(r"([^\W_]+(?:\.[^\W_]+)*)$")
_OPENERS = "\"'«“‘([—–-•"


def sentences(text: str) -> list[tuple[int, int]]:
    """Spans (start, end) of the sentences of a Russian or English passage, without surrounding
    white space. A blank line always ends one; abbreviations, initials and decimals never do."""
    spans: list[tuple[int, int]] = []
    for paragraph in re.finditer(r"(?:(?!\n[ \t]*\n).)+", text, re.DOTALL):
        start = paragraph.start()
        for match in _BREAK.finditer(text, paragraph.start(), paragraph.end()):
            if _ends_sentence(text, start, match, paragraph.end()):
                _append_span(spans, text, start, match.end(1))
                start = match.end(2)
        _append_span(spans, text, start, paragraph.end())
    return spans


def _append_span(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if end > start:
        spans.append((start, end))


def _ends_sentence(text: str, start: int, match: re.Match[str], limit: int) -> bool:
    following = match.end(2)
    if following >= limit:
        return True
    first = text[following]
    if first in _OPENERS and following + 1 < limit:
        first = text[following + 1] if not text[following + 1].isspace() else text[min(following + 2, limit - 1)]
    if first.islower():
        return False
    if match.group(1)[0] != ".":
        return True
    word = _LAST_WORD.search(text, max(start, match.start() - 40), match.start())
    if word is None:
        return True
    last = word.group(1)
    initial = len(last) == 1 and last.isupper()
    folded = fold(last)
    if first.isupper() and (folded in _ENDS_ANYWHERE or (folded in _AFTER_NUMBERS and _counted(text, start, word))):
        return True
    abbreviation = folded in _ABBREVIATIONS
    return not (initial or abbreviation)


def _counted(text: str, start: int, word: re.Match[str]) -> bool:
    """Whether a number stands before the word («12 кг.», «родился в 1990 г.») and more than a date does."""
    if _NUMBER_BEFORE.search(text, max(start, word.start() - 12), word.start()) is None:
        return False
    return word.group(1)[0] not in "гГ" or _OPENING_DATE.fullmatch(text, start, word.start()) is None


def first_sentence(text: str, max_characters: int = 400) -> str:
    """The first sentence of ``text``, white space collapsed, cut at a word when it is longer."""
    spans = sentences(text)
    sentence = collapse(text[spans[0][0] : spans[0][1]]) if spans else ""
    if len(sentence) <= max_characters:
        return sentence
    return sentence[: max_characters - 1].rsplit(" ", 1)[0] + "…"


_CYRILLIC = re.compile("[\u0400-\u04ff]")
_LATIN = re.compile("[A-Za-z]")


def language_of(text: str) -> str:
    """``"ru"``, ``"en"`` or ``""`` by the script that most letters are in (first 20,000 characters)."""
    sample = text[:20_000]
    cyrillic, latin = len(_CYRILLIC.findall(sample)), len(_LATIN.findall(sample))
    if cyrillic + latin < 3:
        return ""
    return "ru" if cyrillic > latin * 0.6 else "en"
