"""Bytes and text of a page into a tree: charset, traps, depth, XHTML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.entities import html5
from typing import Any

from lxml import etree
from lxml import html as lxml_html

from pegas_memory.errors import NoUsableText, UnreadableFile
from pegas_memory.ingest.decoding import damage, decode

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{2,40})", re.IGNORECASE)
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_INLINE_TAG = re.compile(
    r"(?i)</?(?:a|abbr|acronym|b|big|center|code|del|em|font|i|ins|s|small|span|strike|strong|tt|u)\b[^<>]*>"
)
_WIDE_SPAN = re.compile(r"(?i)\b(colspan|rowspan)(\s*=\s*[\"']?\s*)(\d{4,})")
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_DECLARED_ENTITY = re.compile(r"<!ENTITY\s+([\w.-]+)\s")
_DECLARATIONS = re.compile(r"\A\s*<!DOCTYPE[^>\[]*\[.*?\]\s*>", re.DOTALL | re.IGNORECASE)
"""A document type with declarations of its own, which HTML does not know."""
_XML_ENTITIES = frozenset("amp lt gt quot apos".split())
_SWALLOWING = {
    name: (re.compile(rf"(?i)<{name}(?:\s[^<>]*)?>"), re.compile(rf"(?i)</{name}\s*>"))
    for name in ("script", "style", "textarea", "title", "template", "noscript", "iframe")
}
_OPEN_QUOTE = "The page has an attribute without an end; some of what follows it was not read."
_SWALLOWED = (
    "(//@href|//@src|//@class|//@id|//@name)[string-length(.) > 80 and contains(., '<')"
    " and not(starts-with(., 'data:')) and not(starts-with(., 'javascript:'))]"
    " | //@style[contains(., '<') or substring(., string-length(.)) = '=']"
)
_MAX_QUOTES = 3
_SHOWN_VALUE = 20
"""Characters of such a value by which it is found in the source: few, since entities differ there."""
_BODY = re.compile(r"(?i)<body[\s>]")
_BODY_END = re.compile(r"(?i)</(?:body|html)\s*>")
_DEEP = "Nested over 2,000 levels deep: the rest of the page is left out."


def decode_html(data: bytes, content_type: str = "") -> str:
    """Text of an HTML file: byte order mark, then charset of the HTTP header, of ``<meta>``, of the
    XML declaration, each only where it fits the bytes, then detection. Raises ``UnreadableFile``."""
    declared = _HEADER_CHARSET.findall(content_type)
    for pattern, part in ((_META_CHARSET, data[:8192]), (_XML_ENCODING, data[:300])):
        declared += [m.decode("ascii", "replace") for m in pattern.findall(part)[:2]]
    return decode(data, tuple(declared))[0]


def without_traps(text: str) -> str:
    """The page without NUL and XML declaration (libxml2 stumbles over both) and with absurd spans
    (``colspan=1000000000``) cut, since readers of tables multiply by them."""
    return _WIDE_SPAN.sub(r"\1\g<2>1", _XML_DECLARATION.sub("", text.replace("\x00", "").lstrip("\ufeff"), count=1))


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed page: its root element, the source that other parsers may read (None when they would
    lose what is nested deep), and warnings."""

    root: Any
    source: str | None
    warnings: tuple[str, ...] = ()


def parse(text: str) -> Page:
    """The page as a tree; entities are not fetched.

    libxml2 cuts a page off at 256 levels, which unclosed ``<b>`` and ``<font>`` reach: such a page is
    parsed again without inline tags and with the higher limit (2,048); what that loses is said.
    Raises ``NoUsableText`` for an empty page, ``UnreadableFile`` for one that no parser takes."""
    hurt = damage(text.replace("\0", "\ufffd"))
    text, notes = _ended(_DECLARATIONS.sub("", without_traps(text), count=1))
    notes += hurt
    if not text.strip():
        raise NoUsableText("The HTML is empty.")
    root, deep = _tree(text, huge=False)
    swallowed = _swallowed(root)
    if swallowed:
        notes += (_OPEN_QUOTE,)
        text, root, deep = _unquoted(text, root, deep, swallowed)
    if not deep:
        return Page(root, text, notes)
    root, deep = _tree(_INLINE_TAG.sub("", text), huge=True)
    return Page(root, None, (*notes, _DEEP) if deep else notes)


