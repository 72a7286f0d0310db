"""`pegas-memory outbox`: what a projection gave up is listed, and tried again when somebody says so."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from pegas_memory import PegasMemory
from pegas_memory.config import load_settings
from pegas_memory.db import outbox
from pegas_memory.db.outbox import MAX_ATTEMPTS, Change
from pegas_memory.service.upkeep import target_of
from tests.acceptance.test_cli import run, run_json
from tests.homes import temporary_home
from tests.support.embedding_server import hashed_embedding_server
from tests.support.engines import eventually


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    with hashed_embedding_server(dimension=64) as embeddings, temporary_home() as home:
        yield {
            "PEGAS_HOME": str(home),
            "PEGAS_EMBEDDER": f"openai:hashed@{embeddings.openai_url}",
            "PEGAS_ENGINE_IDLE_SECONDS": "60",
        }


def dead_letter(settings: dict[str, str], entity_id: str) -> None:
    """As after MAX_ATTEMPTS attempts that failed."""
    mine = load_settings(home=settings["PEGAS_HOME"], embedder=settings["PEGAS_EMBEDDER"])
    change = Change("default", "atom", UUID(entity_id), "upsert")
    with PegasMemory.open(mine) as memory:
        consumer = target_of(memory.rooms).consumer
        with memory.rooms.db.everything() as conn:
            for _ in range(MAX_ATTEMPTS):
                outbox.take_one(conn, consumer, change)
            outbox.note_failure(conn, consumer, change, "The point was refused.")


@pytest.mark.slow
def test_dead_letters_are_listed_and_replayed(settings: dict[str, str]) -> None:
    one, two = (run_json(settings, "store", f"The ferry number {n} leaves at noon.")["atom_id"] for n in (1, 2))

    def quiet() -> bool:
        state = run_json(settings, "outbox")
        return not state["failures"] and len(state["consumers"]) == 2 and not any(
            consumer["pending"] or consumer["backfilling"] for consumer in state["consumers"]
        )  # fmt: skip

    eventually(quiet, "all is projected")
    dead_letter(settings, one)
    dead_letter(settings, two)
    listed = {failure["entity_id"]: failure for failure in run_json(settings, "outbox", "list")["failures"]}
    assert listed.keys() == {one, two}
    assert (listed[one]["attempts"], listed[one]["dead"]) == (MAX_ATTEMPTS, True)
    said = run(settings, "outbox").stdout
    assert f"{MAX_ATTEMPTS} attempts, dead: The point was refused." in said
    assert "failed 2 (dead 2)" in said
    assert run_json(settings, "outbox", "replay", one) == {"replayed": 1}
    eventually(lambda: [f["entity_id"] for f in run_json(settings, "outbox")["failures"]] == [two], "one is projected")
    assert run_json(settings, "outbox", "replay", "--all") == {"replayed": 1}
    eventually(quiet, "the other is projected")
    assert run_json(settings, "outbox", "replay", "--all") == {"replayed": 0}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["replay", str(uuid4())], 1, "not_found"),
        (["replay", "nonsense"], 2, "That is no id."),
        (["replay"], 2, "outbox replay --all"),
        (["replay", str(uuid4()), "--all"], 2, "outbox replay --all"),
        (["forget"], 2, "That is no action"),
    ],
)
def test_what_cannot_be_replayed_is_said(settings: dict[str, str], arguments: list[str], code: int, said: str) -> None:
    assert said in run({**settings, "TERM": "dumb", "COLUMNS": "200"}, "outbox", *arguments, code=code).stderr
