"""How long after its commit a write can be found: projection lag at a steady rate of writes.

    python -m benchmarks.projection_lag [--rate 50] [--seconds 20] [--json]

The embedded profile with its engine process. The vectors are in the cache before (the embedder idles), each
write is one transaction of its own with its outbox row, as ``memory_store`` writes it. Lag is the time from the
commit until every consumer that decides whether it can be found has passed it, seen by polling every 4 ms.
"""

from __future__ import annotations

import threading
import time
from collections import deque

import numpy as np

from benchmarks.speed_run import machine, own_home, parser, quantiles, report
from benchmarks.speed_texts import claims
from pegas_memory import PegasMemory, bm25
from pegas_memory.db import atoms, outbox
from pegas_memory.db.atoms import NewAtom
from pegas_memory.model import AtomType

POLL = 0.004


class Watch(threading.Thread):
    """Sees when each noted transaction is passed."""

    def __init__(self, memory: PegasMemory) -> None:
        super().__init__(daemon=True)
        self._memory = memory
        self._open: deque[tuple[int, float]] = deque()
        self.lags: list[float] = []
        self.over = threading.Event()

    def note(self, xid: int) -> None:
        self._open.append((xid, time.perf_counter()))

    def run(self) -> None:
        consumers = self._memory.rooms.consumers()
        while self._open or not self.over.is_set():
            while self._open:
                xid, committed = self._open[0]
                with self._memory.rooms.db.tenant(self._memory.tenant) as conn:
                    if not outbox.passed(conn, consumers, xid):
                        break
                self.lags.append((time.perf_counter() - committed) * 1000)
                self._open.popleft()
            time.sleep(POLL)


def cache_vectors(memory: PegasMemory, texts: list[str]) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((len(texts), memory.rooms.embedder.model.dimension), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with memory.rooms.db.tenant(memory.tenant) as conn:
        memory.rooms.vectors.keep_in(conn, memory.tenant, dict(zip(texts, vectors, strict=True)))


def write(memory: PegasMemory, texts: list[str], rate: float, watch: Watch) -> float:
    """Seconds that it took."""
    began = time.perf_counter()
    for number, text in enumerate(texts):
        time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        with memory.rooms.db.tenant(memory.tenant) as conn:
            atoms.insert_many(conn, memory.tenant, [NewAtom(AtomType.FACT, text, terms=tuple(bm25.terms(text)))])
            xid = outbox.current_xid(conn)
        watch.note(xid)
    return time.perf_counter() - began


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--rate", type=float, default=50.0)
    arguments.add_argument("--seconds", type=float, default=20.0)
    chosen = arguments.parse_args()
    texts = list(claims(round(chosen.rate * chosen.seconds), 0))
    with own_home() as settings, PegasMemory.open(settings) as memory:
        cache_vectors(memory, texts)
        watch = Watch(memory)
        watch.start()
        took = write(memory, texts, chosen.rate, watch)
        watch.over.set()
        watch.join(60)
    if len(watch.lags) != len(texts):
        raise SystemExit(f"{len(texts) - len(watch.lags)} of {len(texts)} writes were not projected within a minute")
    lag = quantiles(watch.lags)
    figures = {"unit": "ms, p50 / p95", "writes": len(texts), "writes_per_second": round(len(texts) / took, 1),
               "lag": lag, "lag_max": round(max(watch.lags), 1)}  # fmt: skip
    report({**machine(), **figures, "lag_p95": lag["p95"]}, as_json=chosen.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
