"""Which sentences define a term, and which term."""

from __future__ import annotations

import re

from pegas_memory.distill.claims import has_predicate, words
from pegas_memory.distill.lexicon import (
    DEMONSTRATIVE_EN,
    DEMONSTRATIVE_RU,
    LABELS,
    PERSONAL_EN,
    PERSONAL_RU,
    PREPOSITIONS,
)
from pegas_memory.text import fold

MAX_TERM_WORDS = 6
MAX_TERM_CHARACTERS = 70

_ASIDE = re.compile(r"\s*\([^()]*\)")
_EN_COPULA = re.compile(
    r"^(?P<term>[^,;:.!?]{2,90}?) (?:is|are) (?:an?|any|one of the|the (?:name|term|act|process|set|practice|study|"
    r"part|kernel|program|standard|number|amount|ratio|unit|file|directory|command|person|body|method|main|"
    r"default|official|primary))\s+(?P<body>.+)$"
)
_EN_VERB = re.compile(
    r"^(?P<term>[^,;:.!?]{2,90}?) (?:means?|refers? to|denotes?|stands? for|(?:is|are) defined as|"
    r"is short for)\s+\S"
)
_EN_CALLED = re.compile(
    r"^[^,;:]{10,200}? (?:is|are) (?:called|known as|termed|named) (?:an? |the )?(?P<term>[^,;:.()]{2,70})\.$"
)
_RU_THIS = re.compile(
    r"^(?P<term>[^,;:.!?—–]{2,90}?)(?:,| —| –| -)? (?:—|–|-)? ?это (?:такое )?"
    r"(?P<body>(?!значит|означает|было|будет|не )\S+.*)$"
)
_RU_DASH = re.compile(r"^(?P<term>[^,;:.!?—–]{2,90}?) [—–] (?P<body>[^,\s]+.*)$")
_RU_VERB = re.compile(
    r"^(?P<term>[^,;:.!?—–]{2,90}?) (?:означает|означают|обозначает|представляет собой|представляют собой|"
    r"расшифровывается как|определяется как|есть не что иное)(?:,)? \S"
)
_RU_UNDER = re.compile(r"^Под (?P<term>[^,;:.!?—–]{2,70}?) (?:понима\w+|подразумева\w+) \S", re.IGNORECASE)
_RU_CALLED = re.compile(
    r"^(?P<term>[^,;:.!?—–]{2,70}?) (?:называется|называются|именуется) (?P<body>[^.]{8,})|"
    r"^[^,;:]{10,200}? (?:называется|называются|называют) (?P<last>[«\"]?[^,;:.()]{2,60}?[»\"]?)\.$"
)
_LIST_FORM = re.compile(r"^(?P<term>[^:.!?;]{1,70}?)\s?(?::|\s[—–-])\s+(?P<body>\S.{11,})$", re.DOTALL)
_ENDS_WHOLE = re.compile(r"[.!…][\"'»”’)\]]*$")
_DECORATION = "`*_ "
_ARTICLE = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)

_NO_TERM = (
    frozenset(
        """
        there here what which who whom whose why how when where one each every all some many most more several both no
        not nothing none someone anyone everyone if because although while since as but and or so only another other
        now currently today then сейчас теперь ныне сегодня тогда обычно
        the a an first second third fourth fifth last next
        первый первая первое второй вторая второе третий третья последний последняя
        кто что где когда почему как если хотя потому так там здесь каждый каждая каждое все некоторые многие один одна
        одно другой другая другие каков какова вот тут только лишь весь вся всё мы вы я ты
        we you i my your our
        """.split()
    )
    | PERSONAL_EN
    | PERSONAL_RU
    | DEMONSTRATIVE_EN
    | DEMONSTRATIVE_RU
)
_ABSTRACT = frozenset(
    """
    reason result results goal goals aim aims problem purpose example examples question answer difference way ways
    advantage disadvantage exception step thing things idea point issue solution task conclusion rest majority number
    случай причина результат результаты цель задача проблема пример вопрос ответ разница отличие преимущество исключение
    шаг способ идея решение вывод большинство часть число количество длина высота ширина глубина площадь население
    столица язык название автор автором президент директор глава население девиз прозвище псевдоним валюта гимн
    capital population language author температура возраст вес масса рост дата год скорость средняя объём объем срок
    размер
    """.split()
)
_BODY_REFUSED = re.compile(
    r"^(?:не\b|[^\s]*(?:ть|ться|ти|чь)\b|в|во|на|с|к|по|от|до|за|из|у|при|около|более|менее|примерно|\d)", re.I
)
_EN_BODY_REFUSED = re.compile(
    r"^(?:lot|bit|good|bad|great|better|big|real|serious|significant|major|common|new|key|critical|matter|problem|few|"
    r"little|reasonable|useful|nice|direct|result|high|low|strong|risk|potential|valid|viable)\b",
    re.IGNORECASE,
)


def defined_term(claim: str) -> str:
    """The term that a cleaned sentence defines ("X is a …", «X — это …», "X means …"), else ""."""
    bare = _ASIDE.sub("", claim)
    for pattern in (_EN_VERB, _RU_UNDER, _RU_VERB):
        if match := pattern.match(bare):
            return _term(match.group("term"))
    if (match := _EN_COPULA.match(bare)) and not _EN_BODY_REFUSED.match(match.group("body")):
        return _term(match.group("term"))
    if match := _RU_THIS.match(bare):
        return _term(match.group("term"))
    if (match := _RU_DASH.match(bare)) and not _BODY_REFUSED.match(match.group("body")):
        return _term(match.group("term"))
    if match := _EN_CALLED.match(bare):
        return _term(match.group("term"))
    if match := _RU_CALLED.match(bare):
        return _term(match.group("term") or match.group("last") or "")
    return ""


def listed_term(claim: str) -> str:
    """The term of a definition-list entry ("term: definition."), else ""."""
    match = _LIST_FORM.match(claim)
    if match is None or not _ENDS_WHOLE.search(claim) or len(words(match.group("body"))) < 3:
        return ""
    if (
        re.match(r"(?:https?:)?//|www\.", match.group("body"))
        or re.match(r"\w+(?:ть|ться|ти)\b", match.group("body"))
        or fold(match.group("term").strip(_DECORATION)).split(" ")[0] in LABELS
    ):
        return ""
    return _term(match.group("term"), abstract=True)


def _term(raw: str, *, abstract: bool = False) -> str:
    """``raw`` without article, outer quotes and stress marks; "" when it can't be a term. ``abstract``
    lets words pass that are seldom defined in a sentence (reason, author, capital)."""
    term = _ARTICLE.sub("", _unquoted(raw.replace("\u0301", "").strip(_DECORATION)))
    found = [fold(w) for w in words(term)]
    if not found or len(term) > MAX_TERM_CHARACTERS or len(term.split()) > MAX_TERM_WORDS:
        return ""
    if found[0] in _NO_TERM or found[0] in PREPOSITIONS:
        return ""
    if not abstract and any(w in _ABSTRACT for w in found[:2]):
        return ""
    if len(found) > 2 and (found[0].endswith("ing") or has_predicate(f"x {term}")):
        return ""
    return term


def _unquoted(term: str) -> str:
    for left, right in ("«»", '""', "“”", "‘’", "''"):
        if term.startswith(left) and term.endswith(right) and left not in term[1:-1]:
            return term[1:-1]
    return term
