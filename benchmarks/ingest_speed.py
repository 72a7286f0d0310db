"""Ingest of the Debian manuals (PDF, EPUB, HTML): characters a second, and the time outside the embedder.

    python -m benchmarks.ingest_speed [--data DIR] [--limit-characters 200000] [--bundled-only] [--json]

The rooms of the engine process are put together in this process, so that its embedder can be timed:
PostgreSQL, the vector shard, the worker with its projections, the ingest job. Three runs:

- ``bundled``: the bundled model on the first pages of each PDF and on whole HTML chapters, about
  ``--limit-characters`` in all (a model of 20 passages a second would take 10 minutes for everything).
- ``replayed``: the same part in a new home with the vectors of the first run, which cost nothing. What
  remains is the time outside the embedder, undisturbed; ``share_outside`` is that of it and the
  embedder's time in the first run together. Aim: under 15 %.
- ``everything``: all files with vectors made of random numbers: nothing is a near duplicate there, but
  reading, distilling, storing, projecting and the searches for near duplicates all happen.

A run ends when the job is done; the index is then at most one slice behind.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pypdf import PdfReader, PdfWriter

from benchmarks.speed_run import ROOT, machine, parser, report
from pegas_memory.config import Settings, load_settings
from pegas_memory.db import jobs
from pegas_memory.db.embedded import EmbeddedPostgres
from pegas_memory.db.migrate import ensure_schema
from pegas_memory.db.session import Database
from pegas_memory.embedding import Embedder, open_embedder
from pegas_memory.engine.projecting import Projecting
from pegas_memory.ingest import read_file
from pegas_memory.model import Dense, EmbeddingModel, JobState, Role
from pegas_memory.worker import Worker

AIM = 0.15
PDF_SHARE = 0.5
PAGES = 8
"""A PDF is cut to pieces of so many pages until its share of the characters is reached."""
NAMES = ("*.pdf", "*.epub", "html/*.html")


@dataclass(slots=True)
class TimedEmbedder:
    """Remembers what the inner embedder answered and how long the job's thread waited for it."""

    inner: Embedder
    seconds: float = 0.0
    texts: int = 0
    answered: dict[str, Dense] = field(default_factory=dict)

    @property
    def model(self) -> EmbeddingModel:
        return self.inner.model

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        began = time.perf_counter()
        vectors = self.inner.embed(texts, role)
        if threading.current_thread().name == "worker-jobs":
            self.seconds += time.perf_counter() - began
            self.texts += len(texts)
        self.answered |= zip(texts, vectors, strict=True)
        return vectors

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True, slots=True)
class CostsNothing:
    """Known vectors, else random ones that depend on the text alone."""

    model: EmbeddingModel
    known: dict[str, Dense]

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        return np.stack([self.known[t] if t in self.known else self._random(t) for t in texts])

    def _random(self, text: str) -> Dense:
        made = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(self.model.dimension)
        unit: Dense = (made / np.linalg.norm(made)).astype(np.float32)
        return unit

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def engine_rooms(home: Path, wrap: Callable[[Settings], Embedder]) -> Iterator[tuple[Database, Embedder, Worker]]:
    """PostgreSQL, shard, worker and an embedder in this process."""
    settings = load_settings(home=home, database_url="", qdrant_url="", embedder="bundled", tenant="default")
    with ExitStack() as stack:
        postgres = EmbeddedPostgres(home)
        postgres.start()
        stack.callback(postgres.stop)
        ensure_schema(postgres.url)
        db = Database(postgres.url)
        stack.callback(db.close)
        embedder = wrap(settings)
        stack.callback(embedder.close)
        projecting = Projecting(settings, db, embedder)
        stack.callback(projecting.close)
        projecting.try_to_open()
        worker = Worker(postgres.url, project=projecting.steps(), run_job=projecting.run_job)
        stop = threading.Event()
        running = threading.Thread(target=worker.run, args=(stop,))
        running.start()
        stack.callback(running.join)
        stack.callback(worker.wake)
        stack.callback(stop.set)
        yield db, embedder, worker


