"""The first schema: every table of the data model, and row level security on each of a tenant's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from pegas_memory.db.types import PgSnapshot, Xid8

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TENANT_TABLES = (
    "pm_activity",
    "pm_atom_link",
    "pm_code_symbol",
    "pm_document",
    "pm_embedding",
    "pm_entity",
    "pm_episodic_trace",
    "pm_job",
    "pm_outbox",
    "pm_procedure",
    "pm_projection_failure",
    "pm_research_gap",
    "pm_revision",
    "pm_atom",
    "pm_chunk",
    "pm_code_dependency",
    "pm_citation",
)


def upgrade() -> None:
    create_tables()
    for table in TENANT_TABLES:
        bind_to_tenant(table, "tenant")
    bind_to_tenant("pm_tenant", "id")


def bind_to_tenant(table: str, column: str) -> None:
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(
        f"CREATE POLICY of_tenant ON {table} USING ({column} = current_setting('pegas.tenant', true)"
        f" OR current_setting('pegas.scope', true) = 'all')"
    )


def create_tables() -> None:
    op.create_table(
        "pm_activity",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("entity_type", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("entity_id", sa.UUID(), nullable=True),
        sa.Column(
            "detail", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_activity")),
    )
    op.create_index(
        "ix_pm_activity_list", "pm_activity", ["tenant", sa.literal_column("created_at DESC")], unique=False
    )
    op.create_table(
        "pm_atom_link",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("src_kind", sa.Text(), nullable=False),
        sa.Column("src_id", sa.UUID(), nullable=False),
        sa.Column("dst_kind", sa.Text(), nullable=False),
        sa.Column("dst_id", sa.UUID(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Float(), server_default=sa.text("1.0"), nullable=False),
        sa.Column("source", sa.Text(), server_default=sa.text("'stored'"), nullable=False),
        sa.Column("inferred", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("rule_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("last_reinforced", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.CheckConstraint(
            "dst_kind IN ('atom', 'episode', 'procedure', 'entity', 'symbol')", name=op.f("ck_pm_atom_link_dst_kind")
        ),
        sa.CheckConstraint(
            "src_kind IN ('atom', 'episode', 'procedure', 'entity', 'symbol')", name=op.f("ck_pm_atom_link_src_kind")
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_atom_link")),
        sa.UniqueConstraint(
            "tenant",
            "src_kind",
            "src_id",
            "dst_kind",
            "dst_id",
            "kind",
            "inferred",
            name=op.f("uq_pm_atom_link_tenant_src_kind_src_id_dst_kind_dst_id_kind_inferred"),
        ),
    )
    op.create_index("ix_pm_atom_link_dst", "pm_atom_link", ["tenant", "dst_kind", "dst_id"], unique=False)
    op.create_index("ix_pm_atom_link_kind", "pm_atom_link", ["tenant", "kind"], unique=False)
    op.create_table(
        "pm_code_symbol",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("repo", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("qualified_name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("doc", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("start_line", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("end_line", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("start_byte", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("end_byte", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("parent_id", sa.UUID(), nullable=True),
        sa.Column("visibility", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("decorators", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("content_hash", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("repo_revision", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("name_folded", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("name_words", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("trigrams", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("doc_terms", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_code_symbol")),
    )
    op.create_index("ix_pm_code_symbol_name", "pm_code_symbol", ["tenant", "name_folded"], unique=False)
    op.create_index("ix_pm_code_symbol_path", "pm_code_symbol", ["tenant", "repo", "path"], unique=False)
    op.create_index("ix_pm_code_symbol_trigrams", "pm_code_symbol", ["trigrams"], unique=False, postgresql_using="gin")
    op.create_table(
        "pm_document",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("authority", sa.Float(), server_default=sa.text("0.5"), nullable=False),
        sa.Column("content_hash", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("distilled_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("body", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("language", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("characters", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=True),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("warnings", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("fetch_etag", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("fetch_last_modified", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("ingested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retracted_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "kind IN ('text', 'markdown', 'html', 'pdf', 'epub', 'web', 'code_repo')", name=op.f("ck_pm_document_kind")
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_document")),
        sa.UniqueConstraint("tenant", "uri", name=op.f("uq_pm_document_tenant_uri")),
    )
    op.create_index("ix_pm_document_tenant_content_hash", "pm_document", ["tenant", "content_hash"], unique=False)
    op.create_table(
        "pm_embedding",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("text_version", sa.Integer(), nullable=False),
        sa.Column("text_hash", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("octet_length(vector) = dimension * 4", name=op.f("ck_pm_embedding_length")),
        sa.PrimaryKeyConstraint("tenant", "model", "text_version", "text_hash", name=op.f("pk_pm_embedding")),
    )
    op.create_table(
        "pm_entity",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("kind", sa.Text(), server_default=sa.text("'concept'"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("normal_form", sa.Text(), nullable=False),
        sa.Column("aliases", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("trigrams", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("merged_into", sa.UUID(), nullable=True),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_entity")),
        sa.UniqueConstraint("tenant", "normal_form", name=op.f("uq_pm_entity_tenant_normal_form")),
    )
    op.create_index("ix_pm_entity_trigrams", "pm_entity", ["trigrams"], unique=False, postgresql_using="gin")
    op.create_table(
        "pm_episodic_trace",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("kind", sa.Text(), server_default=sa.text("'observation'"), nullable=False),
        sa.Column("session", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("speaker", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("context", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("outcome", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Float(), server_default=sa.text("0.5"), nullable=False),
        sa.Column("importance", sa.Float(), server_default=sa.text("0.5"), nullable=False),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("terms", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("language", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("access_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_access", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stability", sa.Float(), nullable=True),
        sa.Column("retracted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retract_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("superseded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("superseded_by", sa.UUID(), nullable=True),
        sa.Column("promoted_to", sa.UUID(), nullable=True),
        sa.CheckConstraint(
            "kind IN ('plan', 'action', 'observation', 'reflection')", name=op.f("ck_pm_episodic_trace_kind")
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_episodic_trace")),
        sa.UniqueConstraint("tenant", "content_hash", name=op.f("uq_pm_episodic_trace_tenant_content_hash")),
    )
    op.create_index(
        "ix_pm_episodic_trace_session", "pm_episodic_trace", ["tenant", "session", "occurred_at"], unique=False
    )
    op.create_index("ix_pm_episodic_trace_terms", "pm_episodic_trace", ["terms"], unique=False, postgresql_using="gin")
    op.create_table(
        "pm_job",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'queued'"), nullable=False),
        sa.Column(
            "payload", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "progress", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "result", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "error", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("taken_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'done', 'failed', 'cancelled')", name=op.f("ck_pm_job_state")
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_job")),
    )
    op.create_index("ix_pm_job_list", "pm_job", ["tenant", sa.literal_column("created_at DESC")], unique=False)
    op.create_index(
        "ix_pm_job_waiting",
        "pm_job",
        ["created_at", "id"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_table(
        "pm_outbox",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("entity_type", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.UUID(), nullable=False),
        sa.Column("op", sa.Text(), server_default=sa.text("'upsert'"), nullable=False),
        sa.Column("xid", Xid8(), server_default=sa.text("pg_current_xact_id()"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("op IN ('upsert', 'delete', 'embedded')", name=op.f("ck_pm_outbox_op")),
        sa.PrimaryKeyConstraint("tenant", "seq", name=op.f("pk_pm_outbox")),
    )
    op.create_index("ix_pm_outbox_xid_seq", "pm_outbox", ["xid", "seq"], unique=False)
    op.create_table(
        "pm_procedure",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("preconditions", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "postconditions", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False
        ),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("confidence", sa.Float(), server_default=sa.text("0.5"), nullable=False),
        sa.Column("successes", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("version", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("last_used", sa.DateTime(timezone=True), nullable=True),
        sa.Column("importance", sa.Float(), server_default=sa.text("0.5"), nullable=False),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("terms", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("language", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("access_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_access", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stability", sa.Float(), nullable=True),
        sa.Column("retracted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retract_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("superseded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("superseded_by", sa.UUID(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_procedure")),
    )
    op.create_index("ix_pm_procedure_terms", "pm_procedure", ["terms"], unique=False, postgresql_using="gin")
    op.create_index(
        "uq_pm_procedure_live_content_hash",
        "pm_procedure",
        ["tenant", "content_hash"],
        unique=True,
        postgresql_where=sa.text("superseded_at IS NULL AND retracted_at IS NULL"),
    )
    op.create_table(
        "pm_projection",
        sa.Column("consumer", sa.Text(), nullable=False),
        sa.Column("position", PgSnapshot(), server_default=sa.text("'1:1:'::pg_snapshot"), nullable=False),
        sa.Column("durable", PgSnapshot(), server_default=sa.text("'1:1:'::pg_snapshot"), nullable=False),
        sa.Column("window_end", PgSnapshot(), nullable=True),
        sa.Column("window_xid", Xid8(), nullable=True),
        sa.Column("window_seq", sa.BigInteger(), nullable=True),
        sa.Column("backfilling", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("backfill_kind", sa.Text(), nullable=True),
        sa.Column("backfill_tenant", sa.Text(), nullable=True),
        sa.Column("backfill_after", sa.UUID(), nullable=True),
        sa.Column("last_error", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("consumer", name=op.f("pk_pm_projection")),
    )
    op.create_table(
        "pm_projection_failure",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("consumer", sa.Text(), nullable=False),
        sa.Column("entity_type", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.UUID(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_error", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("dead", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "first_failed_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("next_try_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint(
            "tenant", "consumer", "entity_type", "entity_id", name=op.f("pk_pm_projection_failure")
        ),
    )
    op.create_index(
        "ix_pm_projection_failure_due",
        "pm_projection_failure",
        ["consumer", "next_try_at"],
        unique=False,
        postgresql_where=sa.text("NOT dead"),
    )
    op.create_table(
        "pm_research_gap",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("normal_form", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("priority", sa.Float(), server_default=sa.text("0.5"), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'open'"), nullable=False),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("terms", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("answered_by", postgresql.ARRAY(sa.UUID()), server_default=sa.text("'{}'::uuid[]"), nullable=False),
        sa.Column(
            "report", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.CheckConstraint("status IN ('open', 'researching', 'closed')", name=op.f("ck_pm_research_gap_status")),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_research_gap")),
    )
    op.create_index(
        "ix_pm_research_gap_list",
        "pm_research_gap",
        ["tenant", "status", sa.literal_column("priority DESC"), "id"],
        unique=False,
    )
    op.create_index(
        "uq_pm_research_gap_open",
        "pm_research_gap",
        ["tenant", "normal_form"],
        unique=True,
        postgresql_where=sa.text("status <> 'closed'"),
    )
    op.create_table(
        "pm_revision",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("entity_type", sa.Text(), nullable=False),
        sa.Column("entity_id", sa.UUID(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column(
            "before", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("actor", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_revision")),
    )
    op.create_index(
        "ix_pm_revision_entity", "pm_revision", ["tenant", "entity_type", "entity_id", "revision"], unique=False
    )
    op.create_table(
        "pm_tenant",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column(
            "settings", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("token_hash", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pm_tenant")),
    )
    op.create_table(
        "pm_atom",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default=sa.text("'candidate'"), nullable=False),
        sa.Column("confidence", sa.Float(), server_default=sa.text("0.5"), nullable=False),
        sa.Column("doc_id", sa.UUID(), nullable=True),
        sa.Column("valid_from", sa.DateTime(timezone=True), nullable=True),
        sa.Column("valid_to", sa.DateTime(timezone=True), nullable=True),
        sa.Column("importance", sa.Float(), server_default=sa.text("0.5"), nullable=False),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "metadata", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("terms", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("language", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("access_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_access", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stability", sa.Float(), nullable=True),
        sa.Column("retracted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retract_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("superseded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("superseded_by", sa.UUID(), nullable=True),
        sa.Column("last_validated", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status_reason", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("dedup_pending", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("distilled_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.CheckConstraint("status IN ('candidate', 'verified', 'stale', 'contested')", name=op.f("ck_pm_atom_status")),
        sa.CheckConstraint(
            "type IN ('text', 'definition', 'logical_rule', 'code', 'table', 'fact')", name=op.f("ck_pm_atom_type")
        ),
        sa.CheckConstraint("confidence BETWEEN 0 AND 1", name=op.f("ck_pm_atom_confidence")),
        sa.ForeignKeyConstraint(
            ["tenant", "doc_id"], ["pm_document.tenant", "pm_document.id"], name=op.f("fk_pm_atom_tenant_doc_id")
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_atom")),
    )
    op.create_index(
        "ix_pm_atom_dedup_pending", "pm_atom", ["tenant", "id"], unique=False, postgresql_where=sa.text("dedup_pending")
    )
    op.create_index("ix_pm_atom_tenant_content_hash", "pm_atom", ["tenant", "content_hash"], unique=False)
    op.create_index(
        "ix_pm_atom_tenant_created_at",
        "pm_atom",
        ["tenant", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index("ix_pm_atom_tenant_doc_id", "pm_atom", ["tenant", "doc_id"], unique=False)
    op.create_index("ix_pm_atom_terms", "pm_atom", ["terms"], unique=False, postgresql_using="gin")
    op.create_index(
        "uq_pm_atom_live_content_hash",
        "pm_atom",
        ["tenant", "content_hash"],
        unique=True,
        postgresql_where=sa.text("superseded_at IS NULL AND retracted_at IS NULL"),
    )
    op.create_table(
        "pm_chunk",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("doc_id", sa.UUID(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column(
            "locator", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "doc_id"],
            ["pm_document.tenant", "pm_document.id"],
            name=op.f("fk_pm_chunk_tenant_doc_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_chunk")),
        sa.UniqueConstraint("tenant", "doc_id", "position", name=op.f("uq_pm_chunk_tenant_doc_id_position")),
    )
    op.create_table(
        "pm_code_dependency",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("repo", sa.Text(), nullable=False),
        sa.Column("src_id", sa.UUID(), nullable=False),
        sa.Column("dst_id", sa.UUID(), nullable=True),
        sa.Column("dst_name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("line", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("certainty", sa.Float(), server_default=sa.text("1.0"), nullable=False),
        sa.Column(
            "candidates", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("external", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("revision", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.CheckConstraint("kind IN ('calls', 'imports', 'inherits')", name=op.f("ck_pm_code_dependency_kind")),
        sa.ForeignKeyConstraint(
            ["tenant", "dst_id"],
            ["pm_code_symbol.tenant", "pm_code_symbol.id"],
            name=op.f("fk_pm_code_dependency_tenant_dst_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "src_id"],
            ["pm_code_symbol.tenant", "pm_code_symbol.id"],
            name=op.f("fk_pm_code_dependency_tenant_src_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_code_dependency")),
        sa.UniqueConstraint(
            "tenant",
            "src_id",
            "dst_name",
            "kind",
            "path",
            "line",
            name=op.f("uq_pm_code_dependency_tenant_src_id_dst_name_kind_path_line"),
        ),
    )
    op.create_index("ix_pm_code_dependency_dst", "pm_code_dependency", ["tenant", "dst_id"], unique=False)
    op.create_table(
        "pm_citation",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column("atom_id", sa.UUID(), nullable=False),
        sa.Column("doc_id", sa.UUID(), nullable=False),
        sa.Column("chunk_id", sa.UUID(), nullable=True),
        sa.Column(
            "locator", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("locator_text", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("quote", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("citation_hash", sa.Text(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "atom_id"],
            ["pm_atom.tenant", "pm_atom.id"],
            name=op.f("fk_pm_citation_tenant_atom_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "doc_id"],
            ["pm_document.tenant", "pm_document.id"],
            name=op.f("fk_pm_citation_tenant_doc_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_pm_citation")),
        sa.UniqueConstraint(
            "tenant",
            "atom_id",
            "doc_id",
            "citation_hash",
            name=op.f("uq_pm_citation_tenant_atom_id_doc_id_citation_hash"),
        ),
    )
    op.create_index("ix_pm_citation_tenant_doc_id", "pm_citation", ["tenant", "doc_id"], unique=False)
