"""Text that is not what the page shows: fonts without a Unicode map. Judged font by font over the whole
document, so that a short line is judged by all that is written in its font. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pegas_memory.ingest.pdf.lines import Line

_MAX_WORDS = 3_000
"""Words of a font that are looked at."""
_UNREADABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_MAX_UNREADABLE = 0.25
"""Share of such characters above which a line is noise; bullets and single signs stay below."""
_MIN_LINE = 8
"""Signs of a line that is judged by itself; parts of formulas are shorter."""
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_CYRILLIC = re.compile("[\u0400-\u045f]")
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
"""Their fonts need no map of their own: the standard collections of characters have one."""
_VOWELS = frozenset("aeiouyаеёиоуыэюяіїє")
_FREQUENT = frozenset("eaionrtsоеаинтср")
"""The eight letters that are frequent in most European languages, and in Russian. The four shares below are
chosen by hand, not swept; measure them on texts and on the same texts shifted before they are changed."""
_NATURAL_FREQUENT = 0.45
_NATURAL_WORDS = 0.75
_FEW_WORDS = 4
_FEW_NATURAL = 0.4
"""Fewer words are judged by their letters, and less strictly: among so few one file name or formula is much."""
_SOUP_FREQUENT = 0.36
_SOUP_WORDS = 0.7
_SOUP_MIN = 20
"""Words that a font with a map of its own must show before it is taken for noise."""
_HIGH_RUN = re.compile(r"(?<![A-Za-z])[^\x00-\x7f\s«»“”„–—…•№]+(?![A-Za-z])")
_RUSSIAN_FREQUENT = frozenset("оеаинтсрвл")


@dataclass(frozen=True, slots=True)
class Repair:
    """What a font's letters were taken for, and what they are."""

    source: str
    target: str

    def __call__(self, text: str) -> str:
        return _HIGH_RUN.sub(lambda run: self.word(run.group()) or run.group(), text)

    def word(self, run: str) -> str:
        """``run`` as Cyrillic letters; empty when it is none."""
        try:
            found = run.encode(self.source).decode(self.target)
        except UnicodeError:
            return ""
        return found if all(_CYRILLIC.match(c) or c in "№’-" for c in found) else ""


_REPAIRS = tuple(Repair(a, b) for a in ("cp1252", "mac_roman") for b in ("cp1251", "koi8_r", "mac_cyrillic"))


@dataclass(slots=True)
class _Sample:
    words: list[str]
    unmapped: int = 0


@dataclass(frozen=True, slots=True)
class Findings:
    pages: list[list[Line]]
    garbled: list[int]
    """Pages (from 1) with noise, and those whose letters were put right."""
    repaired: list[int]


def mend(pages: Sequence[Sequence[Line]]) -> Findings:
    """The pages with each noisy line marked ``garbled`` and each line repaired whose true letters are certain."""
    samples: dict[tuple[str, int], _Sample] = defaultdict(lambda: _Sample([]))
    for number, lines in enumerate(pages):
        for line in lines:
            sample = samples[_key(line, number)]
            if len(sample.words) < _MAX_WORDS:
                sample.words += line.text.split()
                sample.unmapped += line.unmapped
    verdicts = {key: judged(sample.words, sample.unmapped) for key, sample in samples.items()}
    found = Findings([], [], [])
    for number, lines in enumerate(pages):
        mended = [_mended(line, verdicts[_key(line, number)]) for line in lines]
        if any(line.garbled for line in mended):
            found.garbled.append(number + 1)
        if any(line.text != before.text for line, before in zip(mended, lines, strict=True)):
            found.repaired.append(number + 1)
        found.pages.append(mended)
    return found


def _key(line: Line, page: int) -> tuple[str, int]:
    """Fonts that have no name (drawn ones) are told apart by page only."""
    return line.font, -1 if line.font else page


def _mended(line: Line, verdict: Repair | bool) -> Line:
    if isinstance(verdict, Repair):
        rows = tuple(tuple(verdict(cell) for cell in row) for row in line.rows)
        return replace(line, text=verdict(line.text), rows=rows)
    words = line.text.split()
    own = line.unmapped > 0.5 * len(words) and sum(map(len, words)) >= _MIN_LINE and is_noise(words, unmapped=True)
    if verdict or own or _unreadable(line.text):
        return replace(line, garbled=True)
    return line


