"""One token changed is an update, at cosine 1.0 and in every place of a claim."""

from __future__ import annotations

import unicodedata

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pegas_memory.dedup import DedupProfile, Verdict, compare
from pegas_memory.dedup.vocabulary import is_function, meaning

ANY = DedupProfile("any", near=-1.0, reworded=-1.0, measured="for tests: the guards alone")
FRAMES = (
    "The access key of the vault is {} since March.",
    "Use {} in the config of the gateway.",
    "{} is kept by the archive in Oslo",
    "Значение {} записано в настройках шлюза.",
    "Хранилище использует {}",
    "{} хранится в архиве Твери.",
)
frames = st.sampled_from(FRAMES)
fuzz = settings(max_examples=150, deadline=None, derandomize=True)
FREE = frozenset("%$€£₽¥`´¨=|{}")
"""Signs read otherwise: as units, as quotes, or as the mark of code and tables."""
SIGNS = "".join(
    sign
    for sign in map(chr, range(0x21, 0x1FAFF))
    if sign not in FREE
    and unicodedata.category(sign) in ("So", "Sm", "Sc", "No")
    and unicodedata.is_normalized("NFC", sign)
)
latin = st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=9)
cyrillic = st.text("абвгдежзиклмнопрстуфхцчшщэюя", min_size=3, max_size=9)
cased = st.text("abcdeXYZABCDE", min_size=2, max_size=8)


def differ(frame: str, first: str, second: str) -> bool:
    a, b = frame.format(first), frame.format(second)
    return compare(a, b, 1.0, ANY) is compare(b, a, 1.0, ANY) is Verdict.DIFFERENT


@fuzz
@given(frames, st.from_regex(r"[1-9][0-9]{0,5}", fullmatch=True), st.from_regex(r"[1-9][0-9]{0,5}", fullmatch=True))
def test_another_number_is_an_update(frame: str, first: str, second: str) -> None:
    assume(first != second)
    assert differ(frame, first, second)
    assert differ(frame, f"v{first}", f"v{second}")
    assert differ(frame, f"OPS-{first}", f"OPS-{second}")


@fuzz
@given(frames, st.text(SIGNS, min_size=1, max_size=4), st.text(SIGNS, max_size=4))
def test_another_sign_is_an_update(frame: str, first: str, second: str) -> None:
    assume(first != second)
    assert differ(frame, f"lamp {first}", f"lamp {second}")


@fuzz
@given(frames, cased, st.data())
def test_another_case_of_an_identifier_is_an_update(frame: str, name: str, data: st.DataObject) -> None:
    other = "".join(letter.swapcase() if data.draw(st.booleans()) else letter for letter in name)
    assume(other[1:] != name[1:])
    assert differ(frame, name, other)


@fuzz
@given(
    frames,
    st.text("ABCDEFGHKLMNXYZАБВГДЕИКЛМНОРСТ", min_size=1, max_size=1),
    st.text("ABCDXYZАБВГДК", min_size=1, max_size=1),
)
def test_another_letter_is_another_name(frame: str, first: str, second: str) -> None:
    assume(first != second)
    assert differ(frame, f"node {first}", f"node {second}")


@fuzz
@given(frames, st.one_of(latin, cyrillic), st.one_of(latin, cyrillic))
def test_another_word_is_an_update(frame: str, first: str, second: str) -> None:
    assume(first[0] != second[0])
    assume(meaning(first)[1] != meaning(second)[1])
    assume(not (is_function(first) and is_function(second)))
    assert differ(frame, first, second)


@fuzz
@given(st.one_of(latin, cyrillic), st.one_of(latin, cyrillic))
def test_swapped_arguments_are_an_update(first: str, second: str) -> None:
    first, second = f"{first}7", f"{second}9"
    for frame in ("{} calls {} on start.", "{} вызывает {} при запуске.", "Сервер {} заменяет сервер {}."):
        a, b = frame.format(first, second), frame.format(second, first)
        assert compare(a, b, 1.0, ANY) is Verdict.DIFFERENT


@fuzz
@given(frames, st.one_of(latin, cyrillic, cased), st.sampled_from(["", ".", "!", "  "]))
def test_spaces_and_final_marks_are_no_update(frame: str, word: str, end: str) -> None:
    claim = frame.format(word)
    assert compare(claim, claim.rstrip(".") + end, 1.0, ANY) is Verdict.SAME
