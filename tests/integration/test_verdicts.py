"""Verdicts of a caller: mark, hide, bring back. They project, keep their history, and race cleanly."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from pegas_memory.errors import InvalidParameter, NotFound
from pegas_memory.model import (
    IngestRequest,
    SearchMode,
    SearchRequest,
    ShownAs,
    SourceRef,
    StoreRequest,
    Verdict,
    VerifyAnswer,
    VerifyRequest,
)
from tests.support.judging import drained, give, rows
from tests.support.local_memory import LocalMemory


def status(memory: LocalMemory, atom_id: UUID) -> str:
    return memory.search(SearchRequest(ids=(atom_id,))).results[0].status


def found(memory: LocalMemory, query: str, mode: SearchMode = SearchMode.HYBRID) -> list[UUID]:
    return [result.atom_id for result in memory.search(SearchRequest(query=query, mode=mode, limit=50)).results]


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [(Verdict.VERIFIED, "verified"), (Verdict.CONTESTED, "contested"), (Verdict.STALE, "stale"),
     (Verdict.RETRACT, "retracted")],
)  # fmt: skip
def test_a_verdict_is_shown_projected_kept_and_undone(memory: LocalMemory, verdict: Verdict, shown: str) -> None:
    atom = memory.store(StoreRequest(claim="The tower was lit in 1871.", confidence=0.7)).atom_id
    (result,) = give(memory, verdict, atom).results
    assert (result.atom_id, result.status_before, result.status_after) == (atom, "candidate", shown)
    assert (result.confidence_before, result.confidence_after) == (0.7, 0.7)
    assert status(memory, atom) == shown
    drained(memory)
    only = memory.search(SearchRequest(query="tower lit 1871", statuses=frozenset({ShownAs(shown)})))
    assert [one.atom_id for one in only.results] == [atom]
    hidden = shown in {"stale", "retracted"}
    for mode in SearchMode:
        assert (found(memory, "The tower was lit in 1871.", mode) == []) is hidden
    assert memory.stats().atoms.by_status == {shown: 1}
    (before,) = rows(memory, "SELECT change, before, reason, revision FROM pm_revision WHERE tenant = :t")
    assert (before.change, before.reason, before.revision) == (f"verdict {verdict}", f"because of {verdict}", 2)
    (line,) = rows(memory, "SELECT action, entity_type, entity_id, detail FROM pm_activity WHERE tenant = :t")
    assert tuple(line) == (verdict.value, "atom", atom, {"reason": f"because of {verdict}"})

    (back,) = give(memory, Verdict.RESTORE, atom).results
    assert (back.status_before, back.status_after) == (shown, "candidate")
    left = rows(memory, "SELECT revision, status_reason, retract_reason, last_validated FROM pm_atom WHERE tenant = :t")
    assert tuple(left[0]) == (3, "", "", None)
    drained(memory)
    assert found(memory, "The tower was lit in 1871.") == [atom]


def test_restore_undoes_one_verdict_after_the_other(memory: LocalMemory) -> None:
    atom = memory.store(StoreRequest(claim="The lens weighs 640 kilograms.")).atom_id
    for verdict in (Verdict.VERIFIED, Verdict.CONTESTED, Verdict.RETRACT):
        give(memory, verdict, atom)
    seen = []
    for _ in range(3):
        give(memory, Verdict.RESTORE, atom)
        seen.append(status(memory, atom))
    assert seen == ["contested", "verified", "candidate"]
    with pytest.raises(InvalidParameter, match="no verdict to undo"):
        give(memory, Verdict.RESTORE, atom)
    give(memory, Verdict.STALE, atom)
    give(memory, Verdict.RESTORE, atom)
    assert status(memory, atom) == "candidate"


def test_all_or_nothing(memory: LocalMemory) -> None:
    atom = memory.store(StoreRequest(claim="The keeper rang the bell.")).atom_id
    unknown = uuid4()
    for verdict in Verdict:
        with pytest.raises(NotFound, match=str(unknown)):
            give(memory, verdict, atom, unknown)
        with pytest.raises(NotFound, match=str(unknown)):
            give(memory, verdict, doc=unknown)
    other = memory.as_tenant(f"{memory.tenant}-other")
    for verdict in Verdict:
        with pytest.raises(NotFound):
            give(other, verdict, atom)
    assert status(memory, atom) == "candidate"
    assert rows(memory, "SELECT FROM pm_activity WHERE tenant = :t") == []
    for wrong in (VerifyRequest(Verdict.STALE, " ", (atom,)), VerifyRequest(Verdict.STALE, "r")):
        with pytest.raises(InvalidParameter):
            memory.verify(wrong)
    give(memory, Verdict.RETRACT, atom)
    with pytest.raises(InvalidParameter, match="retracted"):
        give(memory, Verdict.VERIFIED, atom)
    (again,) = give(memory, Verdict.RETRACT, atom).results
    assert (again.status_before, again.status_after) == ("retracted", "retracted")
    assert len(rows(memory, "SELECT FROM pm_revision WHERE tenant = :t")) == 1


def test_a_document_is_judged_with_what_only_it_supports(memory: LocalMemory) -> None:
    shared = memory.store(
        StoreRequest(claim="The dam was closed in 1931.", source=SourceRef("https://b.example/"))
    ).atom_id
    alone = memory.store(StoreRequest(claim="Heron Point has a light."))
    doc = memory.ingest(
        IngestRequest(
            text="The dam was closed in 1931. The valve weighs 12 tonnes. Heron Point has a light.", title="Dam"
        )
    ).doc_id
    valve = found(memory, "The valve weighs 12 tonnes.")[0]
    answer = give(memory, Verdict.RETRACT, doc=doc)
    assert [result.atom_id for result in answer.results] == [valve]
    assert (status(memory, valve), status(memory, shared), status(memory, alone.atom_id)) == (
        "retracted", "candidate", "candidate",
    )  # fmt: skip
    assert memory.stats().documents == 1  # the named source of the shared one
    assert [one.status_after for one in give(memory, Verdict.RESTORE, doc=doc).results] == ["candidate"]
    assert memory.stats().documents == 2
    lines = rows(memory, "SELECT action, entity_type FROM pm_activity WHERE tenant = :t ORDER BY created_at, id")
    assert [tuple(line) for line in lines] == [("retract", "document"), ("restore", "document")]


def test_restoring_a_document_leaves_what_was_retracted_by_itself(memory: LocalMemory) -> None:
    source = SourceRef("https://mill.example/")
    claims = ("The mill burnt in 1931.", "The pond froze over in May.")
    mill, pond = (memory.store(StoreRequest(claim=claim, source=source)).atom_id for claim in claims)
    (doc,) = (row.id for row in rows(memory, "SELECT id FROM pm_document WHERE tenant = :t"))
    give(memory, Verdict.RETRACT, mill)
    give(memory, Verdict.RETRACT, doc=doc)
    give(memory, Verdict.RESTORE, doc=doc)
    assert (status(memory, mill), status(memory, pond)) == ("retracted", "candidate")


def test_a_retract_that_races_a_store_of_the_same_claim(memory: LocalMemory) -> None:
    """Whoever is first: one atom of that identity, and it is retracted."""
    for n in range(12):
        claim = f"Pump {n} is sealed for the winter."
        atom = memory.store(StoreRequest(claim=claim)).atom_id
        gate = threading.Barrier(2)

        def store(claim: str = claim, gate: threading.Barrier = gate) -> UUID:
            gate.wait()
            return memory.store(StoreRequest(claim=claim, source=SourceRef("https://a.example/"))).atom_id

        def retract(atom: UUID = atom, gate: threading.Barrier = gate) -> VerifyAnswer:
            gate.wait()
            return give(memory, Verdict.RETRACT, atom)

        with ThreadPoolExecutor(2) as pool:
            stored, judged = pool.submit(store), pool.submit(retract)
            assert stored.result() == atom
            assert judged.result().results[0].status_after == "retracted"
        assert memory.store(StoreRequest(claim=claim)).status == "retracted"


def test_verdicts_on_the_same_atoms_in_any_order_do_not_deadlock(memory: LocalMemory) -> None:
    ids = [memory.store(StoreRequest(claim=f"Gauge {n} reads {n * 37} bar.")).atom_id for n in range(8)]
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(give, memory, Verdict.STALE, *(ids if n % 2 else reversed(ids))) for n in range(18)]
        for one in asked:
            assert one.result().judged == 8
    revisions = rows(memory, "SELECT count(*) FROM pm_revision WHERE tenant = :t")
    assert revisions[0][0] == 18 * 8
