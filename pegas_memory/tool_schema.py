"""Output schemas: the records of ``model`` as JSON Schema, in the order of their fields."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from pegas_memory.tool_params import Schema

_SCALARS = {bool: "boolean", int: "integer", float: "number"}
NOT_SHOWN = frozenset({"timings"})


@cache
def output_schema(record: type) -> Schema:
    """The schema of ``to_json(record)`` less ``NOT_SHOWN``, one level deep: clients load all thirteen
    at once, and the records tell the rest. No references and no combinators, so that every
    client's validator takes it; objects stay open for fields of later versions."""
    hints = typing.get_type_hints(record)
    names = [field.name for field in fields(record) if field.name not in NOT_SHOWN]
    return {"type": "object", "properties": {name: _schema(hints[name]) for name in names}, "required": names}


def _schema(hint: Any) -> Schema:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = [_schema(argument) for argument in arguments if argument is not type(None)]
        return {**inner, "type": [inner["type"], "null"]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0])}
    if is_dataclass(hint) or (origin is not None and issubclass(origin, Mapping)):
        return {"type": "object"}
    return {"type": _SCALARS.get(hint, "string")}
