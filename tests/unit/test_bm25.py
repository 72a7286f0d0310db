"""Terms in Russian and English, and the weights that go to the engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegas_memory.bm25 import encode_document, encode_query, terms


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("кассовый разрыв", "Возник кассового разрыва риск"),
        ("Ёлка", "наряженные елки"),
        ("елка", "Ёлку привезли"),
        ("модель", "Мы обучили GPT-модель"),
        ("GPT-модели", "Мы обучили GPT-модель"),
        ("getUserById", "call getUserById(id)"),
        ("user", "call getUserById(id)"),
        ("SR-2023-052", "Order SR-2023-052 was shipped"),
        ("runs", "the dog is running"),
        ("й", "и\u0306"),
    ],
)
def test_a_question_meets_its_text(question: str, text: str) -> None:
    assert set(terms(question)) & set(terms(text))


def test_neighbouring_identifiers_differ() -> None:
    assert "sr-2023-052" in terms("SR-2023-052")
    assert "sr-2023-052" not in terms("SR-2023-053")


@given(st.text(max_size=300))
def test_sparse_vectors_are_always_valid(text: str) -> None:
    for vector in (encode_document(text), encode_query(text)):
        assert len(vector.indices) == len(vector.values) == len(set(vector.indices))
        assert list(vector.indices) == sorted(vector.indices)
        assert all(0 <= i < 2**32 for i in vector.indices)
        assert all(0 < v < 1e6 for v in vector.values)


def test_a_repeated_word_weighs_more_but_less_than_twice() -> None:
    once, twice = encode_document("кот спит").values, encode_document("кот кот").values
    assert once[0] < twice[0] < 2 * once[0]
