"""Declared tool parameters: what each accepts, as JSON Schema for the client and as a parser for us.

Agents send lists as JSON strings, numbers as text and null for "nothing"; all of that has one clear
meaning and is taken. What has none is refused with the valid values, never guessed.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from uuid import UUID

from pegas_memory.errors import InvalidParameter

Schema = dict[str, Any]
REQUIRED: Final = object()


class ParamType(Protocol):
    def schema(self) -> Schema: ...

    def parse(self, value: Any, name: str) -> Any:
        """The value the handler gets; ``InvalidParameter`` names ``name`` and what it takes."""


@dataclass(frozen=True, slots=True)
class Param:
    """``default`` stands for a missing name, JSON null and, but for texts, the empty string. ``shown`` is
    the default that clients are told where the handler must know that nothing was given."""

    name: str
    type: ParamType
    description: str
    default: Any = REQUIRED
    shown: Any = None

    def schema(self) -> Schema:
        default = self.default if self.shown is None else self.shown
        shown = {} if default in (REQUIRED, None, "", (), False) else {"default": _plain(default)}
        return {**self.type.schema(), **shown, "description": self.description}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, frozenset)) else value


def _said(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), "something else")


def closest(word: str, known: Iterable[str]) -> str:
    return max(known, key=lambda name: difflib.SequenceMatcher(None, word.lower(), name.lower()).ratio())


def _one_of(value: str, values: Sequence[str], name: str) -> str:
    for candidate in values:
        if value.strip().casefold() == candidate.casefold():
            return candidate
    shown = value if len(value) <= 40 else value[:40] + "…"
    raise InvalidParameter(f"`{name}` cannot be {shown!r}.", f"Valid values: {', '.join(values)}.")


@dataclass(frozen=True, slots=True)
class Text:
    """Any text as it is: JSON-looking text, "null" and the empty string included."""

    def schema(self) -> Schema:
        return {"type": "string"}

    def parse(self, value: Any, name: str) -> str:
        if not isinstance(value, str):
            raise InvalidParameter(f"`{name}` must be text, not {_said(value)}.", "Send it as a JSON string.")
        return value


@dataclass(frozen=True, slots=True)
class Number:
    minimum: float
    maximum: float
    whole: bool = False

    def schema(self) -> Schema:
        return {"type": "integer" if self.whole else "number", "minimum": self.minimum, "maximum": self.maximum}

    def parse(self, value: Any, name: str) -> float | int:
        number = self._read(value, name)
        if not self.minimum <= number <= self.maximum:
            raise InvalidParameter(f"`{name}` is out of range.", self._range())
        return number if self.whole else float(number)

    def _range(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"It takes {kind} from {self.minimum:g} to {self.maximum:.10g}."

    def _read(self, value: Any, name: str) -> float | int:
        if isinstance(value, str):
            try:
                value = int(value)
            except ValueError:
                try:
                    value = float(value)
                except ValueError:
                    value = None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidParameter(f"`{name}` must be a number.", self._range())
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidParameter(f"`{name}` must be a finite number.", self._range())
        if self.whole:
            if value != int(value):
                raise InvalidParameter(f"`{name}` must be a whole number.", self._range())
            return int(value)
        return value


@dataclass(frozen=True, slots=True)
class Flag:
    def schema(self) -> Schema:
        return {"type": "boolean"}

    def parse(self, value: Any, name: str) -> bool:
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        if not isinstance(value, bool):
            raise InvalidParameter(f"`{name}` must be a boolean, not {_said(value)}.", "Valid values: true, false.")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    values: tuple[str, ...]

    def schema(self) -> Schema:
        return {"type": "string", "enum": list(self.values)}

    def parse(self, value: Any, name: str) -> str:
        return _one_of(Text().parse(value, name), self.values, name)


@dataclass(frozen=True, slots=True)
class Id:
    def schema(self) -> Schema:
        return {"type": "string"}

    def parse(self, value: Any, name: str) -> UUID:
        text = Text().parse(value, name).strip()
        try:
            return UUID(text)
        except ValueError as error:
            raise InvalidParameter(
                f"`{name}` is not an id.",
                "Ids are UUIDs such as 01890a5d-ac96-774b-bcce-b302099a8057; take them from an earlier answer.",
            ) from error


@dataclass(frozen=True, slots=True)
class When:
    """ISO 8601; a date means 00:00, a time without zone means UTC."""

    def schema(self) -> Schema:
        return {"type": "string"}

    def parse(self, value: Any, name: str) -> datetime:
        text = Text().parse(value, name).strip()
        try:
            moment = datetime.fromisoformat(text)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise InvalidParameter(
                f"`{name}` is not a date or time.", "Use ISO 8601: 2026-05-01 or 2026-05-01T09:30:00Z."
            ) from error


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; also its JSON, and for items that are written as one word a comma list."""

    item: ParamType
    maximum: int = 200

    def schema(self) -> Schema:
        return {"type": "array", "items": self.item.schema()}

    def parse(self, value: Any, name: str) -> tuple[Any, ...]:
        items = self._items(value, name)
        if len(items) > self.maximum:
            raise InvalidParameter(
                f"`{name}` has {len(items)} items; at most {self.maximum} fit.", "Split the call into several."
            )
        return tuple(self.item.parse(self._text(item), name) for item in items if item not in (None, ""))

    def _text(self, item: Any) -> Any:
        named = isinstance(self.item, Text) and isinstance(item, (int, float)) and not isinstance(item, bool)
        return str(item) if named else item

    def _items(self, value: Any, name: str) -> list[Any]:
        if isinstance(value, str):
            decoded = _decoded(value, name)
            if decoded is None:
                return []
            value = decoded
            if isinstance(value, str):
                return [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, list):
            return value
        return [value]