def judged(words: Sequence[str], unmapped: int) -> Repair | bool:
    """A repair, True for noise, False for text. ``unmapped`` of the words have no Unicode map."""
    repair = _repair(words)
    if repair is not None:
        return repair
    return is_noise(words, unmapped=unmapped > 0.5 * len(words))


def repaired(text: str) -> str:
    """``text`` by itself (a title, a name) with its letters put right where that is certain."""
    repair = _repair(text.split())
    return repair(text) if repair is not None else text


def _unreadable(text: str) -> bool:
    shown = len(text) - text.count(" ")
    return shown >= _MIN_LINE and len(_UNREADABLE.findall(text)) > _MAX_UNREADABLE * shown


def is_noise(words: Iterable[str], *, unmapped: bool) -> bool:
    """True for letters in no order of a language. Without a map (``unmapped``) text must look natural to be
    believed; with one it must look very unnatural, over many words, to be doubted. Scripts other than Latin
    and Cyrillic are believed when mapped."""
    tokens = [word.strip(".,;:!?()[]«»\"'“”‘’…*") for word in words]
    if unmapped:
        tokens = [token for token in tokens if len(token) > 2 and any(c.isalpha() for c in token)]
        letters = [c for token in tokens for c in token.casefold() if c.isalpha()]
        if not tokens or sum(bool(_EAST_ASIAN.match(c)) for c in letters) > _NATURAL_WORDS * len(letters):
            return False
        if len(tokens) < _FEW_WORDS:
            read = sum(c.isalpha() for token in tokens if _is_word(token) for c in token)
            return read < _FEW_NATURAL * len(letters)
        natural = sum(map(_is_word, tokens)) / len(tokens)
        return natural < _NATURAL_WORDS or (len(letters) > 40 and _frequent(letters) < _NATURAL_FREQUENT)
    plain = [t for t in tokens if len(t) > 3 and t.isalpha() and (_LATIN.match(t) or _CYRILLIC.match(t)) and _cased(t)]
    letters = [c for token in set(plain) for c in token.casefold()]
    if len(set(plain)) < _SOUP_MIN or len(set(letters)) < 14 or len(plain) < 0.4 * len(tokens):
        return False
    return sum(map(_is_word, plain)) < _SOUP_WORDS * len(plain) and _frequent(letters) < _SOUP_FREQUENT


def _is_word(token: str) -> bool:
    """Letters of one case pattern with a vowel among them; its parts may be joined by hyphens and the like."""
    parts = re.split("[-–'’/.@_]", token)
    return all(
        not part or (part.isalpha() and _cased(part) and not _VOWELS.isdisjoint(_base(part))) or part.isdecimal()
        for part in parts
    )


def _cased(part: str) -> bool:
    return part.islower() or part.isupper() or part[1:].islower()


def _base(text: str) -> str:
    return unicodedata.normalize("NFD", text.casefold()) if not text.isascii() else text.lower()


def _frequent(letters: Sequence[str]) -> float:
    return sum(c in _FREQUENT for c in map(_base_letter, letters)) / max(len(letters), 1)


def _base_letter(letter: str) -> str:
    return _base(letter)[0]


# --- Cyrillic shown through Latin letters -------------------------------------------------------------


def _repair(words: Sequence[str]) -> Repair | None:
    """The one reading under which the words without a single ASCII letter are Russian, when they are many."""
    runs = [run for word in words for run in _HIGH_RUN.findall(word)]
    ascii_words = sum(bool(re.search("[A-Za-z]{2}", word)) for word in words)
    if sum(map(len, runs)) < 8 or len(runs) < 0.15 * (len(runs) + ascii_words) or not any(map(_LATIN.search, runs)):
        return None
    scored = [(score, repair) for repair in _REPAIRS if (score := _russian(runs, repair)) > 0]
    return max(scored, key=lambda pair: pair[0])[1] if scored else None


def _russian(runs: Sequence[str], repair: Repair) -> float:
    found = [repair.word(run) for run in runs]
    read = [word for word in found if word]
    letters = [c for word in read for c in word.casefold() if c.isalpha()]
    if len(read) < 0.8 * len(runs) or len(letters) < 8:
        return 0.0
    cased = sum(_cased(word) for word in read) / len(read)
    frequent = sum(c in _RUSSIAN_FREQUENT for c in letters) / len(letters)
    voiced = sum(not _VOWELS.isdisjoint(word.casefold()) for word in read if len(word) > 2)
    longer = sum(len(word) > 2 for word in read)
    if cased < 0.8 or frequent < 0.5 or voiced < 0.85 * longer or not longer:
        return 0.0
    return cased + frequent
