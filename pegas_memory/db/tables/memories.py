"""Episodes and procedures."""

from __future__ import annotations

from sqlalchemy import Index, Table, UniqueConstraint, text

from pegas_memory.db.tables.columns import (
    LIVE,
    count,
    ids,
    memory_columns,
    metadata,
    one_of,
    real,
    ref,
    text_of,
    texts,
    time_of,
)

pm_episodic_trace = Table(
    "pm_episodic_trace",
    metadata,
    *ids(),
    text_of("kind", "observation"),
    text_of("session"),
    text_of("speaker"),
    text_of("content", None),
    text_of("context"),
    text_of("outcome"),
    text_of("content_hash", None),
    real("confidence", 0.5),
    *memory_columns(),
    ref("promoted_to"),
    one_of("kind", "plan", "action", "observation", "reflection"),
    UniqueConstraint("tenant", "content_hash"),
    Index("ix_pm_episodic_trace_session", "tenant", "session", "occurred_at"),
    Index("ix_pm_episodic_trace_terms", "terms", postgresql_using="gin"),
)

pm_procedure = Table(
    "pm_procedure",
    metadata,
    *ids(),
    text_of("content", None),
    text_of("code"),
    texts("preconditions"),
    texts("postconditions"),
    text_of("content_hash", None),
    real("confidence", 0.5),
    count("successes"),
    count("failures"),
    count("version", 1),
    time_of("last_used"),
    *memory_columns(),
    Index("uq_pm_procedure_live_content_hash", "tenant", "content_hash", unique=True, postgresql_where=text(LIVE)),
    Index("ix_pm_procedure_terms", "terms", postgresql_using="gin"),
)
