"""How much of a document survives reading, on reference sets.

    python benchmarks/extraction.py --data DIR [--json FILE] [--only pdf epub html web files]

Word F1 is over multisets of lower-cased ``\\w+``; the web sets use their own upstream metrics. DIR holds
``docs-ru-en``, ``pdf``, ``epub``, ``web-article-extraction`` and ``web-trafilatura-eval``; what is absent
is said and skipped.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pegas_memory.errors import NoTextLayer, PasswordNeeded, PegasError, UnreadableFile
from pegas_memory.ingest import read_bytes, read_file
from pegas_memory.model import DocumentKind, Extracted

WORD = re.compile(r"\w+")
Row = dict[str, Any]


def words(text: str) -> Counter[str]:
    return Counter(WORD.findall(text.lower()))


def scores(found: Counter[Any], truth: Counter[Any]) -> tuple[float, float, float]:
    """(precision, recall, F1) of two multisets."""
    common = (found & truth).total()
    precision = common / max(found.total(), 1)
    recall = common / max(truth.total(), 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-9)


def stored(document: Extracted) -> str:
    """The text as it is kept; proves on the way that every block stands where its locator says."""
    for block in document.blocks:
        if document.text[block.locator.start : block.locator.end] != block.text:
            raise SystemExit("a block does not stand where its locator says")
    return document.text


def row(name: str, documents: list[Extracted], truth: str, seconds: float, reference: float | None = None) -> Row:
    text = "\n".join(stored(document) for document in documents)
    precision, recall, f1 = scores(words(text), words(truth))
    rate = round(len(text) / max(seconds, 1e-9))
    return {
        "case": name,
        "f1": f1,
        "precision": precision,
        "recall": recall,
        "reference": reference,
        "characters_per_second": rate,
    }


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = action()
    return result, time.perf_counter() - started


REFERENCE = {
    "debian-faq.en.pdf": 0.981,
    "debian-faq.ru.pdf": 0.967,
    "debmake-doc.en.pdf": 0.938,
    "debmake-doc.en.epub": 0.991,
}


def manuals(data: Path) -> Iterator[Row]:
    """The Debian manuals as PDF, EPUB and HTML against the plain text build."""
    for folder in sorted(p for p in data.iterdir() if p.is_dir()):
        truth = (folder / "truth.txt").read_text(encoding="utf-8")
        for path in sorted([*folder.glob("*.pdf"), *folder.glob("*.epub")]):
            document, seconds = timed(lambda path=path: read_file(path))
            yield row(path.name, [document], truth, seconds, REFERENCE.get(path.name))
        pages = sorted((folder / "html").glob("*.html"))
        if pages:
            documents, seconds = timed(lambda pages=pages: [read_file(page, DocumentKind.HTML) for page in pages])
            yield row(f"{folder.name} html", documents, truth, seconds, 0.957)


def books(data: Path) -> Iterator[Row]:
    for entry in json.loads((data / "manifest.json").read_text(encoding="utf-8")):
        try:
            document, seconds = timed(lambda entry=entry: read_file(data / entry["file"]))
        except PegasError as error:
            yield {"case": entry["file"], "error": error.code}
            continue
        truth = entry.get("spine_text")
        reference = (data / truth).read_text(encoding="utf-8") if truth else document.text
        result = row(entry["file"], [document], reference, seconds, 0.99 if truth else None)
        result["title_ok"] = document.title == " ".join(entry["metadata"]["title"][0].split())
        result["language_ok"] = document.metadata.get("language") == entry["metadata"]["language"][0]
        yield result


def pdf_cases(data: Path) -> Iterator[Row]:
    """Each expectation of the upstream suites: met or not."""
    for entry in json.loads((data / "manifest.json").read_text(encoding="utf-8")):
        started = time.perf_counter()
        try:
            outcome: Extracted | PegasError = read_file(data / entry["file"])
        except PegasError as error:
            outcome = error
        seconds = time.perf_counter() - started
        result: Row = {"case": entry["file"], "met": expectation(entry, outcome), "seconds": round(seconds, 2)}
        if isinstance(outcome, PegasError):
            result["error"] = outcome.code
        elif "truth" in entry:
            truth = (data / entry["truth"]).read_text(encoding="utf-8")
            pages = (
                [b.text for b in outcome.blocks if b.locator.page == 1]
                if "multicolumn" in entry["file"]
                else [stored(outcome)]
            )
            result["f1"] = scores(words("\n".join(pages)), words(truth))[2]
        yield result


def expectation(entry: Row, outcome: Extracted | PegasError) -> bool:
    expect = entry["expect"]
    if "circular" in entry["cls"]:
        return isinstance(outcome, (Extracted, UnreadableFile))
    if expect.get("text_empty"):
        return isinstance(outcome, NoTextLayer)
    if expect.get("opens_without_password") is False:
        return isinstance(outcome, PasswordNeeded)
    if expect.get("opens") is False:
        return isinstance(outcome, UnreadableFile)
    if not isinstance(outcome, Extracted):
        return False
    text = " ".join(outcome.text.split())
    wanted = [*expect.get("must_contain", []), *([expect["exact_text"]] if "exact_text" in expect else [])]
    exact = "exact_text" not in expect or text == " ".join(expect["exact_text"].split())
    return (
        exact
        and expect.get("pages", outcome.pages) == outcome.pages
        and all(" ".join(w.split()) in text for w in wanted)
    )


def web_text(path: Path, url: str = "") -> str:
    try:
        return stored(read_bytes(gzip.decompress(path.read_bytes()), DocumentKind.WEB, url))
    except PegasError:
        return ""


def articles(data: Path) -> Iterator[Row]:
    """Zyte's metric: 4-gram shingles a page, means over pages."""
    truths = json.loads((data / "ground-truth.json").read_text(encoding="utf-8"))
    precisions, recalls, exact = [], [], 0
    started = time.perf_counter()
    for name, entry in truths.items():
        text = web_text(data / "html" / f"{name}.html.gz", entry["url"])
        found, truth = WORD.findall(text), WORD.findall(entry["articleBody"])
        precision, recall, _ = scores(shingles(found), shingles(truth))
        precisions.append(precision)
        recalls.append(recall)
        exact += found == truth
    p, r = sum(precisions) / len(truths), sum(recalls) / len(truths)
    pages = round(len(truths) / (time.perf_counter() - started), 1)
    yield {"case": "articles (shingle F1)", "f1": 2 * p * r / (p + r), "precision": p, "recall": r,
           "reference": 0.961, "accuracy": exact / len(truths), "pages_per_second": pages}  # fmt: skip


