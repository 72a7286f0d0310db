"""`memory_search` over stdio while a PDF of 500 pages is ingested, against the same when nothing else goes on.

    python -m benchmarks.search_while_reading [--data DIR] [--pages 500] [--atoms 1000] [--seconds 120] [--json]

One client asks a question every ``PAUSE`` seconds: ``--idle`` times before, then as long as the job lasts (at most
``--seconds``), then again after it. Another client has the PDF ingested with the bundled model: its pages are read
and distilled in a child process, embedded, stored and projected by the engine that answers the searches. ``reading``
holds the searches that were asked before the first atom was stored, ``learning`` those after. The goal is a p95
under 3 times that of the idle ones.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import anyio
from mcp import Client

from benchmarks.long_documents import long_pdf
from benchmarks.search_speed import LIMIT, WARM_UP, fill
from benchmarks.speed_run import ROOT, call, machine, own_home, parser, quantiles, report, stdio_client
from benchmarks.speed_texts import questions
from pegas_memory import PegasMemory
from pegas_memory.config import Settings
from pegas_memory.model import IngestAnswer, IngestRequest, JobState

PAUSE = 0.1
GOAL = 3.0
RUNNING = frozenset({JobState.QUEUED, JobState.RUNNING})


class Asking:
    """A client that asks one question after another and keeps the milliseconds by what went on meanwhile."""

    def __init__(self, client: Client, asked: Iterator[str]) -> None:
        self._client = client
        self._asked = asked
        self.took: dict[str, list[float]] = {"idle": [], "reading": [], "learning": []}

    async def ask(self, meanwhile: str) -> None:
        query = {"query": next(self._asked), "limit": LIMIT}
        self.took[meanwhile].append(await call(self._client, "memory_search", query))
        await anyio.sleep(PAUSE)


async def measure(
    settings: Settings, memory: PegasMemory, path: Path, idle: int, seconds: float
) -> dict[str, list[float]]:
    """Milliseconds of the searches, by what went on meanwhile."""
    async with stdio_client(settings) as client:
        asking = Asking(client, questions(1_000_000))
        for _ in range(WARM_UP + idle):
            await asking.ask("idle")
        del asking.took["idle"][:WARM_UP]
        answer = memory.ingest(IngestRequest(source=str(path), wait=False))
        until = time.monotonic() + seconds
        while answer.state in RUNNING and time.monotonic() < until:
            await asking.ask("learning" if answer.atoms.created else "reading")
            answer = await anyio.to_thread.run_sync(memory.job, answer.job_id)
        await anyio.to_thread.run_sync(stopped, memory, answer.job_id)
        for _ in range(idle):
            await asking.ask("idle")
    return asking.took


def stopped(memory: PegasMemory, job_id: UUID) -> IngestAnswer:
    """The job as it ended, or was ended, with all that it wrote taken into the index."""
    answer = memory.job(job_id)
    if answer.state in RUNNING:
        answer = memory.cancel_job(job_id)
    if answer.state is JobState.FAILED:
        raise SystemExit(f"the ingest failed: {answer.error}")
    while memory.stats().pending:
        time.sleep(0.1)
    return answer


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments.add_argument("--pages", type=int, default=500)
    arguments.add_argument("--atoms", type=int, default=1_000)
    arguments.add_argument("--idle", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=120.0)
    chosen = arguments.parse_args()
    if not any(chosen.data.glob("docs-ru-en/*/*.pdf")):
        report({"skipped": f"{chosen.data} holds no docs-ru-en"}, as_json=chosen.json)
        return 1
    with tempfile.TemporaryDirectory(prefix="pegas-speed-") as folder:
        path = Path(folder) / "long.pdf"
        path.write_bytes(long_pdf(chosen.data, chosen.pages))
        with own_home(ingest_roots=[path.parent]) as settings, PegasMemory.open(settings) as memory:
            fill(memory, 0, chosen.atoms)
            took = anyio.run(measure, settings, memory, path, chosen.idle, chosen.seconds)
    rows = {name: {"searches": len(values), **quantiles(values)} for name, values in took.items() if len(values) > 1}
    busy = quantiles([*took["reading"], *took["learning"]])["p95"]
    figures = {"unit": "ms", **rows, "times_idle": round(busy / quantiles(took["idle"])["p95"], 2), "goal": GOAL}
    report({**machine(), **figures}, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
