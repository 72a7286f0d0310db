"""Looking words up in the lists of ``lexicon``."""

from __future__ import annotations

from functools import lru_cache

import Stemmer

from pegas_memory.dedup import lexicon, synonyms
from pegas_memory.dedup.tokens import CYRILLIC, Kind

_PRONOUNS = frozenset(
    "he she it they i we you his her their our my your its him them us me "
    "он она они оно я мы ты вы его ее их наш ваш мой твой".split()
)

_russian = Stemmer.Stemmer("russian")
_english = Stemmer.Stemmer("english")


def _table(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """``name: words`` lines to (whole words, prefixes); a word of several lines has their names joined by |."""
    whole: dict[str, str] = {}
    prefixes: dict[str, str] = {}
    for name, word in lexicon.entries(text):
        table, bare = (prefixes if word.endswith("*") else whole), word.rstrip("*")
        table[bare] = f"{table[bare]}|{name}" if bare in table else name
    return whole, prefixes


def _synonyms(text: str) -> dict[str, str]:
    groups = enumerate(text.split("|"))
    return {_dictionary_form(word): f"syn{n}" for n, group in groups for word in group.split()}


def _dictionary_form(word: str) -> str:
    return stem(word) if CYRILLIC.search(word) else word


def _split(words: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    return (
        {w: v for w, v in words.items() if not w.endswith("*")},
        {w.rstrip("*"): v for w, v in words.items() if w.endswith("*")},
    )


POLES = _table(lexicon.POLES)
UNITS = _split(lexicon.UNITS)
ORDINALS = _split(lexicon.ORDINALS)


CANONICAL_UNITS = frozenset(
    """ns нс us µs мкс ms мс s sec min mins мин сек h hr hrs ч час d day days день дня дней w y год года году лет г
    B KB kB КБ кБ MB МБ GB ГБ TB ТБ bit bits бит % mm мм cm см m м km км mi mph ft mg мг g kg кг t lb lbs ml mL мл l
    v W kW кВт MW МВт Hz Гц MHz МГц GHz ГГц usd USD eur EUR gbp GBP rub RUB yen руб $ € £ ₽ ¥""".split()
)
"""Short units as they are written; any other spelling (mW, Mb) is a unit of its own."""


def is_function(word: str) -> bool:
    lists = (lexicon.PREPOSITIONS, lexicon.FUNCTION, lexicon.ARTICLES, lexicon.BE, _PRONOUNS)
    return any(word in words for words in lists)


def look_up(word: str, table: tuple[dict[str, str], dict[str, str]]) -> str:
    """The entry of ``word``: as it is, else by its longest listed prefix."""
    whole, prefixes = table
    if word in whole:
        return whole[word]
    for length in range(min(len(word), 12), 2, -1):
        if (found := prefixes.get(word[:length])) is not None:
            return found
    return ""


@lru_cache(maxsize=100_000)
def meaning(word: str) -> tuple[Kind, str]:
    """(kind, key) of one folded word by the lists, else the word's stem."""
    if word in lexicon.NUMBERS:
        return Kind.NUMBER, lexicon.NUMBERS[word]
    if not word.startswith(("первич", "вторич")) and (ordinal := look_up(word, ORDINALS)):
        return Kind.NUMBER, ordinal
    if unit := look_up(word, UNITS):
        return Kind.UNIT, unit
    if word in _PRONOUNS:
        return Kind.PRONOUN, word
    dictionary = _dictionary_form(word)
    key = SYNONYMS.get(dictionary, dictionary)
    return Kind.POLE if look_up(word, POLES) else Kind.WORD, key


@lru_cache(maxsize=100_000)
def poles(word: str) -> frozenset[str]:
    """``axis sign`` of one folded word, for every axis it is listed on."""
    return frozenset(filter(None, look_up(word, POLES).split("|")))


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    if CYRILLIC.search(word):
        return str(_russian.stemWord(word))
    return str(_english.stemWord(word.removesuffix("'s")))


SYNONYMS = _synonyms(synonyms.SYNONYMS)
