"""A batch of lessons is one transaction of a few statements; what each lesson becomes must not depend on that."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from sqlalchemy import Connection, text

from pegas_memory.db import atoms, citations, documents
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.citations import NewCitation
from pegas_memory.model import AtomType, SearchMode, SearchRequest, StoreRequest
from pegas_memory.pipeline import Learned, Lesson
from tests.support.local_memory import LocalMemory


def document(memory: LocalMemory, title: str) -> UUID:
    with memory.rooms.db.tenant(memory.tenant) as conn:
        return documents.cite_source(conn, memory.tenant, uri="", title=title, authority=None)


def lesson(doc_id: UUID, claim: str, quote: str = "", **more: object) -> Lesson:
    atom = replace(NewAtom(AtomType.FACT, claim, doc_id=doc_id), **more)  # type: ignore[arg-type]
    return Lesson(atom, (NewCitation(doc_id, quote or claim),))


def learn(memory: LocalMemory, *lessons: Lesson) -> list[Learned]:
    learned, _ = memory.rooms.learner.learn(memory.tenant, lessons)
    return learned


def quotes(memory: LocalMemory, atom_id: UUID) -> list[str]:
    with memory.rooms.db.tenant(memory.tenant) as conn:
        return sorted(c.quote for c in citations.of_atoms(conn, memory.tenant, [atom_id]).get(atom_id, []))


def test_twins_in_one_batch_are_one_atom_with_the_citations_and_tags_of_both(memory: LocalMemory) -> None:
    doc_id = document(memory, "Twins")
    first, other, second = learn(
        memory,
        lesson(doc_id, "The harbour closes at nine.", "page 1", tags=("a",)),
        lesson(doc_id, "Ночной поезд идёт через Пермь."),
        lesson(doc_id, "The harbour closes at nine.", "page 2", tags=("b",)),
    )
    assert sorted([first.created, second.created]) == [False, True]
    assert other.created
    assert first.atom_id == second.atom_id != other.atom_id
    assert quotes(memory, first.atom_id) == ["page 1", "page 2"]
    (found,) = memory.search(SearchRequest(ids=(first.atom_id,))).results
    assert sorted(found.tags) == ["a", "b"]


def test_rewordings_in_one_batch_are_one_atom_and_updates_are_not(memory: LocalMemory) -> None:
    doc_id = document(memory, "Rewordings")
    dates = (datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC))
    first, again, update, third, of_a_year, as_text = learn(
        memory,
        lesson(doc_id, "Ёжик спит зимой под листвой.", "one", tags=("a",)),
        lesson(doc_id, "ежик спит зимой под листвой", "two", tags=("b",)),
        lesson(doc_id, "Ёжик не спит зимой под листвой.", "not"),
        lesson(doc_id, "Ежик спит зимой под листвой…", "three"),
        lesson(doc_id, "Ежик спит зимой под листвой!", "year", valid_from=dates[0], valid_to=dates[1]),
        lesson(doc_id, "Ежик спит зимой под листвой", "text", type=AtomType.TEXT),
    )
    assert [one.created for one in (first, again, update, third, of_a_year, as_text)] == [
        True, False, True, False, True, True
    ]  # fmt: skip
    assert first.atom_id == again.atom_id == third.atom_id == again.duplicate_of
    assert again.similarity is not None
    assert 0.9 < again.similarity <= 1.001
    assert quotes(memory, first.atom_id) == ["one", "three", "two"]
    (found,) = memory.search(SearchRequest(ids=(first.atom_id,))).results
    assert set(found.tags) == {"a", "b"}
    assert quotes(memory, update.atom_id) == ["not"]


def test_a_rewording_whose_twin_was_retracted_meanwhile_is_stored(memory: LocalMemory) -> None:
    doc_id = document(memory, "Race")
    retracted = lesson(doc_id, "Киты дышат жабрами в океане.")
    reworded = lesson(doc_id, "киты дышат жабрами в океане", "later")

    def meanwhile(conn: Connection, given: Lesson) -> Lesson:
        """Another writer stores and retracts the first claim after the batch was planned."""
        if given is retracted:
            with memory.rooms.db.tenant(memory.tenant) as other:
                (made,) = atoms.insert_many(other, memory.tenant, [retracted.atom])
                row = atoms.lock(other, memory.tenant, made) if made else None
                if row is not None:
                    atoms.change(other, row, {"retracted_at": datetime(2026, 1, 1, tzinfo=UTC)}, what="retracted")
        return given

    (first, second), _ = memory.rooms.learner.learn(memory.tenant, [retracted, reworded], prepare=meanwhile)
    assert (first.created, first.status) == (False, "retracted")
    assert second.created
    assert second.atom_id != first.atom_id
    assert quotes(memory, second.atom_id) == ["later"]


def test_two_lessons_of_a_batch_that_say_what_stands_both_leave_their_mark(memory: LocalMemory) -> None:
    doc_id = document(memory, "Marks")
    (standing,) = learn(memory, lesson(doc_id, "Dry ice sublimes at −78 °C.", "one", tags=("a",)))
    second, third = learn(
        memory,
        lesson(doc_id, "Dry ice sublimes at −78 °C.", "two", tags=("b",)),
        lesson(doc_id, "Dry ice sublimes at −78 °C.", "three", tags=("c",)),
    )
    assert {second.duplicate_of, third.duplicate_of} == {standing.atom_id}
    assert sorted([second.revision, third.revision]) == [2, 3]
    assert quotes(memory, standing.atom_id) == ["one", "three", "two"]
    (found,) = memory.search(SearchRequest(ids=(standing.atom_id,))).results
    assert set(found.tags) == {"a", "b", "c"}


def test_a_retracted_atom_is_not_made_again(memory: LocalMemory) -> None:
    doc_id = document(memory, "Retracted")
    (standing,) = learn(memory, lesson(doc_id, "Whales are fish."))
    with memory.rooms.db.tenant(memory.tenant) as conn:
        row = atoms.lock(conn, memory.tenant, standing.atom_id)
        assert row is not None
        atoms.change(conn, row, {"retracted_at": datetime(2026, 1, 1, tzinfo=UTC)}, what="retracted")
    again, fresh = learn(memory, lesson(doc_id, "Whales are fish.", "again"), lesson(doc_id, "Sharks are fish."))
    assert (again.created, again.atom_id, again.status) == (False, standing.atom_id, "retracted")
    assert quotes(memory, standing.atom_id) == ["Whales are fish."]
    assert fresh.created


def test_everything_legal_survives_the_statement_that_inserts_many(memory: LocalMemory) -> None:
    odd = 'Ёжик 🦔 "x" \\n \\u0041 {"a": null} \u2028 \u00a0 it\'s 100 % $1 :name'
    moment = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
    new = NewAtom(
        AtomType.FACT, odd, content=odd + "\n\t" + odd, confidence=0.1 + 0.2, importance=1 / 3, tags=(odd, "NULL", ""),
        metadata={"ключ": [1, 2.5, None, True, {"deep": odd}], "big": 2**53 + 1}, occurred_at=moment,
        valid_from=moment, terms=("ё", "NULL", '"', "{,}"),
    )  # fmt: skip
    with memory.rooms.db.tenant(memory.tenant) as conn:
        first, twin, second = atoms.insert_many(conn, memory.tenant, [new, new, NewAtom(AtomType.TEXT, odd)])
        assert first is not None
        assert second is not None
        assert twin is None
        row = atoms.fetch(conn, memory.tenant, [first])[first]
        noted = conn.execute(
            text("SELECT entity_id FROM pm_outbox WHERE entity_id = ANY(:ids) ORDER BY seq"), {"ids": [first, second]}
        ).scalars()
        assert list(noted) == [first, second]
    assert (row.claim, row.content, row.tags, row.terms) == (new.claim, new.content, new.tags, new.terms)
    assert (row.metadata, row.confidence, row.importance) == (new.metadata, new.confidence, new.importance)
    assert (row.occurred_at, row.valid_from, row.valid_to) == (moment, moment, None)
    assert row.revision == 1


@pytest.mark.parametrize("mode", list(SearchMode))
def test_pages_are_full_and_in_order_when_the_filter_hides_some_candidates(
    memory: LocalMemory, mode: SearchMode
) -> None:
    ids = [
        memory.store(StoreRequest(claim=f"Reservoir {n} supplies the town of Nizhny {n}.", tags=("odd",) * (n % 2)))
        for n in range(14)
    ]
    assert all(one.created for one in ids)
    whole = memory.search(SearchRequest(query="reservoir supplies town", mode=mode, limit=14))
    pages: list[UUID] = []
    cursor = ""
    while True:
        page = memory.search(SearchRequest(query="reservoir supplies town", mode=mode, limit=4, cursor=cursor))
        pages += [result.atom_id for result in page.results]
        if not page.next_cursor:
            break
        assert len(page.results) == 4
        cursor = page.next_cursor
    assert pages == [result.atom_id for result in whole.results]
    assert len(set(pages)) == 14
    odd = memory.search(SearchRequest(query="reservoir supplies town", mode=mode, tags=frozenset({"odd"}), limit=5))
    assert len(odd.results) == 5
    assert all("odd" in result.tags for result in odd.results)
