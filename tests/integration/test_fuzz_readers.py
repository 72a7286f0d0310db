"""A short series of mutated documents; ``python -m benchmarks.fuzz_readers`` runs thousands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from benchmarks import fuzz_ingest, fuzz_readers
from benchmarks.fuzz_readers import Judge, Original, Outcome
from pegas_memory.reading import Reader

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
SEED = 7
SOFT = {"quiet": 0.015, "foreign": 0.015, "died": 0.0, "late": 0.01}
"""Shares of the cases; in 5,000 it was 0.003, 0.003, 0 and 0."""

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the reference sets (../shared/data) are not on this machine")


@pytest.fixture(scope="module")
def known() -> dict[str, list[Original]]:
    fuzz_readers.quiet_libraries()
    return fuzz_readers.originals(DATA)


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader(2)
    yield made
    made.close()


def test_a_case_is_the_same_bytes_on_every_run(known: dict[str, list[Original]]) -> None:
    assert sorted(known) == ["epub", "html", "pdf", "web"]
    for number in range(40):
        assert fuzz_readers.case_of(number, SEED, known) == fuzz_readers.case_of(number, SEED, known)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mutated_documents_end_in_text_or_in_a_known_error(known: dict[str, list[Original]], reader: Reader) -> None:
    cases = (fuzz_readers.case_of(number, SEED, known) for number in range(240))
    outcomes = list(fuzz_readers.run(cases, Judge(reader), 2))

    def faulty(name: str) -> list[str]:
        return [outcome.line() for outcome in outcomes if name in outcome.faults]

    assert {name: faulty(name) for name in fuzz_readers.HARD if faulty(name)} == {}
    assert {name: faulty(name) for name, share in SOFT.items() if len(faulty(name)) > share * len(outcomes)} == {}
    assert sum(not outcome.code for outcome in outcomes) > len(outcomes) / 2


def test_the_judge_finds_what_it_looks_for(known: dict[str, list[Original]], reader: Reader) -> None:
    original = next(one for one in known["html"] if one.name.endswith(".en.html"))
    other = Original("other.html", "html", b"<html><body><p>" + b"alpha beta gamma delta " * 20 + b"</p></body></html>")
    judge = Judge(reader)
    cut = fuzz_readers.Case(0, original, original, fuzz_readers.MUTATIONS["html"][:1], other.data)
    found: Outcome = judge.judge(cut)
    assert {"quiet", "foreign"} <= set(found.faults)
    whole = fuzz_readers.Case(0, original, original, fuzz_readers.MUTATIONS["html"][:1], original.data)
    assert judge.judge(whole).faults == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_client_sees_no_traceback_and_no_success_without_text(
    known: dict[str, list[Original]], tmp_path: Path
) -> None:
    cases = (fuzz_readers.case_of(number, SEED, known) for number in range(1_000, 1_024))
    seen, engine_lived = anyio.run(fuzz_ingest.run, cases, tmp_path.resolve())
    assert [f"{one.faults} {one.line()}" for one in seen if one.faults] == []
    assert engine_lived
    assert {"done", "unreadable_file"} <= {one.state for one in seen}
