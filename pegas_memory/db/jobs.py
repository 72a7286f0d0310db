"""Jobs: long work that outlives the call that asked for it, visible by id until it is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, text

from pegas_memory.db.ids import new_id
from pegas_memory.model import JobState

JOB_CHANNEL = "pegas_job"
ABANDONED_AFTER = "20 seconds"
"""A running job whose worker has not said so for this long is taken again."""
MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class JobRow:
    tenant: str
    id: UUID
    kind: str
    state: JobState
    payload: Mapping[str, Any]
    progress: Mapping[str, Any]
    checkpoint: Mapping[str, Any]
    """How far the work has come, written with the work."""
    result: Mapping[str, Any]
    error: Mapping[str, Any]
    attempts: int
    cancel_requested: bool
    created_at: datetime
    finished_at: datetime | None

    @property
    def tries(self) -> int:
        """Attempts since the job was last queued by its caller, or last moved on."""
        before = int(self.payload.get("attempts_before", 0))
        return self.attempts - max(before, int(self.checkpoint.get("attempts_before", 0)))


_COLUMNS = ", ".join(JobRow.__dataclass_fields__)
_SHOWN = _COLUMNS.replace("payload", "'{}'::jsonb AS payload")
"""Without what is to be read, which may be 100 MB."""


def _job(row: Any) -> JobRow:
    values = dict(zip(JobRow.__dataclass_fields__, row, strict=True))
    return JobRow(**{**values, "state": JobState(values["state"])})


def create(conn: Connection, tenant: str, kind: str, payload: Mapping[str, Any]) -> UUID:
    job_id = new_id()
    conn.execute(
        text("INSERT INTO pm_job (tenant, id, kind, payload) VALUES (:tenant, :id, :kind, CAST(:payload AS jsonb))"),
        {"tenant": tenant, "id": job_id, "kind": kind, "payload": _json(payload)},
    )
    _wake(conn)
    return job_id


def _json(value: Mapping[str, Any]) -> str:
    """As jsonb takes it: a text from outside may hold a NUL or half a surrogate pair, and no job may hang on
    how it failed."""
    return json.dumps(_storable(value), ensure_ascii=False)


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_storable(str(name)): _storable(item) for name, item in value.items()}
    return [_storable(item) for item in value] if isinstance(value, (list, tuple)) else value


def _wake(conn: Connection) -> None:
    conn.execute(text("SELECT pg_notify(:channel, '')"), {"channel": JOB_CHANNEL})


_WAITS = f"""(j.state = 'queued' OR (j.state = 'running' AND (j.heartbeat_at IS NULL
    OR j.heartbeat_at < clock_timestamp() - interval '{ABANDONED_AFTER}')))"""


def claim(conn: Connection, worker: str, served: Sequence[str] = (), most_of_one: int = 1_000) -> JobRow | None:
    """A waiting job, or one whose worker has gone quiet; it is then this worker's. The tenant with the fewest
    running jobs comes first, of these the one that stands earliest in ``served`` (or not at all), of its jobs the
    oldest. None of a tenant for which this worker runs ``most_of_one`` already.

    MATERIALIZED, since a subquery that is planned into a loop locks and yields another row each time round."""
    row = conn.execute(
        text(
            f"""WITH busy AS (
                SELECT j.tenant, count(*) AS everywhere, count(*) FILTER (WHERE j.taken_by = :worker) AS here
                FROM pm_job j WHERE j.state = 'running' AND NOT {_WAITS} GROUP BY j.tenant),
            next AS MATERIALIZED (
                SELECT j.tenant, j.id FROM pm_job j LEFT JOIN busy b ON b.tenant = j.tenant
                WHERE j.state IN ('queued', 'running') AND {_WAITS} AND coalesce(b.here, 0) < :most_of_one
                ORDER BY coalesce(b.everywhere, 0), coalesce(array_position(CAST(:served AS text[]), j.tenant), 0),
                    j.created_at, j.id LIMIT 1 FOR UPDATE OF j SKIP LOCKED)
            UPDATE pm_job p SET state = 'running', taken_by = :worker, attempts = p.attempts + 1,
                started_at = coalesce(p.started_at, clock_timestamp()), heartbeat_at = clock_timestamp()
            FROM next WHERE p.tenant = next.tenant AND p.id = next.id
            RETURNING {", ".join(f"p.{name}" for name in JobRow.__dataclass_fields__)}"""
        ),
        {"worker": worker, "served": list(served), "most_of_one": most_of_one},
    ).one_or_none()
    return _job(row) if row else None


def heartbeat(conn: Connection, job: JobRow, progress: Mapping[str, Any] | None = None) -> bool:
    """Say that the job is alive, with its progress. True when it was asked to stop or was taken away."""
    row = conn.execute(
        text(
            "UPDATE pm_job SET heartbeat_at = clock_timestamp(),"
            " progress = coalesce(CAST(:progress AS jsonb), progress)"
            " WHERE tenant = :tenant AND id = :id AND state = 'running' AND attempts = :attempts"
            " RETURNING cancel_requested"
        ),
        {
            "tenant": job.tenant,
            "id": job.id,
            "attempts": job.attempts,
            "progress": None if progress is None else _json(progress),
        },
    ).one_or_none()
    return row is None or bool(row[0])


def save(conn: Connection, job: JobRow, checkpoint: Mapping[str, Any]) -> bool:
    """Note in the caller's transaction how far the work has come; False when it is no longer this worker's."""
    return bool(
        conn.execute(
            text(
                "UPDATE pm_job SET checkpoint = CAST(:checkpoint AS jsonb) WHERE tenant = :tenant AND id = :id"
                " AND state = 'running' AND attempts = :attempts"
            ),
            {
                "tenant": job.tenant,
                "id": job.id,
                "attempts": job.attempts,
                "checkpoint": _json({**checkpoint, "attempts_before": job.attempts - 1}),
            },
        ).rowcount
    )


def stopped(conn: Connection, job: JobRow) -> bool:
    """Whether the job was asked to stop, or is no longer this worker's."""
    found = conn.execute(
        text(
            "SELECT FROM pm_job WHERE tenant = :tenant AND id = :id AND state = 'running' AND attempts = :attempts"
            " AND NOT cancel_requested"
        ),
        {"tenant": job.tenant, "id": job.id, "attempts": job.attempts},
    )
    return found.first() is None


