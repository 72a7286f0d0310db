"""A job remembers how far it has come, in the transaction that brought it there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pm_job", sa.Column("checkpoint", JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False))
