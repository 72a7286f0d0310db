"""What survives reading on the reference sets, where they are present. Here the parsers are asked and a few files
are really stored; ``benchmarks/floors.toml`` pins the figures of everything as it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import extraction
from benchmarks.extraction_ways import Stored, parsed, stored

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the reference sets (../shared/data) are not on this machine")


@pytest.fixture(scope="module")
def ingested() -> Iterator[Stored]:
    with stored([DATA]) as way:
        yield way


def test_manuals_as_pdf_epub_and_html() -> None:
    floors = {
        "debian-faq.en.pdf": 0.981,
        "debian-faq.ru.pdf": 0.970,
        "debmake-doc.en.pdf": 0.940,
        "debmake-doc.en.epub": 0.990,
        "debian-faq.en html": 0.957,
        "debian-faq.ru html": 0.956,
    }
    found = {row["case"]: row["f1"] for row in extraction.manuals(DATA / "docs-ru-en", parsed)}
    assert {case: f1 for case, f1 in found.items() if f1 < floors[case]} == {}
    assert found.keys() == floors.keys()


def test_every_expectation_of_the_pdf_cases_is_met_by_what_is_stored(ingested: Stored) -> None:
    rows = list(extraction.pdf_cases(DATA / "pdf", ingested))
    assert len(rows) == 18
    assert [row["case"] for row in rows if not row["met"]] == []
    assert [row["case"] for row in rows if row.get("f1", 1.0) < 0.94] == []
    assert sum(row["quotes"] for row in rows) > 50
    assert [row["case"] for row in rows if row["misplaced"]] == []


def test_a_stored_book_is_what_the_parser_read_and_every_quote_stands_in_it(ingested: Stored) -> None:
    for name in ("wasteland.epub", "regime-anticancer-arabic.epub"):
        kept, read = ingested(DATA / "epub" / name), parsed(DATA / "epub" / name)
        assert (kept.text, kept.title) == (read.text, read.title)
        assert kept.quotes > 20
        assert kept.misplaced == 0


def test_the_left_column_comes_wholly_before_the_right() -> None:
    text = parsed(DATA / "pdf" / "sample-files__multicolumn.pdf").text
    left, right = (
        text.index("Lorem ipsum dolor sit amet, consectetuer"),
        text.index("Quisque ullamcorper placerat ipsum"),
    )
    assert left < text.index("Nulla malesuada porttitor diam") < right


def test_books_and_conformance_cases() -> None:
    rows = list(extraction.books(DATA / "epub", parsed))
    assert [row["case"] for row in rows if "error" in row or not (row["title_ok"] and row["language_ok"])] == []
    assert [row["case"] for row in rows if row["f1"] < 0.985] == []


@pytest.mark.slow
def test_main_content_of_web_pages() -> None:
    [articles] = extraction.articles(DATA / "web-article-extraction", parsed)
    [segments] = extraction.segments(DATA / "web-trafilatura-eval", parsed)
    assert articles["f1"] > 0.963
    assert segments["f1"] > 0.918
