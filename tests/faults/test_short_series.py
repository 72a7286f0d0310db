"""A few rounds with fixed seeds; ``scripts/faults --rounds N`` runs as many as one likes."""

from __future__ import annotations

import pytest

from tests.faults.runner import run_round
from tests.faults.world import Profile
from tests.support.bolt_peer import installed

SECONDS = 8.0

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(420)]


@pytest.mark.parametrize(
    ("profile", "seed"),
    [("embedded", 210), ("embedded", 213), ("server", 1001), ("workers", 1002)],
)
def test_a_round(profile: Profile, seed: int) -> None:
    if profile != "embedded" and installed() is None:
        pytest.skip("arcadedb-embedded is not installed")
    done = run_round(seed, profile, SECONDS)
    assert not done.problems, "\n".join([done.line(), f"kept: {done.folder}", *done.problems])
    assert done.acknowledged
