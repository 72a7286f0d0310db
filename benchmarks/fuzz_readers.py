"""Mutated PDFs, EPUBs and pages through the readers: no crash, no hang, no silent success.

    python -m benchmarks.fuzz_readers [--data DIR] [--count 5000] [--seed 1] [--only pdf epub html web]
                                      [--numbers N ...] [--keep DIR] [--json]

Case ``number`` of a seed is the same bytes on every run: ``--numbers`` repeats single ones and ``--keep`` writes
them down. Each goes through ``reading.Reader``, as an ingest job does, and has to end, in time, in an error with
a code or in text. A fault is

- ``crash``: another exception than a ``PegasError``, or one whose message shows a traceback or a path;
- ``hang``: more than ``MOST_SECONDS``;
- ``empty``: success without a word in a chunk;
- ``broken``: a chunk or a quote that does not stand where its locator says, or text that cannot be stored;
- ``quiet``: more than ``LOSS`` of the original's words are gone, the bytes tell it, and no warning does;
- ``foreign``: more than half of the words stand in no document that was mixed, and no warning says so;
- ``died``, ``late``: the child process ended or was ended (``parser_failed``, ``parser_timeout``): nothing else was
  lost, but a reader met what it does not know, or works too long on it.

The first four end the run with status 1; ``tests/integration/test_fuzz_readers.py`` limits the others.
"""

from __future__ import annotations

import gzip
import io
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from pypdf import PdfReader, PdfWriter
from pypdf.errors import PyPdfError

from benchmarks.extraction import words
from benchmarks.fuzz_mutations import ANY, MARKUP, PAGE, PDF, Mutation
from benchmarks.fuzz_zip import EPUB
from benchmarks.speed_run import ROOT, machine, parser, report
from pegas_memory.errors import ParserFailed, ParserTimeout, PegasError
from pegas_memory.model import DocumentKind
from pegas_memory.reading import Reader, Reading, Source

MOST_SECONDS = 20.0
LOSS = 0.3
FEW_WORDS = 20
"""Of an original with fewer words no share is taken."""
MOST_BYTES = 400_000
"""Originals beyond that would make a run of thousands last for hours; of long PDFs the first pages are taken."""
FIRST_PAGES = 8
MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "pdf": (*ANY, *PDF, *PDF),
    "epub": (*ANY, *EPUB, *EPUB),
    "html": (*PAGE, *MARKUP),
    "web": (*PAGE, *MARKUP),
}
HARD = ("crash", "hang", "empty", "broken")
FAULTS = (*HARD, "quiet", "foreign", "died", "late")


@dataclass(frozen=True, slots=True)
class Original:
    name: str
    kind: str
    data: bytes

    def source(self, data: bytes) -> Source:
        return Source(data, DocumentKind(self.kind) if self.kind in ("html", "web") else None, self.name)


@dataclass(frozen=True, slots=True)
class Case:
    number: int
    original: Original
    spare: Original
    mutations: tuple[Mutation, ...]
    data: bytes


@dataclass(slots=True)
class Outcome:
    case: Case
    seconds: float = 0.0
    code: str = ""
    message: str = ""
    words: int = 0
    kept: float = 1.0
    """Share of the original's words that came out."""
    known: float = 1.0
    """Share of the words that stand in the original or in the document it was mixed with."""
    warnings: tuple[str, ...] = ()
    faults: list[str] = field(default_factory=list)

    def line(self) -> str:
        what = " + ".join(mutation.name for mutation in self.case.mutations)
        end = self.code or f"{self.words} words, kept {self.kept:.2f}, known {self.known:.2f}"
        return f"{self.case.number} {self.case.original.name} [{what}] {self.seconds:.1f} s: {end} {self.message[:160]}"


# --- the documents --------------------------------------------------------------------------------------


def quiet_libraries() -> None:
    """pypdf tells of every damage that it steps over while the originals are made."""
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)


