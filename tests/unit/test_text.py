"""The text gate and the text functions."""

from __future__ import annotations

import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegas_memory.errors import EmptyText, InvalidParameter, TextTooLong
from pegas_memory.text import (
    clean_json,
    clean_name,
    clean_tags,
    clean_text,
    collapse,
    first_sentence,
    fold,
    language_of,
    sentences,
    sha256,
    token_limit,
    tokens_bound,
    whole_before,
)

LEGAL = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=200).filter(lambda t: "\ufeff" not in t)


@given(LEGAL)
def test_everything_legal_comes_back_exactly(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    cleaned = clean_text(composed, field="claim", max_characters=1000)
    assert cleaned == "".join(c for c in composed if c not in "\ufffe\uffff")


@given(st.text(max_size=200))
def test_the_gate_is_idempotent_and_leaves_no_control_character(text: str) -> None:
    try:
        once = clean_text(text, field="claim", max_characters=1000)
    except InvalidParameter:
        assert any("\ud800" <= c <= "\udfff" for c in text)
        return
    assert clean_text(once, field="claim", max_characters=1000) == once
    assert not any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in once)
    once.encode("utf-8")


def test_nul_goes_and_line_ends_are_one_kind() -> None:
    assert clean_text("a\x00b\r\nc\rd\te", field="claim", max_characters=99) == "ab\nc\nd\te"


def test_decomposed_letters_are_composed() -> None:
    assert clean_text("и\u0306ё", field="claim", max_characters=9) == "йё"


def test_a_lone_surrogate_is_named_and_not_quoted() -> None:
    with pytest.raises(InvalidParameter, match="lone surrogate at character 3"):
        clean_text("abc\udc80", field="claim", max_characters=9)


def test_five_megabytes_are_refused_with_the_limit() -> None:
    with pytest.raises(TextTooLong, match="at most 8,000"):
        clean_text("x" * 5_000_000, field="claim", max_characters=8_000)


def test_names_and_tags() -> None:
    assert clean_name("  a \n b ", field="title") == "a b"
    with pytest.raises(EmptyText):
        clean_name(" \x00 ", field="title")
    assert clean_tags(["б", " б ", "", "a\x00"]) == ("б", "a")


def test_metadata_is_cleaned_keys_and_all() -> None:
    assert clean_json({"к\x00": ["v\x00", {"n": 1.5}]}, field="metadata") == {"к": ["v", {"n": 1.5}]}
    with pytest.raises(InvalidParameter, match="NaN"):
        clean_json({"a": float("nan")}, field="metadata")
    deep: object = "x"
    for _ in range(40):
        deep = [deep]
    with pytest.raises(InvalidParameter, match="deeper"):
        clean_json(deep, field="metadata")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Dr. Smith paid 3.5 million to J. R. Tolkien. It was 1990.", 2),
        ("Он родился в 1990 г. в Москве. Т.е. это так! «Правда?» — спросил он.", 3),
        ("Одна строка\nпереносится здесь. Вторая.", 2),
        ("A heading\n\nA paragraph.", 2),
        ("See e.g. Fig. 3 for details, i.e. the plot.", 1),
        ("Насос весит 12 кг. Клапан открыт.", 2),
        ("Он живёт в г. Москва. Потом уехал.", 2),
        ("В 1993 г. Иван умер. Дом продали в 1994 г. Потом стало тихо.", 3),
        ("В XX в. Россия изменилась.", 1),
        ("", 0),
        ("   \n\n  ", 0),
    ],
)
def test_sentences(text: str, parts: int) -> None:
    spans = sentences(text)
    assert len(spans) == parts
    assert all(text[a:b] == text[a:b].strip() and a < b for a, b in spans)


GOLD = Path(__file__).parents[1] / "data" / "sentence_boundaries.txt"
BOUNDARY = "‖"


def gold() -> list[str]:
    lines = GOLD.read_text(encoding="utf-8").splitlines()
    return [line.replace("\\n", "\n") for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("marked", gold())
def test_sentence_boundaries(marked: str) -> None:
    text = marked.replace(BOUNDARY, "")
    assert [text[a:b] for a, b in sentences(text)] == [part.strip() for part in marked.split(BOUNDARY)]


def test_the_boundaries_are_enough_to_go_by() -> None:
    passages = gold()
    russian = sum(language_of(passage) == "ru" for passage in passages)
    assert russian >= 100
    assert len(passages) - russian >= 80


@pytest.mark.parametrize(
    "text",
    ["." * 2_000_000, '."' * 1_000_000, "." + ")" * 2_000_000, "1990 г. " * 100_000, "А. Б. " * 100_000,
     "и т. д. " * 100_000, "\n1. " * 200_000, ". " + " " * 2_000_000 + "x", "\n\t" * 500_000, "слово " * 300_000],
    ids=["stops", "quotes", "brackets", "years", "initials", "and so on", "items", "spaces", "tabs", "no stop"],
)  # fmt: skip
def test_sentences_take_linear_time(text: str) -> None:
    began = time.process_time()
    sentences(text)
    assert time.process_time() - began < 15


@given(st.lists(st.text(max_size=20), max_size=6))
def test_token_bounds_add_up_over_spaces(parts: list[str]) -> None:
    whole = tokens_bound(" ".join(parts))
    assert whole <= sum(map(tokens_bound, parts)) + len(parts)


@given(st.text(max_size=80), st.integers(0, 40), st.integers(1, 60))
def test_a_token_limit_is_kept_and_moves_on(text: str, start: int, tokens: int) -> None:
    start = min(start, len(text))
    at = token_limit(text, start, len(text), tokens)
    assert start < at <= len(text) or start == len(text)
    one_character = at == start + 1
    assert (
        tokens_bound(text[start:at]) <= tokens or one_character or text[start:at].isalpha() or text[start:at].isspace()
    )


@pytest.mark.parametrize("character", ["e\u0301", "👩\u200d👧", "👍🏽", "🇷🇺", "❤\ufe0f", "각", "\r\n", "か\uff9e"])
def test_a_cut_tears_no_character(character: str) -> None:
    text = character * 9
    boundaries = {n * len(character) for n in range(10)}
    assert {whole_before(text, at, 0) for at in range(len(character), len(text) + 1)} <= boundaries
    assert whole_before("x" + "\u0301" * 500, 400, 0) == 400


@given(st.text(st.sampled_from("абвAB .!?\n…«»1г"), max_size=80))
def test_sentences_lose_nothing_but_white_space(text: str) -> None:
    spans = sentences(text)
    assert all(spans[n][1] <= spans[n + 1][0] for n in range(len(spans) - 1))
    assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())


def test_folding_and_language() -> None:
    assert fold("ЁЖИК") == fold("ежик") == fold("е\u0308жик")
    assert language_of("Привет, ёжик") == "ru"
    assert language_of("Hello there") == "en"
    assert language_of("123 🦔") == ""
    assert collapse(" a\n\tb ") == "a b"


def test_first_sentence_is_cut_at_a_word() -> None:
    assert first_sentence("One two. Three.") == "One two."
    assert first_sentence("слово " * 200, 30).endswith("…")
    assert len(first_sentence("слово " * 200, 30)) <= 30


def test_hash_parts_do_not_run_together() -> None:
    assert sha256("ab", "c") != sha256("a", "bc")