def shingles(tokens: list[str], size: int = 4) -> Counter[tuple[str, ...]]:
    return (
        Counter(tuple(tokens[max(0, n - size + 1) : n + 1]) for n in range(min(size, len(tokens)) - 1, len(tokens)))
        if tokens
        else Counter()
    )


def segments(data: Path) -> Iterator[Row]:
    """trafilatura's metric: segments that must and must not come out."""
    entries = json.loads((data / "evaldata.json").read_text(encoding="utf-8"))
    tp = fn = fp = tn = 0
    started = time.perf_counter()
    for url, entry in entries.items():
        text = web_text(data / "html" / f"{entry['file']}.gz", url)
        kept = sum(part in text for part in entry["with"])
        noise = sum(part in text for part in entry["without"])
        tp, fn = tp + kept, fn + len(entry["with"]) - kept
        fp, tn = fp + noise, tn + len(entry["without"]) - noise
    precision, recall = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
    pages = round(len(entries) / (time.perf_counter() - started), 1)
    f1, accuracy = 2 * precision * recall / (precision + recall), (tp + tn) / (tp + fn + fp + tn)
    yield {"case": "segments (F)", "f1": f1, "precision": precision, "recall": recall, "reference": 0.918,
           "accuracy": accuracy, "pages_per_second": pages}  # fmt: skip


SETS: dict[str, tuple[str, Callable[[Path], Iterator[Row]]]] = {
    "manuals": ("docs-ru-en", manuals),
    "pdf": ("pdf", pdf_cases),
    "epub": ("epub", books),
    "articles": ("web-article-extraction", articles),
    "segments": ("web-trafilatura-eval", segments),
}


def show(rows: list[Row]) -> None:
    columns = list(dict.fromkeys(key for entry in rows for key in entry))
    table = [[cell(entry.get(column)) for column in columns] for entry in rows]
    widths = [max(len(column), *(len(line[n]) for line in table)) for n, column in enumerate(columns)]
    for line in [columns, *table]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("--only", nargs="*", choices=sorted(SETS), help="some of the sets")
    arguments = parser.parse_args()
    results: dict[str, list[Row]] = {}
    for name, (folder, measure) in SETS.items():
        if arguments.only and name not in arguments.only:
            continue
        if not (arguments.data / folder).is_dir():
            print(f"\n{name}: skipped, {folder} is not in the data folder (give it with --data)")
            continue
        results[name] = list(measure(arguments.data / folder))
        print(f"\n{name}")
        show(results[name])
    if not results:
        print("nothing was measured", file=sys.stderr)
        return 1
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
