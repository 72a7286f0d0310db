"""How sure and how weighty an extracted atom is before anything confirmed it: fixed rules, 0..1.

Confidence says how far the wording can be trusted to be what the source asserts: a definition or rule
form 0.75, a plain declarative sentence 0.6, a passage or instruction 0.5; −0.1 when hedged (may,
perhaps, вероятно), −0.05 when it had to be joined from several sentences or read from a PDF.
Importance says how much is lost with it: rules 0.7, definitions and tables 0.6, code 0.5, facts 0.45,
text 0.35; +0.1 for a figure or date, +0.05 each for a name, a cause, and a place under a first heading.
Neither was tuned on data: they order atoms until verification and use move them.
"""

from __future__ import annotations

import re

from pegas_memory.model import AtomType, DocumentKind

_CONFIDENCE = {
    AtomType.LOGICAL_RULE: 0.8,
    AtomType.DEFINITION: 0.75,
    AtomType.TABLE: 0.7,
    AtomType.CODE: 0.7,
    AtomType.FACT: 0.6,
    AtomType.TEXT: 0.5,
}
_IMPORTANCE = {
    AtomType.LOGICAL_RULE: 0.7,
    AtomType.DEFINITION: 0.6,
    AtomType.TABLE: 0.6,
    AtomType.CODE: 0.5,
    AtomType.FACT: 0.45,
    AtomType.TEXT: 0.35,
}
_HEDGE = re.compile(
    r"\b(?:may|might|could|perhaps|possibly|probably|likely|suggests?|appears?|seems?|"
    r"возможно|вероятно|может быть|по-видимому|кажется|предположительно|якобы)\b",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\b(?:because|causes?|caused|due to|leads? to|results? in|therefore|depends? on|requires?|"
    r"потому что|из-за|вызыва\w+|приводит к|зависит от|требует\w*|поскольку|так как)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\w,»\")] )[A-ZА-ЯЁ][\w-]+")


def confidence_of(kind: AtomType, claim: str, source: DocumentKind, *, joined: bool) -> float:
    value = _CONFIDENCE[kind]
    value -= 0.1 if _HEDGE.search(claim) else 0.0
    value -= 0.05 if joined else 0.0
    value -= 0.05 if source is DocumentKind.PDF else 0.0
    return round(max(0.0, min(1.0, value)), 2)


def importance_of(kind: AtomType, claim: str, *, opens_section: bool) -> float:
    value = _IMPORTANCE[kind]
    value += 0.1 if any(c.isdigit() for c in claim) else 0.0
    value += 0.05 if _NAME.search(claim) else 0.0
    value += 0.05 if _CAUSE.search(claim) else 0.0
    value += 0.05 if opens_section else 0.0
    return round(max(0.0, min(1.0, value)), 2)
