"""The product as it comes, with the bundled model, in a home whose path has spaces and a quote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pegas_memory
from pegas_memory import PegasMemory
from pegas_memory.config import load_settings
from pegas_memory.model import ContextRequest, IngestRequest, JobState, SearchMode, SearchRequest
from tests.homes import temporary_home

pytestmark = pytest.mark.bundled_model

DOCUMENTS = Path(pegas_memory.__file__).parent / "demo_documents"
ANSWERED = [
    ("When was the lighthouse first lit?", "14 October 1871"),
    ("Who was the architect of the tower?", "Maren Tolley"),
    ("Кто построил мельницу в Ветровке?", "Саблиным"),
    ("How heavy is the lens?", "640 kilograms"),
    ("Сколько мёда дала пасека?", "1350"),
]
NOT_ANSWERED = [
    "What is this?", "Is it going to rain tomorrow?", "Как дела?", "What is the name of the thing?",
    "Who won the 1998 chess olympiad?", "How do I cook borscht?", "Какая столица Австралии?",
    "Сколько стоит билет в театр?", "Who wrote Hamlet?", "Как зовут президента Франции?",
    "What is the population of Tokyo?", "Когда началась Вторая мировая война?", "How do I install Python?",
    "Кто изобрёл телефон?", "Где находится ближайшая аптека?", "Explain quantum entanglement",
]  # fmt: skip


@pytest.fixture(scope="module")
def memory() -> Iterator[PegasMemory]:
    with temporary_home() as folder:
        settings = load_settings(home=folder / "дом с 'кавычкой' и пробелами", ingest_roots=(DOCUMENTS,))
        with PegasMemory.open(settings) as opened:
            answer = opened.ingest(IngestRequest(source=str(DOCUMENTS)))
            assert answer.state is JobState.DONE, answer.error
            deadline = time.monotonic() + 60
            while opened.stats().pending:
                assert time.monotonic() < deadline, opened.stats()
                time.sleep(0.1)
            yield opened


@pytest.mark.parametrize(("question", "words"), ANSWERED)
def test_a_question_that_the_documents_answer(memory: PegasMemory, question: str, words: str) -> None:
    answer = memory.context(ContextRequest(question=question))
    assert answer.enough
    assert words in answer.context
    assert answer.degraded == ()


@pytest.mark.parametrize("question", NOT_ANSWERED)
def test_a_question_that_they_do_not_answer(memory: PegasMemory, question: str) -> None:
    answer = memory.context(ContextRequest(question=question))
    assert not answer.enough, answer.context


def test_the_dense_arm_works_there(memory: PegasMemory) -> None:
    answer = memory.search(SearchRequest(query="lighthouse first lit", mode=SearchMode.DENSE))
    assert answer.degraded == ()
    assert "Heron Point" in answer.results[0].claim
    assert memory.stats().embedding.dimension == 384
