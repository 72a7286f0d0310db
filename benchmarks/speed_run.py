"""What the speed benchmarks share: the machine, quantiles, a home of their own and a server over stdio."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

from mcp import Client, StdioServerParameters

from pegas_memory.config import Settings, load_settings
from pegas_memory.engine_client import EngineClient

ROOT = Path(__file__).resolve().parent.parent
Quantiles = dict[str, float]
Result = TypeVar("Result")


def machine() -> dict[str, object]:
    """Where the figures come from; the load says whether something else ran meanwhile."""
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def quantiles(milliseconds: Sequence[float]) -> Quantiles:
    """p50 and p95 in milliseconds; at least two values."""
    return {
        "p50": round(statistics.median(milliseconds), 2),
        "p95": round(statistics.quantiles(milliseconds, n=20, method="inclusive")[-1], 2),
    }


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result and the milliseconds it took."""
    began = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - began) * 1000


@contextmanager
def own_home(**given: object) -> Iterator[Settings]:
    """Settings of a new, empty home, and others as ``given``; at the end its engine is stopped and the folder
    removed."""
    home = Path(tempfile.mkdtemp(prefix="pegas-speed-"))
    own = {"home": home, "database_url": "", "qdrant_url": "", "embedder": "bundled", "tenant": "default"}
    settings = load_settings(**(own | given))
    try:
        yield settings
    finally:
        stop_engine(settings)
        shutil.rmtree(home, ignore_errors=True)


def stop_engine(settings: Settings) -> None:
    """Stop the engine process of this home, if one runs, and let the next call start another."""
    with EngineClient(settings) as engine:
        engine.shutdown()


@asynccontextmanager
async def stdio_client(settings: Settings) -> AsyncIterator[Client]:
    """The SDK's client with a server process of its own on the home of ``settings``."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PEGAS_")}
    environment |= {
        "PEGAS_HOME": str(settings.home),
        "PEGAS_INGEST_ROOTS": os.pathsep.join(map(str, settings.ingest_roots)),
        "PEGAS_EMBEDDER": settings.embedder,
        "PEGAS_OLLAMA_URL": settings.ollama_url,
        "PYTHONPATH": str(ROOT),
    }
    server = StdioServerParameters(command=sys.executable, args=[str(ROOT / "mcp_server.py")], env=environment)
    async with Client(server, read_timeout_seconds=120) as client:
        yield client


async def call(client: Client, tool: str, arguments: dict[str, object]) -> float:
    """One tool call; the milliseconds until its answer was read. A tool error ends the benchmark."""
    began = time.perf_counter()
    answer = await client.call_tool(tool, arguments)
    took = (time.perf_counter() - began) * 1000
    if answer.is_error:
        raise SystemExit(f"{tool} failed: {answer.content}")
    return took


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", action="store_true", help="print JSON instead of lines")
    return made


def report(figures: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures, ensure_ascii=False))
        return
    for name, value in figures.items():
        rows = value if isinstance(value, list) else [value]
        for row in rows:
            shown = "  ".join(f"{k} {_cell(v)}" for k, v in row.items()) if isinstance(row, dict) else _cell(row)
            print(f"{name:28} {shown}")


def _cell(value: object) -> str:
    if isinstance(value, dict) and set(value) == {"p50", "p95"}:
        return f"{value['p50']} / {value['p95']}"
    return str(value)
