"""What the extractive distiller makes of real documents.

    python benchmarks/distill.py [--data ../shared/data] [--sample 10] [--json]

Atoms per 1,000 characters and characters per second (processor time, distilling alone) for two Debian manuals, Russian
Wikipedia passages and SciFact abstracts; the share of SciFact sentences that end within the quote of an
atom; and a sample of atoms to read. Every quote is checked against its document on the way.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pegas_memory.distill import distill_extractive
from pegas_memory.ingest import chunk, read_file, read_text
from pegas_memory.model import DocumentKind, DraftAtom, Extracted

ROOT = Path(__file__).resolve().parent.parent
MANUALS = ("debian-faq.en", "debian-faq.ru", "debmake-doc.en")
EVERY = 10
"""One SciFact abstract of so many is distilled."""


def manual(data: Path, name: str, form: str) -> Iterator[Extracted]:
    folder = data / "docs-ru-en" / name
    files = [folder / "truth.txt"] if form == "text" else sorted((folder / "html").glob("*.html"))
    yield from (read_file(path) for path in files)


def passages(data: Path) -> Iterator[Extracted]:
    for line in (data / "tydiqa-ru/corpus.jsonl").read_text(encoding="utf-8").splitlines():
        yield read_text(json.loads(line)["text"])


def abstracts(data: Path) -> Iterator[tuple[list[str], Extracted]]:
    for line in (data / "scifact/corpus.jsonl").read_text(encoding="utf-8").splitlines()[::EVERY]:
        record = json.loads(line)
        yield record["sentences"], read_text(" ".join(record["sentences"]), DocumentKind.TEXT, record["title"])


def distilled(documents: Iterator[Extracted]) -> tuple[list[list[DraftAtom]], dict[str, Any]]:
    atoms, characters, seconds = [], 0, 0.0
    for document in documents:
        chunks = chunk(document)
        began = time.process_time()
        found = distill_extractive(document, chunks)
        seconds += time.process_time() - began
        characters += len(document.text)
        for atom in found:
            assert document.text[atom.locator.start : atom.locator.end] == atom.quote
        atoms.append(found)
    count = sum(map(len, atoms))
    figures = {
        "documents": len(atoms),
        "characters": characters,
        "atoms": count,
        "atoms per 1,000 characters": round(count / max(characters, 1) * 1000, 2),
        "characters per second": round(characters / max(seconds, 1e-9)),
        "by type": dict(Counter(a.type.value for found in atoms for a in found)),
    }
    return atoms, figures


def covered(sentences: list[str], document: Extracted, atoms: list[DraftAtom]) -> int:
    """How many of ``sentences`` lie within the quote of one atom."""
    spans = [(a.locator.start, a.locator.end) for a in atoms]
    place = inside = 0
    for sentence in sentences:
        start = document.text.find(sentence.strip(), place)
        if start < 0:
            continue
        place = start + len(sentence.strip())
        inside += any(left <= start and place <= right for left, right in spans)
    return inside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--sample", type=int, default=10, help="atoms of each language to print")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    pool: dict[str, list[DraftAtom]] = {"en": [], "ru": []}
    for name in MANUALS:
        for form in ("text", "html"):
            found, figures = distilled(manual(options.data, name, form))
            if figures["documents"]:
                report[f"{name}, {form}"] = figures
                pool[name[-2:]] += [a for atoms in found for a in atoms]
    found, report["Wikipedia passages, ru"] = distilled(passages(options.data))
    pool["ru"] += [a for atoms in found for a in atoms]
    pairs = list(abstracts(options.data))
    found, figures = distilled(document for _, document in pairs)
    inside = sum(covered(s, d, atoms) for (s, d), atoms in zip(pairs, found, strict=True))
    total = sum(len(s) for s, _ in pairs)
    report["SciFact abstracts, en"] = {**figures, "share of sentences in an atom": round(inside / total, 3)}
    pool["en"] += [a for atoms in found for a in atoms]
    chosen = random.Random(7)
    report["sample"] = {
        language: [f"{a.type.value} | {a.claim}" for a in chosen.sample(atoms, options.sample)]
        for language, atoms in pool.items()
    }
    print(json.dumps(report, ensure_ascii=False, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
