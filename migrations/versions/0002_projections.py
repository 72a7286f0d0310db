"""Projections can be rebuilt beside the one that serves, and know whose they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from pegas_memory.db.types import PgSnapshot, Xid8

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pm_projection", sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False))
    for column in ("durable_end", "durable_xid", "durable_seq", "tried_xid", "tried_seq", "fill_tried"):
        kind = {"end": PgSnapshot(), "xid": Xid8(), "seq": sa.BigInteger()}.get(column.rpartition("_")[2], sa.UUID())
        op.add_column("pm_projection", sa.Column(column, kind, nullable=True))
    op.add_column(
        "pm_projection", sa.Column("fill_attempts", sa.Integer(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("pm_projection", sa.Column("generation", sa.Integer(), server_default=sa.text("1"), nullable=False))
    op.add_column("pm_projection", sa.Column("filled", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.add_column(
        "pm_embedding", sa.Column("xid", Xid8(), server_default=sa.text("pg_current_xact_id()"), nullable=False)
    )
    # An endpoint may serve another dimension under one name: its vectors stand beside those that serve.
    op.drop_constraint("pk_pm_embedding", "pm_embedding")
    op.create_primary_key(
        "pk_pm_embedding", "pm_embedding", ["tenant", "model", "text_version", "text_hash", "dimension"]
    )
    op.create_table(
        "pm_instance",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pm_instance")),
    )
    # The edges of a node in the order of their ids, so that a page of a hub's reads that page alone.
    op.drop_index("ix_pm_atom_link_dst", "pm_atom_link")
    op.create_index("ix_pm_atom_link_src", "pm_atom_link", ["tenant", "src_kind", "src_id", "id"])
    op.create_index("ix_pm_atom_link_dst", "pm_atom_link", ["tenant", "dst_kind", "dst_id", "id"])
    op.drop_index("ix_pm_code_dependency_dst", "pm_code_dependency")
    op.create_index("ix_pm_code_dependency_src", "pm_code_dependency", ["tenant", "src_id", "id"])
    op.create_index("ix_pm_code_dependency_dst", "pm_code_dependency", ["tenant", "dst_id", "id"])
    op.execute("INSERT INTO pm_instance (id) VALUES (gen_random_uuid())")