def parse_xhtml(text: str) -> Page:
    """A page of a book: as XML where it is well-formed (an empty ``<title/>`` or ``<a id="x"/>`` means
    then what it says), else as HTML. Element names come without their namespaces; entities that the
    page itself declares are put in within libxml2's amplification limit, external ones are never read."""
    source = without_traps(text)
    declared = {*_XML_ENTITIES, *_DECLARED_ENTITY.findall(source[:100_000])}
    named = _ENTITY.sub(lambda m: m[0] if m[1] in declared else html5.get(f"{m[1]};", f"&amp;{m[1]};"), source)
    parser = etree.XMLParser(
        resolve_entities="internal", no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(named.encode("utf-8", "replace"), parser)
    except (etree.LxmlError, ValueError):
        return parse(text)
    etree.strip_elements(root, etree.Entity, with_tail=False)
    for element in root.iter(etree.Element):
        element.tag = element.tag.rpartition("}")[2].lower()
    return Page(root, source)


def _ended(text: str) -> tuple[str, tuple[str, ...]]:
    """The page with an end to what would swallow the rest of it (a comment, a script that is never
    closed), and warnings of that and of a page that breaks off."""
    notes: list[str] = []
    at = text.rfind("<!--")
    if at > text.rfind("-->"):
        text = text[:at] + text[at + 4 :]
        notes.append("The page has a comment without an end; what follows it was read.")
    for name, (opening, closing) in _SWALLOWING.items():
        last = max((m.end() for m in opening.finditer(text)), default=-1)
        if last < 0 or closing.search(text, last) or (name != "script" and _in_script(text, last)):
            continue
        # It ends where the next end tag stands, which is often its own, misspelt.
        end = text.find("</", last)
        end = len(text) if end < 0 else end
        text = f"{text[:end]}</{name}>{text[end:]}"
        notes.append(f"The page has a <{name}> without an end; what follows it was read.")
    for quote in ("'", '"'):
        at = text.rfind(f"={quote}")
        if at >= 0 and text.find(quote, at + 2) < 0 and text.rfind("<", 0, at) > text.rfind(">", 0, at):
            text = f"{text[: at + 1]} {text[at + 2 :]}"
            notes.append(_OPEN_QUOTE)
    if _BODY.search(text) and not _BODY_END.search(text, max(len(text) - 100_000, 0)):
        notes.append("The page has no end: it may have been cut off.")
    return text, tuple(notes)


def _in_script(text: str, at: int) -> bool:
    return text.rfind("<script", 0, at) > text.rfind("</script", 0, at)


def _swallowed(root: Any) -> str:
    """The value of an address or a name that goes on over elements: its closing quote is missing."""
    return str(next(iter(root.xpath(_SWALLOWED)), ""))


def _unquoted(text: str, root: Any, deep: bool, value: str) -> tuple[str, Any, bool]:
    """The page parsed again without the quote that opens ``value``, so that it ends with its tag."""
    for _ in range(_MAX_QUOTES):
        at = text.find(value[:_SHOWN_VALUE])
        if at < 1 or text[at - 1] not in "\"'":
            break
        # A style that hides must not hold without its quote either: it becomes a name that means nothing.
        empty = '"" ' if value.lstrip().lower().startswith(("display", "visibility")) else " "
        text = f"{text[: at - 1]}{empty}{text[at:]}"
        root, deep = _tree(text, huge=False)
        value = _swallowed(root)
        if not value:
            break
    return text, root, deep


def _tree(text: str, *, huge: bool) -> tuple[Any, bool]:
    """The root element and whether the parser stopped at its depth limit."""
    parser = lxml_html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=huge, remove_pis=True)
    try:
        root = lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError as error:
        raise NoUsableText("The HTML holds no element.") from error
    except (etree.XMLSyntaxError, ValueError, AssertionError, RecursionError) as error:
        raise UnreadableFile("The HTML cannot be parsed.") from error
    return root, any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log)
