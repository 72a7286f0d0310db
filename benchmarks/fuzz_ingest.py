"""Mutated files through `memory_ingest` over stdio: what a client sees, and what is then stored.

    python -m benchmarks.fuzz_ingest [--data DIR] [--count 200] [--seed 1] [--first 0] [--json]

The cases are those of ``fuzz_readers``, the whole way: MCP server, job, engine, reading child, PostgreSQL (no
embedder). A fault is an answer that takes more than ``MOST_SECONDS``, a failure without a code, an answer that shows
a traceback or a path of the machine, success without a chunk or an atom, a quote that does not stand in what was
stored, and another engine process at the end than at the beginning.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
from mcp import Client

from benchmarks.extraction_ways import NO_EMBEDDER, Stored
from benchmarks.fuzz_readers import MOST_SECONDS, Case, case_of, originals, quiet_libraries
from benchmarks.speed_run import ROOT, machine, own_home, parser, report, stdio_client
from pegas_memory import PegasMemory

_SHOWN = re.compile(r"Traceback|site-packages|File \"|/usr/lib|/proc/|\bSELECT\b|psycopg|sqlalchemy")


@dataclass(slots=True)
class Seen:
    """What the client got for one file."""

    case: Case
    state: str
    seconds: float
    doc_id: str = ""
    faults: list[str] = field(default_factory=list)

    def line(self) -> str:
        what = " + ".join(mutation.name for mutation in self.case.mutations)
        return f"{self.case.number} {self.case.original.name} [{what}] {self.seconds:.1f} s: {self.state}"


async def ingested(client: Client, case: Case, folder: Path) -> Seen:
    path = folder / f"{case.number}-{case.original.name}"
    path.write_bytes(case.data)
    kind = case.original.kind if case.original.kind in ("html", "web") else "auto"
    began = time.perf_counter()
    answer = await client.call_tool("memory_ingest", {"source": str(path), "kind": kind})
    seconds = time.perf_counter() - began
    path.unlink()
    said = "\n".join(getattr(part, "text", "") for part in answer.content)
    structured: dict[str, Any] = answer.structured_content or {}
    seen = Seen(case, str(structured.get("state", "")), seconds, str(structured.get("doc_id") or ""))
    if seconds > MOST_SECONDS:
        seen.faults.append("hang")
    if _SHOWN.search(said) or str(folder) in said.replace(path.as_uri(), ""):
        seen.faults.append("shown")
    if answer.is_error or seen.state != "done":
        error = structured.get("error") or {}
        seen.state = str(error.get("code") or structured.get("code") or "")
        if seen.state in ("", "internal_error"):
            seen.faults.append("no code")
    elif not structured["chunks"] or not (structured["atoms"]["created"] + structured["atoms"]["duplicate"]):
        seen.faults.append("empty")
    return seen


def misplaced(memory: PegasMemory, seen: Sequence[Seen]) -> Iterator[Seen]:
    """Those whose stored chunks or quotes do not stand where they say."""
    way = Stored(memory)
    for one in seen:
        if one.doc_id and way.read_back(UUID(one.doc_id), 0.0).misplaced:
            yield one


async def run(cases: Iterator[Case], folder: Path) -> tuple[list[Seen], bool]:
    """What was seen, and whether the engine lived through it."""
    with own_home(ingest_roots=[folder], **NO_EMBEDDER) as settings, PegasMemory.open(settings) as memory:
        engine = memory.rooms.part_states().get("pid")
        seen: list[Seen] = []
        async with stdio_client(settings) as client:
            for case in cases:
                seen.append(await ingested(client, case, folder))
                if seen[-1].faults:
                    print(f"{','.join(seen[-1].faults)}: {seen[-1].line()}", flush=True)
        for one in misplaced(memory, seen):
            one.faults.append("misplaced")
        return seen, memory.rooms.part_states().get("pid") == engine


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    arguments.add_argument("--count", type=int, default=200)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    quiet_libraries()
    known = originals(chosen.data)
    if not known:
        report({"skipped": f"{chosen.data} holds no documents"}, as_json=chosen.json)
        return 1
    cases = (case_of(number, chosen.seed, known) for number in range(chosen.first, chosen.first + chosen.count))
    with tempfile.TemporaryDirectory(prefix="pegas-speed-") as folder:
        seen, lived = anyio.run(run, cases, Path(folder).resolve())
    faults = Counter(fault for one in seen for fault in one.faults)
    states = Counter(one.state for one in seen)
    slowest = max(seen, key=lambda one: one.seconds)
    figures = {"cases": len(seen), "states": dict(states), "faults": dict(faults), "engine_lived": lived}
    report({**machine(), "seed": chosen.seed, **figures, "slowest": slowest.line()}, as_json=chosen.json)
    return int(bool(faults) or not lived)


if __name__ == "__main__":
    raise SystemExit(main())
