"""What keeps the service going: the vector cache, jobs, the audit, the outbox and how far its readers are."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import UUID

from pegas_memory.db.tables.columns import count, flag, ids, json_of, metadata, one_of, ref, text_of, time_of
from pegas_memory.db.types import PgSnapshot, Xid8

pm_embedding = Table(
    "pm_embedding",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("text_version", Integer, nullable=False),
    Column("text_hash", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    Column("xid", Xid8(), nullable=False, server_default=text("pg_current_xact_id()")),
    time_of("created_at", now=True),
    PrimaryKeyConstraint("tenant", "model", "text_version", "text_hash", "dimension"),
    CheckConstraint("octet_length(vector) = dimension * 4", name="length"),
)

pm_job = Table(
    "pm_job",
    metadata,
    *ids(),
    text_of("kind", None),
    text_of("state", "queued"),
    json_of("payload"),
    json_of("progress"),
    json_of("checkpoint"),
    json_of("result"),
    json_of("error"),
    count("attempts"),
    flag("cancel_requested"),
    text_of("taken_by"),
    time_of("created_at", now=True),
    time_of("started_at"),
    time_of("finished_at"),
    time_of("heartbeat_at"),
    one_of("state", "queued", "running", "done", "failed", "cancelled"),
    Index("ix_pm_job_waiting", "created_at", "id", postgresql_where=text("state IN ('queued', 'running')")),
    Index("ix_pm_job_list", "tenant", text("created_at DESC")),
)

pm_activity = Table(
    "pm_activity",
    metadata,
    *ids(),
    text_of("action", None),
    text_of("entity_type"),
    ref("entity_id"),
    json_of("detail"),
    time_of("created_at", now=True),
    Index("ix_pm_activity_list", "tenant", text("created_at DESC")),
)

pm_outbox = Table(
    "pm_outbox",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("seq", BigInteger, Identity(always=True), nullable=False),
    text_of("entity_type", None),
    ref("entity_id", required=True),
    text_of("op", "upsert"),
    Column("xid", Xid8(), nullable=False, server_default=text("pg_current_xact_id()")),
    time_of("created_at", now=True),
    PrimaryKeyConstraint("tenant", "seq"),
    Index("ix_pm_outbox_xid_seq", "xid", "seq"),
    one_of("op", "upsert", "delete", "embedded"),
)

pm_projection = Table(
    "pm_projection",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("position", PgSnapshot(), nullable=False, server_default=text("'1:1:'::pg_snapshot")),
    Column("durable", PgSnapshot(), nullable=False, server_default=text("'1:1:'::pg_snapshot")),
    Column("durable_end", PgSnapshot()),
    Column("durable_xid", Xid8()),
    Column("durable_seq", BigInteger),
    Column("window_end", PgSnapshot()),
    Column("window_xid", Xid8()),
    Column("window_seq", BigInteger),
    flag("backfilling"),
    Column("backfill_kind", Text),
    Column("backfill_tenant", Text),
    ref("backfill_after"),
    count("attempts"),
    Column("tried_xid", Xid8()),
    Column("tried_seq", BigInteger),
    count("fill_attempts"),
    ref("fill_tried"),
    count("generation", 1),
    Column("filled", BigInteger, nullable=False, server_default=text("0")),
    text_of("last_error"),
    time_of("updated_at", now=True),
    time_of("heartbeat_at"),
)

pm_projection_failure = Table(
    "pm_projection_failure",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("consumer", Text, nullable=False),
    Column("entity_type", Text, nullable=False),
    Column("entity_id", UUID(as_uuid=True), nullable=False),
    count("attempts"),
    text_of("last_error"),
    flag("dead"),
    time_of("first_failed_at", now=True),
    time_of("next_try_at"),
    PrimaryKeyConstraint("tenant", "consumer", "entity_type", "entity_id"),
    Index("ix_pm_projection_failure_due", "consumer", "next_try_at", postgresql_where=text("NOT dead")),
)

pm_instance = Table(
    "pm_instance",
    metadata,
    Column("id", UUID(as_uuid=True), primary_key=True),
    time_of("created_at", now=True),
)
