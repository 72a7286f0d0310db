"""A memory opened at its sources, documents in pages, and a check that every stored quote stands."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from pegas_memory.errors import BadCursor, InvalidParameter, NotFound
from pegas_memory.model import (
    Distill,
    DocumentKind,
    GapRequest,
    IngestAnswer,
    IngestRequest,
    JobState,
    LinkRequest,
    SearchRequest,
    SourceRef,
    SourceState,
    Standing,
    StoreRequest,
    Verdict,
    VerifyRequest,
)
from tests.support.local_memory import LocalMemory
from tests.support.pdf_files import Text, pdf

GUIDE = """# Насосы

Насос П-12 перекачивает 40 литров в минуту. Его ставят у реки.

## Обслуживание

Масло меняют каждые 500 часов работы. Перед запуском насос заполняют водой.

| деталь | срок |
|---|---|
| сальник | 2 года |
"""


def ingest(memory: LocalMemory, **request: object) -> IngestAnswer:
    answer = memory.ingest(IngestRequest(**request))  # type: ignore[arg-type]
    assert answer.state is JobState.DONE, answer.error
    return answer


def found(memory: LocalMemory, query: str) -> UUID:
    return memory.search(SearchRequest(query=query)).results[0].atom_id


def test_a_quote_is_shown_in_its_context(memory: LocalMemory, ingest_root: Path) -> None:
    path = ingest_root / "pumps.md"
    path.write_text(GUIDE, encoding="utf-8")
    ingest(memory, source=str(path))
    opened = memory.opened(found(memory, "масло меняют каждые 500 часов"))
    assert (opened.kind, opened.status) == ("atom", "candidate")
    (passage,) = opened.passages
    assert passage.quote == "Масло меняют каждые 500 часов работы."
    assert passage.before.endswith("## Обслуживание\n\n") or passage.before.endswith("Обслуживание\n\n")
    assert passage.after.startswith(" Перед запуском насос заполняют водой.")
    assert passage.before + passage.quote + passage.after in path.read_text(encoding="utf-8") + passage.after
    assert "Обслуживание" in passage.locator
    assert (passage.standing, passage.source) == (Standing.AT_LOCATOR, SourceState.UNCHANGED)
    assert passage.link == passage.uri == path.as_uri()


@pytest.mark.parametrize("change", ["changed", "gone", "outside", "a folder"])
def test_what_became_of_the_file_is_said(memory: LocalMemory, ingest_root: Path, change: str) -> None:
    path = ingest_root / f"file {change} № 1.md"
    path.write_text(GUIDE, encoding="utf-8")
    ingest(memory, source=str(path))
    atom_id = found(memory, "масло меняют каждые 500 часов")
    expected = {
        "changed": SourceState.CHANGED, "gone": SourceState.MISSING, "outside": SourceState.NOT_ALLOWED,
        "a folder": SourceState.CHANGED,
    }  # fmt: skip
    path.unlink()
    if change == "changed":
        path.write_text(GUIDE + "\nЕщё.", encoding="utf-8")
    if change == "outside":
        path.symlink_to("/etc/passwd")
    if change == "a folder":
        path.mkdir()
    (passage,) = memory.opened(atom_id).passages
    assert (passage.source, passage.standing) == (expected[change], Standing.AT_LOCATOR)


def test_a_page_of_a_pdf_and_the_words_of_a_web_page_are_linked(memory: LocalMemory, ingest_root: Path) -> None:
    path = ingest_root / "kiln.pdf"
    pages = ["The first page is about the kiln and its builders.", "The glaze melts at 1180 degrees in the kiln."]
    path.write_bytes(pdf([[Text(words, 700)] for words in pages]))
    ingest(memory, source=str(path))
    (passage,) = memory.opened(found(memory, "The glaze melts at 1180 degrees")).passages
    assert passage.link == f"{path.as_uri()}#page=2"
    assert passage.locator.startswith("p. 2")
    web = SourceRef("https://example.org/a#top", "Log", quote="a well-known heron, they say")
    stored = memory.store(StoreRequest("The heron is known.", source=web))
    (passage,) = memory.opened(stored.atom_id).passages
    assert passage.link == "https://example.org/a#top:~:text=a%20well%2Dknown%20heron%2C%20they%20say"
    assert (passage.standing, passage.source) == (Standing.NO_STORED_TEXT, SourceState.NOT_CHECKED)
    long = SourceRef("https://example.org/b", "Log", quote="one two three four five six\nseven eight nine ten eleven")
    stored = memory.store(StoreRequest("It counts.", source=long))
    (passage,) = memory.opened(stored.atom_id).passages
    assert passage.link.endswith("#:~:text=one%20two%20three%20four%20five,seven%20eight%20nine%20ten%20eleven")


def test_citations_without_a_place(memory: LocalMemory, ingest_root: Path) -> None:
    path = ingest_root / "plain.md"
    path.write_text(GUIDE, encoding="utf-8")
    ingest(memory, source=str(path))
    for quote, standing in (
        ("Его ставят у реки.", Standing.ELSEWHERE),
        ("Его не ставят у реки.", Standing.ABSENT),
        ("", Standing.NO_QUOTE),
    ):
        claim = f"Насос стоит у реки: {standing}."
        stored = memory.store(StoreRequest(claim, source=SourceRef(path.as_uri(), quote=quote, locator="с. 1")))
        (passage,) = memory.opened(stored.atom_id).passages
        assert (passage.standing, passage.quote, passage.locator) == (standing, quote, "с. 1")
        assert bool(passage.before) == (standing is Standing.ELSEWHERE)
    assert memory.opened(memory.store(StoreRequest("Без источника.")).atom_id).passages == ()


def test_a_long_quote_and_many_citations(memory: LocalMemory) -> None:
    quote = "слово " * 20_000 + "конец"
    stored = memory.store(StoreRequest("Длинная цитата.", source=SourceRef("https://example.org/0", quote=quote)))
    for number in range(1, 25):
        source = SourceRef(f"https://example.org/{number}", quote="слово")
        memory.store(StoreRequest("Длинная цитата.", source=source))
    opened = memory.opened(stored.atom_id)
    assert opened.passages[0].quote == quote
    assert len(opened.passages[0].link) < 400
    assert (len(opened.passages), opened.more) == (20, 5)
    one_word = SourceRef("https://example.org/w", quote="слово" * 10_000)
    (passage,) = memory.opened(memory.store(StoreRequest("Одно слово.", source=one_word)).atom_id).passages
    assert passage.link == passage.uri


def test_whatever_has_the_id_is_named_and_states_are_shown(memory: LocalMemory) -> None:
    source = SourceRef("https://example.org/x", "Журнал", quote="q")
    stored = memory.store(
        StoreRequest("Цапля живёт у маяка.", source=source, links=(LinkRequest("Маяк", "reference"),))
    )
    gap = memory.add_gap(GapRequest("Кто построил маяк?"))
    with memory.rooms.db.tenant(memory.tenant) as conn:
        (entity,) = conn.execute(text("SELECT id FROM pm_entity")).scalars()
        (document,) = conn.execute(text("SELECT id FROM pm_document")).scalars()
    assert (memory.opened(entity).kind, memory.opened(entity).text) == ("entity", "Маяк")
    assert (memory.opened(document).kind, memory.opened(document).text) == ("document", "Журнал")
    assert (memory.opened(gap.gap_id).kind, memory.opened(gap.gap_id).status) == ("gap", "open")
    newer = memory.store(StoreRequest("Цапля живёт у реки.", replaces=stored.atom_id))
    old = memory.opened(stored.atom_id)
    assert (old.status, old.superseded_by) == ("superseded", newer.atom_id)
    memory.verify(VerifyRequest(Verdict.RETRACT, "ошибка", (newer.atom_id,)))
    assert memory.opened(newer.atom_id).status == "retracted"
    memory.verify(VerifyRequest(Verdict.PURGE, "ошибка", (newer.atom_id,)))
    for unknown in (newer.atom_id, uuid4()):
        with pytest.raises(NotFound):
            memory.opened(unknown)


def test_documents_are_listed_in_pages(memory: LocalMemory, ingest_root: Path) -> None:
    for number in range(5):
        ingest(memory, text=f"Мельница номер {number} стоит у ручья.", title=f"Мельница {number}", tags=(f"m{number}",))
    memory.store(StoreRequest("Пасека стоит у леса.", source=SourceRef("https://example.org/p", "Пасека")))
    first = memory.documents(limit=4)
    assert [one.title for one in first.documents] == ["Пасека", "Мельница 4", "Мельница 3", "Мельница 2"]
    assert [one.state for one in first.documents] == ["cited", "read", "read", "read"]
    assert (first.documents[1].atoms, first.documents[1].chunks) == (1, 1)
    second = memory.documents(limit=4, cursor=first.next_cursor)
    assert [one.title for one in second.documents] == ["Мельница 1", "Мельница 0"]
    assert second.next_cursor == ""
    assert [one.title for one in memory.documents(tags=("m1", "m2")).documents] == ["Мельница 2", "Мельница 1"]
    assert [one.title for one in memory.documents(kind=DocumentKind.WEB).documents] == ["Пасека"]
    assert memory.documents(kind=DocumentKind.PDF).documents == ()
    for limit in (0, 201):
        with pytest.raises(InvalidParameter):
            memory.documents(limit=limit)
    with pytest.raises(BadCursor):
        memory.documents(cursor="nonsense")


@pytest.mark.parametrize("distill", [Distill.EXTRACTIVE, Distill.OFF])
def test_every_citation_that_ingest_writes_stands(memory: LocalMemory, ingest_root: Path, distill: Distill) -> None:
    long = " ".join(f"Насос номер {n} перекачивает {n * 7} литров воды в минуту." for n in range(300))
    path = ingest_root / f"long {distill}.md"
    path.write_text(f"{GUIDE}\n\n## Много\n\n{long}\n\n- первый пункт\n- второй пункт\n", encoding="utf-8")
    answer = ingest(memory, source=str(path), distill=distill)
    ingest(memory, text="Кавитация — это образование пузырьков пара в жидкости.")
    memory.store(StoreRequest("Пасека стоит у леса.", source=SourceRef("https://example.org/p", quote="у леса")))
    memory.store(StoreRequest("Насос стоит у реки.", source=SourceRef(path.as_uri(), quote="Его ставят у реки.")))
    seen: list[tuple[int, int]] = []
    checked = memory.check_citations(lambda documents, citations: seen.append((documents, citations)))
    assert (checked.faulty, checked.faults, checked.being_read) == (0, (), 0)
    assert (checked.documents, checked.untold, checked.unlocated) == (3, 1, 1)
    assert checked.held == checked.citations - 2 >= answer.chunks
    assert seen[-1] == (3, checked.citations)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("UPDATE pm_citation SET quote = 'иное' WHERE tenant = :t", "does not stand at its locator"),
        ("UPDATE pm_document SET body = 'x' || body WHERE tenant = :t", "does not stand at its locator"),
        ("DELETE FROM pm_chunk WHERE tenant = :t", "its chunk is gone"),
        ("UPDATE pm_chunk SET text = text || '!' WHERE tenant = :t", "is no part of the document"),
        (
            "UPDATE pm_chunk SET locator = jsonb_set(locator, '{end}', '5'), text = left(text, 5) WHERE tenant = :t",
            "does not hold where the quote begins",
        ),
    ],
)
def test_a_citation_that_does_not_stand_is_named(memory: LocalMemory, spoil: str, reason: str) -> None:
    ingest(memory, text="Введение.\n\nНасос П-12 перекачивает 40 литров в минуту.")
    with memory.rooms.db.tenant(memory.tenant) as conn:
        conn.execute(text(spoil), {"t": memory.tenant})
        (citation_id, atom_id, doc_id) = conn.execute(text("SELECT id, atom_id, doc_id FROM pm_citation")).one()
    checked = memory.check_citations()
    assert (checked.faulty, checked.held) == (1, 0)
    (fault,) = checked.faults
    assert (fault.citation_id, fault.atom_id, fault.doc_id) == (citation_id, atom_id, doc_id)
    assert reason in fault.reason


def test_a_document_that_is_being_read_is_passed_over(memory: LocalMemory) -> None:
    ingest(memory, text="Насос П-12 перекачивает 40 литров в минуту.")
    with memory.rooms.db.tenant(memory.tenant) as conn:
        conn.execute(text("UPDATE pm_document SET ingested_at = NULL, body = 'half'"))
    checked = memory.check_citations()
    assert (checked.being_read, checked.citations, checked.faulty) == (1, 0, 0)
    assert memory.documents().documents[0].state == "being_read"
