"""A long text as several shorter ones, for several points of one atom."""

from __future__ import annotations

import math

from pegas_memory.text import sentences, whole_before

MAX_PARTS = 16
"""Parts of one text at most: with 1,600 characters a part the first 25,600 are embedded. What lies
beyond is found by words alone, and one huge text cannot occupy the embedder."""


def parts_of(text: str, max_characters: int) -> list[str]:
    """``text`` as at most ``MAX_PARTS`` parts of at most ``max_characters`` each, about equally long,
    ending at a sentence, else at a word, else anywhere. The same text always gives the same parts;
    white space between parts is dropped; a text without visible characters gives none."""
    if max_characters < 1:
        raise ValueError("max_characters must be at least 1")
    rest = text.strip()[: max_characters * MAX_PARTS].rstrip()
    ends = [end for _, end in sentences(rest)] if len(rest) > max_characters else []
    parts: list[str] = []
    start = 0
    while start < len(rest) and len(parts) < MAX_PARTS:
        end = _cut(rest, start, max_characters, ends)
        parts.append(rest[start:end].strip())
        start = end
        while start < len(rest) and rest[start].isspace():
            start += 1
    return parts


def _cut(text: str, start: int, max_characters: int, ends: list[int]) -> int:
    left = len(text) - start
    if left <= max_characters:
        return len(text)
    # Aim at equal parts: a last part of ten words would make a poor vector.
    aim = start + math.ceil(left / math.ceil(left / max_characters))
    first, last = start + (aim - start) // 2, start + max_characters
    at_sentence = [end for end in ends if first < end <= last]
    if at_sentence:
        return min(at_sentence, key=lambda end: abs(end - aim))
    at_word = next((i for i in range(last, first, -1) if text[i].isspace()), 0)
    return at_word or whole_before(text, last, first)
