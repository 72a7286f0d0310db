"""Pages that are no content: bot checks, consent and login walls, script shells, "not found"; paywalls.

A wall is short, names itself in its title or first lines, and says little else. A long text is content
whatever it speaks of: articles about cookies, captchas and paywalls pass.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from pegas_memory.errors import NoUsableText
from pegas_memory.ingest.blocks import tidy_line
from pegas_memory.model import Extracted

PAYWALL_NOTE = "The page is behind a paywall: only what it shows without a subscription was read."
_WORDS = Path(__file__).with_name("walls.toml")
_ORDER = ("bot", "missing", "broken", "region", "consent", "login", "script", "blocker")
_TITLE_PARTS = re.compile(r"\s+[|–—·•:»/-]+\s+|\s*[|·•»]\s*|(?<=\d):\s+")
MAX_SHORT = 500
"""Characters up to which one telling phrase makes a page a wall."""
MAX_WALL = 3000
"""Characters up to which a telling title, or telling phrases in half of the text, do. With both limits none
of the 1,171 pages of the two upstream web sets is refused."""
MAX_TEASER = 3000
MIN_TEASER = 200
_MAX_LOGIN = 1500
"""Characters of all that a page shows, menus too, up to which a password field makes it a login page."""
_SHARE = 0.5
MAX_VISIBLE = 200_000
_UNSEEN = frozenset("script style template".split())
_MOUNTS = frozenset("root app __next __nuxt ___gatsby svelte q-app main-app react-root application".split())


@dataclass(frozen=True, slots=True)
class _Wall:
    """What is said of it, and the words it is known by (see ``walls.toml``)."""

    said: str
    title: re.Pattern[str]
    phrase: re.Pattern[str]
    demand: re.Pattern[str]
    headings: bool
    within: int


@cache
def _walls() -> Mapping[str, _Wall]:
    words = tomllib.loads(_WORDS.read_text(encoding="utf-8"))
    return {name: _wall(entry) for name, entry in words.items()}


def _wall(entry: Mapping[str, Any]) -> _Wall:
    title, phrase, demand = (
        re.compile("|".join(entry.get(key, [])), re.IGNORECASE) for key in ("title", "phrase", "demand")
    )
    within = entry.get("within", MAX_WALL)
    return _Wall(entry.get("said", ""), title, phrase, demand, entry.get("headings", False), within)


def refuse_wall(document: Extracted | None, root: Any) -> None:
    """Raises ``NoUsableText`` that says which kind of wall stands in place of content."""
    text = document.text if document else _visible(root)
    if len(text) > MAX_WALL:
        return
    titles = _names(root.iter("title"))
    headings = _names(root.iter("h1"))
    for wall in (_walls()[name] for name in _ORDER):
        names = [*titles, *headings] if wall.headings else titles
        if any(wall.title.fullmatch(name) for name in names) or _says(wall, document, text):
            raise NoUsableText(wall.said)
    if len(text) < MAX_SHORT and root.xpath("boolean(//input[@type='password'])") and len(_visible(root)) < _MAX_LOGIN:
        raise NoUsableText(_walls()["login"].said)
    if len(text) < MAX_SHORT and any(not _text(mount) for mount in _mounts(root)):
        raise NoUsableText(_walls()["script"].said)


def _says(wall: _Wall, document: Extracted | None, text: str) -> bool:
    if len(text) <= MAX_SHORT:
        return wall.phrase.search(text[: wall.within]) is not None
    if document is None or wall.within < MAX_WALL or not wall.demand.search(text):
        return False
    said = sum(len(block.text) for block in document.blocks if wall.phrase.search(block.text))
    return said >= _SHARE * len(text)


def behind_paywall(document: Extracted, root: Any, described: Mapping[str, Any]) -> bool:
    """True when the page gives a part of its text away: it says so in its JSON-LD or its words, and what
    was read is no more than a teaser. Raises ``NoUsableText`` when it is less than that."""
    length = len(document.text)
    if length > MAX_TEASER or not (
        _declared_paid(root, described) or _walls()["paywall"].phrase.search(_visible(root))
    ):
        return False
    if length < MIN_TEASER:
        raise NoUsableText("The page is behind a paywall and shows almost nothing of its text.")
    return True


def _declared_paid(root: Any, described: Mapping[str, Any]) -> bool:
    parts = described.get("hasPart")
    things = [described, *(parts if isinstance(parts, list) else [parts])]
    stated = [thing.get("isAccessibleForFree") for thing in things if isinstance(thing, Mapping)]
    if any(value is False or str(value).rpartition("/")[2].lower() == "false" for value in stated):
        return True
    tiers = root.xpath("//meta[@property='article:content_tier' or @name='article:content_tier']/@content")
    return any(tier.lower() == "locked" for tier in tiers)


def _names(elements: Iterator[Any]) -> list[str]:
    """The first two of ``elements`` as text, and the parts that a title is put together from."""
    texts = [tidy_line("".join(element.itertext())[:300]) for element in islice(elements, 2)]
    return [part.strip(" .!?…") for text in texts for part in (text, *_TITLE_PARTS.split(text)) if part]


def _visible(root: Any) -> str:
    """All words of the body but those of scripts and styles."""
    parts: list[str] = []
    for element in next(root.iter("body"), root).iter():
        if element.tag not in _UNSEEN and isinstance(element.tag, str):
            parts.append(element.text or "")
        parts.append(element.tail or "")
    return tidy_line(" ".join(part for part in parts if part)[:MAX_VISIBLE])


def _mounts(root: Any) -> Iterator[Any]:
    """Elements that scripts fill."""
    for element in root.iter("div", "main", "app-root", "section"):
        if element.tag == "app-root" or element.get("id") in _MOUNTS:
            yield element


def _text(element: Any) -> str:
    return "".join(element.itertext()).strip()
