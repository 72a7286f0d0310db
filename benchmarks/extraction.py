"""How much of a document survives, on reference sets, measured on what is stored.

    python -m benchmarks.extraction [--data DIR] [--only manuals pdf epub articles segments] [--parser-only] [--json]

Every file is ingested into a product of its own (embedded PostgreSQL, engine process, reading child; no embedder,
so that only vectors are missing). Then the body, the chunks and the citations are read back: the figures are the
body's, and ``misplaced`` counts chunks and quotes that do not stand in it where their locators say.
``--parser-only`` asks the parsers alone, for development.

Word F1 is over multisets of lower-cased ``\\w+``; the web sets use their own upstream metrics. DIR holds
``docs-ru-en``, ``pdf``, ``epub``, ``web-article-extraction`` and ``web-trafilatura-eval``; what is absent
is said and skipped.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.extraction_ways import Kept, Way, parsed, stored
from benchmarks.speed_run import ROOT, machine, parser
from pegas_memory.model import DocumentKind

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


def row(name: str, kept: list[Kept], truth: str, reference: float | None = None) -> Row:
    precision, recall, f1 = scores(words("\n".join(one.text for one in kept)), words(truth))
    return {
        "case": name,
        "f1": f1,
        "precision": precision,
        "recall": recall,
        "reference": reference,
        **_about(kept),
    }


def _about(kept: list[Kept]) -> Row:
    return {
        "seconds": round(sum(one.seconds for one in kept), 2),
        "quotes": sum(one.quotes for one in kept),
        "misplaced": sum(one.misplaced for one in kept),
    }


REFERENCE = {
    "debian-faq.en.pdf": 0.981,
    "debian-faq.ru.pdf": 0.967,
    "debmake-doc.en.pdf": 0.938,
    "debmake-doc.en.epub": 0.991,
}


def manuals(data: Path, way: Way) -> Iterator[Row]:
    """The Debian manuals as PDF, EPUB and HTML against the plain text build."""
    for folder in sorted(p for p in data.iterdir() if p.is_dir()):
        truth = (folder / "truth.txt").read_text(encoding="utf-8")
        for path in sorted([*folder.glob("*.pdf"), *folder.glob("*.epub")]):
            yield row(path.name, [way(path)], truth, REFERENCE.get(path.name))
        pages = sorted((folder / "html").glob("*.html"))
        if pages:
            yield row(f"{folder.name} html", [way(page, DocumentKind.HTML) for page in pages], truth, 0.957)


def books(data: Path, way: Way) -> Iterator[Row]:
    for entry in json.loads((data / "manifest.json").read_text(encoding="utf-8")):
        kept = way(data / entry["file"])
        if kept.code:
            yield {"case": entry["file"], "f1": 0.0, "error": kept.code}
            continue
        truth = entry.get("spine_text")
        reference = (data / truth).read_text(encoding="utf-8") if truth else kept.text
        result = row(entry["file"], [kept], reference, 0.99 if truth else None)
        result["title_ok"] = kept.title == " ".join(entry["metadata"]["title"][0].split())
        result["language_ok"] = kept.language == entry["metadata"]["language"][0].partition("-")[0]
        yield result


def pdf_cases(data: Path, way: Way) -> Iterator[Row]:
    """Each expectation of the upstream suites: met or not."""
    for entry in json.loads((data / "manifest.json").read_text(encoding="utf-8")):
        kept = way(data / entry["file"])
        result: Row = {"case": entry["file"], "met": expectation(entry, kept), **_about([kept])}
        if kept.code:
            result["error"] = kept.code
        elif "truth" in entry:
            truth = (data / entry["truth"]).read_text(encoding="utf-8")
            text = kept.first_page if "multicolumn" in entry["file"] else kept.text
            result["f1"] = scores(words(text), words(truth))[2]
        yield result


def expectation(entry: Row, kept: Kept) -> bool:
    expect = entry["expect"]
    if "circular" in entry["cls"]:
        return kept.code in ("", "unreadable_file")
    if expect.get("text_empty"):
        return kept.code == "no_text_layer"
    if expect.get("opens_without_password") is False:
        return kept.code == "password_needed"
    if expect.get("opens") is False:
        return kept.code == "unreadable_file"
    if kept.code:
        return False
    text = " ".join(kept.text.split())
    wanted = [*expect.get("must_contain", []), *([expect["exact_text"]] if "exact_text" in expect else [])]
    exact = "exact_text" not in expect or text == " ".join(expect["exact_text"].split())
    return exact and expect.get("pages", kept.pages) == kept.pages and all(" ".join(w.split()) in text for w in wanted)


def web_page(packed: Path, way: Way, folder: Path) -> Kept:
    """A saved page, read for its main content."""
    path = folder / packed.name.removesuffix(".gz")
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return way(path, DocumentKind.WEB)


def articles(data: Path, way: Way) -> Iterator[Row]:
    """Zyte's metric: 4-gram shingles a page, means over pages."""
    truths = json.loads((data / "ground-truth.json").read_text(encoding="utf-8"))
    precisions, recalls, exact, read = [], [], 0, []
    with tempfile.TemporaryDirectory(prefix="pegas-speed-") as folder:
        for name, entry in truths.items():
            read.append(web_page(data / "html" / f"{name}.html.gz", way, Path(folder)))
            found, truth = WORD.findall(read[-1].text), WORD.findall(entry["articleBody"])
            precision, recall, _ = scores(shingles(found), shingles(truth))
            precisions.append(precision)
            recalls.append(recall)
            exact += found == truth
    p, r = sum(precisions) / len(truths), sum(recalls) / len(truths)
    yield {"case": "articles (shingle F1)", "f1": 2 * p * r / (p + r), "precision": p, "recall": r,
           "reference": 0.961, "accuracy": exact / len(truths), **_about(read)}  # fmt: skip