def originals(data: Path) -> dict[str, list[Original]]:
    """By kind, in a fixed order; kinds whose sets are absent are left out."""
    found = {
        "pdf": [*_pdfs(data)],
        "epub": [
            Original(path.name, "epub", path.read_bytes())
            for path in sorted([*data.glob("epub/*.epub"), *data.glob("docs-ru-en/*/*.epub")])
        ],
        "html": [
            Original(path.name, "html", path.read_bytes()) for path in sorted(data.glob("docs-ru-en/*/html/*.html"))
        ],
        "web": [
            Original(path.name.removesuffix(".gz"), "web", gzip.decompress(path.read_bytes()))
            for path in sorted(data.glob("web-*/html/*.gz"))
        ],
    }
    return {kind: [one for one in many if len(one.data) <= MOST_BYTES] for kind, many in found.items() if many}


def _pdfs(data: Path) -> Iterator[Original]:
    """The cases, the first pages of the manuals, and of each what it is without compression."""
    for path in sorted(data.glob("pdf/*.pdf")):
        yield Original(path.name, "pdf", path.read_bytes())
    for path in sorted([*data.glob("docs-ru-en/*/*.pdf"), *data.glob("pdf/*.pdf")]):
        try:
            yield Original(f"plain-{path.name}", "pdf", _unpacked(path))
        except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError, NotImplementedError):
            continue  # what pypdf cannot copy is there as it is


def _unpacked(path: Path) -> bytes:
    target = io.BytesIO()
    with PdfWriter() as writer:
        for page in PdfReader(path).pages[:FIRST_PAGES]:
            writer.add_page(page)
        for page in writer.pages:
            contents = page.get_contents()
            if contents is not None:
                page.replace_contents(contents)  # type: ignore[no-untyped-call]
        writer.write(target)
    return target.getvalue()


def case_of(number: int, seed: int, known: dict[str, list[Original]]) -> Case:
    random = Random(f"{seed}/{number}")
    kind = sorted(known)[number % len(known)]
    original, spare = random.choice(known[kind]), random.choice(known[kind])
    chosen = random.choices(MUTATIONS[kind], k=random.choice((1, 1, 1, 1, 2, 2, 4)))
    chosen.sort(key=lambda mutation: mutation not in EPUB)  # an archive opens no more once its bytes are hurt
    data = original.data
    for mutation in chosen:
        data = mutation.change(random, data, spare.data) or data
    return Case(number, original, spare, tuple(chosen), data)


# --- the oracle -----------------------------------------------------------------------------------------


class Judge:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._stop = threading.Event()
        self.words_of: Callable[[Original], Counter[str]] = lru_cache(None)(self._words_of)

    def _words_of(self, original: Original) -> Counter[str]:
        try:
            return words(self._reader.read(original.source(original.data), stop=self._stop).document.text)
        except PegasError:
            return Counter()

    def judge(self, case: Case) -> Outcome:
        outcome = Outcome(case)
        began = time.perf_counter()
        try:
            reading = self._reader.read(case.original.source(case.data), stop=self._stop)
        except PegasError as error:
            outcome.code, outcome.message = error.code, error.message
            if "Traceback" in error.message or "/" in error.message.replace("and/or", ""):
                outcome.faults.append("crash")
            if isinstance(error, ParserFailed):
                outcome.faults.append("died")
            if isinstance(error, ParserTimeout):
                outcome.faults.append("late")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what this run looks for
            outcome.code, outcome.message = type(error).__name__, str(error)
            outcome.faults.append("crash")
        else:
            self._compare(outcome, reading)
        outcome.seconds = time.perf_counter() - began
        if outcome.seconds > MOST_SECONDS:
            outcome.faults.append("hang")
        return outcome

    def _compare(self, outcome: Outcome, reading: Reading) -> None:
        case, document = outcome.case, reading.document
        found, before = words(document.text), self.words_of(case.original)
        outcome.words, outcome.warnings = found.total(), document.warnings
        outcome.kept = (found & before).total() / max(before.total(), 1)
        mixed = set(before) | set(self.words_of(case.spare)) | _shown(case.original) | _shown(case.spare)
        outcome.known = sum(n for word, n in found.items() if word in mixed) / max(found.total(), 1)
        if not any(words(chunk.text) for chunk in reading.chunks) or not reading.drafts:
            outcome.faults.append("empty")
        if not stands(reading):
            outcome.faults.append("broken")
        if document.warnings:
            return
        if before.total() >= FEW_WORDS and outcome.kept < 1 - LOSS and all(m.tells for m in case.mutations):
            outcome.faults.append("quiet")
        if found.total() >= FEW_WORDS and outcome.known < 0.5:
            outcome.faults.append("foreign")


