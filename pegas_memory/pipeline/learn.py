"""Store typed claims: an exact or near duplicate gives its citation to the atom that stands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np

from pegas_memory.db import atoms, citations, outbox
from pegas_memory.db.atoms import AtomRow, NewAtom
from pegas_memory.db.citations import NewCitation
from pegas_memory.db.session import Connection, Database
from pegas_memory.dedup import Verdict, compare, profile_for
from pegas_memory.errors import Unavailable
from pegas_memory.model import AtomType, Dense, SearchFilter, ShownAs
from pegas_memory.text import collapse
from pegas_memory.vectors import Searcher, Vectors, embedded_text

NEAR_TYPES = frozenset({AtomType.FACT, AtomType.DEFINITION, AtomType.TEXT})
"""Code, tables and rules are compared letter for letter: one character there is an update."""
NEIGHBOURS = 5
STANDING = frozenset({ShownAs.CANDIDATE, ShownAs.VERIFIED, ShownAs.CONTESTED, ShownAs.STALE})


@dataclass(frozen=True, slots=True)
class Lesson:
    atom: NewAtom
    citations: tuple[NewCitation, ...] = ()


@dataclass(frozen=True, slots=True)
class Learned:
    """``duplicate_of`` is set when nothing was created; ``similarity`` is the cosine of a near duplicate
    (1.0 for an exact one)."""

    atom_id: UUID
    created: bool
    duplicate_of: UUID | None
    similarity: float | None
    status: str
    revision: int


class Recent:
    """What was learned a moment ago, since the index may not hold it yet. Thread-safe."""

    def __init__(self, keep: int = 4_000) -> None:
        self._keep = keep
        self._known: list[tuple[UUID, NewAtom, Dense]] = []
        self._lock = threading.Lock()

    def add(self, atom_id: UUID, atom: NewAtom, vector: Dense) -> None:
        with self._lock:
            self._known.append((atom_id, atom, vector))
            if len(self._known) > self._keep:
                del self._known[: self._keep // 4]

    def nearest(self, vector: Dense, limit: int) -> list[tuple[UUID, NewAtom, float]]:
        with self._lock:
            known = list(self._known)
        if not known:
            return []
        cosines = np.stack([one[2] for one in known]) @ vector
        order = np.argsort(-cosines)[:limit]
        return [(known[i][0], known[i][1], float(cosines[i])) for i in order]


@dataclass(frozen=True, slots=True)
class _Match:
    atom_id: UUID
    cosine: float


@dataclass(slots=True)
class _Plan:
    """``vectors`` and ``matches`` by identity; ``fresh`` are vectors by text that are not cached yet;
    ``pending`` says that near duplicates could not be looked for."""

    vectors: dict[str, Dense] = field(default_factory=dict)
    fresh: dict[str, Dense] = field(default_factory=dict)
    matches: dict[str, _Match] = field(default_factory=dict)
    pending: bool = False


_Around = tuple[Callable[[Connection, Lesson], Lesson] | None, Callable[[Connection, Learned], None] | None]


class Learner:
    def __init__(self, db: Database, vectors: Vectors, searcher: Searcher) -> None:
        self._db = db
        self._vectors = vectors
        self._searcher = searcher

    def learn(
        self,
        tenant: str,
        lessons: Sequence[Lesson],
        recent: Recent | None = None,
        *,
        prepare: Callable[[Connection, Lesson], Lesson] | None = None,
        finish: Callable[[Connection, Learned], None] | None = None,
    ) -> tuple[list[Learned], int]:
        """Store the lessons in one transaction, ``prepare`` and ``finish`` of each within it. Returns
        what became of each, in order, and the transaction's id.

        When the embedder or the index is down, the atoms are stored all the same and marked for a
        later look for near duplicates.
        """
        recent = recent if recent is not None else Recent()
        plan = self._plan(tenant, lessons, recent)
        learned, xid = self._db.retrying(lambda: self._write(tenant, lessons, plan, (prepare, finish)))
        for lesson, outcome in zip(lessons, learned, strict=True):
            vector = plan.vectors.get(lesson.atom.identity)
            if outcome.created and vector is not None:
                recent.add(outcome.atom_id, lesson.atom, vector)
        return learned, xid

    def _plan(self, tenant: str, lessons: Sequence[Lesson], recent: Recent) -> _Plan:
        """Everything that is looked up or computed before the transaction that writes."""
        plan = _Plan()
        try:
            parts = {
                lesson.atom.identity: self._vectors.parts(embedded_text(lesson.atom.claim, lesson.atom.content))
                for lesson in lessons
            }
        except Unavailable:
            plan.pending = True
            return plan
        with self._db.tenant(tenant) as conn:
            identical = atoms.find_identical(conn, tenant, list(parts))
            new = [lesson for lesson in lessons if lesson.atom.identity not in identical]
            texts = [part for lesson in new for part in parts[lesson.atom.identity]]
            known = self._vectors.cached_in(conn, tenant, texts)
        try:
            plan.fresh = self._vectors.made([text for text in texts if text not in known])
        except Unavailable:
            plan.pending = True
            return plan
        known |= plan.fresh
        for lesson in new:
            identity = lesson.atom.identity
            if len(parts[identity]) == 1:
                plan.vectors[identity] = known[parts[identity][0]]
                self._match(tenant, lesson.atom, plan, recent)
        return plan

    def _match(self, tenant: str, atom: NewAtom, plan: _Plan, recent: Recent) -> None:
        if atom.type not in NEAR_TYPES:
            return
        match, unsure = self._near(tenant, atom, plan.vectors[atom.identity], recent)
        plan.pending = plan.pending or unsure
        if match is not None:
            plan.matches[atom.identity] = match

    def _near(self, tenant: str, atom: NewAtom, vector: Dense, recent: Recent) -> tuple[_Match | None, bool]:
        profile = profile_for(self._vectors.model_name)
        for atom_id, other, cosine in recent.nearest(vector, NEIGHBOURS):
            same_times = (other.valid_from, other.valid_to) == (atom.valid_from, atom.valid_to)
            if (
                other.type == atom.type
                and same_times
                and compare(_compared(atom), _compared(other), cosine, profile) is Verdict.SAME
            ):
                return _Match(atom_id, cosine), False
        where = SearchFilter(tenant=tenant, types=frozenset({atom.type.value}), shown_as=STANDING)
        try:
            hits, incomplete = self._searcher.search(where, dense=vector, sparse=None, limit=NEIGHBOURS)
        except Unavailable:
            return None, True
        with self._db.tenant(tenant) as conn:
            rows = atoms.matching(conn, where, [hit.entity_id for hit in hits.dense])
        for hit in hits.dense:
            row = rows.get(hit.entity_id)
            if row is not None and is_same(atom, row, hit.score, self._vectors.model_name):
                return _Match(row.id, hit.score), False
        return None, bool(incomplete)

    def _write(self, tenant: str, lessons: Sequence[Lesson], plan: _Plan, around: _Around) -> tuple[list[Learned], int]:
        prepare, finish = around
        outcome: dict[int, Learned] = {}
        in_lock_order = sorted(range(len(lessons)), key=lambda n: lessons[n].atom.identity)
        with self._db.tenant(tenant) as conn:
            if plan.fresh:
                self._vectors.keep_in(conn, tenant, plan.fresh)
            for n in in_lock_order:
                lesson = prepare(conn, lessons[n]) if prepare else lessons[n]
                outcome[n] = self._write_one(conn, tenant, lesson, plan)
                if finish:
                    finish(conn, outcome[n])
            xid = outbox.current_xid(conn)
        return [outcome[n] for n in range(len(lessons))], xid

    def _write_one(self, conn: Connection, tenant: str, lesson: Lesson, plan: _Plan) -> Learned:
        match = plan.matches.get(lesson.atom.identity)
        if match is not None:
            row = atoms.lock(conn, tenant, match.atom_id)
            if row is not None and row.shown_as in STANDING:
                return self._merge(conn, row, lesson, match.cosine)
        atom = replace(lesson.atom, dedup_pending=plan.pending and lesson.atom.type in NEAR_TYPES)
        atom_id = None
        standing = atoms.find_identical(conn, tenant, [atom.identity]).get(atom.identity)
        if standing is None:
            atom_id = atoms.insert_new(conn, tenant, atom)
            if atom_id is None:
                standing = atoms.find_identical(conn, tenant, [atom.identity])[atom.identity]
        if atom_id is None:
            assert standing is not None
            locked = atoms.lock(conn, tenant, standing.id)
            return self._merge(conn, locked or standing, lesson, 1.0)
        for citation in lesson.citations:
            citations.add(conn, tenant, atom_id, citation)
        return Learned(atom_id, True, None, None, ShownAs.CANDIDATE.value, 1)

    def _merge(self, conn: Connection, row: AtomRow, lesson: Lesson, similarity: float) -> Learned:
        revision = row.revision
        if row.shown_as is not ShownAs.RETRACTED:
            added = [citations.add(conn, row.tenant, row.id, citation) for citation in lesson.citations]
            tags = tuple(dict.fromkeys([*row.tags, *lesson.atom.tags]))
            revived = row.status == ShownAs.STALE.value and any(added)
            if any(added) or tags != row.tags or revived:
                values: dict[str, object] = {"tags": list(tags)}
                if revived:
                    values |= {"status": ShownAs.CANDIDATE.value, "status_reason": ""}
                revision = atoms.change(conn, row, values, what="cited again")
                row = replace(row, status=str(values.get("status", row.status)))
        return Learned(row.id, False, row.id, similarity, row.shown_as.value, revision)


def _compared(atom: NewAtom | AtomRow) -> str:
    return embedded_text(collapse(atom.claim), collapse(atom.content))


def is_same(atom: NewAtom | AtomRow, row: AtomRow, cosine: float, model_name: str) -> bool:
    """Whether two atoms of one type say the same: the guards of ``dedup`` hold and so do the times."""
    if (atom.valid_from, atom.valid_to) != (row.valid_from, row.valid_to):
        return False
    return compare(_compared(atom), _compared(row), cosine, profile_for(model_name)) is Verdict.SAME
