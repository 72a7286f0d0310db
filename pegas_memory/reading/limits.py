"""What one reading may take, by the size of its source, and how a process is held to it.

Measured on 2 cores at full speed, Python 3.11 (measure again when a reader or the distiller changes):
100 MB of English text take 217 s of processor time and 1.3 GB, a PDF of 1,000 pages 11 s and 110 MB, a book of 1 MB
(linear-algebra.epub) 6 s and 80 MB.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

from pegas_memory.ingest import MAX_FILE_BYTES

NICENESS = 5
"""Searches go first. Not more: at 10 a reading beside two busy searches would get a tenth of a core."""
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and bytes. ``step`` and ``processor`` count the child's own processor time and are the kernel's to
    enforce; ``silence`` and ``wall`` are the parent's and bind a child that sleeps, starves or lies."""

    memory: int
    step: int
    """Between two words of how far it has come: a reader that hangs ends here."""
    processor: int
    silence: float
    wall: float


def limits_for(size: int) -> Limits:
    """For a source of ``size`` bytes. Whatever is small ends within 20 s."""
    megabytes = size / _MEGABYTE
    return Limits(
        memory=1000 * _MEGABYTE + 16 * size,
        step=round(8 + megabytes),
        processor=round(14 + 30 * megabytes),
        silence=16.0 + 3 * megabytes,
        wall=18.0 + 60 * megabytes,
    )


def confine() -> None:
    """Bind this process for good: no file written, no core, no more memory than the largest source may take,
    last in line for the processor and first for the kernel when memory runs out."""
    os.nice(NICENESS)
    try:
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")
    except OSError:
        pass  # a kernel without it chooses by size, which is us as well
    _at_most(resource.RLIMIT_CORE, 0)
    _at_most(resource.RLIMIT_FSIZE, 0)
    _at_most(resource.RLIMIT_AS, limits_for(MAX_FILE_BYTES).memory)


class Budget:
    """The memory and processor time of one reading, counted from now."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._end = _processor_time() + limits.processor
        _soft(resource.RLIMIT_AS, limits.memory)
        self.step()

    def step(self) -> None:
        """Something was done: the time for the next step begins. The kernel ends this process (SIGXCPU) when
        it takes too long."""
        _soft(resource.RLIMIT_CPU, min(_processor_time() + self._limits.step, self._end))


def _processor_time() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int(used.ru_utime + used.ru_stime) + 1


def _at_most(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _soft(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
