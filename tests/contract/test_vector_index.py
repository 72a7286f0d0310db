"""What every ``VectorIndex`` does, whichever engine is behind it.

``server`` runs on qdrant-client's local mode, which is no server; set TEST_QDRANT_URL to an
empty test server to run the same suite against it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from qdrant_client import QdrantClient

from pegas_memory.bm25 import encode_query
from pegas_memory.errors import InvalidVector, VectorsUnavailable, WrongDimension
from pegas_memory.model import FOREVER, ArmHits, EmbeddingModel, Hit, MemoryKind, SearchFilter, ShownAs, SparseVector
from pegas_memory.qdrant_store import EdgeIndex, ServerIndex, VectorIndex, edge_folder
from tests.contract.vector_points import MODEL, NO_TERMS, direction, entity, everything, payload, point, quick_folder

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning")

TEST_URL = os.environ.get("TEST_QDRANT_URL", "")


@pytest.fixture(params=["edge", "server", *(["url"] if TEST_URL else [])])
def index(request: pytest.FixtureRequest) -> Iterator[VectorIndex]:
    with quick_folder() as folder:
        yield from opened(request.param, folder)


def opened(engine: str, folder: Path) -> Iterator[VectorIndex]:
    made: VectorIndex
    base = f"test_{uuid4().hex[:12]}"
    client = None
    if engine == "edge":
        made = EdgeIndex(folder / "vectors", MODEL, base)
    elif engine == "server":
        made = ServerIndex("", "", MODEL, base, client=QdrantClient(":memory:"))
    else:
        client = QdrantClient(url=TEST_URL)
        made = ServerIndex(TEST_URL, "", MODEL, base)
    made.ensure()
    yield made
    made.close()
    if client is not None:
        for collection in client.get_collections().collections:
            if collection.name.startswith(base):
                client.delete_collection(collection.name)
        client.close()


def ids(hits: tuple[Hit, ...]) -> list[UUID]:
    return [hit.entity_id for hit in hits]


def dense_ids(index: VectorIndex, where: SearchFilter, limit: int = 50) -> set[UUID]:
    return set(ids(index.search(where, dense=direction(0), sparse=None, limit=limit).dense))


@pytest.mark.fault(36)
def test_an_exact_copy_comes_first_with_a_cosine_near_one(index: VectorIndex) -> None:
    index.upsert([point(n) for n in range(40)])
    for number in (0, 17, 39):
        hits = index.search(everything(), dense=direction(number * 100), sparse=None, limit=5).dense
        assert hits[0].entity_id == entity(number)
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
        assert hits[0].score <= 1.0
        assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_the_dense_score_is_the_cosine_also_of_unnormalised_and_opposite_vectors(index: VectorIndex) -> None:
    index.upsert([point(1, dense=direction(5) * 7), point(2, dense=-direction(5))])
    hits = index.search(everything(), dense=direction(5) * 3, sparse=None, limit=5).dense
    assert [(h.entity_id, round(h.score, 4)) for h in hits] == [(entity(1), 1.0), (entity(2), -1.0)]


def test_only_the_asked_arms_answer(index: VectorIndex) -> None:
    index.upsert([point(1, "кассовый разрыв")])
    words = encode_query("разрыв")
    dense_only = index.search(everything(), dense=direction(100), sparse=None, limit=5)
    assert (ids(dense_only.dense), dense_only.lexical) == ([entity(1)], ())
    lexical_only = index.search(everything(), dense=None, sparse=words, limit=5)
    assert (lexical_only.dense, ids(lexical_only.lexical)) == ((), [entity(1)])
    both = index.search(everything(), dense=direction(100), sparse=words, limit=5)
    assert (ids(both.dense), ids(both.lexical)) == ([entity(1)], [entity(1)])
    assert index.search(everything(), dense=None, sparse=None, limit=5) == ArmHits()
    assert index.search(everything(), dense=direction(100), sparse=NO_TERMS, limit=0) == ArmHits()
    assert index.search(everything(), dense=None, sparse=NO_TERMS, limit=5) == ArmHits()


def test_a_point_may_lack_either_part(index: VectorIndex) -> None:
    index.upsert([point(1, "ждёт вектора", dense=None), point(2), point(3, dense=None)])
    assert index.count() == 3
    assert dense_ids(index, everything()) == {entity(2)}
    found = index.search(everything(), dense=None, sparse=encode_query("вектор"), limit=5).lexical
    assert ids(found) == [entity(1)]
    assert {(row.entity_id, row.has_dense) for row in index.scan(None, 10)} == {
        (entity(1), False),
        (entity(2), True),
        (entity(3), False),
    }
    index.upsert([point(1, "ждёт вектора")])
    assert dense_ids(index, everything()) == {entity(1), entity(2)}


WORDS = {
    "кассовые разрывы": 1,
    "кассового разрыва": 1,
    "елка": 2,
    "ЁЛКИ": 2,
    "модели GPT": 3,
    "GPT-модель": 3,
    "invoices": 4,
    "SR-2023-052": 5,
}


def test_words_are_found_in_russian_and_english(index: VectorIndex) -> None:
    texts = {
        1: "Кассовый разрыв возник в марте",
        2: "Ёлка стоит во дворе",
        3: "Обучили GPT-модель на письмах",
        4: "The invoice was paid late",
        5: "Отчёт SR-2023-052 закрыт",
        6: "Совсем другой текст про погоду",
    }
    index.upsert([point(n, text, dense=None) for n, text in texts.items()])
    for query, number in WORDS.items():
        hits = index.search(everything(), dense=None, sparse=encode_query(query), limit=3).lexical
        assert hits[0].entity_id == entity(number), query
        assert hits[0].score > 0


def test_a_rare_word_outweighs_a_common_one_by_the_tenant_s_own_count(index: VectorIndex) -> None:
    mine = [point(n, "alpha") for n in range(20)] + [point(20, "omega")]
    other = [point(100 + n, "omega", tenant="other") for n in range(400)]
    index.upsert([*mine, *other])
    hits = index.search(everything(), dense=None, sparse=encode_query("alpha omega"), limit=30).lexical
    assert hits[0].entity_id == entity(20)  # rare for this tenant, though common in the collection
    assert len(hits) == 21


def test_upsert_replaces_the_whole_point_and_replays_change_nothing(index: VectorIndex) -> None:
    index.upsert([point(n, tree, tags=("old",)) for n, tree in enumerate(("ель", "дуб", "клён", "вяз", "ива"))])
    index.upsert([point(2, "иначе", tags=("new",), revision=2)])
    for _ in range(3):
        index.upsert([point(2, "иначе", tags=("new",), revision=2)])
    assert index.count() == 5
    assert dense_ids(index, replace(everything(), tags=frozenset({"new"}))) == {entity(2)}
    assert entity(2) not in dense_ids(index, replace(everything(), tags=frozenset({"old"})))
    assert not index.search(everything(), dense=None, sparse=encode_query("клён"), limit=5).lexical
    assert [row[2] for row in index.scan(None, 10) if row[1] == entity(2)] == [2]


def test_replace_leaves_exactly_the_given_points(index: VectorIndex) -> None:
    index.upsert([point(1, part=p) for p in range(6)] + [point(2, part=p) for p in range(3)] + [point(3)])
    index.replace("default", [entity(1), entity(2)], [point(1, part=0, revision=2), point(1, part=9, revision=2)])
    left = {(row[0], row[1], row[2]) for row in index.scan(None, 50)}
    one, nine, three = point(1, part=0), point(1, part=9), point(3)
    assert left == {(one.id, entity(1), 2), (nine.id, entity(1), 2), (three.id, entity(3), 1)}
    index.replace("default", [entity(1)], [])
    assert {row[1] for row in index.scan(None, 50)} == {entity(3)}
    with pytest.raises(InvalidVector):
        index.replace("default", [entity(3)], [point(4)])
    assert index.count() == 1


def test_replace_of_more_entities_than_one_call_names(index: VectorIndex) -> None:
    numbers = range(1200)
    index.upsert([point(n, part=p, dense=None) for n in numbers for p in (0, 1)])
    index.replace("default", [entity(n) for n in numbers], [point(n, part=1, dense=None, revision=2) for n in numbers])
    assert index.count() == 1200
    assert all(row.revision == 2 for row in index.scan(None, 2000))


def test_delete_entities_stays_within_its_tenant(index: VectorIndex) -> None:
    index.upsert([point(1, part=0), point(1, part=1), point(2)])
    index.delete_entities("other", [entity(1)])
    assert index.count() == 3
    index.delete_entities("default", [entity(1), entity(999)])
    index.delete_entities("default", [entity(1)])
    assert {row[1] for row in index.scan(None, 10)} == {entity(2)}


TENANTS = ("default", "a|b", "a:b", "a", "%", "../x", "клиент №1", "", "a' OR 1=1", "*", "Default")


def test_tenants_do_not_see_each_other(index: VectorIndex) -> None:
    own = {tenant: {entity(t * 10 + n) for n in range(3)} for t, tenant in enumerate(TENANTS)}
    for t, tenant in enumerate(TENANTS):
        index.upsert([point(t * 10 + n, "один и тот же текст", tenant=tenant) for n in range(3)])
    for tenant, mine in own.items():
        hits = index.search(everything(tenant), dense=direction(0), sparse=encode_query("текст"), limit=50)
        assert set(ids(hits.dense)) == set(ids(hits.lexical)) == mine, tenant
    for tenant in TENANTS[1:]:
        index.delete_tenant(tenant)
        index.delete_tenant(tenant)
        assert dense_ids(index, everything(tenant)) == set()
        assert dense_ids(index, everything()) == own["default"]
    assert index.count() == 3


DOC = UUID("0192aaaa-0000-7000-8000-000000000001")
OTHER_DOC = UUID("0192aaaa-0000-7000-8000-000000000002")
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
APRIL = datetime(2026, 4, 1, tzinfo=UTC)
MAY = datetime(2026, 5, 1, tzinfo=UTC)
NARROW = SearchFilter(
    tenant="default",
    memory=frozenset({MemoryKind.EPISODE}),
    types=frozenset({"table", "code"}),
    shown_as=frozenset({ShownAs.VERIFIED}),
    tags=frozenset({"деньги"}),
    doc_id=DOC,
    since=MARCH,
    until=MAY,
    min_confidence=0.7,
    as_of=APRIL,
)
FITS: dict[str, Any] = {
    "memory": MemoryKind.EPISODE,
    "type": "table",
    "shown_as": ShownAs.VERIFIED,
    "tags": ("прочее", "деньги"),
    "doc_ids": (OTHER_DOC, DOC),
    "occurred": APRIL.timestamp(),
    "confidence": 0.8,
    "valid_from": MARCH.timestamp(),
    "valid_until": MAY.timestamp(),
}
MISSES: dict[str, Any] = {
    "memory": MemoryKind.KNOWLEDGE,
    "type": "fact",
    "shown_as": ShownAs.STALE,
    "tags": ("деньги2",),
    "doc_ids": (OTHER_DOC,),
    "occurred": datetime(2026, 2, 1, tzinfo=UTC).timestamp(),
    "confidence": 0.69,
    "valid_from": datetime(2026, 4, 15, tzinfo=UTC).timestamp(),
    "valid_until": APRIL.timestamp(),
}
ALONE = {
    "memory": replace(everything(), memory=NARROW.memory),
    "type": replace(everything(), types=NARROW.types),
    "shown_as": replace(everything(), shown_as=NARROW.shown_as),
    "tags": replace(everything(), tags=NARROW.tags),
    "doc_ids": replace(everything(), doc_id=NARROW.doc_id),
    "occurred": replace(everything(), since=NARROW.since, until=NARROW.until),
    "confidence": replace(everything(), min_confidence=NARROW.min_confidence),
    "valid_from": replace(everything(), as_of=MARCH),
    "valid_until": replace(everything(), as_of=datetime(2026, 4, 20, tzinfo=UTC)),
}


def test_each_filter_alone_and_all_together(index: VectorIndex) -> None:
    index.upsert([point(1, "слово", **FITS)])
    index.upsert([point(2 + n, "слово", **{**FITS, field: MISSES[field]}) for n, field in enumerate(ALONE)])
    everyone = {entity(1 + n) for n in range(len(ALONE) + 1)}
    assert dense_ids(index, everything()) == everyone
    for n, (field, where) in enumerate(ALONE.items()):
        assert dense_ids(index, where) == everyone - {entity(2 + n)}, field
    assert dense_ids(index, NARROW) == {entity(1)}
    lexical = index.search(NARROW, dense=None, sparse=encode_query("слово"), limit=9).lexical
    assert ids(lexical) == [entity(1)]


def test_hidden_ones_are_left_out_unless_asked_for(index: VectorIndex) -> None:
    index.upsert([point(n, shown_as=status) for n, status in enumerate(ShownAs)])
    visible = {ShownAs.CANDIDATE, ShownAs.VERIFIED, ShownAs.CONTESTED}
    shown = {entity(n) for n, status in enumerate(ShownAs) if status in visible}
    assert dense_ids(index, SearchFilter(tenant="default")) == shown
    for n, status in enumerate(ShownAs):
        assert dense_ids(index, SearchFilter("default", shown_as=frozenset({status}))) == {entity(n)}


def test_times_are_inclusive_at_both_ends_to_the_microsecond(index: VectorIndex) -> None:
    moments = [datetime(2026, 3, 1, 12, 0, 0, us, tzinfo=UTC) for us in (1, 2, 3)]
    index.upsert([point(n, occurred=moment.timestamp()) for n, moment in enumerate(moments)])
    assert dense_ids(index, replace(everything(), since=moments[1])) == {entity(1), entity(2)}
    assert dense_ids(index, replace(everything(), until=moments[1])) == {entity(0), entity(1)}
    assert dense_ids(index, replace(everything(), since=moments[1], until=moments[1])) == {entity(1)}


def test_validity_holds_from_its_first_moment_and_no_longer_at_its_last(index: VectorIndex) -> None:
    one, two, three = (datetime(2026, 3, 1, 12, 0, 0, us, tzinfo=UTC) for us in (1, 2, 3))
    early, late = datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
    index.upsert(
        [
            point(1, valid_from=one.timestamp(), valid_until=two.timestamp()),
            point(2, valid_from=two.timestamp(), valid_until=FOREVER),
            point(3, valid_from=early.timestamp(), valid_until=three.timestamp()),
            point(4, valid_from=three.timestamp(), valid_until=one.timestamp()),
        ]
    )
    valid = {early: {3}, one: {1, 3}, two: {2, 3}, three: {2}, late: {2}}
    for moment, numbers in valid.items():
        assert dense_ids(index, replace(everything(), as_of=moment)) == {entity(n) for n in numbers}, moment
    assert len(dense_ids(index, everything())) == 4


def test_a_moment_is_filtered_before_the_top_is_taken_and_a_closed_validity_replaces_the_open_one(
    index: VectorIndex,
) -> None:
    near = direction(7)
    crowd = [point(n, "проект отчёт", dense=near, valid_from=MAY.timestamp()) for n in range(1_000)]
    past = point(2_000, "отчёт", dense=-near, valid_from=MARCH.timestamp())
    index.upsert([*crowd, past])

    def found(moment: datetime) -> list[set[UUID]]:
        where = replace(everything(), as_of=moment)
        hits = index.search(where, dense=near, sparse=encode_query("проект отчёт"), limit=2_000)
        return [set(ids(hits.dense)), set(ids(hits.lexical))]

    assert found(APRIL) == [{entity(2_000)}] * 2
    ended = replace(past, payload=replace(past.payload, valid_until=APRIL.timestamp()))
    index.replace("default", [entity(2_000)], [ended])
    assert found(APRIL) == [set()] * 2
    assert found(MARCH) == [{entity(2_000)}] * 2
    assert len(found(MAY)[0]) == 1_000


def test_confidence_at_the_bound_is_kept(index: VectorIndex) -> None:
    index.upsert([point(1, confidence=0.7), point(2, confidence=0.6999), point(3, confidence=1.0)])
    assert dense_ids(index, replace(everything(), min_confidence=0.7)) == {entity(1), entity(3)}
    assert len(dense_ids(index, replace(everything(), min_confidence=0.0))) == 3


TAGS = ("", " ", "a,b", "a|b", '"quoted"', "C++", "Ёлка", "🦔", "null", "x" * 500, "a\nb", "[]", "0", "%_*", "a.b[0]")


def test_a_tag_may_be_any_text(index: VectorIndex) -> None:
    index.upsert([point(n, tags=(tag, "общий")) for n, tag in enumerate(TAGS)])
    index.upsert([point(100, tags=("общий",)), point(101)])
    for n, tag in enumerate(TAGS):
        assert dense_ids(index, replace(everything(), tags=frozenset({tag}))) == {entity(n)}, tag
    assert len(dense_ids(index, replace(everything(), tags=frozenset({"C++", "🦔"})))) == 2
    assert len(dense_ids(index, replace(everything(), tags=frozenset({"общий"})))) == len(TAGS) + 1


@pytest.mark.fault(41)
def test_filters_apply_before_the_top_is_taken(index: VectorIndex) -> None:
    near = direction(7)
    crowd = [point(n, "проект отчёт", dense=near, tags=("A",)) for n in range(10_000)]
    rare = [point(20_000 + n, "отчёт", dense=-near, tags=("B",)) for n in range(3)]
    index.upsert([*crowd, *rare])
    only_b = replace(everything(), tags=frozenset({"B"}))
    hits = index.search(only_b, dense=near, sparse=encode_query("проект отчёт"), limit=3)
    assert set(ids(hits.dense)) == set(ids(hits.lexical)) == {entity(20_000 + n) for n in range(3)}
    equal = index.search(everything(), dense=near, sparse=None, limit=5).dense
    assert len(set(ids(equal))) == 5  # ten thousand equal scores end, too


def test_many_points_of_one_entity_count_once_and_hide_nobody(index: VectorIndex) -> None:
    target = direction(3)
    close = [
        point(e, "общее слово", part=p, dense=target + direction(e * 1000 + p) * np.float32(0.01))
        for e in range(3)
        for p in range(200)
    ]
    far = [point(100 + n, "общее слово среди длинного прочего текста") for n in range(30)]
    index.upsert([*close, *far])
    hits = index.search(everything(), dense=target, sparse=encode_query("общее слово"), limit=10)
    assert set(ids(hits.dense)[:3]) == {entity(0), entity(1), entity(2)}
    assert set(ids(hits.lexical)[:3]) == {entity(0), entity(1), entity(2)}
    assert len(set(ids(hits.dense))) == len(set(ids(hits.lexical))) == 10
    everybody = index.search(everything(), dense=target, sparse=None, limit=100).dense
    assert len(everybody) == 33
    cosines = [float(target @ p.dense / np.linalg.norm(p.dense)) for p in close if p.dense is not None]
    assert everybody[0].score == pytest.approx(max(cosines), abs=1e-5)


def test_equal_scores_are_ordered_by_entity_id_whatever_the_order_of_arrival(index: VectorIndex) -> None:
    order = np.random.default_rng(1).permutation(200)
    index.upsert([point(int(n), "слово", dense=direction(1)) for n in order])
    first = [entity(n) for n in range(20)]
    hits = index.search(everything(), dense=direction(1), sparse=encode_query("слово"), limit=20)
    assert ids(hits.dense) == first
    assert ids(hits.lexical) == first


BROKEN = {
    "nan": point(5, dense=np.full(16, np.nan, np.float32)),
    "infinite": point(5, dense=np.full(16, np.inf, np.float32)),
    "zero": point(5, dense=np.zeros(16, np.float32)),
    "tiny": point(5, dense=np.full(16, 1e-30, np.float32)),
    "huge": point(5, dense=np.full(16, 1e30, np.float32)),
    "unequal": point(5, sparse=SparseVector((1, 2), (1.0,))),
    "doubled": point(5, sparse=SparseVector((1, 1), (1.0, 1.0))),
    "unsorted": point(5, sparse=SparseVector((2, 1), (1.0, 1.0))),
    "negative": point(5, sparse=SparseVector((-1, 2), (1.0, 1.0))),
    "too big": point(5, sparse=SparseVector((1, 2**32), (1.0, 1.0))),
    "nan weight": point(5, sparse=SparseVector((1,), (float("nan"),))),
    "nan confidence": point(5, confidence=float("nan")),
    "endless validity": point(5, valid_until=float("inf")),
    "lone surrogate": point(5, tags=("\ud800",)),
}


def test_one_broken_point_leaves_nothing_of_its_batch(index: VectorIndex) -> None:
    for what, broken in BROKEN.items():
        batch = [*(point(n) for n in range(4)), broken, *(point(n) for n in range(6, 9))]
        with pytest.raises(InvalidVector) as caught:
            index.upsert(batch)
        assert caught.value.code == "invalid_vector", what
        with pytest.raises(InvalidVector):
            index.replace("default", [entity(n) for n in range(9)], batch)
        assert index.count() == 0, what


def test_another_dimension_is_refused(index: VectorIndex) -> None:
    for shape in [(0,), (1,), (15,), (17,), (384,), (1, 16)]:
        wrong = np.ones(shape, np.float32)
        with pytest.raises(WrongDimension):
            index.upsert([point(1), point(2, dense=wrong)])
        with pytest.raises(WrongDimension):
            index.search(everything(), dense=wrong, sparse=None, limit=3)
    assert index.count() == 0


def test_broken_queries_are_refused(index: VectorIndex) -> None:
    with pytest.raises(InvalidVector):
        index.search(everything(), dense=np.full(16, np.nan, np.float32), sparse=None, limit=3)
    with pytest.raises(InvalidVector):
        index.search(everything(), dense=None, sparse=SparseVector((1, 2), (1.0,)), limit=3)


def test_empty_batches_do_nothing(index: VectorIndex) -> None:
    index.upsert([])
    index.replace("default", [], [])
    index.delete_entities("default", [])
    index.delete_tenant("nobody")
    index.flush()
    assert index.count() == 0
    assert index.scan(None, 10) == []
    assert index.search(everything(), dense=direction(1), sparse=encode_query("слово"), limit=5) == ArmHits()


def test_scan_pages_through_everything_once_in_order(index: VectorIndex) -> None:
    points = [point(n, part=p, revision=n, dense=None if n % 3 else "own") for n in range(35) for p in range(2)]
    index.upsert([replace(p, payload=replace(p.payload, tenant=f"t{i % 3}")) for i, p in enumerate(points)])
    seen, after = [], None
    while page := index.scan(after, 16):
        assert len(page) <= 16
        seen += page
        after = page[-1][0]
    expected = [
        (p.id, p.payload.entity_id, p.payload.revision, p.dense is not None, f"t{i % 3}") for i, p in enumerate(points)
    ]
    assert seen == sorted(expected)
    assert len(seen) == index.count()
    assert index.scan(None, 0) == []
    assert index.scan(UUID(int=2**128 - 1), 10) == []


def test_scan_goes_on_after_a_point_that_is_gone(index: VectorIndex) -> None:
    index.upsert([point(n) for n in range(10)])
    rows = index.scan(None, 20)
    index.delete_entities("default", [rows[4][1]])
    assert index.scan(rows[4][0], 20) == rows[5:]


def test_ensure_may_be_repeated_and_a_closed_index_says_so(index: VectorIndex) -> None:
    index.upsert([point(1)])
    index.ensure()
    assert index.count() == 1
    index.close()
    index.close()
    with pytest.raises(VectorsUnavailable):
        index.count()
    with pytest.raises(VectorsUnavailable):
        index.upsert([point(2)])


def test_payload_of_a_foreign_entity_is_kept_apart(index: VectorIndex) -> None:
    shared = point(1).id
    mine = replace(point(1), payload=payload(entity(1), memory=MemoryKind.PROCEDURE))
    index.upsert([mine])
    assert dense_ids(index, replace(everything(), memory=frozenset({MemoryKind.PROCEDURE}))) == {entity(1)}
    assert dense_ids(index, SearchFilter(tenant="default")) == set()
    assert [row[0] for row in index.scan(None, 5)] == [shared]


def test_names_tell_models_apart(tmp_path: Path) -> None:
    names = ["ollama:embeddinggemma", "openai:m@http://h/v1", "openai:m@http://h/v2", "a/b", "a:b", "модель", "x" * 300]
    models = [EmbeddingModel(name, 768, 1000) for name in names]
    folders = [edge_folder(tmp_path, "alicorn_atoms", model).name for model in models]
    assert folders[0] == "alicorn_atoms__ollama-embeddinggemma__768"
    assert len(set(folders)) == len(folders)
    assert all(len(name) < 200 and name.isascii() and "/" not in name for name in folders)
