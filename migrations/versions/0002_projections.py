"""Projections can be rebuilt beside the one that serves, and know whose they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pm_projection", sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("pm_projection", sa.Column("generation", sa.Integer(), server_default=sa.text("1"), nullable=False))
    op.add_column("pm_projection", sa.Column("filled", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.create_table(
        "pm_instance",
        sa.Column("id", sa.UUID(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pm_instance")),
    )
    op.execute("INSERT INTO pm_instance (id) VALUES (gen_random_uuid())")
