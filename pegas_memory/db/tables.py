"""The canonical schema (CONTRACT §5). The tenant is part of every primary, unique and foreign key of
what belongs to a tenant; ``pm_projection`` alone belongs to the installation."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from pegas_memory.db.types import PgSnapshot, Xid8

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _text(name: str, default: str | None = "", **kw: Any) -> Column[str]:
    server = text(f"'{default}'") if default is not None else None
    return Column(name, Text, nullable=False, server_default=server, **kw)


def _real(name: str, default: float) -> Column[float]:
    return Column(name, Float, nullable=False, server_default=text(str(default)))


def _count(name: str, default: int = 0) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text(str(default)))


def _time(name: str, *, now: bool = False) -> Column[Any]:
    default = text("clock_timestamp()") if now else None
    return Column(name, DateTime(timezone=True), nullable=not now, server_default=default)


def _json(name: str) -> Column[Any]:
    return Column(name, JSONB, nullable=False, server_default=text("'{}'::jsonb"))


def _texts(name: str) -> Column[Any]:
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'::text[]"))


def _uuids(name: str) -> Column[Any]:
    return Column(name, ARRAY(UUID(as_uuid=True)), nullable=False, server_default=text("'{}'::uuid[]"))


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("false"))


def _ref(name: str, *, required: bool = False) -> Column[Any]:
    return Column(name, UUID(as_uuid=True), nullable=not required)


def _ids() -> list[Any]:
    """Tenant and id, the primary key of every noun."""
    return [
        Column("tenant", Text, nullable=False),
        Column("id", UUID(as_uuid=True), nullable=False),
        PrimaryKeyConstraint("tenant", "id"),
    ]


def _memory_columns() -> list[Any]:
    """What every memory kind carries: how strong it is, how often it was used, its history's head."""
    return [
        _real("importance", 0.5),
        _texts("tags"),
        _json("metadata"),
        _texts("terms"),
        _text("language"),
        _time("occurred_at"),
        _time("created_at", now=True),
        _time("updated_at", now=True),
        _count("revision", 1),
        Column("access_count", BigInteger, nullable=False, server_default=text("0")),
        _time("last_access"),
        Column("stability", Float, nullable=True),
        _time("retracted_at"),
        _text("retract_reason"),
        _time("superseded_at"),
        _ref("superseded_by"),
    ]