def shingles(tokens: list[str], size: int = 4) -> Counter[tuple[str, ...]]:
    return (
        Counter(tuple(tokens[max(0, n - size + 1) : n + 1]) for n in range(min(size, len(tokens)) - 1, len(tokens)))
        if tokens
        else Counter()
    )


def segments(data: Path, way: Way) -> Iterator[Row]:
    """trafilatura's metric: segments that must and must not come out."""
    entries = json.loads((data / "evaldata.json").read_text(encoding="utf-8"))
    tp = fn = fp = tn = 0
    read: list[Kept] = []
    with tempfile.TemporaryDirectory(prefix="pegas-speed-") as folder:
        for entry in entries.values():
            read.append(web_page(data / "html" / f"{entry['file']}.gz", way, Path(folder)))
            kept = sum(part in read[-1].text for part in entry["with"])
            noise = sum(part in read[-1].text for part in entry["without"])
            tp, fn = tp + kept, fn + len(entry["with"]) - kept
            fp, tn = fp + noise, tn + len(entry["without"]) - noise
    precision, recall = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
    f1, accuracy = 2 * precision * recall / (precision + recall), (tp + tn) / (tp + fn + fp + tn)
    yield {"case": "segments (F)", "f1": f1, "precision": precision, "recall": recall, "reference": 0.918,
           "accuracy": accuracy, **_about(read)}  # fmt: skip


SETS: dict[str, tuple[str, Callable[[Path, Way], Iterator[Row]]]] = {
    "manuals": ("docs-ru-en", manuals),
    "pdf": ("pdf", pdf_cases),
    "epub": ("epub", books),
    "articles": ("web-article-extraction", articles),
    "segments": ("web-trafilatura-eval", segments),
}


def summed(results: dict[str, list[Row]]) -> Row:
    """What ``floors.toml`` limits: one figure a file or set; ``worst`` of a kind where that is what counts."""
    rows = [entry for found in results.values() for entry in found]
    figures: Row = {
        **{entry["case"]: entry["f1"] for entry in results.get("manuals", [])},
        **{entry["case"]: entry["f1"] for name in ("articles", "segments") for entry in results.get(name, [])},
        "misplaced": sum(entry.get("misplaced", 0) for entry in rows),
        "quotes": sum(entry.get("quotes", 0) for entry in rows),
    }
    if "pdf" in results:
        figures["pdf expectations missed"] = sum(not entry["met"] for entry in results["pdf"])
        figures["pdf worst"] = min(entry["f1"] for entry in results["pdf"] if "f1" in entry)
    if "epub" in results:
        figures["epub worst"] = min(entry["f1"] for entry in results["epub"])
        figures["epub metadata missed"] = sum(
            not (entry.get("title_ok") and entry.get("language_ok")) for entry in results["epub"]
        )
    return figures


def show(name: str, rows: list[Row]) -> None:
    print(f"\n{name}")
    columns = list(dict.fromkeys(key for entry in rows for key in entry))
    table = [[cell(entry.get(column)) for column in columns] for entry in rows]
    widths = [max(len(column), *(len(line[n]) for line in table)) for n, column in enumerate(columns)]
    for line in [columns, *table]:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments.add_argument("--only", nargs="*", choices=sorted(SETS), help="some of the sets")
    arguments.add_argument("--parser-only", action="store_true", help="what the parsers answer; nothing is stored")
    chosen = arguments.parse_args()
    wanted = [name for name in SETS if not chosen.only or name in chosen.only]
    absent = [name for name in wanted if not (chosen.data / SETS[name][0]).is_dir()]
    for name in absent:
        print(f"{name}: skipped, {SETS[name][0]} is not in the data folder (give it with --data)", file=sys.stderr)
    results: dict[str, list[Row]] = {}
    with ExitStack() as stack:
        if len(absent) < len(wanted):
            roots = [chosen.data, Path(tempfile.gettempdir())]
            way: Way = parsed if chosen.parser_only else stack.enter_context(stored(roots))
        for name in wanted:
            if name not in absent:
                results[name] = list(SETS[name][1](chosen.data / SETS[name][0], way))
                if not chosen.json:
                    show(name, results[name])
    skipped = {"skipped": f"sets that are absent: {', '.join(absent)}"} if absent else {}
    figures = {**machine(), **skipped, **(summed(results) if results else {})}
    if chosen.json:
        print(json.dumps({**figures, "rows": results}, ensure_ascii=False))
    else:
        print("\n" + "\n".join(f"{name:28} {cell(value)}" for name, value in figures.items()))
    return int(not results)


if __name__ == "__main__":
    raise SystemExit(main())
