"""PostgreSQL types that SQLAlchemy does not name."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.types import UserDefinedType


class Xid8(UserDefinedType[Any]):
    """A 64-bit transaction id; comes back as text through psycopg, cast where compared."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


class PgSnapshot(UserDefinedType[Any]):
    """A ``pg_snapshot``: which transactions were visible at one moment."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "pg_snapshot"


ischema_names.update(xid8=Xid8, pg_snapshot=PgSnapshot)