def _one_of(column: str, *values: str) -> CheckConstraint:
    listed = ", ".join(f"'{v}'" for v in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


LIVE = "superseded_at IS NULL AND retracted_at IS NULL"
NODE_KINDS = ("atom", "episode", "procedure", "entity", "symbol")

pm_tenant = Table(
    "pm_tenant",
    metadata,
    Column("id", Text, primary_key=True),
    _json("settings"),
    _text("token_hash"),
    _time("created_at", now=True),
    _time("deleted_at"),
)

pm_document = Table(
    "pm_document",
    metadata,
    *_ids(),
    _text("kind", None),
    _text("uri", None),
    _text("title"),
    _real("authority", 0.5),
    _text("content_hash"),
    _text("distilled_by"),
    _text("body"),
    _text("language"),
    _count("characters"),
    Column("pages", Integer),
    _texts("tags"),
    _json("metadata"),
    _texts("warnings"),
    _text("fetch_etag"),
    _text("fetch_last_modified"),
    _time("occurred_at"),
    _time("created_at", now=True),
    _time("updated_at", now=True),
    _count("revision", 1),
    _time("ingested_at"),
    _time("retracted_at"),
    UniqueConstraint("tenant", "uri"),
    _one_of("kind", "text", "markdown", "html", "pdf", "epub", "web", "code_repo"),
    Index("ix_pm_document_tenant_content_hash", "tenant", "content_hash"),
)

pm_chunk = Table(
    "pm_chunk",
    metadata,
    *_ids(),
    _ref("doc_id", required=True),
    Column("position", Integer, nullable=False),
    _text("text", None),
    _json("locator"),
    _text("content_hash", None),
    _time("created_at", now=True),
    ForeignKeyConstraint(["tenant", "doc_id"], ["pm_document.tenant", "pm_document.id"], ondelete="CASCADE"),
    UniqueConstraint("tenant", "doc_id", "position"),
)

pm_atom = Table(
    "pm_atom",
    metadata,
    *_ids(),
    _text("type", None),
    _text("claim", None),
    _text("content"),
    _text("content_hash", None),
    _text("status", "candidate"),
    _real("confidence", 0.5),
    _ref("doc_id"),
    _time("valid_from"),
    _time("valid_to"),
    *_memory_columns(),
    _time("last_validated"),
    _text("status_reason"),
    _flag("dedup_pending"),
    _text("distilled_by"),
    _one_of("type", "text", "definition", "logical_rule", "code", "table", "fact"),
    _one_of("status", "candidate", "verified", "stale", "contested"),
    CheckConstraint("confidence BETWEEN 0 AND 1", name="confidence"),
    ForeignKeyConstraint(["tenant", "doc_id"], ["pm_document.tenant", "pm_document.id"]),
    Index("uq_pm_atom_live_content_hash", "tenant", "content_hash", unique=True, postgresql_where=text(LIVE)),
    Index("ix_pm_atom_tenant_content_hash", "tenant", "content_hash"),
    Index("ix_pm_atom_tenant_created_at", "tenant", text("created_at DESC"), text("id DESC")),
    Index("ix_pm_atom_tenant_doc_id", "tenant", "doc_id"),
    Index("ix_pm_atom_terms", "terms", postgresql_using="gin"),
    Index("ix_pm_atom_dedup_pending", "tenant", "id", postgresql_where=text("dedup_pending")),
)

pm_atom_link = Table(
    "pm_atom_link",
    metadata,
    *_ids(),
    _text("src_kind", None),
    _ref("src_id", required=True),
    _text("dst_kind", None),
    _ref("dst_id", required=True),
    _text("kind", None),
    _real("confidence", 1.0),
    _text("source", "stored"),
    _flag("inferred"),
    _text("rule_id"),
    _json("metadata"),
    _time("created_at", now=True),
    _time("updated_at", now=True),
    _time("last_reinforced"),
    _count("revision", 1),
    UniqueConstraint("tenant", "src_kind", "src_id", "dst_kind", "dst_id", "kind", "inferred"),
    _one_of("src_kind", *NODE_KINDS),
    _one_of("dst_kind", *NODE_KINDS),
    Index("ix_pm_atom_link_dst", "tenant", "dst_kind", "dst_id"),
    Index("ix_pm_atom_link_kind", "tenant", "kind"),
)

pm_citation = Table(
    "pm_citation",
    metadata,
    *_ids(),
    _ref("atom_id", required=True),
    _ref("doc_id", required=True),
    _ref("chunk_id"),
    _json("locator"),
    _text("locator_text"),
    _text("quote"),
    _text("citation_hash", None),
    _time("created_at", now=True),
    ForeignKeyConstraint(["tenant", "atom_id"], ["pm_atom.tenant", "pm_atom.id"], ondelete="CASCADE"),
    ForeignKeyConstraint(["tenant", "doc_id"], ["pm_document.tenant", "pm_document.id"], ondelete="CASCADE"),
    UniqueConstraint("tenant", "atom_id", "doc_id", "citation_hash"),
    Index("ix_pm_citation_tenant_doc_id", "tenant", "doc_id"),
)

pm_code_symbol = Table(
    "pm_code_symbol",
    metadata,
    *_ids(),
    _text("repo", None),
    _text("path", None),
    _text("language", None),
    _text("name", None),
    _text("qualified_name", None),
    _text("kind", None),
    _text("signature"),
    _text("doc"),
    _count("start_line"),
    _count("end_line"),
    _count("start_byte"),
    _count("end_byte"),
    _ref("parent_id"),
    _text("visibility"),
    _texts("decorators"),
    _text("content_hash"),
    _text("repo_revision"),
    _text("name_folded"),
    _texts("name_words"),
    _texts("trigrams"),
    _texts("doc_terms"),
    _json("metadata"),
    _time("created_at", now=True),
    _time("updated_at", now=True),
    _count("revision", 1),
    Index("ix_pm_code_symbol_path", "tenant", "repo", "path"),
    Index("ix_pm_code_symbol_name", "tenant", "name_folded"),
    Index("ix_pm_code_symbol_trigrams", "trigrams", postgresql_using="gin"),
)

pm_code_dependency = Table(
    "pm_code_dependency",
    metadata,
    *_ids(),
    _text("repo", None),
    _ref("src_id", required=True),
    _ref("dst_id"),
    _text("dst_name", None),
    _text("kind", None),
    _text("path"),
    _count("line"),
    _real("certainty", 1.0),
    _json("candidates"),
    _flag("external"),
    _time("created_at", now=True),
    _count("revision", 1),
    _one_of("kind", "calls", "imports", "inherits"),
    ForeignKeyConstraint(["tenant", "src_id"], ["pm_code_symbol.tenant", "pm_code_symbol.id"], ondelete="CASCADE"),
    ForeignKeyConstraint(["tenant", "dst_id"], ["pm_code_symbol.tenant", "pm_code_symbol.id"], ondelete="CASCADE"),
    UniqueConstraint("tenant", "src_id", "dst_name", "kind", "path", "line"),
    Index("ix_pm_code_dependency_dst", "tenant", "dst_id"),
)

pm_episodic_trace = Table(
    "pm_episodic_trace",
    metadata,
    *_ids(),
    _text("kind", "observation"),
    _text("session"),
    _text("speaker"),
    _text("content", None),
    _text("context"),
    _text("outcome"),
    _text("content_hash", None),
    _real("confidence", 0.5),
    *_memory_columns(),
    _ref("promoted_to"),
    _one_of("kind", "plan", "action", "observation", "reflection"),
    UniqueConstraint("tenant", "content_hash"),
    Index("ix_pm_episodic_trace_session", "tenant", "session", "occurred_at"),
    Index("ix_pm_episodic_trace_terms", "terms", postgresql_using="gin"),
)

pm_procedure = Table(
    "pm_procedure",
    metadata,
    *_ids(),
    _text("content", None),
    _text("code"),
    _texts("preconditions"),
    _texts("postconditions"),
    _text("content_hash", None),
    _real("confidence", 0.5),
    _count("successes"),
    _count("failures"),
    _count("version", 1),
    _time("last_used"),
    *_memory_columns(),
    Index("uq_pm_procedure_live_content_hash", "tenant", "content_hash", unique=True, postgresql_where=text(LIVE)),
    Index("ix_pm_procedure_terms", "terms", postgresql_using="gin"),
)

pm_entity = Table(
    "pm_entity",
    metadata,
    *_ids(),
    _text("kind", "concept"),
    _text("name", None),
    _text("normal_form", None),
    _texts("aliases"),
    _texts("trigrams"),
    _ref("merged_into"),
    _json("metadata"),
    _time("created_at", now=True),
    _time("updated_at", now=True),
    _count("revision", 1),
    UniqueConstraint("tenant", "normal_form"),
    Index("ix_pm_entity_trigrams", "trigrams", postgresql_using="gin"),
)

pm_research_gap = Table(
    "pm_research_gap",
    metadata,
    *_ids(),
    _text("question", None),
    _text("normal_form", None),
    _text("reason"),
    _real("priority", 0.5),
    _text("status", "open"),
    _texts("tags"),
    _texts("terms"),
    _uuids("answered_by"),
    _json("report"),
    _time("created_at", now=True),
    _time("updated_at", now=True),
    _time("closed_at"),
    _count("revision", 1),
    _one_of("status", "open", "researching", "closed"),
    Index(
        "uq_pm_research_gap_open",
        "tenant",
        "normal_form",
        unique=True,
        postgresql_where=text("status <> 'closed'"),
    ),
    Index("ix_pm_research_gap_list", "tenant", "status", text("priority DESC"), "id"),
)

pm_embedding = Table(
    "pm_embedding",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("text_version", Integer, nullable=False),
    Column("text_hash", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    _time("created_at", now=True),
    PrimaryKeyConstraint("tenant", "model", "text_version", "text_hash"),
    CheckConstraint("octet_length(vector) = dimension * 4", name="length"),
)

pm_revision = Table(
    "pm_revision",
    metadata,
    *_ids(),
    _text("entity_type", None),
    _ref("entity_id", required=True),
    Column("revision", Integer, nullable=False),
    _text("change", None),
    _json("before"),
    _text("reason"),
    _text("actor"),
    _time("created_at", now=True),
    Index("ix_pm_revision_entity", "tenant", "entity_type", "entity_id", "revision"),
)

pm_job = Table(
    "pm_job",
    metadata,
    *_ids(),
    _text("kind", None),
    _text("state", "queued"),
    _json("payload"),
    _json("progress"),
    _json("result"),
    _json("error"),
    _count("attempts"),
    _flag("cancel_requested"),
    _text("taken_by"),
    _time("created_at", now=True),
    _time("started_at"),
    _time("finished_at"),
    _time("heartbeat_at"),
    _one_of("state", "queued", "running", "done", "failed", "cancelled"),
    Index("ix_pm_job_waiting", "created_at", "id", postgresql_where=text("state IN ('queued', 'running')")),
    Index("ix_pm_job_list", "tenant", text("created_at DESC")),
)

pm_activity = Table(
    "pm_activity",
    metadata,
    *_ids(),
    _text("action", None),
    _text("entity_type"),
    _ref("entity_id"),
    _json("detail"),
    _time("created_at", now=True),
    Index("ix_pm_activity_list", "tenant", text("created_at DESC")),
)

pm_outbox = Table(
    "pm_outbox",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("seq", BigInteger, Identity(always=True), nullable=False),
    _text("entity_type", None),
    _ref("entity_id", required=True),
    _text("op", "upsert"),
    Column("xid", Xid8(), nullable=False, server_default=text("pg_current_xact_id()")),
    _time("created_at", now=True),
    PrimaryKeyConstraint("tenant", "seq"),
    Index("ix_pm_outbox_xid_seq", "xid", "seq"),
    _one_of("op", "upsert", "delete", "embedded"),
)

pm_projection = Table(
    "pm_projection",
    metadata,
    Column("consumer", Text, primary_key=True),
    Column("position", PgSnapshot(), nullable=False, server_default=text("'1:1:'::pg_snapshot")),
    Column("durable", PgSnapshot(), nullable=False, server_default=text("'1:1:'::pg_snapshot")),
    Column("window_end", PgSnapshot()),
    Column("window_xid", Xid8()),
    Column("window_seq", BigInteger),
    _flag("backfilling"),
    Column("backfill_kind", Text),
    Column("backfill_tenant", Text),
    _ref("backfill_after"),
    _text("last_error"),
    _time("updated_at", now=True),
    _time("heartbeat_at"),
)

pm_projection_failure = Table(
    "pm_projection_failure",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("consumer", Text, nullable=False),
    Column("entity_type", Text, nullable=False),
    Column("entity_id", UUID(as_uuid=True), nullable=False),
    _count("attempts"),
    _text("last_error"),
    _flag("dead"),
    _time("first_failed_at", now=True),
    _time("next_try_at"),
    PrimaryKeyConstraint("tenant", "consumer", "entity_type", "entity_id"),
    Index("ix_pm_projection_failure_due", "consumer", "next_try_at", postgresql_where=text("NOT dead")),
)

TENANT_TABLES = tuple(t.name for t in metadata.sorted_tables if "tenant" in t.c)