def ingest(folder: Path, wrap: Callable[[Settings], Embedder]) -> tuple[dict[str, float], Embedder]:
    """Ingest a folder as one job; seconds from its claim to its end as PostgreSQL noted them."""
    home = Path(tempfile.mkdtemp(prefix="pegas-speed-"))
    try:
        with engine_rooms(home, wrap) as (db, embedder, worker):
            payload = {"source": str(folder), "roots": [str(folder)], "distill": "auto"}
            with db.tenant("default") as conn:
                job_id = jobs.create(conn, "default", "ingest", payload)
            began, cpu = time.perf_counter(), time.process_time()
            worker.wake()
            while True:
                time.sleep(0.05)
                with db.tenant("default") as conn:
                    job = jobs.find(conn, "default", job_id)
                assert job is not None
                if job.state in {JobState.DONE, JobState.FAILED, JobState.CANCELLED}:
                    break
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            if job.state is not JobState.DONE:
                raise SystemExit(f"the job ended as {job.state}: {job.error}")
            counts = job.result["atoms"]
            figures = {"seconds": seconds, "cpu_seconds": cpu, "atoms": counts["created"], "known": counts["duplicate"]}
            return figures, embedder
    finally:
        shutil.rmtree(home, ignore_errors=True)


def files_of(data: Path) -> list[Path]:
    return sorted(
        path for book in sorted(data.iterdir()) if book.is_dir() for name in NAMES for path in book.glob(name)
    )


def bounded(files: Sequence[Path], target: Path, limit: int) -> int:
    """Copy about ``limit`` characters of the files below ``target``; returns how many. PDFs give the half."""
    pdfs = [path for path in files if path.suffix == ".pdf"]
    total = 0
    for path in pdfs:
        total += _pages_of(path, target, total + int(limit * PDF_SHARE / len(pdfs)) - total)
    for path in sorted((p for p in files if p.suffix == ".html"), key=lambda p: (p.name, str(p))):
        if total >= limit:
            break
        total += _kept(path, target / path.parent.parent.name / path.name)
    return total


def _pages_of(path: Path, target: Path, limit: int) -> int:
    pages = PdfReader(path).pages
    taken = 0
    for start in range(0, len(pages), PAGES):
        if taken >= limit:
            break
        piece = target / f"{path.stem}.{start:03}.pdf"
        with PdfWriter() as writer:
            for page in pages[start : start + PAGES]:
                writer.add_page(page)
            writer.write(piece)
        taken += len(read_file(piece).text)
    return taken


def _kept(path: Path, copy: Path) -> int:
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(path, copy)
    return len(read_file(copy).text)


def rates(characters: int, figures: dict[str, float]) -> dict[str, object]:
    return {
        "characters": characters,
        **{name: round(value, 2) for name, value in figures.items()},
        "characters_per_second": round(characters / figures["seconds"]),
    }


def measure_bounded(files: Sequence[Path], limit: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="pegas-speed-") as name:
        folder = Path(name)
        characters = bounded(files, folder, limit)
        first, embedder = ingest(folder, lambda settings: TimedEmbedder(open_embedder(settings)))
        assert isinstance(embedder, TimedEmbedder)
        known = embedder.answered
        again, _ = ingest(folder, lambda _: CostsNothing(embedder.model, known))
    outside = first["seconds"] - embedder.seconds
    return {
        "bundled": {
            **rates(characters, first),
            "embedder_seconds": round(embedder.seconds, 2),
            "texts_per_second": round(embedder.texts / embedder.seconds, 1),
            "share_outside": round(outside / first["seconds"], 3),
        },
        "replayed": rates(characters, again),
        "share_outside": round(again["seconds"] / (again["seconds"] + embedder.seconds), 3),
        "aim_share_outside": AIM,
    }


def measure_everything(files: Sequence[Path], model: EmbeddingModel) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="pegas-speed-") as name:
        folder = Path(name)
        characters = sum(
            _kept(path, folder / f"{path.parent.parent.name}-{path.parent.name}" / path.name) for path in files
        )
        figures, _ = ingest(folder, lambda _: CostsNothing(model, {}))
    return {"everything": {"files": len(files), **rates(characters, figures)}}


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "docs-ru-en")
    arguments.add_argument("--limit-characters", type=int, default=200_000, help="for the bundled model")
    arguments.add_argument("--bundled-only", action="store_true", help="leave out the run over everything")
    chosen = arguments.parse_args()
    files = files_of(chosen.data) if chosen.data.is_dir() else []
    if not files:
        report({"skipped": f"{chosen.data} holds no books (PDF, EPUB, html/)"}, as_json=chosen.json)
        return 1
    figures = {**machine(), **measure_bounded(files, chosen.limit_characters)}
    if not chosen.bundled_only:
        with_model = load_settings(embedder="bundled")
        figures |= measure_everything(files, open_embedder(with_model).model)
    report(figures, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
