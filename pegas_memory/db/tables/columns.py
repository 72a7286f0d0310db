"""The kinds of column that the tables are made of."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def text_of(name: str, default: str | None = "", **kw: Any) -> Column[str]:
    server = text(f"'{default}'") if default is not None else None
    return Column(name, Text, nullable=False, server_default=server, **kw)


def real(name: str, default: float) -> Column[float]:
    return Column(name, Float, nullable=False, server_default=text(str(default)))


def count(name: str, default: int = 0) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text(str(default)))


def time_of(name: str, *, now: bool = False) -> Column[Any]:
    default = text("clock_timestamp()") if now else None
    return Column(name, DateTime(timezone=True), nullable=not now, server_default=default)


def json_of(name: str) -> Column[Any]:
    return Column(name, JSONB, nullable=False, server_default=text("'{}'::jsonb"))


def texts(name: str) -> Column[Any]:
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'::text[]"))


def uuids(name: str) -> Column[Any]:
    return Column(name, ARRAY(UUID(as_uuid=True)), nullable=False, server_default=text("'{}'::uuid[]"))


def flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("false"))


def ref(name: str, *, required: bool = False) -> Column[Any]:
    return Column(name, UUID(as_uuid=True), nullable=not required)


def ids() -> list[Any]:
    """Tenant and id, the primary key of every noun."""
    return [
        Column("tenant", Text, nullable=False),
        Column("id", UUID(as_uuid=True), nullable=False),
        PrimaryKeyConstraint("tenant", "id"),
    ]


def memory_columns() -> list[Any]:
    """What every memory kind carries: how strong it is, how often it was used, its history's head."""
    return [
        real("importance", 0.5),
        texts("tags"),
        json_of("metadata"),
        texts("terms"),
        text_of("language"),
        time_of("occurred_at"),
        time_of("created_at", now=True),
        time_of("updated_at", now=True),
        count("revision", 1),
        Column("access_count", BigInteger, nullable=False, server_default=text("0")),
        time_of("last_access"),
        Column("stability", Float, nullable=True),
        time_of("retracted_at"),
        text_of("retract_reason"),
        time_of("superseded_at"),
        ref("superseded_by"),
    ]


def one_of(column: str, *values: str) -> CheckConstraint:
    listed = ", ".join(f"'{v}'" for v in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


LIVE = "superseded_at IS NULL AND retracted_at IS NULL"
NODE_KINDS = ("atom", "episode", "procedure", "entity", "symbol")
