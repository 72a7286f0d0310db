"""What inline elements say in plain text: ruby, formulas, drawings, images, reference marks, powers."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from lxml import etree

from pegas_memory.ingest.blocks import tidy_line

_OPS_TYPE = "{http://www.idpf.org/2007/ops}type"
_LATIN = re.compile(r"[A-Za-z]")
_POWER = re.compile(r"\s*[−–-]?\d{1,4}\s*$")
_ATOM = re.compile(r"[^\W_]*|\([^()]*\)")
_INVISIBLE = re.compile("[\u2061-\u2064]")
_BRACKET_SPACE = re.compile(r"([(\[{]) | ([)\]},;])")
_MAX_FORMULA = 100
"""Levels of a formula that are read; what is nested deeper comes as it stands."""
_BLOCK_LIKE = frozenset("p div li tr td th h1 h2 h3 h4 h5 h6 br foreignobject".split())
_PARTED_CLASS = re.compile(
    r"(?:^|\s)(?:lnum|line-?(?:no|num(?:ber)?)|page-?num(?:ber)?|note-?ref|footnote-?ref)(?:\s|$)"
)


class Alt(str):
    """The alternative text of an image: kept only where it stands inside a text."""

    __slots__ = ()


def name_of(element: Any) -> str:
    """Local name in lower case; empty for what is no element."""
    tag = element.tag
    return _local(tag) if isinstance(tag, str) else ""


@lru_cache(1024)
def _local(tag: str) -> str:
    return tag.rpartition("}")[2].rpartition(":")[2].lower()


def meanings(element: Any) -> frozenset[str]:
    """What ``epub:type`` and ``role`` say of an element, without the ``doc-`` of the latter."""
    types = element.get(_OPS_TYPE) or element.get("epub:type") or ""
    role = element.get("role") or ""
    return frozenset(word.lower().removeprefix("doc-") for word in f"{types} {role}".split())


def special_text(element: Any, tag: str, before: str, *, book: bool) -> str | None:
    """The text that stands for the whole of ``element``; None when it is to be read like any other.
    ``before`` is the text that it follows."""
    match tag:
        case "ruby":
            return _ruby(element)
        case "math":
            return f" {_math(element)} "
        case "svg" if book:
            return "\n" + "\n".join(drawing_lines(element)) + "\n"
        case "img" | "image":
            return Alt(tidy_line(element.get("alt") or ""))
        case "sup" if before[-1:].isdigit() and _POWER.match(text := "".join(element.itertext())):
            return None if _is_reference(element, tag) else f"^{text.strip()}"
        case _:
            return None


def stands_apart(element: Any, tag: str) -> bool:
    """True for marks that are no part of the word that they touch: note references, line numbers."""
    if tag not in ("a", "sup", "span", "small"):
        return False
    named = bool(element.keys()) and (
        "noteref" in meanings(element) or _PARTED_CLASS.search(element.get("class") or "") is not None
    )
    return named or _is_reference(element, tag)


def _is_reference(element: Any, tag: str) -> bool:
    if tag != "sup":
        return False
    parent = element.getparent()
    return next(element.iter("a"), None) is not None or (parent is not None and name_of(parent) == "a")


def _ruby(element: Any) -> str:
    """The base text, then the reading in parentheses: 漢字(かんじ)."""
    base: list[str] = [element.text or ""]
    reading: list[str] = []
    for child in element:
        tag = name_of(child)
        text = "".join(child.itertext()) if tag else ""
        if tag in ("rt", "rtc"):
            reading.append(text.strip())
        elif tag != "rp":
            base.append(text)
        base.append(child.tail or "")
    said = (" " if any(_LATIN.search(part) for part in reading) else "").join(part for part in reading if part)
    whole = "".join(part.strip("\r\n\t ") if "\n" in part else part for part in base)
    return f"{whole}({said})" if said else whole


def drawing_lines(svg: Any) -> list[str]:
    """The texts of a drawing in their order: titles, descriptions, labels, pages set inside it."""
    lines: list[str] = []
    walk = etree.iterwalk(svg, events=("start",))
    for _, element in walk:
        if name_of(element) in ("title", "desc", "text", "foreignobject"):
            walk.skip_subtree()
            lines.append(tidy_line(_drawn(element)))
    return [line for line in lines if line]


def _drawn(element: Any) -> str:
    """Its text; a ``tspan`` without a place of its own goes on in the word."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, node in walk:
        tag = name_of(node)
        if event == "start" and tag in ("script", "style"):
            walk.skip_subtree()
            continue
        moved = tag in _BLOCK_LIKE or (tag == "tspan" and any(node.get(place) for place in ("x", "y", "dy")))
        parts.append(" " if moved else "")
        if event == "start":
            parts.append(node.text or "")
        elif node is not element:
            parts.append(node.tail or "")
    return "".join(parts)


def _math(element: Any) -> str:
    """A formula on one line: a/b, x^2, a[1], √(x); its ``alttext`` where it holds nothing else."""
    said = _BRACKET_SPACE.sub(lambda m: m[1] or m[2], tidy_line(_formula(element, 0)))
    return said or tidy_line(element.get("alttext") or "")


def _formula(node: Any, depth: int) -> str:
    tag = name_of(node)
    if depth > _MAX_FORMULA:
        return tidy_line(" ".join(node.itertext()))
    if tag in ("annotation", "annotation-xml", ""):
        return ""
    parts = [_formula(child, depth + 1) for child in node if name_of(child)]
    match tag:
        case "mfrac" if len(parts) == 2:
            return f"{_grouped(parts[0])}/{_grouped(parts[1])}"
        case "msup" if len(parts) == 2:
            return f"{_grouped(parts[0])}^{_grouped(parts[1])}"
        case "msub" | "munder" if len(parts) == 2:
            return f"{parts[0]}[{parts[1]}]"
        case "msubsup" | "munderover" if len(parts) == 3:
            return f"{parts[0]}[{parts[1]}]^{_grouped(parts[2])}"
        case "msqrt":
            return f"√({' '.join(parts)})"
        case "mroot" if len(parts) == 2:
            return f"{parts[1]}√({parts[0]})"
        case "mfenced":
            return f"{node.get('open') or '('}{', '.join(parts)}{node.get('close') or ')'}"
        case "mtable":
            return "; ".join(parts)
        case "mtr" | "mlabeledtr":
            return ", ".join(parts)
        case _:
            own = "" if parts else _INVISIBLE.sub(" ", node.text or "")
            return " ".join(part for part in (own, *parts) if part)


def _grouped(text: str) -> str:
    return text if _ATOM.fullmatch(text) else f"({text})"
