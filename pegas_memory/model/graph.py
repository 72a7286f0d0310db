"""The graph: five kinds of node, and directed edges between any two of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class NodeKind(StrEnum):
    ATOM = "atom"
    EPISODE = "episode"
    PROCEDURE = "procedure"
    ENTITY = "entity"
    SYMBOL = "symbol"


class Direction(StrEnum):
    BOTH = "both"
    IN = "in"
    OUT = "out"


@dataclass(frozen=True, slots=True, order=True)
class NodeRef:
    kind: NodeKind
    id: UUID


@dataclass(frozen=True, slots=True)
class Node:
    """What a graph holds of a node. ``names`` are case-folded: by any of them it can be asked for."""

    tenant: str
    ref: NodeRef
    revision: int
    type: str
    shown_as: str
    name: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A stated or inferred link, or a code dependency (its ``source`` is then ``code``)."""

    tenant: str
    id: UUID
    src: NodeRef
    dst: NodeRef
    kind: str
    confidence: float
    source: str
    inferred: bool
    revision: int


@dataclass(frozen=True, slots=True)
class EdgeFilter:
    """Which edges of a node: ``kinds`` empty means all."""

    direction: Direction = Direction.BOTH
    kinds: frozenset[str] = frozenset()
    include_inferred: bool = True
