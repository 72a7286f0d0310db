"""A claim read for comparing: its tokens with what each one is (number, date, unit, name, negation …)."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from pegas_memory.dedup import lexicon
from pegas_memory.dedup.dates import joined_dates, month_of
from pegas_memory.dedup.signs import signs
from pegas_memory.dedup.tokens import CYRILLIC, RU_ADJECTIVE, Kind, Reading, Token
from pegas_memory.dedup.vocabulary import CANONICAL_UNITS, UNITS, is_function, look_up, meaning
from pegas_memory.text import language_of

_SCAN = re.compile(
    r"(?P<url>https?://[^\s<>\"»)]+)"
    r"|(?P<iso>\d{4}-\d{2}-\d{2})(?!\d)"
    r"|(?P<dmy>(?<![\d.])\d{1,2}\.\d{1,2}\.(?:19|20)\d\d)(?!\d|\.\d)"
    r"|(?P<time>\d{1,2}:\d{2}(?::\d{2})?)(?!\d)"
    r"|(?P<number>(?:(?<![\w.])[-−](?=\d))?"
    r"(?:(?<!\d)\d{1,3}(?:[,\u0020\u00a0\u202f]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[.,]\d+)*))"
    r"(?P<suffix>(?:st|nd|rd|th|s|-?(?:й|я|е|го|му|м|х))?(?!\w))?"
    r"|(?P<word>[^\W\d_](?:[\w+#]|[-_./:@'’](?=\w))*[+#]*)"
    r"|(?P<sign>°[CFС]|[%$€£₽¥<>≤≥=≠~]|[.!?…]+(?=\s|$)|[:;,])"
    r"|(?P<odd>(?<!\w)[_/~.-]+\w[\w./-]*)"
)
_LATIN = re.compile("[a-z]")
_LOOKALIKES = str.maketrans("aceopxyk", "асеорхук")
"""Latin letters typed for Cyrillic ones inside a Russian word."""
_LOOKALIKES_CASED = str.maketrans("aceopxykACEOPXYKHMTB", "асеорхукАСЕОРХУКНМТВ")
_THOUSANDS = re.compile(r"(?<=\d)[,\u0020\u00a0\u202f](?=\d{3}(?!\d))")
_STRESS = "\u0301"
_INNER_CAPITAL = re.compile(r"[a-zа-яё][A-ZА-ЯЁ]|^[A-ZА-ЯЁ]{2,}")
_CAMEL = re.compile(r"[a-zа-яё][A-ZА-ЯЁ]")
_TECHNICAL = re.compile(r"[\d_/@:+#.]")
_INITIALS = re.compile(r"(?:[A-ZА-ЯЁ]\.){1,2}[A-ZА-ЯЁ][^\W\d_]{2,}$")
_DAY_HALVES = ("am", "pm")
_AMOUNT = re.compile(r"\s?\d(?:[\d.,\u00a0 ]*\d)?(?![\d:-])")
_CURRENCIES = "$€£₽¥"
_SIGNS = {"<": "compare -", ">": "compare +", "≤": "compare -", "≥": "compare +", "=": "equal", "≠": "unequal"}


@lru_cache(maxsize=4_096)
def read(text: str) -> Reading:
    """Read one claim. Pure; equal texts share one reading."""
    return _Reader(unicodedata.normalize("NFC", text.replace(_STRESS, "").replace("’", "'"))).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.quantifiers: list[str] = []
        self.negations = 0
        self.plain: list[str] = []
        self.fronted = 0
        self.russian = language_of(text) == "ru"
        self.shouted = _is_shouted(text)
        self._clear()
        self.initial = True
        self.currency = ""
        self.phrase = ""
        self.raw = ""
        self.ended = 0

    def _clear(self) -> None:
        self.before = ""
        self.be = ""
        self.negated = False
        self.bound = ""

    def read(self) -> Reading:
        for match in _SCAN.finditer(self.text):
            getattr(self, f"_on_{match.lastgroup if match.lastgroup != 'suffix' else 'number'}")(match)
            self.ended = match.end()
        self._strand()
        tokens = joined_dates(self.tokens)
        return Reading(
            tuple(tokens),
            tuple(sorted(self.quantifiers)),
            self.negations,
            tuple(self.plain),
            self.fronted,
            self.russian,
            signs(self.text),
            self.shouted,
        )

    def _add(
        self,
        kind: Kind,
        key: str,
        form: str,
        *,
        capital: bool = False,
        compound: bool = False,
        raw: str = "",
        initials: bool = False,
    ) -> None:
        before = self.before or self.phrase
        self.tokens.append(
            Token(
                kind,
                key,
                form,
                before,
                self.be,
                self.negated,
                self.initial,
                capital,
                compound,
                raw or form,
                self.bound,
                initials,
            )
        )
        modifies = kind is Kind.NUMBER or (kind is not Kind.NAME and RU_ADJECTIVE.search(form) is not None)
        self._clear()
        self.phrase = before if modifies else ""
        self.initial = False

    def _strand(self) -> None:
        """A preposition that no word follows is a word of its own: the pump is on, is off."""
        if self.before and self.before not in lexicon.NEGATIONS:
            word, self.before = self.before, ""
            self._add(Kind.IDENTIFIER, f"{word}-", word)

    def _on_url(self, match: re.Match[str]) -> None:
        form = match.group().rstrip(".,;")
        self.plain.append(form)
        self._add(Kind.IDENTIFIER, form, form)

    _on_time = _on_url

    def _on_odd(self, match: re.Match[str]) -> None:
        form = match.group().rstrip(".-/")
        if form.strip("-._/~"):
            self.plain.append(form)
            self._add(Kind.IDENTIFIER, form, form)

    def _on_iso(self, match: re.Match[str]) -> None:
        self._date(*map(int, match.group().split("-")))

    def _on_dmy(self, match: re.Match[str]) -> None:
        day, month, year = map(int, match.group().split("."))
        self._date(year, month, day)

    def _date(self, year: int, month: int, day: int) -> None:
        key = f"{year}-{month}-{day}"
        self.plain.append(key)
        self._add(Kind.DATE, key, key)

    def _on_number(self, match: re.Match[str]) -> None:
        value = _THOUSANDS.sub("", match.group("number")).replace(",", ".").replace("−", "-")
        suffix = match.group("suffix") or ""
        if suffix == "s":
            value += "s"
        elif suffix:
            value = f"#{value}"
        self.plain.append(value)
        self._add(Kind.NUMBER, value, value)
        if self.currency:
            self._add(Kind.UNIT, self.currency, self.currency)
            self.currency = ""

    def _on_sign(self, match: re.Match[str]) -> None:
        sign = match.group()
        if sign[0] in ".!?…:;,":
            self._strand()
        if sign[0] in ".!?…:;":
            self.initial = self.initial or sign[0] not in ":;"
        elif sign == ",":
            self.phrase = ""
            if not self.fronted and self.plain and self.plain[0] in lexicon.PREPOSITIONS and len(self.plain) <= 8:
                self.fronted = len(self.plain)
        elif sign in _SIGNS:
            self.plain.append(sign)
            self._add(Kind.POLE, _SIGNS[sign], sign)
        elif unit := look_up(sign.casefold().replace("с", "c"), UNITS):
            self.plain.append(unit)
            if sign in _CURRENCIES and _AMOUNT.match(self.text, match.end()):
                self.currency = unit
            else:
                self._add(Kind.UNIT, unit, sign)

    def _on_word(self, match: re.Match[str]) -> None:
        raw = match.group().rstrip(".:'@/")
        raw = raw[:-2] if raw.endswith("'s") else raw
        word = _folded(raw)
        if self._is_letter_name(raw, word, match.start()):
            self.plain.append(raw)
            raw = word if word in _DAY_HALVES else raw
            self._add(Kind.IDENTIFIER, raw, word, raw=raw)
            return
        if CYRILLIC.search(word) and _LATIN.search(word):
            word, raw = word.translate(_LOOKALIKES), raw.translate(_LOOKALIKES_CASED)
        if word in lexicon.ARTICLES or (word == "s" and self.text[match.start() - 1 : match.start()] == "'"):
            return
        if word in lexicon.PREPOSITIONS:
            self._strand()
        self.plain.append(word)
        if word in lexicon.PREPOSITIONS or word in lexicon.FUNCTION or word in lexicon.NEGATIONS:
            self.phrase = ""
        if word in lexicon.NEGATIONS:
            self.negations += 1
            if word in lexicon.NEGATED_WORDS:
                self.bound = lexicon.NEGATED_WORDS[word]
                self.quantifiers.append(self.bound)
            self.be = self._tense_of(word) or self.be
            self.negated = True
            self.before = word if word in ("without", "без") else self.before
        elif word in lexicon.QUANTIFIERS and not (word == "may" and self._is_month(raw)):
            self.bound = lexicon.QUANTIFIERS[word]
            self.quantifiers.append(self.bound)
        elif word in lexicon.BE:
            self.be = self._tense_of(word)
        elif word in lexicon.PREPOSITIONS:
            self.before = lexicon.ONE_PREPOSITION.get(word, word)
        elif word in lexicon.FUNCTION:
            self.be = self._tense_of(word) or self.be
            return
        else:
            self._content(raw, word)
            return
        self.initial = False

    def _tense_of(self, word: str) -> str:
        if word in lexicon.PAST_AUXILIARIES:
            return "past"
        return (
            "present"
            if word in lexicon.BE_PRESENT
            else "past"
            if word in lexicon.BE_PAST
            else ("be" if word in lexicon.BE else "")
        )

    def _is_letter_name(self, raw: str, word: str, place: int) -> bool:
        """«Сервер А», «vitamin A», "10:30 am": short words that would otherwise be taken for function words."""
        if word in _DAY_HALVES:
            return bool(self.tokens) and not self.text[self.ended : place].strip() and self._after_digit()
        if len(raw) <= 2 and self.text[place - 1 : place].isdigit():
            return is_function(word)
        if self.shouted or raw == "I" or not any(letter.isupper() for letter in raw[1:] or raw):
            return False
        if not raw.isupper():
            return is_function(word) or word in lexicon.NEGATIONS or word in lexicon.QUANTIFIERS
        if len(raw) == 1:
            return not self.initial
        return is_function(word) and word not in lexicon.NEGATIONS and word not in lexicon.QUANTIFIERS

    def _after_digit(self) -> bool:
        return self.text[: self.ended].rstrip(". ")[-1:].isdigit()

    def _is_month(self, raw: str) -> bool:
        return raw == "May" and (not self.initial or self.before != "")

    def _content(self, raw: str, word: str) -> None:
        if initials := _INITIALS.match(raw):
            *letters, surname = raw.split(".")
            for letter in letters:
                self._add(Kind.NAME, _folded(letter), _folded(letter), capital=True, raw=letter, initials=True)
            self._single(surname, _folded(surname))
            self.plain[-1:] = [_folded(part) for part in initials.group().split(".")]
        elif "-" in word and not _TECHNICAL.search(word):
            self._compound(raw)
        elif _TECHNICAL.search(word):
            self._add(Kind.IDENTIFIER, raw, word, raw=raw)
        else:
            self._single(raw, word)

    def _compound(self, raw: str) -> None:
        for part in raw.split("-"):
            if part:
                self._single(part, _folded(part), compound=True)

    def _single(self, raw: str, word: str, *, compound: bool = False) -> None:
        capital = raw[0].isupper()
        after_number = bool(self.tokens) and self.tokens[-1].kind is Kind.NUMBER and len(self.plain) > 1
        if month := month_of(raw, word, self.before, after_number):
            self._add(Kind.DATE, f"m{month}", word)
            return
        if after_number and word in lexicon.SCALES and self._scale(lexicon.SCALES[word]):
            return
        if after_number and word in lexicon.AFTER_NUMBER_UNITS and not capital:
            self._unit_after_number(lexicon.AFTER_NUMBER_UNITS[word], word)
            return
        if word in lexicon.SCALES:
            self._add(Kind.NUMBER, f"{10.0 ** lexicon.SCALES[word]:.6g}", word)
            return
        if _CAMEL.search(raw):
            self._add(Kind.IDENTIFIER, raw, word, capital=capital, raw=raw)
            return
        kind, key = meaning(word)
        if kind is Kind.UNIT and len(word) <= 3 and raw not in CANONICAL_UNITS:
            key = f"={raw}"
        if kind in (Kind.WORD, Kind.POLE) and len(word) <= 2 and word != "г" and not key.startswith("syn"):
            self._add(Kind.IDENTIFIER, raw, word, capital=capital, raw=raw)
            return
        if kind is Kind.UNIT and key == "y" and after_number and re.fullmatch(r"(?:1\d|20)\d\d", self.tokens[-1].key):
            return
        if kind is Kind.WORD and capital and (not self.initial or _INNER_CAPITAL.search(raw)):
            kind = Kind.NAME
        self._add(kind, key, word, capital=capital, raw=raw, compound=compound and kind in (Kind.WORD, Kind.NAME))

    def _scale(self, power: int) -> bool:
        last = self.tokens[-1]
        try:
            value = float(last.key) * 10**power
        except ValueError:
            return False
        self.tokens[-1] = Token(
            Kind.NUMBER, f"{value:.6g}", f"{value:.6g}", last.before, last.be, last.negated, last.initial
        )
        return True

    def _unit_after_number(self, unit: str, word: str) -> None:
        if unit == "g" and re.fullmatch(r"(?:1\d|20)\d\d", self.tokens[-1].key) and word == "г":
            return
        self._add(Kind.UNIT, unit, word)


def _is_shouted(text: str) -> bool:
    return text.isupper() and sum(word.isalpha() for word in text.split()) >= 3


def _folded(word: str) -> str:
    """``text.fold`` of a word of a text that is composed already."""
    return word.casefold().replace("ё", "е")
