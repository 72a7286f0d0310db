"""Two jobs on one source take turns: each would drop what the other had just cited in the document."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pegas_memory.errors import Cancelled

_LOOK_SECONDS = 0.2


class Sources:
    """Which sources are being ingested in this process. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken: list[tuple[str, str]] = []

    @contextmanager
    def alone(self, tenant: str, source: str, stop: threading.Event) -> Iterator[None]:
        """Wait for whoever works on ``source``, a folder around it or something in it; then be that one.

        Raises:
            Cancelled: ``stop`` was set while waiting.
        """
        mine = (tenant, source)
        with self._changed:
            while any(_overlap(mine, other) for other in self._taken):
                self._changed.wait(_LOOK_SECONDS)
                if stop.is_set():
                    raise Cancelled("The job was stopped.")
            self._taken.append(mine)
        try:
            yield
        finally:
            with self._changed:
                self._taken.remove(mine)
                self._changed.notify_all()


def source_of(payload: Mapping[str, Any]) -> str:
    """A name of what an ingest job reads, equal for jobs that read the same."""
    source = str(payload.get("source", ""))
    return source or f"text:{hashlib.sha256(str(payload.get('text', '')).encode()).hexdigest()}"


def _overlap(one: tuple[str, str], other: tuple[str, str]) -> bool:
    if one[0] != other[0]:
        return False
    a, b = (f"{source.rstrip('/')}/" for _, source in (one, other))
    return a.startswith(b) or b.startswith(a)