def cancel_requested(conn: Connection, job: JobRow) -> bool:
    found = conn.execute(
        text("SELECT FROM pm_job WHERE tenant = :tenant AND id = :id AND cancel_requested"),
        {"tenant": job.tenant, "id": job.id},
    )
    return found.first() is not None


def finish(
    conn: Connection,
    job: JobRow,
    state: JobState,
    *,
    progress: Mapping[str, Any] | None = None,
    result: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
) -> None:
    """End the job, if nobody else ended it meanwhile. Its text or bytes are dropped when it is done, since it is
    never run again from them, and the proxy's address always, since that may hold a password."""
    conn.execute(
        text(
            """UPDATE pm_job SET state = :state, finished_at = clock_timestamp(), heartbeat_at = clock_timestamp(),
                result = CAST(:result AS jsonb), error = CAST(:error AS jsonb),
                progress = coalesce(CAST(:progress AS jsonb), progress),
                payload = CASE WHEN :state = 'done' THEN payload - '{text,data}'::text[] ELSE payload END - 'proxy_url'
            WHERE tenant = :tenant AND id = :id AND state = 'running' AND attempts = :attempts"""
        ),
        {
            "tenant": job.tenant,
            "id": job.id,
            "attempts": job.attempts,
            "state": state.value,
            "progress": None if progress is None else _json(progress),
            "result": _json(result or {}),
            "error": _json(error or {}),
        },
    )
    _wake(conn)


def goes_on(conn: Connection, job: JobRow) -> bool:
    """Whether the job is still this worker's to run, as the caller's transaction sees it."""
    found = conn.execute(
        text("SELECT FROM pm_job WHERE tenant = :tenant AND id = :id AND state = 'running' AND attempts = :attempts"),
        {"tenant": job.tenant, "id": job.id, "attempts": job.attempts},
    )
    return found.first() is not None


def release_all_of(conn: Connection, worker: str) -> int:
    """Give back every running job of a worker that is known to be gone. Returns how many."""
    return conn.execute(
        text("UPDATE pm_job SET state = 'queued', heartbeat_at = NULL WHERE state = 'running' AND taken_by = :worker"),
        {"worker": worker},
    ).rowcount


def release(conn: Connection, job: JobRow) -> None:
    """Give an unfinished job back, for another worker to go on with it."""
    conn.execute(
        text(
            "UPDATE pm_job SET state = 'queued', heartbeat_at = NULL"
            " WHERE tenant = :tenant AND id = :id AND state = 'running' AND attempts = :attempts"
        ),
        {"tenant": job.tenant, "id": job.id, "attempts": job.attempts},
    )


def find(conn: Connection, tenant: str, job_id: UUID) -> JobRow | None:
    row = conn.execute(
        text(f"SELECT {_SHOWN} FROM pm_job WHERE tenant = :tenant AND id = :id"), {"tenant": tenant, "id": job_id}
    ).one_or_none()
    return _job(row) if row else None


def latest(conn: Connection, tenant: str, limit: int) -> list[JobRow]:
    rows = conn.execute(
        text(f"SELECT {_SHOWN} FROM pm_job WHERE tenant = :tenant ORDER BY created_at DESC, id DESC LIMIT :limit"),
        {"tenant": tenant, "limit": limit},
    ).all()
    return [_job(row) for row in rows]


def request_cancel(conn: Connection, tenant: str, job_id: UUID) -> None:
    """A waiting job is cancelled at once; a running one stops at its next heartbeat."""
    conn.execute(
        text(
            """UPDATE pm_job SET cancel_requested = true,
                state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END,
                finished_at = CASE WHEN state = 'queued' THEN clock_timestamp() ELSE finished_at END
            WHERE tenant = :tenant AND id = :id AND state IN ('queued', 'running')"""
        ),
        {"tenant": tenant, "id": job_id},
    )
    _wake(conn)


def retry(conn: Connection, tenant: str, job_id: UUID, anew: Mapping[str, Any]) -> bool:
    """Queue a failed or cancelled job again, with ``anew`` in its payload. False when it is in another state.

    ``attempts`` goes on counting, since it tells a worker that lost the job from the one that has it."""
    again = conn.execute(
        text(
            "UPDATE pm_job SET state = 'queued', cancel_requested = false, finished_at = NULL, error = '{}'::jsonb,"
            " payload = payload || CAST(:anew AS jsonb) || jsonb_build_object('attempts_before', attempts)"
            " WHERE tenant = :tenant AND id = :id AND state IN ('failed', 'cancelled') RETURNING id"
        ),
        {"tenant": tenant, "id": job_id, "anew": _json(anew)},
    ).one_or_none()
    _wake(conn)
    return again is not None
