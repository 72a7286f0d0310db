"""Ingest end to end: files → document, chunks, atoms and citations in PostgreSQL, findable afterwards."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text

from pegas_memory.db import documents, jobs
from pegas_memory.db.turns import Turn
from pegas_memory.errors import EmptyText, InvalidParameter, NotFound, PathNotAllowed
from pegas_memory.model import (
    AtomType,
    Distill,
    DocumentKind,
    IngestAnswer,
    IngestRequest,
    JobState,
    SearchMode,
    SearchRequest,
)
from tests.support.local_memory import LocalMemory

GUIDE = """# Насосы

Насос П-12 перекачивает 40 литров в минуту. Кавитация — это образование пузырьков пара в жидкости.

## Обслуживание

Масло меняют каждые 500 часов работы. Перед запуском насос заполняют водой.

| деталь | срок |
|---|---|
| сальник | 2 года |
| подшипник | 5 лет |
"""


def ingest(memory: LocalMemory, **request: object) -> IngestAnswer:
    answer = memory.ingest(IngestRequest(**request))  # type: ignore[arg-type]
    assert answer.state is JobState.DONE, answer.error
    return answer


def counts(memory: LocalMemory) -> tuple[int, int, int, int]:
    stats = memory.stats()
    return stats.documents, stats.chunks, stats.citations, stats.atoms.total


def test_a_document_becomes_cited_atoms(memory: LocalMemory, ingest_root: Path) -> None:
    path = ingest_root / "guide.md"
    path.write_text(GUIDE, encoding="utf-8")
    answer = ingest(memory, source=str(path))
    assert answer.document is not None
    assert (answer.document.kind, answer.document.language) == (DocumentKind.MARKDOWN, "ru")
    assert answer.atoms.created > 3
    found = memory.search(SearchRequest(query="как часто менять масло")).results[0]
    assert "500 часов" in found.claim
    (citation,) = found.citations
    assert "Обслуживание" in citation.locator
    types = {r.type for r in memory.search(SearchRequest(limit=50)).results}
    assert {AtomType.FACT, AtomType.DEFINITION, AtomType.TABLE} <= types
    with memory.rooms.db.tenant(memory.tenant) as conn:
        body = documents.body_of(conn, memory.tenant, citation.doc_id)
        rows = conn.execute(text("SELECT quote, locator FROM pm_citation")).all()
    assert rows
    for quote, locator in rows:
        assert body[locator["start"] : locator["end"]] == quote


def test_the_same_bytes_again_change_nothing(memory: LocalMemory, ingest_root: Path) -> None:
    path = ingest_root / "again.md"
    path.write_text(GUIDE, encoding="utf-8")
    first = ingest(memory, source=str(path))
    before = counts(memory)
    again = ingest(memory, source=str(path))
    assert again.doc_id == first.doc_id
    assert again.atoms.created == 0
    assert again.warnings
    assert counts(memory) == before


def test_a_changed_document_replaces_its_chunks_and_leaves_stale_what_it_no_longer_says(
    memory: LocalMemory, ingest_root: Path
) -> None:
    path = ingest_root / "changing.md"
    path.write_text(GUIDE, encoding="utf-8")
    first = ingest(memory, source=str(path))
    kept = memory.search(SearchRequest(query="сорок литров в минуту перекачивает")).results[0]
    path.write_text(GUIDE.replace("500 часов", "600 часов"), encoding="utf-8")
    second = ingest(memory, source=str(path))
    assert second.doc_id == first.doc_id
    assert second.atoms.created == 1
    claims = {r.claim: r for r in memory.search(SearchRequest(query="масло меняют часов", limit=50)).results}
    assert any("600 часов" in claim for claim in claims)
    assert not any("500 часов" in claim for claim in claims)
    assert memory.stats().atoms.by_status["stale"] == 1
    assert memory.search(SearchRequest(ids=(kept.atom_id,))).results[0].status == "candidate"
    path.write_text(GUIDE, encoding="utf-8")
    ingest(memory, source=str(path))
    back = memory.search(SearchRequest(query="масло меняют каждые 500 часов", limit=50)).results[0]
    assert "500 часов" in back.claim


def test_two_documents_that_say_the_same_are_two_citations(memory: LocalMemory) -> None:
    ingest(memory, text="Масло меняют каждые 500 часов работы.", title="Первый")
    answer = ingest(
        memory, text="Масло меняют каждые 500 часов работы! Воду в баке меняют раз в неделю.", title="Второй"
    )
    assert answer.atoms.duplicate == 1
    found = memory.search(SearchRequest(query="масло меняют каждые 500 часов")).results[0]
    assert {c.title for c in found.citations} == {"Первый", "Второй"}


def test_rewordings_in_one_document_are_one_atom_with_two_citations(memory: LocalMemory) -> None:
    answer = ingest(
        memory,
        text="Масло меняют каждые 500 часов работы. Воду в баке меняют раз в неделю.\n\n"
        "Масло меняют каждые 500 часов работы!",
        title="Сам себе",
    )
    assert (answer.atoms.created, answer.atoms.duplicate) == (2, 1)
    (found,) = [r for r in memory.search(SearchRequest(query="масло")).results if "асло" in r.claim.casefold()]
    assert len({c.quote for c in found.citations}) == len(found.citations) == 2


def test_distill_off_makes_every_chunk_findable(memory: LocalMemory) -> None:
    answer = ingest(memory, text=GUIDE, kind=DocumentKind.MARKDOWN, distill=Distill.OFF, title="Насосы")
    assert answer.atoms.created == answer.chunks > 0
    results = memory.search(SearchRequest(limit=50)).results
    assert {r.type for r in results} == {"text"}


def test_a_folder_is_one_job_and_a_broken_file_spoils_nothing(memory: LocalMemory, ingest_root: Path) -> None:
    folder = ingest_root / "folder"
    folder.mkdir()
    (folder / "one.md").write_text("The first file says that copper conducts heat well.", encoding="utf-8")
    (folder / "two.txt").write_text("Второй файл говорит, что медь проводит тепло хорошо.", encoding="utf-8")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 not really")
    (folder / "empty.txt").write_bytes(b"")
    (folder / ".secret.txt").write_text("Nobody should read that this is secret.", encoding="utf-8")
    answer = ingest(memory, source=str(folder))
    assert memory.stats().documents == 2
    assert answer.atoms.failed == 2
    assert any("broken.pdf" in w for w in answer.warnings)
    assert memory.search(SearchRequest(query="secret", mode=SearchMode.LEXICAL)).results == ()


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (IngestRequest(), InvalidParameter),
        (IngestRequest(source="a", text="b"), InvalidParameter),
        (IngestRequest(text=" \x00 … "), EmptyText),
        (IngestRequest(source="/etc/passwd"), PathNotAllowed),
        (IngestRequest(source="file:///etc/passwd"), PathNotAllowed),
        (IngestRequest(source="gopher://example.org"), InvalidParameter),
        (IngestRequest(text="x", authority=2.0), InvalidParameter),
        (IngestRequest(text="x", distill=Distill.LLM), InvalidParameter),
    ],
)
def test_bad_input_is_refused_before_a_job_is_made(
    memory: LocalMemory, request_: IngestRequest, error: type[Exception]
) -> None:
    with pytest.raises(error):
        memory.ingest(request_)
    assert memory.stats().jobs == ()


@pytest.mark.parametrize(
    "source", ["http://127.0.0.1:9/", "http://localhost:9/", "http://169.254.169.254/latest/meta-data"]
)
def test_a_private_address_fails_the_job_with_its_code(memory: LocalMemory, source: str) -> None:
    answer = memory.ingest(IngestRequest(source=source))
    assert answer.state is JobState.FAILED
    assert answer.error is not None
    assert answer.error.code == "url_not_allowed"
    listed = memory.stats(job_id=answer.job_id).jobs[0]
    assert listed.error == answer.error


def test_zero_usable_text_is_a_failure(memory: LocalMemory, ingest_root: Path) -> None:
    path = ingest_root / "nothing.html"
    path.write_text("<html><body><nav>Home</nav></body></html>", encoding="utf-8")
    answer = memory.ingest(IngestRequest(source=str(path)))
    assert answer.state is JobState.FAILED
    assert answer.error is not None
    assert answer.error.code == "no_usable_text"
    assert counts(memory) == (0, 0, 0, 0)


def test_a_snippet_stands_in_for_a_page_that_cannot_be_fetched(memory: LocalMemory) -> None:
    answer = ingest(
        memory,
        source="https://pegas-memory.invalid/page",
        snippet="The snippet says that the bridge opened in 1932.",
    )
    assert any("snippet" in w for w in answer.warnings)
    found = memory.search(SearchRequest(query="bridge opened")).results[0]
    assert found.citations[0].uri == "https://pegas-memory.invalid/page"


def test_not_waiting_gives_the_job_id_and_jobs_of_others_are_not_found(memory: LocalMemory) -> None:
    answer = memory.ingest(IngestRequest(text="Not waiting is also fine for a short text.", wait=False))
    done = memory.wait_job(answer.job_id, 20)
    assert done.state is JobState.DONE
    with pytest.raises(NotFound):
        memory.as_tenant("somebody else").job(answer.job_id)
    with pytest.raises(InvalidParameter):
        memory.retry_job(answer.job_id)
    with pytest.raises(NotFound):
        memory.job(UUID(int=0))


def test_a_cancelled_job_stops_and_can_be_taken_up_again(memory: LocalMemory) -> None:
    book = "\n\n".join(f"Chapter {n} says that pump number {n} moves {n} litres a minute." for n in range(400))
    answer = memory.ingest(IngestRequest(text=book, title="Book", wait=False))
    for _ in range(400):
        if memory.stats().atoms.total:
            break
        time.sleep(0.01)
    stopped = memory.cancel_job(answer.job_id)
    if stopped.state is JobState.CANCELLED:
        assert 0 < memory.stats().atoms.total < 400
        stopped = memory.retry_job(answer.job_id)
    assert stopped.state is JobState.DONE
    assert memory.stats().atoms.total == 400
    assert memory.stats().citations == 400


def test_an_abandoned_job_is_finished_by_another_worker_without_doubles(memory: LocalMemory) -> None:
    """As after kill -9: half of the work is committed, the job says `running`, its worker is gone."""
    book = "\n\n".join(f"Section {n} says that valve number {n} opens at {n} bar." for n in range(120))
    first = ingest(memory, text=book, title="Valves")
    total = counts(memory)
    with memory.rooms.db.tenant(memory.tenant) as conn:
        conn.execute(text("DELETE FROM pm_citation WHERE quote LIKE '%number 7%'"))
        conn.execute(text("DELETE FROM pm_atom WHERE claim LIKE '%number 7%'"))
        conn.execute(text("UPDATE pm_document SET ingested_at = NULL"))
        job_id = jobs.create(conn, memory.tenant, "ingest", {"text": book, "title": "Valves"})
        conn.execute(
            text(
                "UPDATE pm_job SET state = 'running', attempts = 1,"
                " heartbeat_at = clock_timestamp() - interval '1 hour'"
                " WHERE id = :id"
            ),
            {"id": job_id},
        )
    memory.worker.wake()
    done = memory.wait_job(job_id, 30)
    assert done.state is JobState.DONE
    assert done.doc_id == first.doc_id
    assert counts(memory) == total


def test_a_document_that_another_worker_ingests_is_waited_for(memory: LocalMemory) -> None:
    """As with several workers of the server profile: their jobs on one document take turns."""
    text_ = "The dock at Norden has four cranes."
    content_hash = hashlib.sha256(text_.encode()).hexdigest()
    turn = Turn(memory.rooms.db.url, f"document {memory.tenant} text:{content_hash[:32]}")
    assert turn.mine()
    answer = memory.ingest(IngestRequest(text=text_, title="Dock", wait=False))
    for _ in range(500):
        if memory.job(answer.job_id).progress.get("waiting"):
            break
        time.sleep(0.02)
    assert memory.job(answer.job_id).progress["waiting"]
    assert memory.stats().documents == 0
    turn.close()
    assert memory.wait_job(answer.job_id, 30).state is JobState.DONE
    assert memory.stats().atoms.total == 1


def test_searches_go_on_while_a_document_is_read(memory: LocalMemory) -> None:
    ingest(memory, text="The lighthouse was built in 1870.", title="Before")
    book = "\n\n".join(f"Item {n} weighs {n} grams and costs {n} euros." for n in range(300))
    reader = threading.Thread(target=lambda: ingest(memory, text=book, title="Long"))
    reader.start()
    seen = 0
    while reader.is_alive():
        assert memory.search(SearchRequest(query="lighthouse built")).results[0].claim.startswith("The lighthouse")
        seen += 1
    reader.join()
    assert seen > 0
