"""From the engine's best points to the best point of each entity.

An entity may have many points. Neither engine's grouping serves: the embedded one has none, and the
server's asks once per group. So more points are fetched than entities wanted, and again more while
too few distinct ones came back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from uuid import UUID

from pegas_memory.model import ArmHits, Hit

Scored = tuple[UUID, float]
"""(entity id, score), best first."""


class Arm(StrEnum):
    DENSE = "dense"
    LEXICAL = "lexical"


Fetch = Callable[[Mapping[Arm, int]], Mapping[Arm, Sequence[Scored]]]
"""Asks the engine for so many points of each arm, in one call."""

SLACK = 8
"""Points fetched beyond the entities wanted: most entities have one point, a few have several."""
GROWTH = 4
TIE_DEPTH = 200
"""A row of equal scores is put in order by entity id this deep; below it the order of arrival stands.
Measured: putting 6,000 equal ones in order took 95 ms at a depth of 1,000 (2 cores)."""


def gather(arms: Sequence[Arm], limit: int, fetch: Fetch) -> ArmHits:
    """Up to ``limit`` distinct entities of each of ``arms``, by score descending, then entity id."""
    sizes = dict.fromkeys(arms, limit + SLACK)
    found: dict[Arm, tuple[Hit, ...]] = {}
    while sizes:
        for arm, rows in fetch(sizes).items():
            hits = best_of_each(rows)
            if len(rows) < sizes[arm] or _settled(hits, rows, limit):
                found[arm] = hits[:limit]
                del sizes[arm]
            else:
                sizes[arm] *= GROWTH
    return ArmHits(
        dense=tuple(Hit(h.entity_id, max(-1.0, min(1.0, h.score))) for h in found.get(Arm.DENSE, ())),
        lexical=found.get(Arm.LEXICAL, ()),
    )


def best_of_each(rows: Sequence[Scored]) -> tuple[Hit, ...]:
    """The highest score of each entity, ordered by score descending, then entity id."""
    best: dict[UUID, float] = {}
    for entity_id, score in rows:
        best[entity_id] = max(score, best.get(entity_id, score))
    return tuple(Hit(entity_id, score) for entity_id, score in sorted(best.items(), key=lambda e: (-e[1], e[0])))


def _settled(hits: Sequence[Hit], rows: Sequence[Scored], limit: int) -> bool:
    """Enough entities, and none with the last one's score can still hide behind the last row."""
    if len(hits) < limit:
        return False
    return hits[limit - 1].score > rows[-1][1] or len(rows) >= TIE_DEPTH
