"""Reading alone: pages a second of each kind, and peak memory on a PDF of 1,000 pages and a text of 100 MB.

    python -m benchmarks.reading_speed [--data DIR] [--pages 1000] [--megabytes 100] [--long-only] [--json]

Through ``reading.Reader``, as an ingest job reads: a child process parses, cuts into chunks and distils; this process,
in the engine's place, receives document, chunks and drafts. Each row is a Reader of its own. A page is a page of a
PDF, a chapter of an EPUB (by its locators), an HTML file or a saved web page. ``child_mb`` and ``parent_mb`` are the
most that the child had resident, and by how much this process grew at most over what it held before (the bytes of
the source are in both). Distilling is a part of it: ``off`` leaves it out.
"""

from __future__ import annotations

import gc
import gzip
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.long_documents import long_pdf, long_text
from benchmarks.speed_run import ROOT, machine, parser, report
from pegas_memory.model import Distill, DocumentKind
from pegas_memory.reading import Reader, Reading, Source

SAMPLE_SECONDS = 0.02
MEGA = 1_000_000
Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    sources: Sequence[Source]


def tasks(data: Path) -> Iterator[Task]:
    manuals = data / "docs-ru-en"
    pdfs = [path.read_bytes() for path in sorted(manuals.glob("*/*.pdf"))]
    books = [path.read_bytes() for path in sorted([*data.glob("epub/*.epub"), *manuals.glob("*/*.epub")])]
    pages = [path.read_bytes() for path in sorted(manuals.glob("*/html/*.html"))]
    saved = [gzip.decompress(path.read_bytes()) for path in sorted(data.glob("web-*/html/*.gz"))]
    texts = [path.read_bytes() for path in sorted(manuals.glob("*/truth.txt"))]
    for name, documents, kind in (
        ("PDF", pdfs, DocumentKind.PDF),
        ("EPUB", books, DocumentKind.EPUB),
        ("HTML", pages, DocumentKind.HTML),
        ("web", saved, DocumentKind.WEB),
        ("text", texts, DocumentKind.TEXT),
    ):
        if documents:
            yield Task(name, [Source(document, kind) for document in documents])


class Watch:
    """The most memory of this process and of its children, looked at all the time (their own high-water marks are
    gone when they end)."""

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._before = self._me.memory_info().rss
        self.child = 0
        self.parent = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.parent = max(self.parent, self._me.memory_info().rss - self._before)
            for child in self._me.children(recursive=True):
                try:
                    self.child = max(self.child, child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue


def pages_of(reading: Reading) -> int:
    if reading.document.kind is DocumentKind.EPUB:
        return len({chunk.locator.chapter for chunk in reading.chunks})
    return reading.document.pages or 1


def measure(task: Task) -> Row:
    gc.collect()
    reader, stop = Reader(children=1), threading.Event()
    pages = characters = drafts = 0
    with Watch() as watch:
        try:
            reader.read(Source(b"The first child is started.", DocumentKind.TEXT), stop=stop)
            began = time.perf_counter()
            for source in task.sources:
                reading = reader.read(source, stop=stop)
                pages += pages_of(reading)
                characters += len(reading.document.text)
                drafts += len(reading.drafts)
            seconds = time.perf_counter() - began
        finally:
            reader.close()
    size = sum(len(source.data) for source in task.sources)
    return {
        "kind": task.name,
        "documents": len(task.sources),
        "pages": pages,
        "mb": round(size / MEGA, 2),
        "characters": characters,
        "drafts": drafts,
        "seconds": round(seconds, 2),
        "pages_per_second": round(pages / seconds, 1),
        "mb_per_second": round(size / seconds / MEGA, 2),
        "child_mb": round(watch.child / MEGA),
        "parent_mb": round(watch.parent / MEGA),
    }


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments.add_argument("--pages", type=int, default=1_000, help="of the long PDF; 0 leaves it out")
    arguments.add_argument("--megabytes", type=int, default=100, help="of the long text; 0 leaves it out")
    arguments.add_argument("--distill", choices=["extractive", "off"], default="extractive")
    arguments.add_argument("--long-only", action="store_true", help="the long PDF and the long text alone")
    chosen = arguments.parse_args()
    distill = Distill(chosen.distill)
    found = list(tasks(chosen.data))
    if not found:
        report({"skipped": f"{chosen.data} holds none of the sets"}, as_json=chosen.json)
        return 1
    if chosen.long_only:
        found.clear()
    if chosen.pages:
        found.append(Task(f"PDF of {chosen.pages} pages", [Source(long_pdf(chosen.data, chosen.pages))]))
    if chosen.megabytes:
        found.append(Task(f"text of {chosen.megabytes} MB", [Source(long_text(chosen.data, chosen.megabytes * MEGA))]))
    rows = []
    while found:
        task = found.pop(0)  # what was measured need not stay in memory
        given = [Source(s.data, s.kind, s.name, distill=distill) for s in task.sources]
        rows.append(measure(Task(task.name, given)))
    report({**machine(), "reading": rows}, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
