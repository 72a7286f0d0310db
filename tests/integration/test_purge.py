"""Deleted for good: from every table, arm, cache and projection, with all that only it supported."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text

from pegas_memory.db import embeddings
from pegas_memory.db import tenants as rows_of_tenants
from pegas_memory.db.atoms import NewAtom
from pegas_memory.db.session import Connection
from pegas_memory.embedding import EMBED_TEXT_VERSION, parts_of
from pegas_memory.errors import NotFound, Unavailable
from pegas_memory.model import (
    AtomType,
    ContextRequest,
    Dense,
    GapRequest,
    GapStatus,
    IngestRequest,
    JobState,
    LinkRequest,
    Role,
    SearchMode,
    SearchRequest,
    SourceRef,
    StoreRequest,
    Verdict,
)
from pegas_memory.text import sha256
from tests.support.judging import columns, drained, entities_in, give, rows, traces
from tests.support.local_memory import LocalMemory

AUDIT = ("pm_activity", "pm_outbox")
"""The audit line names the purged id, and so does the outbox until every projection has passed it."""


def left_of(memory: LocalMemory, *words: object) -> list[str]:
    with memory.rooms.db.everything() as conn:
        return traces(conn, words, but=AUDIT)


def words_in_audit(memory: LocalMemory, *words: str) -> list[str]:
    with memory.rooms.db.everything() as conn:
        return [found for found in traces(conn, words) if found.startswith(AUDIT)]


def assert_unfindable(memory: LocalMemory, query: str, *ids: UUID) -> None:
    """By no arm, with the index up or down, by id, or in a context."""
    for broken in (False, True):
        memory.searcher.broken = broken
        for mode in SearchMode:
            request = SearchRequest(query=query, mode=mode, limit=100)
            assert {result.atom_id for result in memory.search(request).results}.isdisjoint(ids), (mode, broken)
        assert {item.atom_id for item in memory.context(ContextRequest(query)).items}.isdisjoint(ids)
    memory.searcher.broken = False
    assert memory.search(SearchRequest(ids=tuple(ids))).results == ()
    assert {one.atom_id for one in memory.search(SearchRequest(limit=100)).results}.isdisjoint(ids)


def test_the_search_for_traces_sees_every_kind_of_column(memory: LocalMemory) -> None:
    given = {"title": "zyqlum", "metadata": {"zyqlum": 1}, "tags": ("zyqlum",)}
    memory.ingest(IngestRequest(text="The zyqlum bell rang twice at noon.", **given))  # type: ignore[arg-type]
    seen = {found.partition(":")[0] for found in left_of(memory, "zyqlum")}
    assert {"pm_document.body", "pm_chunk.text", "pm_atom.claim", "pm_atom.tags", "pm_atom.terms", "pm_job.payload",
            "pm_atom.metadata", "pm_citation.quote"} <= seen  # fmt: skip
    with memory.rooms.db.everything() as conn:
        assert len(columns(conn)) > 100


@pytest.mark.fault(25)
def test_a_purged_atom_is_nowhere(memory: LocalMemory) -> None:
    claim = "The vorpalix pump moves 40 litres a minute."
    atom = memory.store(
        StoreRequest(
            claim=claim, content="vorpalix details", tags=("vorpalix",), metadata={"vorpalix": ["vorpalix"]},
            source=SourceRef("https://vorpalix.example/", "vorpalix sheet", "vorpalix quote"),
            links=(LinkRequest("vorpalix plant", "reference"), LinkRequest("Heron Point", "reference")),
        )
    ).atom_id  # fmt: skip
    other = memory.store(
        StoreRequest(
            claim="The crane lifts 9 tonnes.",
            links=(LinkRequest("heron point", "reference"), LinkRequest(str(atom), "cause")),
        )
    ).atom_id
    newer = memory.store(StoreRequest(claim="The crane lifts 11 tonnes now.", replaces=other)).atom_id
    gap = memory.add_gap(GapRequest(question="How much does the pump move?")).gap_id
    memory.add_gap(GapRequest(gap_id=gap, answered_by=(other, atom, newer)))
    give(memory, Verdict.CONTESTED, atom)
    with memory.rooms.db.tenant(memory.tenant) as conn:
        conn.execute(
            text("INSERT INTO pm_projection_failure (tenant, consumer, entity_type, entity_id, last_error) VALUES"
                 " (:t, 'x', 'atom', :i, 'vorpalix')"), {"t": memory.tenant, "i": atom},
        )  # fmt: skip
    drained(memory)
    assert atom in entities_in(memory.searcher.index)
    entity = rows(memory, "SELECT id FROM pm_entity WHERE tenant = :t AND name = 'vorpalix plant'")[0].id

    (result,) = give(memory, Verdict.PURGE, atom).results
    assert (result.atom_id, result.status_before, result.status_after) == (atom, "contested", "purged")
    assert_unfindable(memory, claim, atom)
    drained(memory)
    assert atom not in entities_in(memory.searcher.index)
    assert left_of(memory, "vorpalix", atom, entity) == []
    key = sha256(f"{claim}\nvorpalix details")
    assert left_of(memory, key) == []
    assert words_in_audit(memory, "vorpalix") == []
    assert memory.gap(gap).answered_by == tuple(sorted((other, newer)))
    assert [name for (name,) in rows(memory, "SELECT name FROM pm_entity WHERE tenant = :t")] == ["Heron Point"]
    assert rows(memory, "SELECT count(*) FROM pm_atom_link WHERE tenant = :t")[0][0] == 1
    outboxed = rows(memory, "SELECT entity_type, op FROM pm_outbox WHERE tenant = :t AND op = 'delete'")
    assert sorted(map(tuple, outboxed)) == [("atom", "delete"), ("entity", "delete")] + [("link", "delete")] * 3
    lines = rows(
        memory, "SELECT action, detail FROM pm_activity WHERE tenant = :t AND entity_id = :i ORDER BY id", i=atom
    )
    assert [line.action for line in lines] == ["contested", "purge"]
    assert lines[0].detail == {}
    assert lines[1].detail["reason"] == "because of purge"
    assert lines[1].detail["removed"]["atoms"] == lines[1].detail["removed"]["documents"] == 1
    stats = memory.stats()
    assert (stats.atoms.total, stats.citations, stats.documents) == (1, 0, 0)
    with pytest.raises(NotFound):
        give(memory, Verdict.RESTORE, atom)


def test_what_points_to_a_purged_correction_stays_corrected(memory: LocalMemory) -> None:
    old = memory.store(StoreRequest(claim="The dam is 40 metres high.")).atom_id
    new = memory.store(StoreRequest(claim="The dam is 41 metres high.", replaces=old)).atom_id
    give(memory, Verdict.PURGE, new)
    (row,) = memory.search(SearchRequest(ids=(old,))).results
    assert (row.status, row.superseded_by) == ("superseded", None)
    third = memory.store(StoreRequest(claim="The dam is 42 metres high.", replaces=old))
    assert third.replaced == old


@pytest.mark.fault(25)
def test_a_purged_document_goes_with_what_only_it_supported(memory: LocalMemory, ingest_root: Path) -> None:
    shared = memory.store(
        StoreRequest(claim="The dam was closed in 1931.", source=SourceRef("https://b.example/"))
    ).atom_id
    path = ingest_root / "quzzlebank.md"
    path.write_text("# Quzzlebank\n\nThe quzzlebank valve weighs 12 tonnes.\n\nThe dam was closed in 1931.\n")
    doc = memory.ingest(IngestRequest(source=str(path))).doc_id
    folder = memory.ingest(IngestRequest(source=str(ingest_root)))
    assert folder.state is JobState.DONE
    text_doc = memory.ingest(
        IngestRequest(text="The quzzlebank gate is red. It was painted in May.", title="quzzlebank gate")
    )
    drained(memory)
    mine = {
        row.atom_id for row in rows(memory, "SELECT atom_id FROM pm_citation WHERE tenant = :t AND doc_id = :d", d=doc)
    }
    assert shared in mine
    before = rows(memory, "SELECT revision FROM pm_atom WHERE tenant = :t AND id = :i", i=shared)[0].revision

    answer = give(memory, Verdict.PURGE, doc=doc)
    assert {one.atom_id for one in answer.results} == mine - {shared}
    assert answer.judged == len(mine) - 1
    give(memory, Verdict.PURGE, doc=text_doc.doc_id)
    drained(memory)
    assert_unfindable(memory, "The quzzlebank valve weighs 12 tonnes.", *(mine - {shared}))
    assert entities_in(memory.searcher.index).isdisjoint(mine - {shared})
    assert left_of(memory, "quzzlebank", "Quzzlebank", doc, text_doc.doc_id, *(mine - {shared})) == []
    assert words_in_audit(memory, "quzzlebank", "Quzzlebank") == []
    (kept,) = memory.search(SearchRequest(ids=(shared,))).results
    assert [citation.uri for citation in kept.citations] == ["https://b.example/"]
    assert rows(memory, "SELECT revision FROM pm_atom WHERE tenant = :t AND id = :i", i=shared)[0].revision > before
    assert memory.search(SearchRequest(query="dam closed", doc_id=doc)).results == ()
    again = memory.ingest(IngestRequest(source=str(path)))
    assert (again.state, again.doc_id == doc, again.atoms.created) == (JobState.DONE, False, 1)


def test_an_atom_that_a_second_document_took_over_goes_with_that_one(memory: LocalMemory) -> None:
    words = "The lock gate was cast in Tver in 1902."
    first = memory.ingest(IngestRequest(text=f"{words} One.", title="First")).doc_id
    second = memory.ingest(IngestRequest(text=f"{words} Two.", title="Second")).doc_id
    assert give(memory, Verdict.PURGE, doc=first).judged < memory.stats().atoms.total + 1
    assert words in {one.claim for one in memory.search(SearchRequest(query=words)).results}
    give(memory, Verdict.PURGE, doc=second)
    assert left_of(memory, words, first, second) == []


def test_cached_vectors_of_every_model_go_unless_another_atom_has_the_text(memory: LocalMemory) -> None:
    """Models cut long texts at different lengths."""
    long = " ".join(f"Sentence {n} of the long passage tells of the grollick." for n in range(150))
    atom = memory.store(StoreRequest(claim="A long passage.", content=long)).atom_id
    whole = f"A long passage.\n{long}"
    vector = memory.rooms.embedder.embed(["x"], Role.DOCUMENT)[0]
    with memory.rooms.db.tenant(memory.tenant) as conn:
        for name, length in (
            ("bundled:other", 1600),
            ("ollama:nomic-embed-text", 2000),
            ("ollama:embeddinggemma", 4000),
        ):
            hashed = {sha256(part): vector for part in parts_of(whole, length)}
            embeddings.put(conn, memory.tenant, name, EMBED_TEXT_VERSION, hashed)
    kept = memory.store(StoreRequest(claim="The twin stays.")).atom_id
    code = memory.store(StoreRequest(claim="The twin stays.", type=AtomType.CODE)).atom_id
    drained(memory)
    give(memory, Verdict.PURGE, atom, code)
    left = rows(memory, "SELECT model, text_hash FROM pm_embedding WHERE tenant = :t")
    assert [(row.model, row.text_hash) for row in left] == [
        (memory.rooms.embedder.model.name, sha256("The twin stays."))
    ]
    assert memory.search(SearchRequest(query="The twin stays.", mode=SearchMode.DENSE)).results[0].atom_id == kept


def test_a_store_after_a_purge_makes_a_new_atom_in_every_process(memory: LocalMemory) -> None:
    """What a process learned a moment ago must not bring a purged atom back; the other one never heard of it."""
    other = memory.as_tenant(memory.tenant)
    claims = ["The ferry leaves at nine.", "The ferry leaves at 9 in the morning from pier 4."]
    for claim in claims:
        atom = memory.store(StoreRequest(claim=claim)).atom_id
        assert other.store(StoreRequest(claim=claim)).duplicate_of == atom
        other.rooms.recent(memory.tenant).add(atom, *_known(memory, atom))
        give(memory, Verdict.PURGE, atom)
        again = other.store(StoreRequest(claim=claim))
        assert (again.created, again.atom_id == atom) == (True, False)
        give(memory, Verdict.PURGE, again.atom_id)
        assert memory.store(StoreRequest(claim=claim)).created


def _known(memory: LocalMemory, atom_id: UUID) -> tuple[NewAtom, Dense]:
    (row,) = memory.search(SearchRequest(ids=(atom_id,))).results
    return NewAtom(AtomType.FACT, row.claim), memory.rooms.vectors.of(memory.tenant, [row.claim])[row.claim]


# --- races --------------------------------------------------------------------------------------------


@pytest.fixture
def slow_ingest(memory: LocalMemory) -> UUID:
    """A job of a long document that is under way."""
    body = "\n\n".join(f"Flange {n} of the gorrimp line holds {n * 7} bar." for n in range(1_500))
    answer = memory.ingest(IngestRequest(text=body, title="gorrimp line", wait=False))
    deadline = time.monotonic() + 30
    while not rows(memory, "SELECT FROM pm_atom WHERE tenant = :t LIMIT 1"):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert memory.job(answer.job_id).state is JobState.RUNNING
    return answer.job_id


def test_a_purge_stops_the_ingest_of_the_same_document(memory: LocalMemory, slow_ingest: UUID) -> None:
    doc = rows(memory, "SELECT id FROM pm_document WHERE tenant = :t")[0].id
    give(memory, Verdict.PURGE, doc=doc)
    assert left_of(memory, "gorrimp") == []
    assert memory.job(slow_ingest).state is JobState.CANCELLED
    time.sleep(0.5)  # whatever the job still had in hand is not written after the purge
    assert left_of(memory, "gorrimp", doc) == []
    drained(memory)
    assert memory.stats().atoms.total == 0


@pytest.mark.fault(27)
def test_a_tenant_deleted_amid_an_ingest_stays_empty(memory: LocalMemory, slow_ingest: UUID) -> None:
    memory.delete_tenant(memory.tenant, "a test")
    time.sleep(0.5)
    assert left_of(memory, "gorrimp", memory.tenant) == []


def test_purges_stores_and_ingests_of_one_text_leave_no_dangling_row(memory: LocalMemory) -> None:
    claim = "The siding holds forty wagons of coal."
    stop = threading.Event()

    def storing() -> None:
        while not stop.is_set():
            links = (LinkRequest("siding", "reference"),)
            memory.store(StoreRequest(claim=claim, source=SourceRef("https://a.example/"), links=links))

    def ingesting() -> None:
        while not stop.is_set():
            memory.ingest(IngestRequest(text=f"{claim} It was laid in 1904.", title="Siding"))

    def purging() -> None:
        while not stop.is_set():
            atoms = [row.id for row in rows(memory, "SELECT id FROM pm_atom WHERE tenant = :t")]
            docs = [row.id for row in rows(memory, "SELECT id FROM pm_document WHERE tenant = :t")]
            for ids, doc in [*(((atom,), None) for atom in atoms), *(((), doc) for doc in docs)]:
                try:
                    give(memory, Verdict.PURGE, *ids, doc=doc)
                except NotFound:
                    continue

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(work) for work in (storing, ingesting, purging)]
        time.sleep(4)
        stop.set()
        for one in running:
            one.result()
    dangling = """SELECT l.id FROM pm_atom_link l WHERE l.tenant = :t AND (NOT EXISTS (SELECT FROM pm_atom a
            WHERE a.tenant = l.tenant AND a.id = l.src_id) OR NOT EXISTS (SELECT FROM pm_entity e
            WHERE e.tenant = l.tenant AND e.id = l.dst_id))"""
    assert rows(memory, dangling) == []
    assert rows(memory, "SELECT id FROM pm_job WHERE tenant = :t AND state = 'failed'") == []
    drained(memory)
    live = {row.id for row in rows(memory, "SELECT id FROM pm_atom WHERE tenant = :t")}
    gone = {row.entity_id for row in rows(memory, "SELECT entity_id FROM pm_activity WHERE tenant = :t")} - live
    assert gone
    assert entities_in(memory.searcher.index).isdisjoint(gone)


# --- tenants ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.fault(27)
def test_a_tenant_of_2500_memories_goes_whole(memory: LocalMemory) -> None:
    body = "\n\n".join(f"Rivet {n} of the plimsk hull was driven in {1700 + n}." for n in range(2_500))
    memory.ingest(IngestRequest(text=body, title="plimsk hull"), wait_seconds=100)
    last = memory.store(
        StoreRequest(claim="The last plimsk memory.", links=(LinkRequest("plimsk", "reference"),))
    ).atom_id
    memory.add_gap(GapRequest(question="Who drove the plimsk rivets?"))
    give(memory, Verdict.VERIFIED, last)
    drained(memory)
    ids = {row.id for row in rows(memory, "SELECT id FROM pm_atom WHERE tenant = :t")}
    assert len(ids) >= 2_500
    assert memory.search(SearchRequest(query="The last plimsk memory.")).results[0].atom_id == last
    (mine,) = (one for one in memory.tenants() if one.name == memory.tenant)
    assert (mine.atoms, mine.documents, mine.links, mine.gaps, mine.deleting) == (len(ids), 1, 1, 1, False)

    deleted = memory.delete_tenant(memory.tenant, "not needed")
    assert deleted.removed["pm_atom"] == len(ids)
    assert memory.tenant not in {one.name for one in memory.tenants()}
    assert_unfindable(memory, "The last plimsk memory.", last)
    stats = memory.stats()
    assert (stats.atoms.total, stats.documents, stats.chunks, stats.citations, stats.open_gaps) == (0, 0, 0, 0, 0)
    assert left_of(memory, "plimsk", last) == []
    with memory.rooms.db.everything() as conn:
        lines = conn.execute(
            text("SELECT detail FROM pm_activity WHERE tenant = '' AND detail->>'tenant' = :t"), {"t": memory.tenant}
        ).scalars().all()  # fmt: skip
    assert [line["reason"] for line in lines] == ["not needed"]
    drained(memory)
    assert entities_in(memory.searcher.index).isdisjoint(ids)
    with pytest.raises(NotFound):
        memory.delete_tenant(memory.tenant, "again")

    fresh = memory.store(StoreRequest(claim="The last plimsk memory."))
    assert fresh.created
    assert memory.search(SearchRequest(query="The last plimsk memory.")).results[0].atom_id == fresh.atom_id


def test_a_deletion_that_was_cut_short_is_ended_by_the_next(
    memory: LocalMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        memory.store(
            StoreRequest(claim=f"Buoy {n} is red and {n * 7} metres tall.", links=(LinkRequest("sea", "reference"),))
        )
    real = rows_of_tenants.delete_some

    def dies(conn: Connection, table: str, tenant: str, limit: int) -> int:
        if table == "pm_atom":
            raise KeyboardInterrupt
        return real(conn, table, tenant, limit)

    monkeypatch.setattr(rows_of_tenants, "delete_some", dies)
    with pytest.raises(KeyboardInterrupt):
        memory.delete_tenant(memory.tenant, "cut short")
    monkeypatch.setattr(rows_of_tenants, "delete_some", real)
    assert [one.deleting for one in memory.tenants() if one.name == memory.tenant] == [True]
    for write in (
        lambda: memory.store(StoreRequest(claim="Not now.")),
        lambda: memory.add_gap(GapRequest(question="Not now?")),
        lambda: memory.ingest(IngestRequest(text="Not now, says the bell.")),
    ):
        with pytest.raises(Unavailable, match="being deleted"):
            write()
    memory.delete_tenant(memory.tenant, "at last")
    assert memory.stats().atoms.total == 0
    assert memory.store(StoreRequest(claim="Now.")).created


@pytest.mark.fault(65)
@pytest.mark.parametrize("name", ["a|b", "a:b", "%", "../x", "_", "a' OR '1'='1", "*", "ёж"])
def test_no_verdict_or_purge_reaches_a_tenant_of_another_name(memory: LocalMemory, name: str) -> None:
    """Two tenants with identical texts, whose names could be taken for patterns, keys or paths."""
    first, second = memory.as_tenant(f"{memory.tenant}{name}"), memory.as_tenant(f"{memory.tenant}x{name}")
    claim, told = "The beacon burns oil.", {"tenant": second.tenant, "pegas.tenant": second.tenant, "scope": "all"}
    links = (LinkRequest("oil", "reference"),)
    stores = StoreRequest(claim=claim, metadata=told, source=SourceRef("https://a.example/"), links=links)
    reads = IngestRequest(text="The beacon has two lamps.", metadata=told)
    ids = {each.tenant: each.store(stores).atom_id for each in (first, second)}
    docs = {each.tenant: each.ingest(reads).doc_id for each in (first, second)}
    for each in (first, second):
        drained(each)
    theirs = _content(second)

    give(first, Verdict.STALE, ids[first.tenant])
    give(first, Verdict.RETRACT, doc=docs[first.tenant])
    for verdict in Verdict:
        with pytest.raises(NotFound):
            give(first, verdict, ids[second.tenant])
        with pytest.raises(NotFound):
            give(first, verdict, doc=docs[second.tenant])
    give(first, Verdict.PURGE, ids[first.tenant])
    give(first, Verdict.PURGE, doc=docs[first.tenant])
    assert _content(second) == theirs
    assert first.stats().atoms.total == 0
    first.store(stores)
    first.delete_tenant(first.tenant, "a test")
    assert _content(second) == theirs
    drained(second)
    for mode in SearchMode:
        assert ids[second.tenant] in {r.atom_id for r in second.search(SearchRequest(query=claim, mode=mode)).results}
        assert first.search(SearchRequest(query=claim, mode=mode)).results == ()
    assert second.search(SearchRequest(ids=(ids[second.tenant],))).results[0].metadata == told


HELD = (
    "pm_atom", "pm_citation", "pm_document", "pm_chunk", "pm_atom_link", "pm_entity", "pm_job", "pm_embedding",
    "pm_revision", "pm_activity",
)  # fmt: skip


def _content(memory: LocalMemory) -> list[str]:
    """Every row of the tenant, but what only says how far it is."""
    row = "CAST(to_jsonb(t) - 'dedup_pending' AS text)"
    with memory.rooms.db.everything() as conn:
        return [
            line
            for table in HELD
            for line in conn.execute(
                text(f"SELECT {row} FROM {table} t WHERE tenant = :t ORDER BY 1"), {"t": memory.tenant}
            ).scalars()
        ]


def test_a_gap_that_was_answered_by_a_purged_atom_stays_closed(memory: LocalMemory) -> None:
    atom = memory.store(StoreRequest(claim="The tug is called Ariel.")).atom_id
    gap = memory.add_gap(GapRequest(question="What is the tug called?")).gap_id
    memory.add_gap(GapRequest(gap_id=gap, status=GapStatus.CLOSED, answered_by=(atom,)))
    give(memory, Verdict.PURGE, atom)
    assert (memory.gap(gap).status, memory.gap(gap).answered_by) == (GapStatus.CLOSED, ())
