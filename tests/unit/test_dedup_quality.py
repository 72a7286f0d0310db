"""The floor of the near-duplicate rule on public pairs with EmbeddingGemma's vectors. Needs the shared data."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from pegas_memory.dedup import Verdict, compare, profile_for

SHARED = Path(__file__).resolve().parents[3] / "shared"
pytestmark = pytest.mark.skipif(
    not (SHARED / "vectors/paws-en.npz").exists(), reason="the shared data and vectors are not beside this checkout"
)


def merged_shares(folder: str, vectors: str, count: int) -> dict[int, float]:
    stored = np.load(SHARED / "vectors" / vectors)
    by_key = dict(zip(stored["key"].tolist(), stored["vector"].astype(np.float32), strict=True))
    profile = profile_for("ollama:embeddinggemma")
    merged: dict[int, list[bool]] = {}
    lines = (SHARED / "data" / folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    for pair in map(json.loads, lines):
        a, b = (by_key[hashlib.sha256(f"document\n{pair[side]}".encode()).hexdigest()] for side in "ab")
        verdict = compare(pair["a"], pair["b"], float(a @ b), profile)
        merged.setdefault(pair["label"], []).append(verdict is Verdict.SAME)
    return {label: sum(values) / len(values) for label, values in merged.items()}


def test_paws_non_paraphrases_are_kept_apart() -> None:
    shares = merged_shares("paraphrase-en-paws", "paws-en.npz", 400)
    assert shares[0] == 0.0
    assert shares[1] >= 0.12


def test_paraphraser_copies_are_merged() -> None:
    """Far fewer than a cosine alone would merge: a replaced or added word is an update at any cosine."""
    shares = merged_shares("paraphrase-ru-paraphraser", "paraphraser-ru.npz", 600)
    assert shares[1] >= 0.08
    assert shares[0] == shares[-1] == 0.0
