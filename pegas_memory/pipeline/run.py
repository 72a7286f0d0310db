"""One job being run: how far it has come, what failed, and what is told of it meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pegas_memory.db import jobs, tenants
from pegas_memory.db.jobs import JobRow
from pegas_memory.db.session import Connection
from pegas_memory.errors import Cancelled
from pegas_memory.model import to_json
from pegas_memory.pipeline.jobs import Progress

FAILURES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What of a job is committed: its atoms; of a folder the files up to ``last``; of the document ``uri``, in the
    version ``revision``, the first ``lessons`` claims."""

    created: int = 0
    duplicate: int = 0
    last: str = ""
    uri: str = ""
    revision: int = 0
    lessons: int = 0


@dataclass(slots=True)
class Run:
    job: JobRow
    progress: Progress
    stop: threading.Event
    done: Checkpoint
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    base: Mapping[str, Any] = field(default_factory=dict)
    """Told with everything: which of a folder's files it is."""

    @classmethod
    def of(cls, job: JobRow, progress: Progress, stop: threading.Event) -> Run:
        known = {name: job.checkpoint[name] for name in Checkpoint.__dataclass_fields__ if name in job.checkpoint}
        return cls(job, progress, stop, Checkpoint(**known))

    def tell(self, **more: Any) -> None:
        """Note the progress; raises ``Cancelled`` when the job was asked to stop."""
        counts = {"created": self.done.created, "duplicate": self.done.duplicate, "failed": self.failed}
        self.progress({**counts, **self.base, **more})
        if self.stop.is_set():
            raise Cancelled("The job was stopped.")

    def fail(self, what: str) -> None:
        self.failed += 1
        if len(self.failures) < FAILURES_SHOWN:
            self.failures.append(what)

    def join(self, conn: Connection) -> None:
        """Write in this transaction, if the job was not ended by a purge of what it reads."""
        tenants.join(conn, self.job.tenant)
        if not jobs.goes_on(conn, self.job):
            raise Cancelled("The job was stopped.")

    def save(self, conn: Connection, reached: Checkpoint) -> None:
        """Write in this transaction how far it brings the job; ``done`` is set by the caller once it is committed."""
        if not jobs.save(conn, self.job, to_json(reached)):
            raise Cancelled("The job was stopped.")
