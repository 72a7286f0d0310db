"""From a quote, which stands as it is in the source, to the wording of a claim: decoration off,
line wraps joined."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from pegas_memory.model import DocumentKind
from pegas_memory.text import fold

_IMAGE = re.compile(r"!\[([^\[\]\n]{0,500})\]\((?:[^()\s]|\([^()\s]{0,500}\)){0,2000}(?:\s+\"[^\"]{0,500}\")?\)")
_LINK = re.compile(r"\[([^\[\]\n]{1,500})\]\((?:[^()\s]|\([^()\s]{0,500}\)){0,2000}(?:\s+\"[^\"]{0,500}\")?\)")
_REFERENCE_LINK = re.compile(r"\[([^\[\]\n]{1,500})\]\[[^\[\]\n]{0,500}\]")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]")
_CITATION = re.compile(r"\^\[\d{1,3}\]|(?<=[а-яё.,;:)»”\"])\[(?:\d{1,3}|citation needed|источник не указан[^\]]*)\]")
_AUTOLINK = re.compile(r"<(https?://[^>\s]+|[\w.+-]+@[\w.-]+)>")
_TAG = re.compile(
    r"</?(?:a|abbr|b|br|center|cite|code|div|em|font|h[1-6]|hr|i|img|kbd|li|mark|ol|p|q|s|small|span|strong|sub|sup|tt|u|ul)"
    r"(?:\s[^<>]{0,1000})?/?>",
    re.IGNORECASE,
)
_STRONG = re.compile(r"\*\*|__(?=\S)|(?<=\S)__(?!\w)|~~")
_EMPHASIS = re.compile(r"(?<![\w*])([*_])(?=\S)([^*_\n]{1,500}?)(?<=\S)\1(?![\w*])")
_TICKS = re.compile(r"`+")
_LINE_MARKER = re.compile(r"^[ \t]*(?:>[ \t]*)+|^[ \t]*#{1,6}[ \t]+", re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:(?:[-*+•‣◦·▪–—]|\(?\d{1,3}[.)]|\(?[a-zа-я]\))\s+)")
_HYPHENATED = re.compile(r"(\w+)[-‐]\n\s*(\w+)")
_BROKEN_ADDRESS = re.compile(
    r"(?<=://)\n\s*(?=\w)|(?<=[\w.-]/)\n\s*(?=[\w-]+[./])|(?<=\w)\n\s*(?=/[A-Z])|(?<=[A-Z]/)\n\s*(?=[A-Z])"
)
_ADDRESS_TAIL = re.compile(r"(https?://[^\s()]*[/#?=&])\n\s*(?=[\w-])")
_NOTE_NUMBER = re.compile(r"^\[\d{1,3}\]\s+")
_SECTION_LABEL = re.compile(
    r"^(?:BACKGROUND|OBJECTIVES?|AIMS?|METHODS?|RESULTS?|CONCLUSIONS?|FINDINGS|INTERPRETATION|PURPOSE|DESIGN|SETTING)"
    r"(?:(?:/| AND )[A-Z]+)?:?\s+(?=[A-ZА-Я])"
)
_SPACE = re.compile(r"\s+")
_BEFORE_STOP = re.compile(r"(?<=\w) (?=[,;:!?](?:\s|$)|\.(?:\s|$))")


def bullet_length(text: str) -> int:
    """How many characters of ``text`` are its list marker."""
    match = _BULLET.match(text)
    return match.end() if match else 0


def masked(text: str, kind: DocumentKind) -> str:
    """``text`` with decoration turned to blanks, every other character at its place: what sentences
    are cut on, so that a quote begins and ends at words."""
    if kind not in (DocumentKind.MARKDOWN, DocumentKind.TEXT):
        return text
    for pattern in (_IMAGE, _FOOTNOTE):
        text = pattern.sub(lambda m: " " * len(m.group()), text)
    text = _LINK.sub(lambda m: " " + m.group(1) + " " * (len(m.group()) - len(m.group(1)) - 1), text)
    for pattern in (_STRONG, _LINE_MARKER):
        text = pattern.sub(lambda m: " " * len(m.group()), text)
    return text


def claim_of(quote: str, kind: DocumentKind, known: Callable[[str], bool]) -> str:
    """The wording of a claim: one line, no Markdown or HTML decoration, wrapped words joined.

    ``known`` says whether a folded word stands somewhere in the document: a word broken at a hyphen
    is glued where the whole word is known, else its hyphen is kept, being all that the source says.
    """
    text = quote.replace("\u00ad\n", "").replace("\u00ad", "").replace("\u200b", "")
    if "\n" in text:
        text = _HYPHENATED.sub(lambda m: _join(m.group(1), m.group(2), known), text)
        text = _ADDRESS_TAIL.sub(r"\1", _BROKEN_ADDRESS.sub("", text))
    if kind in (DocumentKind.MARKDOWN, DocumentKind.TEXT):
        text = _without_markdown(text, emphasis=kind is DocumentKind.MARKDOWN)
    text = _SPACE.sub(" ", _CITATION.sub("", text)).strip()
    return _SECTION_LABEL.sub("", _NOTE_NUMBER.sub("", _BEFORE_STOP.sub("", text)))


def _join(left: str, right: str, known: Callable[[str], bool]) -> str:
    whole = left + right
    if right[0].islower() and left[-1].isalpha() and known(fold(whole)):
        return whole
    return f"{left}-{right}"


def _without_markdown(text: str, *, emphasis: bool) -> str:
    text = _FOOTNOTE.sub("", _IMAGE.sub(r"\1", text))
    text = _REFERENCE_LINK.sub(r"\1", _LINK.sub(r"\1", text))
    text = _TAG.sub("", _AUTOLINK.sub(r"\1", _LINE_MARKER.sub("", text)))
    text = _TICKS.sub("", _STRONG.sub("", html.unescape(text)))
    return _EMPHASIS.sub(r"\2", text) if emphasis else text
