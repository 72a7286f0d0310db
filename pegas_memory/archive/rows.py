"""Is a line of an archive a row of its table? PostgreSQL would take much that the product then stumbles over:
a time called infinity, an array for a text, a vector with a number that is none."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

import numpy as np

from pegas_memory.db.archive import VECTORS, ArchivedTable, Kind
from pegas_memory.errors import ArchiveDamaged

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?\+00:00")
_LISTS = frozenset({"pm_code_dependency.candidates"})
"""The JSON that is a list or an object; all other is an object."""


def checked(table: ArchivedTable, line: str, tenants: frozenset[str], where: str) -> dict[str, Any]:
    """The row, once every value is of its column's kind and the tenant is one of the manifest's.

    Raises ``ArchiveDamaged``, beginning with ``where``.
    """
    try:
        row = json.loads(line, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ArchiveDamaged(f"{where} is not JSON that can be read.") from error
    if not isinstance(row, dict):
        raise ArchiveDamaged(f"{where} is not a row.")
    columns = {column.name: column for column in table.columns}
    for name, value in row.items():
        column = columns.get(name)
        if column is None:
            raise ArchiveDamaged(f"{where} has a column that {table.name} does not have.")
        listed = isinstance(value, list) and f"{table.name}.{name}" in _LISTS
        if not (column.nullable if value is None else listed or _FITS[column.kind](value)):
            raise ArchiveDamaged(f"{where}: its {name} is not a {column.kind}.")
    if row.get(table.tenant) not in tenants:
        raise ArchiveDamaged(f"{where} belongs to a tenant that the manifest does not name.")
    if table.name == VECTORS and not _is_vector(row.get("vector", "")):
        raise ArchiveDamaged(f"{where} holds a vector that is none.")
    return row


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """PostgreSQL might take the other of two values under one name."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_uuid(value: object) -> bool:
    return isinstance(value, str) and len(value) == 36 and _parses(UUID, value)


def _is_time(value: object) -> bool:
    return isinstance(value, str) and bool(_TIME.fullmatch(value)) and _parses(datetime.fromisoformat, value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_real(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_base64(value: object) -> bool:
    return isinstance(value, str) and _parses(lambda said: base64.b64decode(said, validate=True), value)


def _is_vector(value: str) -> bool:
    data = base64.b64decode(value)
    return len(data) % 4 == 0 and bool(np.isfinite(np.frombuffer(data, dtype=np.float32)).all())


def _parses(parse: Callable[[str], object], value: str) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


_FITS: Mapping[Kind, Callable[[Any], bool]] = {
    Kind.TEXT: _is_text,
    Kind.UUID: _is_uuid,
    Kind.INTEGER: _is_whole,
    Kind.REAL: _is_real,
    Kind.FLAG: lambda value: isinstance(value, bool),
    Kind.TIME: _is_time,
    Kind.JSON: lambda value: isinstance(value, dict),
    Kind.TEXTS: lambda value: isinstance(value, list) and all(map(_is_text, value)),
    Kind.UUIDS: lambda value: isinstance(value, list) and all(map(_is_uuid, value)),
    Kind.BYTES: _is_base64,
}
