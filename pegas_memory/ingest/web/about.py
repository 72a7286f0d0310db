"""What a page says of itself: JSON-LD, meta tags, and trafilatura's reading of both and of bylines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from htmldate import find_date
from lxml import etree
from trafilatura import metadata as of_page
from trafilatura.settings import set_date_params

from pegas_memory.ingest.blocks import tidy_line
from pegas_memory.ingest.html import merged, page_metadata

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_SCRIPT = 2_000_000
_MAX_NODES = 20_000
_ARTICLE_TYPES = frozenset(
    "Article NewsArticle BlogPosting Report TechArticle ScholarlyArticle AnalysisNewsArticle OpinionNewsArticle "
    "ReportageNewsArticle ReviewNewsArticle BackgroundNewsArticle LiveBlogPosting AdvertiserContentArticle "
    "SocialMediaPosting Recipe HowTo Review WebPage CreativeWork PodcastEpisode MedicalWebPage".split()
)


def json_ld(root: Any) -> Mapping[str, Any]:
    """The properties of the page's main thing (its article; of several the one that says most) as its
    JSON-LD has them; empty when there is none that can be read."""
    best: Mapping[str, Any] = {}
    for node in _nodes(root):
        kinds = _ARTICLE_TYPES.intersection(_strings(node.get("@type")))
        if kinds and _weight(node, kinds) > _weight(best, set()):
            best = node
    return best


def _weight(node: Mapping[str, Any], kinds: set[str] | frozenset[str]) -> float:
    plain = bool(kinds) and kinds <= {"WebPage", "CreativeWork"}
    return len(node) * (0.5 if plain else 1)


def _nodes(root: Any) -> Iterator[Mapping[str, Any]]:
    for script in root.iter("script"):
        text = script.text or ""
        if "ld+json" not in (script.get("type") or "").lower() or len(text) > _MAX_SCRIPT:
            continue
        try:
            waiting = [json.loads(text.strip().removesuffix(";"), strict=False)]
        except (ValueError, RecursionError):
            continue
        for _ in range(_MAX_NODES):
            if not waiting:
                break
            node = waiting.pop()
            if isinstance(node, dict):
                yield node
                waiting += [node[key] for key in ("@graph", "mainEntity", "mainEntityOfPage") if key in node]
            elif isinstance(node, list):
                waiting += node


def about_page(root: Any, described: Mapping[str, Any], url: str, *, plain: bool = False) -> dict[str, Any]:
    """title, author, date, modified, canonical_url (else ``url``), sitename, description: what the page gives.
    Dates are ISO 8601; ``canonical_url`` is absolute http(s). ``plain`` leaves trafilatura and htmldate out."""
    stated = page_metadata(root)
    about = merged(merged({} if plain else _by_trafilatura(root, url), stated), _by_json_ld(described))
    canonical = _absolute(url, stated.get("canonical_url") or url)
    about = {**about, "canonical_url": canonical, "modified": _date(described.get("dateModified"))}
    return {key: value for key, value in about.items() if value}


def _by_trafilatura(root: Any, url: str) -> dict[str, Any]:
    """By the parts of its ``extract_metadata`` that are needed: the rest costs a quarter of the time on real
    pages, and minutes on a page of footers inside footers."""
    try:
        found = of_page.extract_meta_json(root, of_page.examine_meta(root))
        return {
            "title": found.title or of_page.extract_title(root) or "",
            "author": _full_name(found.author) or of_page.extract_author(root) or "",
            "date": find_date(root, **set_date_params(extensive=False), url=url or None) or "",
            "sitename": (found.sitename or of_page.extract_sitename(root) or "").lstrip("@"),
            "description": found.description or "",
        }
    except (RecursionError, MemoryError, ValueError, TypeError, AttributeError, KeyError, IndexError, etree.LxmlError):
        # What a page says of itself wrongly costs its metadata, never its text.
        return {}


def _full_name(author: str | None) -> str:
    """Names of one word are those of accounts."""
    return author if author and " " in author else ""


def _by_json_ld(described: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "title": next(_strings(described.get("headline")), "") or next(_strings(described.get("name")), ""),
        "author": "; ".join(dict.fromkeys(_strings(described.get("author")))),
        "date": _date(described.get("datePublished")),
        "sitename": next(_strings(described.get("publisher")), ""),
        "description": next(_strings(described.get("description")), ""),
    }


def _strings(value: Any) -> Iterator[str]:
    """The names in a value of JSON-LD: a string, a thing with a ``name``, a list of either."""
    for item in value if isinstance(value, list) else [value]:
        name = item.get("name") if isinstance(item, dict) else item
        if isinstance(name, str) and tidy_line(name):
            yield tidy_line(name)


def _date(value: Any) -> str:
    found = _ISO_DATE.match(value.strip()) if isinstance(value, str) else None
    return found.group(0) if found else ""


def _absolute(url: str, address: str) -> str:
    try:
        whole = urljoin(url, address) if address else ""
        return whole if urlsplit(whole).scheme in ("http", "https") else ""
    except ValueError:
        return ""
