"""Store and search over the real parts."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from pegas_memory import bm25
from pegas_memory.db import outbox
from pegas_memory.db.atoms import NewAtom, insert_many
from pegas_memory.errors import BadCursor, EmptyText, InvalidParameter, NotFound, TextTooLong
from pegas_memory.model import (
    AtomType,
    ContextRequest,
    LinkRequest,
    Role,
    SearchFilter,
    SearchMode,
    SearchRequest,
    ShownAs,
    SourceRef,
    StoreRequest,
)
from pegas_memory.ranking import fuse
from pegas_memory.retrieval import depth_of
from pegas_memory.wiring import PegasMemory
from tests.support.embedding_server import Fault, HashedEmbeddingServer
from tests.support.local_memory import LocalMemory

SINCE_2025 = datetime(2025, 1, 1, tzinfo=UTC)
JUNE_2020 = datetime(2020, 6, 1, tzinfo=UTC)


def put(memory: PegasMemory, claim: str, **more: object) -> UUID:
    return memory.store(StoreRequest(claim=claim, **more)).atom_id  # type: ignore[arg-type]


def claims(memory: PegasMemory, query: str = "", **more: object) -> list[str]:
    return [r.claim for r in memory.search(SearchRequest(query=query, **more)).results]  # type: ignore[arg-type]


@pytest.mark.fault(36)
@pytest.mark.parametrize("mode", list(SearchMode))
def test_an_exact_copy_is_first_and_near_one_in_every_arm(memory: LocalMemory, mode: SearchMode) -> None:
    for n in range(12):
        put(memory, f"Filler number {n} speaks of gardens and rivers.")
    wanted = put(memory, "Кассовый разрыв возник в марте из-за задержки платежей.")
    answer = memory.search(
        SearchRequest(query="Кассовый разрыв возник в марте из-за задержки платежей.", mode=mode, explain=True)
    )
    assert answer.results[0].atom_id == wanted
    assert answer.results[0].score == pytest.approx(1.0, abs=0.01)
    assert answer.degraded == ()
    assert answer.pending == 0
    assert answer.results[0].explain is not None


@pytest.mark.fault(43)
@pytest.mark.parametrize("question", ["кассовый разрыв", "кассового разрыва", "КАССОВЫЙ", "елка", "Ёлка", "модель"])
def test_russian_words_are_found_without_the_dense_arm(memory: LocalMemory, question: str) -> None:
    put(memory, "Кассовый разрыв закрыли кредитом.")
    put(memory, "Ёлку поставили на площади.")
    put(memory, "GPT-модель отвечает медленно.")
    put(memory, "Nothing to do with it.")
    assert len(claims(memory, question, mode=SearchMode.LEXICAL)) == 1


def test_text_comes_back_byte_for_byte(memory: LocalMemory) -> None:
    claim = 'Привет, ёжик 🦔! «Кавычки» — тире; 日本語, عربى, {"a": 1}, null, 100 % \\ `x`'
    atom_id = put(memory, claim, content="line one\n\tline two\n\nстрока")
    (found,) = memory.search(SearchRequest(ids=(atom_id,))).results
    assert (found.claim, found.content) == (claim, "line one\n\tline two\n\nстрока")


def test_nul_and_surrogates(memory: LocalMemory) -> None:
    atom_id = put(
        memory,
        "a\x00b c",
        content="x\x00y",
        tags=("t\x00g",),
        metadata={"k\x00": "v\x00"},
        source=SourceRef(uri="https://example.org/\x00", title="ti\x00tle", quote="q\x00"),
    )
    (found,) = memory.search(SearchRequest(ids=(atom_id,))).results
    assert (found.claim, found.content, found.tags, found.metadata) == ("ab c", "xy", ("tg",), {"k": "v"})
    assert (found.citations[0].uri, found.citations[0].title) == ("https://example.org/", "title")
    with pytest.raises(InvalidParameter, match="surrogate"):
        put(memory, "\ud83d broken")


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (StoreRequest(), EmptyText),
        (StoreRequest(claim=" \n\x00 ", content="…!"), EmptyText),
        (StoreRequest(claim="x" * 5_000_000), TextTooLong),
        (StoreRequest(claim="ok", content="x" * 5_000_000), TextTooLong),
        (StoreRequest(claim="ok", confidence=1.5), InvalidParameter),
        (StoreRequest(claim="ok", importance=-0.1), InvalidParameter),
        (StoreRequest(claim="ok", replaces=uuid4()), NotFound),
        (StoreRequest(claim="ok", links=(LinkRequest(str(uuid4()), "cause"),)), NotFound),
        (StoreRequest(claim="ok", links=(LinkRequest("x", "two words"),)), InvalidParameter),
        (StoreRequest(claim="ok", source=SourceRef()), InvalidParameter),
        (StoreRequest(claim="ok", metadata={"a": float("inf")}), InvalidParameter),
    ],
)
def test_bad_input_is_refused_and_writes_nothing(
    memory: LocalMemory, request_: StoreRequest, error: type[Exception]
) -> None:
    with pytest.raises(error):
        memory.store(request_)
    with memory.rooms.db.tenant(memory.tenant) as conn:
        for table in ("pm_atom", "pm_document", "pm_entity", "pm_atom_link", "pm_outbox", "pm_revision"):
            assert conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == 0, table


def test_a_link_to_a_missing_id_leaves_no_document_and_no_atom(memory: LocalMemory) -> None:
    with pytest.raises(NotFound):
        memory.store(
            StoreRequest(
                claim="Half a store is none.",
                source=SourceRef(uri="https://example.org/a"),
                links=(LinkRequest("Entity", "cause"), LinkRequest(str(uuid4()), "cause")),
            )
        )
    stats = memory.stats()
    assert (stats.atoms.total, stats.documents, stats.links.total) == (0, 0, 0)


def test_an_exact_duplicate_adds_its_source_tags_and_links(memory: LocalMemory) -> None:
    first = memory.store(StoreRequest(claim="Water boils at 100 °C.", source=SourceRef(uri="https://a.example")))
    again = memory.store(
        StoreRequest(
            claim="Water  boils at\n100 °C.",
            source=SourceRef(uri="https://b.example"),
            tags=("physics",),
            links=(LinkRequest("Вода", "reference"),),
        )
    )
    assert (again.created, again.duplicate_of, again.similarity) == (False, first.atom_id, 1.0)
    assert again.revision > first.revision
    (found,) = memory.search(SearchRequest(query="water boils")).results
    assert {c.uri for c in found.citations} == {"https://a.example", "https://b.example"}
    assert found.tags == ("physics",)
    assert memory.stats().links.total == 1
    third = memory.store(StoreRequest(claim="Water boils at 100 °C.", source=SourceRef(uri="https://b.example")))
    assert third.revision == again.revision


UPDATES = [
    ("The meeting is on 15 October.", "The meeting is on 16 October."),
    ("Order SR-2023-052 was shipped.", "Order SR-2023-053 was shipped."),
    ("Встреча назначена на 15 октября.", "Встреча назначена на 16 октября."),
    ("The valve is open.", "The valve is not open."),
    ("Клапан открыт.", "Клапан не открыт."),
    ("Anna leads the project.", "Maria leads the project."),
    ("Проект ведёт Анна.", "Проект ведёт Мария."),
    ("The pump weighs 5 kg.", "The pump weighs 5 g."),
    ("Alice paid Bob.", "Bob paid Alice."),
    ("Prices increased in May.", "Prices decreased in May."),
]


@pytest.mark.fault(57)
@pytest.mark.parametrize(("old", "new"), UPDATES)
def test_an_update_is_never_merged_away(memory: LocalMemory, old: str, new: str) -> None:
    first, second = put(memory, old), put(memory, new)
    assert first != second
    assert memory.stats().atoms.total == 2


def test_a_trivial_rewording_is_one_atom_with_two_sources(memory: LocalMemory) -> None:
    first = memory.store(StoreRequest(claim="Ёжик спит зимой.", source=SourceRef(uri="https://a.example")))
    again = memory.store(StoreRequest(claim="ежик спит зимой", source=SourceRef(uri="https://b.example")))
    assert again.duplicate_of == first.atom_id
    assert again.similarity is not None
    assert again.similarity > 0.9


def test_replacing_keeps_the_history(memory: LocalMemory) -> None:
    old = put(memory, "The capital of Kazakhstan is Nur-Sultan.")
    answer = memory.store(StoreRequest(claim="The capital of Kazakhstan is Astana.", replaces=old))
    assert (answer.created, answer.replaced) == (True, old)
    assert claims(memory, "capital of Kazakhstan") == ["The capital of Kazakhstan is Astana."]
    (gone,) = memory.search(SearchRequest(ids=(old,))).results
    assert (gone.status, gone.superseded_by) == ("superseded", answer.atom_id)
    shown = claims(memory, "capital of Kazakhstan", statuses=frozenset({ShownAs.SUPERSEDED}))
    assert shown == ["The capital of Kazakhstan is Nur-Sultan."]
    with memory.rooms.db.tenant(memory.tenant) as conn:
        assert conn.execute(text("SELECT change FROM pm_revision")).scalars().all() == ["superseded"]
    back = memory.store(StoreRequest(claim="The capital of Kazakhstan is Nur-Sultan.", replaces=answer.atom_id))
    assert back.created
    assert claims(memory, "capital of Kazakhstan") == ["The capital of Kazakhstan is Nur-Sultan."]


def test_a_correction_of_the_spelling_is_not_taken_for_a_copy(memory: LocalMemory) -> None:
    old = put(memory, "ежик спит зимой")
    answer = memory.store(StoreRequest(claim="Ёжик спит зимой.", replaces=old))
    assert (answer.created, answer.replaced) == (True, old)
    assert claims(memory, "ёжик") == ["Ёжик спит зимой."]


def test_two_that_were_stored_at_the_same_moment_become_one(memory: LocalMemory) -> None:
    """As from two processes: each stored before the other could be seen."""
    first = memory.store(StoreRequest(claim="Ёжик спит зимой.", source=SourceRef(uri="https://a.example")))
    memory.rooms._recent.clear()
    memory.searcher.broken = True
    second = memory.store(StoreRequest(claim="ежик спит зимой", source=SourceRef(uri="https://b.example")))
    memory.searcher.broken = False
    assert second.created
    for _ in range(500):
        results = memory.search(SearchRequest(query="ёжик")).results
        if len(results) == 1:
            break
        time.sleep(0.02)
    (found,) = results
    assert found.atom_id == first.atom_id
    assert {c.uri for c in found.citations} == {"https://a.example", "https://b.example"}
    (gone,) = memory.search(SearchRequest(ids=(second.atom_id,))).results
    assert (gone.status, gone.superseded_by) == ("superseded", first.atom_id)


def test_what_was_believed_then(memory: LocalMemory) -> None:
    old = put(memory, "The office is in Kazan.")
    between = datetime.now(UTC)
    memory.store(StoreRequest(claim="The office is in Perm.", replaces=old))
    assert claims(memory, "office", as_of=between) == ["The office is in Kazan."]
    assert claims(memory, "office") == ["The office is in Perm."]


def test_a_fact_of_the_past_is_found_among_better_matches_of_the_present(memory: LocalMemory) -> None:
    now_true = [NewAtom(AtomType.FACT, f"Turbine {n} director Orlov.", valid_from=SINCE_2025) for n in range(249)]
    known(memory, [replace(atom, terms=tuple(bm25.terms(atom.claim))) for atom in now_true])
    past = "Back then the works of the whole river region had Petrova as the head of every turbine, a director by name."
    put(memory, past, valid_from=datetime(2019, 1, 1, tzinfo=UTC), valid_to=datetime(2021, 1, 1, tzinfo=UTC))
    question = "turbine director"
    for mode in SearchMode:
        assert claims(memory, question, mode=mode, as_of=JUNE_2020) == [past], mode
        present = claims(memory, question, mode=mode, as_of=datetime(2025, 6, 1, tzinfo=UTC))
        assert past not in present, mode
        assert len(present) == 10, mode
    answer = memory.context(ContextRequest(question, as_of=JUNE_2020))
    assert past in answer.context
    assert len(answer.items) == 1
    memory.searcher.broken = True
    assert claims(memory, question, as_of=JUNE_2020) == [past]


def test_every_moment_of_a_change_and_its_reversal_has_its_own_answer(memory: LocalMemory) -> None:
    kazan, perm = "The office is in Kazan.", "The office is in Perm."
    before = datetime.now(UTC)
    first = put(memory, kazan)
    with_kazan = datetime.now(UTC)
    second = memory.store(StoreRequest(claim=perm, replaces=first)).atom_id
    with_perm = datetime.now(UTC)
    third = memory.store(StoreRequest(claim=kazan, replaces=second)).atom_id
    back = datetime.now(UTC)
    assert len({first, second, third}) == 3
    held = {before: [], with_kazan: [first], with_perm: [second], back: [third]}
    memory.search(SearchRequest(query="office"))  # waits until the index holds all three
    for moment, wanted in held.items():
        for mode in SearchMode:
            found = memory.search(SearchRequest(query="office", mode=mode, as_of=moment)).results
            assert [r.atom_id for r in found] == wanted, (moment, mode)
        assert [r.atom_id for r in memory.search(SearchRequest(as_of=moment)).results] == wanted, moment
        assert indexed(memory, "office", as_of=moment) == wanted, moment


def test_what_ended_is_no_longer_open_in_the_index(memory: LocalMemory) -> None:
    """The index alone, without the look at PostgreSQL that follows: its end must not stay at FOREVER."""
    atom_id = put(memory, "The bridge over the Kama is closed.")
    memory.search(SearchRequest(query="bridge"))
    open_until = datetime.now(UTC)
    assert indexed(memory, "bridge", as_of=datetime(2100, 1, 1, tzinfo=UTC)) == [atom_id]
    newer = memory.store(StoreRequest(claim="The bridge over the Kama is open.", replaces=atom_id)).atom_id
    memory.search(SearchRequest(query="bridge"))
    assert indexed(memory, "bridge", as_of=datetime(2100, 1, 1, tzinfo=UTC)) == [newer]
    assert indexed(memory, "bridge", as_of=open_until) == [atom_id]


def indexed(memory: LocalMemory, query: str, **filters: object) -> list[UUID]:
    where = SearchFilter(memory.tenant, shown_as=frozenset(), **filters)  # type: ignore[arg-type]
    hits = memory.searcher.index.search(where, dense=None, sparse=bm25.encode_query(query), limit=20)
    return [hit.entity_id for hit in hits.lexical]


def known(memory: LocalMemory, atoms: Sequence[NewAtom]) -> list[UUID]:
    """Many at once, without a look for near duplicates; returns when they can be found."""
    with memory.rooms.db.tenant(memory.tenant) as conn:
        ids = insert_many(conn, memory.tenant, atoms)
        xid = outbox.current_xid(conn)
    memory.rooms.written.note(memory.tenant, xid)
    for _ in range(20):
        if memory.search(SearchRequest(query="anything")).pending == 0:
            break
    return [atom_id for atom_id in ids if atom_id is not None]


@pytest.mark.fault(41)
def test_filters_come_before_the_top(memory: LocalMemory) -> None:
    for n in range(60):
        put(memory, f"Project alpha note {n} about turbines.", tags=("alpha",))
    for n in range(3):
        put(memory, f"Project beta note {n} about turbines.", tags=("beta",), type=AtomType.DEFINITION)
    assert len(claims(memory, "note about turbines", tags=frozenset({"beta"}), limit=5)) == 3
    assert len(claims(memory, "note about turbines", types=frozenset({AtomType.DEFINITION}), limit=5)) == 3
    assert claims(memory, "note about turbines", tags=frozenset({"beta", "gamma"}), limit=5) == claims(
        memory, "note about turbines", tags=frozenset({"beta"}), limit=5
    )


def test_pages_join_without_gap_or_repeat(memory: LocalMemory) -> None:
    put_ids = {put(memory, f"Note {n} about turbines.") for n in range(25)}
    for query in ("", "turbines"):
        seen: list[UUID] = []
        cursor = ""
        while True:
            answer = memory.search(SearchRequest(query=query, limit=7, cursor=cursor))
            seen += [r.atom_id for r in answer.results]
            cursor = answer.next_cursor
            if not cursor:
                break
        assert len(seen) == 25
        assert set(seen) == put_ids
    answer = memory.search(SearchRequest(query="turbines", limit=7))
    for cursor in ("x", "AAAA", answer.next_cursor):
        with pytest.raises(BadCursor):
            memory.search(SearchRequest(query="another", limit=7, cursor=cursor))


@pytest.mark.parametrize("mode", list(SearchMode))
def test_thirty_pages_of_a_random_corpus_repeat_and_miss_nothing(memory: LocalMemory, mode: SearchMode) -> None:
    dice = random.Random(5)
    words = [f"{a}{b}{c}" for a in "bdk" for b in "aou" for c in "lnr"]
    texts = [" ".join(dice.choices(words, k=dice.randint(3, 12))) for _ in range(400)]
    known(memory, [NewAtom(AtomType.FACT, claim, terms=tuple(bm25.terms(claim))) for claim in dict.fromkeys(texts)])
    query, limit = "bal don kur dal bur", 6
    where = SearchFilter(memory.tenant)
    dense = memory.rooms.embedder.embed([query], Role.QUERY)[0]
    hits = memory.searcher.index.search(where, dense=dense, sparse=bm25.encode_query(query), limit=depth_of(limit))
    assert len(hits.dense) == len(hits.lexical) == depth_of(limit) == 200
    arms = {"dense": hits.dense, "lexical": hits.lexical}
    wanted = [one.entity_id for one in (fuse(arms) if mode is SearchMode.HYBRID else arms[mode.value])]
    seen: list[UUID] = []
    cursor, pages = "", 0
    while cursor or not pages:
        answer = memory.search(SearchRequest(query=query, mode=mode, limit=limit, cursor=cursor))
        assert (answer.degraded == ()) == bool(answer.next_cursor)
        seen += [r.atom_id for r in answer.results]
        cursor, pages = answer.next_cursor, pages + 1
    assert [d.part for d in answer.degraded] == ["pages"]  # the end by depth is said
    assert pages >= 30
    assert len(set(seen)) == len(seen)
    assert seen == wanted


@pytest.mark.parametrize(
    "query", ["the of and", "🦔", '" OR 1=1 --', "a AND (b", "*", "%", "\\", "x" * 100_000, "и в на"]
)
def test_strange_questions_are_answered(memory: LocalMemory, query: str) -> None:
    put(memory, "Something to find.")
    memory.search(SearchRequest(query=query))


@pytest.mark.parametrize("limit", [0, -1, 10**6])
def test_a_limit_out_of_range_is_named(memory: LocalMemory, limit: int) -> None:
    with pytest.raises(InvalidParameter, match="from 1 to 200"):
        memory.search(SearchRequest(query="x", limit=limit))


def test_no_fake_vector_when_the_embedder_is_down(memory: LocalMemory, embedding_server: HashedEmbeddingServer) -> None:
    put(memory, "Ёжик спит зимой.", source=SourceRef(uri="https://a.example"))
    memory.search(SearchRequest(query="ёжик"))
    embedding_server.fault = Fault.HTTP_500
    answer = memory.store(StoreRequest(claim="ежик спит зимой", source=SourceRef(uri="https://b.example")))
    assert answer.created
    assert answer.pending > 0
    found = memory.search(SearchRequest(query="спит зимой"))
    assert [d.part for d in found.degraded] == ["dense arm"]
    assert {r.claim for r in found.results} == {"Ёжик спит зимой.", "ежик спит зимой"}
    with memory.rooms.db.tenant(memory.tenant) as conn:
        stored = conn.execute(text("SELECT count(*) FROM pm_embedding")).scalar_one()
        assert conn.execute(
            text("SELECT dedup_pending FROM pm_atom WHERE id = :id"), {"id": answer.atom_id}
        ).scalar_one()
    assert stored == 1
    embedding_server.fault = Fault.NONE
    memory.worker.wake()
    for _ in range(1_000):
        (first, *rest) = memory.search(SearchRequest(query="спит зимой")).results
        if not rest:
            break
        time.sleep(0.02)
    assert rest == []
    assert {c.uri for c in first.citations} == {"https://a.example", "https://b.example"}


def test_a_dead_index_is_said_and_postgresql_answers(memory: LocalMemory) -> None:
    put(memory, "Кассовый разрыв закрыли кредитом.")
    memory.search(SearchRequest(query="разрыв"))
    memory.searcher.broken = True
    answer = memory.search(SearchRequest(query="кассового разрыва"))
    assert [r.claim for r in answer.results] == ["Кассовый разрыв закрыли кредитом."]
    assert [d.part for d in answer.degraded] == ["vector index"]
    stored = memory.store(StoreRequest(claim="A claim while the index is down."))
    assert stored.created


@pytest.mark.parametrize("other", ["b", "a|b", "a:b", "%", "../x", "A"])
def test_tenants_are_apart_in_every_arm(memory: LocalMemory, other: str) -> None:
    mine, theirs = memory.as_tenant(f"{memory.tenant}a"), memory.as_tenant(f"{memory.tenant}{other}")
    before = (mine.stats().atoms.total, theirs.stats().atoms.total)
    assert before == (0, 0)
    claim = "Both tenants know that the reactor has 104 rods."
    first = put(mine, claim, tags=("x",), links=(LinkRequest("Reactor", "reference"),))
    second = put(theirs, claim, tags=("x",))
    assert first != second
    third = put(theirs, "Only theirs: the reactor leaks.")
    for mode in SearchMode:
        assert claims(mine, "reactor", mode=mode) == [claim]
    assert claims(mine) == [claim]
    assert memory.as_tenant("nobody").search(SearchRequest(query="reactor")).results == ()
    assert mine.search(SearchRequest(ids=(second, third))).results == ()
    assert (mine.stats().atoms.total, theirs.stats().atoms.total) == (1, 2)
    with pytest.raises(NotFound):
        mine.store(StoreRequest(claim="A correction from outside.", replaces=third))
    with pytest.raises(NotFound):
        mine.store(StoreRequest(claim="A link to outside.", links=(LinkRequest(str(third), "cause"),)))
    memory.searcher.broken = True
    assert claims(mine, "reactor") == [claim]


def test_dates_filter_and_order(memory: LocalMemory) -> None:
    put(memory, "An old note on turbines.")
    now = datetime.now(UTC)
    assert claims(memory, "turbines", since=now + timedelta(hours=1)) == []
    assert claims(memory, "turbines", until=now - timedelta(hours=1)) == []
    assert len(claims(memory, "turbines", since=now - timedelta(hours=1), until=now + timedelta(hours=1))) == 1
    assert claims(memory, "turbines", min_confidence=0.9) == []
