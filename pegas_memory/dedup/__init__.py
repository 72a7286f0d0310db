"""Same, or an update? Cosine alone can't tell "15 October" from "16 October" (0.99): two claims are
copies only when the cosine is high and no guard sees a difference in what they say. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from pegas_memory.dedup.alignment import align
from pegas_memory.dedup.guards import conflict, forms
from pegas_memory.dedup.profiles import DedupProfile, profile_for
from pegas_memory.dedup.reading import read

__all__ = ["Comparison", "DedupProfile", "Verdict", "compare", "explain", "profile_for"]


MAX_TOKENS = 400
"""Content words beyond which only equal texts are copies: passages that long always differ in something."""

_STRUCTURED = re.compile(r"[{}=|\\]|;[ \t]*$|\w\(\w*\)|\n[ \t]{2,}\S|^\s*[#$>+-] ?\S", re.MULTILINE)
"""Code, tables, formulas: every sign counts there, so words say too little."""


class Verdict(StrEnum):
    SAME = "same"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Comparison:
    verdict: Verdict
    reason: str


def compare(new: str, old: str, cosine: float, profile: DedupProfile) -> Verdict:
    """Whether ``new`` says what ``old`` says. ``cosine`` (−1…1) is of their vectors under the model of
    ``profile``; no cosine overrules a guard."""
    return explain(new, old, cosine, profile).verdict


def explain(new: str, old: str, cosine: float, profile: DedupProfile) -> Comparison:
    """:func:`compare` with its reason, in words for a person."""
    if cosine < profile.near:
        return Comparison(Verdict.DIFFERENT, f"cosine {cosine:.3f} is below {profile.near}")
    if _STRUCTURED.search(new) or _STRUCTURED.search(old):
        return _structured(new, old)
    first, second = read(new), read(old)
    if max(len(first.tokens), len(second.tokens)) > MAX_TOKENS and first.plain != second.plain:
        return Comparison(Verdict.DIFFERENT, "long texts with different words")
    found = align(first, second)
    if reason := conflict(found):
        return Comparison(Verdict.DIFFERENT, reason)
    if found.unlike and cosine < profile.reworded:
        words = forms((*found.only_new, *found.only_old)) or "words of one sense"
        return Comparison(Verdict.DIFFERENT, f"reworded ({words}) and cosine {cosine:.3f} is below {profile.reworded}")
    return Comparison(Verdict.SAME, "no difference in what is said" if not found.unlike else "reworded")


def _structured(new: str, old: str) -> Comparison:
    if " ".join(new.split()) == " ".join(old.split()):
        return Comparison(Verdict.SAME, "the same text")
    return Comparison(Verdict.DIFFERENT, "code, tables and formulas are copies only letter for letter")
