"""What survives reading on the reference sets, where they are present; floors lie just under what was
measured (``benchmarks/extraction.py`` prints the figures)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the reference sets (../shared/data) are not on this machine")


@pytest.fixture(scope="module")
def extraction() -> ModuleType:
    spec = importlib.util.spec_from_file_location("extraction", ROOT / "benchmarks" / "extraction.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_manuals_as_pdf_epub_and_html(extraction: ModuleType) -> None:
    floors = {
        "debian-faq.en.pdf": 0.981,
        "debian-faq.ru.pdf": 0.970,
        "debmake-doc.en.pdf": 0.940,
        "debmake-doc.en.epub": 0.988,
        "debian-faq.en html": 0.957,
        "debian-faq.ru html": 0.956,
    }
    found = {row["case"]: row["f1"] for row in extraction.manuals(DATA / "docs-ru-en")}
    assert {case: f1 for case, f1 in found.items() if f1 < floors[case]} == {}
    assert found.keys() == floors.keys()


def test_every_expectation_of_the_pdf_cases_is_met(extraction: ModuleType) -> None:
    rows = list(extraction.pdf_cases(DATA / "pdf"))
    assert len(rows) == 18
    assert [row["case"] for row in rows if not row["met"]] == []
    assert [row["case"] for row in rows if row.get("f1", 1.0) < 0.94] == []


def test_the_left_column_comes_wholly_before_the_right() -> None:
    from pegas_memory.ingest import read_file

    text = read_file(DATA / "pdf" / "sample-files__multicolumn.pdf").text
    left, right = (
        text.index("Lorem ipsum dolor sit amet, consectetuer"),
        text.index("Quisque ullamcorper placerat ipsum"),
    )
    assert left < text.index("Nulla malesuada porttitor diam") < right


def test_books_and_conformance_cases(extraction: ModuleType) -> None:
    rows = list(extraction.books(DATA / "epub"))
    assert [row["case"] for row in rows if "error" in row or not (row["title_ok"] and row["language_ok"])] == []
    assert [row["case"] for row in rows if row["f1"] < 0.985] == []


@pytest.mark.slow
def test_main_content_of_web_pages(extraction: ModuleType) -> None:
    [articles] = extraction.articles(DATA / "web-article-extraction")
    [segments] = extraction.segments(DATA / "web-trafilatura-eval")
    assert articles["f1"] > 0.958
    assert segments["f1"] > 0.917
