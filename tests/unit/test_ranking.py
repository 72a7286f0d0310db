"""Fusion of the arms."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

from pegas_memory.model import Hit
from pegas_memory.ranking import by_keywords, by_similarity, coverage, fuse

A, B, C = (UUID(int=n) for n in (1, 2, 3))


def test_first_in_every_arm_scores_one() -> None:
    ranked = fuse({"dense": [Hit(A, 0.9), Hit(B, 0.8)], "lexical": [Hit(A, 12.0), Hit(C, 3.0)]})
    assert ranked[0].entity_id == A
    assert ranked[0].score == 1.0
    assert ranked[0].ranks == {"dense": 1, "lexical": 1}
    assert all(x.score >= y.score for x, y in pairwise(ranked))


def test_an_empty_arm_takes_nothing_from_the_score() -> None:
    assert fuse({"dense": [Hit(A, 0.9)], "lexical": []})[0].score == 1.0


def test_scores_are_not_flattened() -> None:
    """A fused score of 0.016 for a good hit made other systems' score filters drop everything."""
    ranked = fuse({"dense": [Hit(A, 0.9), Hit(B, 0.5)], "lexical": [Hit(B, 1.0), Hit(A, 0.5)]})
    assert min(r.score for r in ranked) > 0.9


def test_single_arms_keep_a_meaningful_score() -> None:
    assert by_similarity([Hit(A, 1.0), Hit(B, -0.2)])[0].score == 1.0
    assert by_similarity([Hit(B, -0.2)])[0].score == 0.0
    keyword = by_keywords([Hit(A, 8.0), Hit(B, 4.0)], 1.0)
    assert [r.score for r in keyword] == [1.0, 0.5]


def test_ties_are_always_in_the_same_order() -> None:
    one = fuse({"dense": [Hit(A, 0.5)], "lexical": []})
    assert fuse({"dense": [Hit(A, 0.5)], "lexical": []}) == one


def test_coverage() -> None:
    assert coverage(["a", "b", "b"], ["b"]) == 0.5
    assert coverage([], ["b"]) == 0.0
