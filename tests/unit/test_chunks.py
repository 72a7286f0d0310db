"""Chunks are runs of whole blocks, cut where structure or sentences end, whatever the document."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegas_memory.errors import InvalidParameter
from pegas_memory.ingest import chunk, read_text
from pegas_memory.ingest.blocks import BlockWriter
from pegas_memory.ingest.chunks import FAR_BEYOND
from pegas_memory.model import BlockKind, DocumentKind, Extracted

WORDS = st.sampled_from(
    "Кассовый разрыв возникает когда деньги memory stores atoms рынок 3.5 т.е. don't, и это ёж 🦔 (см.".split()
)
SENTENCE = st.lists(WORDS, min_size=1, max_size=12).map(lambda words: " ".join(words).capitalize() + ". ")
PROSE = st.lists(SENTENCE, min_size=1, max_size=12).map("".join)
LINES = st.lists(st.lists(WORDS, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=12).map("\n".join)
BLOCK = st.one_of(
    st.tuples(st.just(BlockKind.HEADING), st.lists(WORDS, min_size=1, max_size=4).map(" ".join)),
    st.tuples(st.sampled_from([BlockKind.PARAGRAPH, BlockKind.LIST_ITEM]), PROSE),
    st.tuples(st.sampled_from([BlockKind.TABLE, BlockKind.CODE]), LINES),
    st.tuples(st.just(BlockKind.PARAGRAPH), st.text(min_size=1, max_size=400)),
)


def document(blocks: list[tuple[BlockKind, str]]) -> Extracted:
    writer = BlockWriter()
    writer.add(BlockKind.PARAGRAPH, "Начало.")
    for kind, text in blocks:
        writer.add(kind, text.encode("utf-8", "ignore").decode(), level=1 + len(text) % 3)
    return writer.finish(DocumentKind.TEXT)


@settings(max_examples=120, deadline=None)
@given(st.lists(BLOCK, max_size=12), st.integers(50, 600))
def test_every_chunk_stands_where_it_says_and_nothing_is_lost(blocks: list[tuple[BlockKind, str]], bound: int) -> None:
    source = document(blocks)
    chunks = chunk(source, bound)
    covered = ""
    end = 0
    for position, piece in enumerate(chunks):
        assert piece.position == position
        assert source.text[piece.locator.start : piece.locator.end] == piece.text
        assert not source.text[end : piece.locator.start].strip()
        end = piece.locator.end
        for block in piece.blocks:
            assert source.text[block.locator.start : block.locator.end] == block.text
        assert (piece.blocks[0].locator.start, piece.blocks[-1].locator.end) == (piece.locator.start, piece.locator.end)
        covered += piece.text
    assert "".join(covered.split()) == "".join(source.text.split())
    assert chunks == chunk(source, bound)


@settings(max_examples=80, deadline=None)
@given(st.lists(BLOCK, max_size=12), st.integers(80, 600))
def test_a_chunk_exceeds_the_bound_only_for_one_sentence_or_line(
    blocks: list[tuple[BlockKind, str]], bound: int
) -> None:
    for piece in chunk(document(blocks), bound):
        assert len(piece.text) <= bound * FAR_BEYOND
        if len(piece.text) > bound:
            assert len([b for b in piece.blocks if b.kind is not BlockKind.HEADING]) <= 1


@settings(max_examples=60, deadline=None)
@given(st.lists(BLOCK, max_size=12), st.integers(100, 600))
def test_a_heading_starts_its_chunk(blocks: list[tuple[BlockKind, str]], bound: int) -> None:
    for piece in chunk(document(blocks), bound):
        kinds = [block.kind for block in piece.blocks]
        text_seen = False
        for kind in kinds:
            assert not (text_seen and kind is BlockKind.HEADING)
            text_seen = text_seen or kind is not BlockKind.HEADING


def test_a_heading_stays_with_what_follows_and_lends_its_path() -> None:
    source = read_text("# Учёт\n\nПервый абзац.\n\n## Касса\n\nВторой абзац.\n\nТретий.", DocumentKind.MARKDOWN)
    first, second = chunk(source)
    assert first.text == "# Учёт\n\nПервый абзац."
    assert first.locator.headings == ("Учёт",)
    assert second.locator.headings == ("Учёт", "Касса")
    assert second.text.endswith("Третий.")


def test_a_heading_before_a_long_paragraph_is_not_left_alone() -> None:
    sentences = " ".join(f"Предложение номер {n} стоит здесь целиком." for n in range(60))
    chunks = chunk(read_text(f"# Глава\n\n{sentences}", DocumentKind.MARKDOWN), 400)
    assert chunks[0].text.startswith("# Глава\n\nПредложение номер 0")
    assert all(len(piece.text) <= 400 for piece in chunks)
    assert all(piece.text.endswith("целиком.") for piece in chunks)


def test_sentences_are_not_cut_at_abbreviations_and_initials() -> None:
    text = "Это описал А. С. Пушкин в 1830 г. в Болдино, т.е. осенью. " * 20
    for piece in chunk(read_text(text), 200):
        assert piece.text.startswith("Это описал")
        assert piece.text.endswith("осенью.")


def test_a_table_is_cut_between_rows_and_code_between_blank_lines() -> None:
    table = "| имя | сумма |\n|---|---|\n" + "\n".join(f"| строка {n} | {n}.50 |" for n in range(60))
    pieces = chunk(read_text(table, DocumentKind.MARKDOWN), 200)
    assert len(pieces) > 5
    assert all(line.startswith("|") and line.endswith("|") for piece in pieces for line in piece.text.split("\n"))
    functions = "\n\n".join(f"def f{n}(x):\n    y = x + {n}\n    return y" for n in range(30))
    pieces = chunk(read_text(f"```python\n{functions}\n```", DocumentKind.MARKDOWN), 200)
    assert len(pieces) > 5
    assert all(piece.text.startswith("def f") and piece.text.endswith("return y") for piece in pieces)


def test_a_sentence_without_end_is_cut_at_white_space() -> None:
    pieces = chunk(read_text("слово " * 2000), 300)
    assert all(len(piece.text) <= 300 and set(piece.text.split()) == {"слово"} for piece in pieces)
    assert [len(p.text) for p in chunk(read_text("x" * 1000), 100)] == [100] * 10


def test_a_silly_bound_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        chunk(read_text("Слово."), 3)
