"""Is this sentence a claim that can stand alone? Reading by closed word lists and endings, Russian and
English; no model. Every answer is about the cleaned wording (see markup.claim_of)."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

import Stemmer

from pegas_memory.distill import lexicon
from pegas_memory.text import fold, language_of

MIN_CHARACTERS = 18
MIN_WORDS = 3
MAX_CHARACTERS = 1_000
"""A longer "sentence" is nearly always a list or a table that lost its line ends."""

MAX_NOTICE = 90

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_ENDS_WHOLE = re.compile(r"[.!…][\"'»”’)\]]*$")
_STARTS = re.compile(r"[\"'«“‘(\[]*(?:[A-ZА-ЯЁÀ-ÞΑ-Ω]|\d|[a-zа-яα-ω][\w.+-]*[A-Z0-9+_./-]\w*|[/~$-]+\w)")
_NUMBERED_HEADING = re.compile(
    r"^(?:\d+\.)+\d*\s+\S|^(?:chapter|section|appendix|глава|раздел|приложение)\s+\w+[.:]", re.I
)
_BROKEN = re.compile(r"[,;:] ?[,;]|\( ?[,;)]|^\(\d+\) |^To (?!be )[a-z]+ [^,]*$")
"""Holes where a reader dropped a part, numbers of items that run inside a sentence, bare "To describe …"."""
_NO_SUBJECT = re.compile(
    r"(?:Является|Являются|Являлся|Являлась|Имеет|Имеют|Имел|Имела|Входит|Входят|Входил|Входила|Относится|Относятся|"
    r"Представляет|Представляют|Представлен|Представлена|Представлены|Родился|Родилась|Окончил|Окончила|Умер|Умерла|Работал|Работала|Служил|Служила)\b|"
    r"[А-ЯЁ]\w+(?:ен|ан|ён|на|ны|[аеиуыя]л(?:а|и)?(?:сь|ся)?|[её]тся|ится|ются|ятся|ит|[её]т|ят|ют) "
    r"(?:в|во|на|по|с|со|из|у|к|от|до|как|при|под|над|между|около|за|для)\s"
)
"""A Russian sentence that begins with its verb and goes on with a preposition: its subject is in the one before."""
_LETTERS = re.compile(r"[^\W\d_]")
_IDENTIFIER_SUBJECT = re.compile(
    r"[a-z][\w.+-]*(?: \(\w+\))? (?:is|are|was|has|can|provides|allows|contains|uses|means|supports|runs|installs|"
    r"reads|writes|returns|creates|handles|does|— это|—|является|позволяет|используется|содержит|предназначен\w*|"
    r"устанавливает)\b"
)
_PARENTHESES = (("(", ")"), ("[", "]"), ("«", "»"), ("“", "”"))

_english = Stemmer.Stemmer("english")
_VERB_STEMS = frozenset(_english.stemWord(lemma) for lemma in lexicon.VERB_LEMMAS)


class Stand(StrEnum):
    """How a sentence stands: alone, only with the one before it, or not at all."""

    ALONE = "alone"
    LEANS = "leans"
    FALLS = "falls"


def words(text: str) -> list[str]:
    return _WORD.findall(text)


def stand(claim: str, *, ends_with_colon: bool = False) -> Stand:
    """Judge one cleaned sentence. ``ends_with_colon`` judges a lead-in, which need not end in a stop."""
    if not _well_formed(claim, ends_with_colon=ends_with_colon):
        return Stand.FALLS
    return Stand.LEANS if leans(claim) else Stand.ALONE


def _well_formed(claim: str, *, ends_with_colon: bool) -> bool:
    if not MIN_CHARACTERS <= len(claim) <= MAX_CHARACTERS:
        return False
    if not (claim.endswith(":") if ends_with_colon else _ENDS_WHOLE.search(claim)):
        return False
    if not (_STARTS.match(claim) or _IDENTIFIER_SUBJECT.match(claim)) or _NUMBERED_HEADING.match(claim):
        return False
    if _BROKEN.search(claim):
        return False
    found = words(claim)
    if len(found) < MIN_WORDS or not _mostly_letters(claim) or not _balanced(claim):
        return False
    return not is_boilerplate(claim) and not _points_elsewhere(claim) and has_predicate(claim, found)


def _points_elsewhere(claim: str) -> bool:
    """Only sends the reader to another place, or leans on a table or list that the claim leaves out."""
    return bool(lexicon.CROSS_REFERENCE.match(claim) or (claim[-1] != ":" and lexicon.POINTS_ELSEWHERE.search(claim)))


def is_boilerplate(text: str) -> bool:
    """Navigation, cookie and copyright notices, dot leaders."""
    bare = text.strip()
    notice = len(bare) <= MAX_NOTICE and lexicon.NOTICE.match(bare)
    return bool(notice or lexicon.BOILERPLATE.search(bare) or lexicon.NAVIGATION.fullmatch(bare))


def _mostly_letters(claim: str) -> bool:
    """Formulas, paths and rows of figures are no claims: 60 % of what is not blank must be letters."""
    dense = claim.replace(" ", "")
    return len(_LETTERS.findall(dense)) >= 0.6 * len(dense)


def _balanced(claim: str) -> bool:
    return all(claim.count(left) == claim.count(right) for left, right in _PARENTHESES) and claim.count('"') % 2 == 0


def has_predicate(claim: str, found: list[str] | None = None) -> bool:
    """A finite verb, or the dash that stands for one in Russian."""
    found = words(claim) if found is None else found
    if language_of(claim) == "ru" and (re.search(r"[\w)»\"”] [—–] \S", claim) or any(map(_russian_finite, found))):
        return True
    return any(
        _english_finite(word, first=i == 0)
        and (i == 0 or found[i - 1].casefold() not in lexicon.BEFORE_NOUN or _is_auxiliary(word))
        for i, word in enumerate(found)
    )


def _is_auxiliary(word: str) -> bool:
    return word.casefold().replace("’", "'") in lexicon.AUXILIARIES


@lru_cache(maxsize=50_000)
def _russian_finite(word: str) -> bool:
    folded = word.casefold()
    if folded in lexicon.RUSSIAN_PREDICATES:
        return True
    return len(folded) >= 4 and folded not in lexicon.RUSSIAN_NOT_VERBS and bool(lexicon.RUSSIAN_FINITE.search(folded))


@lru_cache(maxsize=50_000)
def _english_finite(word: str, *, first: bool) -> bool:
    folded = word.casefold().replace("’", "'")
    if folded in lexicon.AUXILIARIES:
        return True
    if first:
        return folded in lexicon.IMPERATIVES
    if folded in lexicon.VERB_WORDS or (folded.endswith("ed") and len(folded) >= 5 and folded not in lexicon.NOT_PAST):
        return True
    return not folded.endswith(lexicon.NOT_VERB_ENDINGS) and _english.stemWord(folded) in _VERB_STEMS


def is_imperative(claim: str) -> bool:
    """An instruction (kept as ``text``: it asserts nothing)."""
    found = words(claim[:80])
    if not found:
        return False
    first = found[0].casefold()
    if first in ("to", "when", "if", "for", "чтобы", "для", "если") and "," in claim:
        rest = words(claim.split(",", 1)[1][:60])
        return (bool(rest) and rest[0].casefold() in lexicon.IMPERATIVES) or any(
            _russian_imperative(w) for w in rest[:2]
        )
    return first in lexicon.IMPERATIVES or _russian_imperative(first)


def _russian_imperative(word: str) -> bool:
    return bool(re.search(r"(?:[йиь]те|йтесь|итесь|ьтесь)$", word.casefold())) and len(word) > 4


def leans(claim: str) -> bool:
    """True when the sentence starts with a pronoun or connective that points outside it."""
    start = claim.lstrip("\"'«“‘([ ")
    if lexicon.ABOUT_ITSELF.match(start):
        return False
    if lexicon.EXPLETIVE.match(start):
        return False
    if lexicon.CONNECTIVES.match(start) or (_NO_SUBJECT.match(start) and _verb_first(start)):
        return True
    found = [fold(word).replace("’", "'").partition("'")[0] for word in words(start[:160])]
    return (
        _leading_pronoun(found)
        or _pronoun_after_adverbial(start)
        or _verb_after_time(found)
        or _points_back_early(found)
    )


def _verb_first(start: str) -> bool:
    first = words(start[:40])[:1]
    return bool(first) and _russian_finite(first[0])


def _verb_after_time(found: list[str]) -> bool:
    """«В 2011 году выступал за сборную»: a Russian verb behind nothing but a time, then a preposition."""
    place = next((n for n, word in enumerate(found) if word not in lexicon.BEFORE_PRONOUN), 0)
    if not 0 < place < len(found) - 1 or not _russian_finite(found[place]):
        return False
    return found[place + 1] in lexicon.PREPOSITIONS and re.search(r"ла?(?:с[ья])?$", found[place]) is not None


def _leading_pronoun(found: list[str]) -> bool:
    """A personal pronoun before anything that it could stand for: "In 1995 he moved …"."""
    for word in found[:8]:
        if word in _PERSONAL:
            return True
        if word not in lexicon.BEFORE_PRONOUN:
            return False
    return False


def _pronoun_after_adverbial(start: str) -> bool:
    """The same behind a prepositional phrase: «После училища он поступил …»; what stands in the phrase is
    seldom what the pronoun means."""
    found = [fold(word) for word in words(start[:100].split(",", 1)[0])]
    return bool(found) and found[0] in lexicon.PREPOSITIONS and any(w in _SUBJECTS for w in found[2:6])


def _points_back_early(found: list[str]) -> bool:
    """A demonstrative among the first words: "The size of this file …", «Список этих пакетов …»."""
    for position, word in enumerate(found[:5]):
        if word in ("that", "те", "тех", "то", "та", "том", "тем", "того") and position > 0:
            return False
        if word in _DEMONSTRATIVE and not (word == "это" and position):
            return True
    return False


_PERSONAL = frozenset(fold(w) for w in lexicon.PERSONAL_EN | lexicon.PERSONAL_RU)
_SUBJECTS = frozenset(("he", "she", "they", "он", "она", "оно", "они"))
_DEMONSTRATIVE = frozenset(fold(w) for w in lexicon.DEMONSTRATIVE_EN | lexicon.DEMONSTRATIVE_RU)
