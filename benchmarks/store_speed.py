"""`memory_store` over real stdio, p50 and p95, and the share of embedding.

    python -m benchmarks.store_speed [--claims 200] [--json]

Each claim is new, carries a source, and is embedded by the bundled model; the server is `mcp_server.py`
with the SDK's client and a home of its own. The claim's embedding is measured through the same engine
process before the call with a text of the same kind and length. Before each of the two is a pause, so that
neither meets what the engine still does with the claim before it (projection, the second look for duplicates).
"""

from __future__ import annotations

import statistics
from functools import partial

import anyio

from benchmarks.speed_run import call, machine, own_home, parser, quantiles, report, stdio_client, timed
from benchmarks.speed_texts import claims
from pegas_memory import PegasMemory
from pegas_memory.config import Settings
from pegas_memory.model import Role

WARM_UP = 5
PAUSE = 0.1
OTHERS = 500_000
"""Numbers of the claims that are only embedded: as long as the stored ones and never the same."""


async def ask(settings: Settings, memory: PegasMemory, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each store, and of an embedding of the same kind beside it."""
    stored: list[float] = []
    embedded: list[float] = []
    twins = claims(count, OTHERS)
    async with stdio_client(settings) as client:
        for number, (claim, twin) in enumerate(zip(claims(count), twins, strict=True)):
            source = {"uri": f"https://example.org/{number // 10}", "title": "Notes", "quote": claim}
            await anyio.sleep(PAUSE)
            _, milliseconds = timed(partial(memory.rooms.embedder.embed, [twin], Role.DOCUMENT))
            embedded.append(milliseconds)
            await anyio.sleep(PAUSE)
            stored.append(await call(client, "memory_store", {"claim": claim, "source": source}))
    return stored[WARM_UP:], embedded[WARM_UP:]


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--claims", type=int, default=200)
    chosen = arguments.parse_args()
    with own_home() as settings, PegasMemory.open(settings) as memory:
        stored, embedded = anyio.run(ask, settings, memory, chosen.claims + WARM_UP)
        kept = memory.stats().atoms.total
    if kept != chosen.claims + WARM_UP:
        raise SystemExit(f"{kept} atoms stand where {chosen.claims + WARM_UP} were stored")
    share = statistics.median(embedded) / statistics.median(stored)
    rest = [whole - part for whole, part in zip(stored, embedded, strict=True)]
    figures = {
        "unit": "ms, p50 / p95",
        "claims": chosen.claims,
        "stdio": quantiles(stored),
        "embedding": quantiles(embedded),
        "outside_embedding": quantiles(rest),
        "embedding_share": round(share, 2),
    }
    report({**machine(), **figures}, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
