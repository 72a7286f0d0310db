"""What a point carries besides its vectors, and a search's conditions on it, in no engine's dialect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar
from uuid import UUID

from pegas_memory.model import Point, PointPayload, SearchFilter

ENTITY_ID = "entity_id"
REVISION = "revision"
TENANT = "tenant"

FORMAT = 3
"""Raise when payload or vectors change their meaning: an older shard is then made anew, and a server's
collection is filled again."""

ENTITIES_PER_CALL = 500

Item = TypeVar("Item")


class FieldKind(Enum):
    TENANT = auto()
    KEYWORD = auto()
    UUID = auto()
    FLOAT = auto()


INDEXED: Mapping[str, FieldKind] = {
    TENANT: FieldKind.TENANT,
    ENTITY_ID: FieldKind.UUID,
    "memory": FieldKind.KEYWORD,
    "type": FieldKind.KEYWORD,
    "shown_as": FieldKind.KEYWORD,
    "tags": FieldKind.KEYWORD,
    "doc_ids": FieldKind.UUID,
    "occurred": FieldKind.FLOAT,
    "confidence": FieldKind.FLOAT,
    "valid_from": FieldKind.FLOAT,
    "valid_until": FieldKind.FLOAT,
}
"""Every field a filter names has a payload index: without one a server scans, or refuses in strict mode."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The field is, or among its values has, one of ``values``."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """``low`` ≤ field ≤ ``high``; None leaves that side open."""

    key: str
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Above:
    """field > ``low``."""

    key: str
    low: float


Condition = AnyOf | Between | Above


def to_payload(payload: PointPayload) -> dict[str, object]:
    """The payload as JSON values."""
    return {
        TENANT: payload.tenant,
        ENTITY_ID: str(payload.entity_id),
        REVISION: payload.revision,
        "memory": payload.memory.value,
        "type": str(payload.type),
        "shown_as": payload.shown_as.value,
        "tags": list(payload.tags),
        "doc_ids": [str(doc_id) for doc_id in payload.doc_ids],
        "occurred": float(payload.occurred),
        "confidence": float(payload.confidence),
        "valid_from": float(payload.valid_from),
        "valid_until": float(payload.valid_until),
    }


def of_tenant(tenant: str) -> AnyOf:
    return AnyOf(TENANT, (tenant,))


def of_entities(entity_ids: Iterable[UUID]) -> AnyOf:
    return AnyOf(ENTITY_ID, tuple(str(entity_id) for entity_id in entity_ids))


def conditions(where: SearchFilter) -> list[Condition]:
    """What must hold of a point, all of it together; the tenant always stands first."""
    doc_ids = () if where.doc_id is None else (str(where.doc_id),)
    wanted = {
        "memory": sorted(kind.value for kind in where.memory),
        "type": sorted(str(kind) for kind in where.types),
        "shown_as": sorted(status.value for status in where.shown_as),
        "tags": sorted(where.tags),
        "doc_ids": doc_ids,
    }
    found: list[Condition] = [of_tenant(where.tenant)]
    found += [AnyOf(key, tuple(values)) for key, values in wanted.items() if values]
    if where.since is not None or where.until is not None:
        since = None if where.since is None else where.since.timestamp()
        until = None if where.until is None else where.until.timestamp()
        found.append(Between("occurred", since, until))
    if where.min_confidence is not None:
        found.append(Between("confidence", where.min_confidence, None))
    if where.as_of is not None:
        moment = where.as_of.timestamp()
        found += [Between("valid_from", None, moment), Above("valid_until", moment)]
    return found


def leftovers(entity_ids: Sequence[UUID], points: Sequence[Point]) -> Iterator[tuple[list[UUID], list[UUID]]]:
    """(entities, ids of their points that stay), so many entities at a time as one call may name."""
    kept: dict[UUID, list[UUID]] = {}
    for point in points:
        kept.setdefault(point.payload.entity_id, []).append(point.id)
    for some in batches(list(dict.fromkeys(entity_ids)), ENTITIES_PER_CALL):
        yield some, [point_id for entity_id in some for point_id in kept.get(entity_id, [])]


def batches(items: Sequence[Item], size: int) -> Iterator[list[Item]]:
    """``items`` in lists of at most ``size``."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