def _shown(original: Original) -> set[str]:
    """The words in the source of a page: what is main content may change with a mutation."""
    return set(words(original.data.decode("utf-8", "replace"))) if original.kind in ("html", "web") else set()


def stands(reading: Reading) -> bool:
    """Whether every chunk and quote is where its locator says and PostgreSQL would take the text."""
    document = reading.document
    said = [document.title, *document.warnings, repr(document.metadata), document.text]
    return (
        all(chunk.text == document.text[chunk.locator.start : chunk.locator.end] for chunk in reading.chunks)
        and all(draft.quote == document.text[draft.locator.start : draft.locator.end] for draft in reading.drafts)
        and not any("\x00" in text or any("\ud800" <= c <= "\udfff" for c in text) for text in said)
    )


# --- the run --------------------------------------------------------------------------------------------


def run(cases: Iterator[Case], judge: Judge, children: int) -> Iterator[Outcome]:
    """In order; only a few cases are made ahead, since each holds its bytes."""
    with ThreadPoolExecutor(children) as pool:
        ahead: deque[Future[Outcome]] = deque()
        for case in cases:
            ahead.append(pool.submit(judge.judge, case))
            if len(ahead) > 2 * children:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def summed(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    slow = sorted(outcomes, key=lambda outcome: -outcome.seconds)[:3]
    counts = Counter(outcome.case.original.kind for outcome in outcomes)
    faults = {name: [o for o in outcomes if name in o.faults] for name in FAULTS}
    lost = [o for o in outcomes if not o.code and o.kept < 1 - LOSS]
    return {
        "cases": len(outcomes),
        "by_kind": dict(counts),
        "read": sum(not outcome.code for outcome in outcomes),
        "codes": dict(Counter(outcome.code for outcome in outcomes if outcome.code)),
        "lost_with_warning": sum(bool(outcome.warnings) for outcome in lost),
        "lost_untold_by_bytes": sum(not o.warnings and "quiet" not in o.faults for o in lost),
        **{name: len(found) for name, found in faults.items()},
        "slowest_seconds": round(max((outcome.seconds for outcome in outcomes), default=0.0), 1),
        "slowest": [outcome.line() for outcome in slow],
    }


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments.add_argument("--count", type=int, default=5_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", nargs="*", choices=sorted(MUTATIONS))
    arguments.add_argument("--numbers", type=int, nargs="*", help="only these cases of the seed")
    arguments.add_argument("--children", type=int, default=2)
    arguments.add_argument("--keep", type=Path, help="write the faulty files into this folder")
    chosen = arguments.parse_args()
    quiet_libraries()
    known = originals(chosen.data)
    if not known:
        report({"skipped": f"{chosen.data} holds no documents"}, as_json=chosen.json)
        return 1
    numbers: Sequence[int] = chosen.numbers or range(chosen.count)
    cases = (case_of(number, chosen.seed, known) for number in numbers)
    wanted = (case for case in cases if not chosen.only or case.original.kind in chosen.only)
    reader = Reader(chosen.children)
    outcomes: list[Outcome] = []
    try:
        for outcome in run(wanted, Judge(reader), chosen.children):
            outcomes.append(outcome)
            if outcome.faults or chosen.numbers:
                print(f"{','.join(outcome.faults) or 'fine'}: {outcome.line()}", flush=True)
            if chosen.keep and (outcome.faults or chosen.numbers):
                chosen.keep.mkdir(parents=True, exist_ok=True)
                (chosen.keep / f"{outcome.case.number}-{outcome.case.original.name}").write_bytes(outcome.case.data)
    finally:
        reader.close()
    figures = summed(outcomes)
    report({**machine(), "seed": chosen.seed, **figures}, as_json=chosen.json)
    return int(any(figures[name] for name in HARD))


if __name__ == "__main__":
    raise SystemExit(main())