@dataclass(frozen=True, slots=True)
class Record:
    """An object with known fields; without fields any object."""

    fields: tuple[Param, ...] = ()

    def schema(self) -> Schema:
        if not self.fields:
            return {"type": "object"}
        return input_schema(self.fields)

    def parse(self, value: Any, name: str) -> dict[str, Any] | None:
        if isinstance(value, str):
            value = _decoded(value, name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            keys = ", ".join(field.name for field in self.fields)
            raise InvalidParameter(
                f"`{name}` must be an object, not {_said(value)}.",
                f"Its fields are: {keys}." if keys else 'Send an object such as {"key": "value"}.',
            )
        return parse_arguments(self.fields, value, within=name) if self.fields else dict(value)


def _decoded(text: str, name: str) -> Any:
    """JSON when the text starts like a list, an object or null; else the text itself."""
    stripped = text.strip()
    if stripped in ("", "null"):
        return None
    if stripped[0] not in "[{":
        return text
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(
            f"`{name}` looks like JSON but cannot be read.", "Send a JSON list or object, or leave the name out."
        ) from error


def input_schema(params: Sequence[Param]) -> Schema:
    """The JSON Schema of an object with these parameters and no others."""
    required = [param.name for param in params if param.default is REQUIRED]
    return {
        "type": "object",
        "properties": {param.name: param.schema() for param in params},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def parse_arguments(params: Sequence[Param], given: Mapping[str, Any], *, within: str = "") -> dict[str, Any]:
    """Every parameter by name, parsed or default.

    Raises ``InvalidParameter`` for an unknown name (with the nearest right one), a missing one, or a
    value that does not fit.
    """
    names = [param.name for param in params]
    owner = f"`{within}` has" if within else "There is"
    for name in given:
        if name not in names:
            raise InvalidParameter(
                f"{owner} no parameter {name[:40]!r}.",
                f"Did you mean `{closest(name[:40], names)}`? Valid names: {', '.join(names)}.",
            )
    return {param.name: _value(param, given, within) for param in params}


def _value(param: Param, given: Mapping[str, Any], within: str) -> Any:
    name = f"{within}.{param.name}" if within else param.name
    value = given.get(param.name)
    if value is None or (value == "" and not isinstance(param.type, Text)):
        if param.default is REQUIRED:
            raise InvalidParameter(f"`{name}` is required.", f"It is: {param.description}")
        return param.default
    parsed = param.type.parse(value, name)
    empty = parsed is None or (parsed == () and isinstance(param.type, ListOf))
    return param.default if empty and param.default is not REQUIRED else parsed
