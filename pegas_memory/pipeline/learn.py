"""Store typed claims: an exact or near duplicate gives its citation to the atom that stands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np

from pegas_memory.db import atoms, citations, outbox, tenants
from pegas_memory.db.atoms import AtomRow, NewAtom
from pegas_memory.db.citations import NewCitation
from pegas_memory.db.session import Connection, Database
from pegas_memory.dedup import Verdict, compare, profile_for
from pegas_memory.errors import DatabaseUnavailable, Unavailable, WrongDimension
from pegas_memory.model import AtomType, Dense, Hit, SearchFilter, ShownAs
from pegas_memory.text import collapse
from pegas_memory.vectors import Searcher, Vectors, embedded_text

NEAR_TYPES = frozenset({AtomType.FACT, AtomType.DEFINITION, AtomType.TEXT})
"""Code, tables and rules are compared letter for letter: one character there is an update."""
NEIGHBOURS = 5
PLACE_TRIES = 3
STANDING = frozenset({ShownAs.CANDIDATE, ShownAs.VERIFIED, ShownAs.CONTESTED, ShownAs.STALE})


@dataclass(frozen=True, slots=True)
class Lesson:
    """``corrects`` is an atom that this one is never taken for, however alike; ``look_again`` asks for a second
    look for near duplicates, since another process may be storing the same at this moment."""

    atom: NewAtom
    citations: tuple[NewCitation, ...] = ()
    corrects: UUID | None = None
    look_again: bool = False


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
    unsure: bool = False
    """Near duplicates could not be looked for yet: the embedder or the index did not answer."""


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

    def forget(self, ids: Collection[UUID]) -> None:
        with self._lock:
            self._known = [one for one in self._known if one[0] not in ids]

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
    ``twins`` by identity of those that say what an earlier lesson of the batch says: its identity, the cosine;
    ``pending`` says that near duplicates could not be looked for."""

    vectors: dict[str, Dense] = field(default_factory=dict)
    fresh: dict[str, Dense] = field(default_factory=dict)
    matches: dict[str, _Match] = field(default_factory=dict)
    twins: dict[str, tuple[str, float]] = field(default_factory=dict)
    pending: bool = False


@dataclass(frozen=True, slots=True)
class _Around:
    begin: Callable[[Connection], None] | None
    prepare: Callable[[Connection, Lesson], Lesson] | None
    finish: Callable[[Connection, Learned], None] | None
    end: Callable[[Connection, Sequence[Learned]], None] | None


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
        begin: Callable[[Connection], None] | None = None,
        prepare: Callable[[Connection, Lesson], Lesson] | None = None,
        finish: Callable[[Connection, Learned], None] | None = None,
        end: Callable[[Connection, Sequence[Learned]], None] | None = None,
    ) -> tuple[list[Learned], int]:
        """Store the lessons in one transaction, ``begin`` first in it, ``prepare`` and ``finish`` of each within
        it, ``end`` last. Returns what became of each, in order, and the transaction's id.

        When the embedder or the index is down, the atoms are stored all the same and marked for a
        later look for near duplicates.
        """
        recent = recent if recent is not None else Recent()
        plan = self._plan(tenant, lessons, recent)
        learned, xid = self._db.retrying(
            lambda: self._write(tenant, lessons, plan, _Around(begin, prepare, finish, end))
        )
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
        except (Unavailable, WrongDimension):
            plan.pending = True
            return plan
        known |= plan.fresh
        for lesson in new:
            identity = lesson.atom.identity
            if len(parts[identity]) == 1:
                plan.vectors[identity] = known[parts[identity][0]]
        near_types = [lesson.atom for lesson in new if lesson.atom.type in NEAR_TYPES]
        self._match(tenant, near_types, plan, recent)
        for lesson in new:
            match = plan.matches.get(lesson.atom.identity)
            if match is not None and match.atom_id == lesson.corrects:
                del plan.matches[lesson.atom.identity]
        self._pair(near_types, plan)
        return plan

    def _match(self, tenant: str, wanted: Sequence[NewAtom], plan: _Plan, recent: Recent) -> None:
        """Near duplicates: among what was learned a moment ago, else by the index, all bodies read at once."""
        near: list[tuple[NewAtom, tuple[Hit, ...]]] = []
        for atom in wanted:
            vector = plan.vectors.get(atom.identity)
            if vector is None:
                continue
            match = self._among(recent, atom, vector)
            if match is not None:
                plan.matches[atom.identity] = match
                continue
            where = SearchFilter(tenant=tenant, types=frozenset({atom.type.value}), shown_as=STANDING)
            try:
                hits, incomplete = self._searcher.search(where, dense=vector, sparse=None, limit=NEIGHBOURS)
            except Unavailable:
                plan.pending = True
                break
            near.append((atom, hits.dense))
            plan.pending = plan.pending or bool(incomplete)
        self._confirm(tenant, near, plan)

    def _among(self, recent: Recent, atom: NewAtom, vector: Dense) -> _Match | None:
        for atom_id, other, cosine in recent.nearest(vector, NEIGHBOURS):
            if other.type == atom.type and is_same(atom, other, cosine, self._vectors.model_name):
                return _Match(atom_id, cosine)
        return None

    def _pair(self, wanted: Sequence[NewAtom], plan: _Plan) -> None:
        """Near duplicates within the batch: each new one against those before it that will be created."""
        new = {a.identity: a for a in wanted if a.identity in plan.vectors and a.identity not in plan.matches}
        if len(new) < 2:
            return
        identities, batch = list(new), list(new.values())
        rows = np.stack([plan.vectors[identity] for identity in identities])
        cosines = rows @ rows.T
        first: list[int] = []
        for j, atom in enumerate(batch):
            alike = [i for i in first if batch[i].type == atom.type]
            for i in sorted(alike, key=lambda i: -cosines[j, i])[:NEIGHBOURS]:
                if is_same(atom, batch[i], float(cosines[j, i]), self._vectors.model_name):
                    plan.twins[identities[j]] = (identities[i], float(cosines[j, i]))
                    break
            else:
                first.append(j)

    def _confirm(self, tenant: str, near: Sequence[tuple[NewAtom, tuple[Hit, ...]]], plan: _Plan) -> None:
        ids = list({hit.entity_id for _, hits in near for hit in hits})
        if not ids:
            return
        types = frozenset(kind.value for kind in NEAR_TYPES)
        with self._db.tenant(tenant) as conn:
            rows = atoms.matching(conn, SearchFilter(tenant=tenant, types=types, shown_as=STANDING), ids)
        for atom, hits in near:
            for hit in hits:
                row = rows.get(hit.entity_id)
                same = row is not None and row.type == atom.type.value
                if row is not None and same and is_same(atom, row, hit.score, self._vectors.model_name):
                    plan.matches[atom.identity] = _Match(row.id, hit.score)
                    break

    def _write(self, tenant: str, lessons: Sequence[Lesson], plan: _Plan, around: _Around) -> tuple[list[Learned], int]:
        """A few statements for the whole batch: each one more costs as much as an atom is worth."""
        prepare, finish = around.prepare, around.finish
        outcome: dict[int, Learned] = {}
        in_lock_order = sorted(range(len(lessons)), key=lambda n: lessons[n].atom.identity)
        with self._db.tenant(tenant) as conn:
            tenants.join(conn, tenant)
            if around.begin:
                around.begin(conn)
            if plan.fresh:
                self._vectors.keep_in(conn, tenant, plan.fresh)
            ready = {n: prepare(conn, lessons[n]) if prepare else lessons[n] for n in in_lock_order}
            standing = _Standing(conn, tenant, {n: lesson.atom.identity for n, lesson in ready.items()})
            made = self._place(conn, tenant, ready, standing, plan)
            for n, lesson in ready.items():
                if n in made:
                    outcome[n] = Learned(made[n], True, None, None, ShownAs.CANDIDATE.value, 1, plan.pending)
                else:
                    match = standing.of[n]
                    row = self._merge(conn, standing.rows[match.atom_id], lesson)
                    standing.rows[row.id] = row
                    outcome[n] = Learned(row.id, False, row.id, match.cosine, row.shown_as.value, row.revision)
                if finish:
                    finish(conn, outcome[n])
            ordered = [outcome[n] for n in range(len(lessons))]
            if around.end:
                around.end(conn, ordered)
            return ordered, outbox.current_xid(conn)

    def _place(
        self, conn: Connection, tenant: str, ready: Mapping[int, Lesson], standing: _Standing, plan: _Plan
    ) -> dict[int, UUID]:
        """Insert what stands nowhere, ids by position; ``standing`` knows the atoms of all others."""
        identities = {n: lesson.atom.identity for n, lesson in ready.items()}
        made: dict[int, UUID] = {}

        def left() -> dict[int, Lesson]:
            return {n: lesson for n, lesson in ready.items() if n not in standing.of and n not in made}

        standing.look(ready, plan.matches)
        made |= self._insert(conn, tenant, {n: x for n, x in left().items() if identities[n] not in plan.twins}, plan)
        became = {identities[n]: atom_id for n, atom_id in made.items()}
        became |= {identities[n]: match.atom_id for n, match in standing.of.items()}
        twins = {j: _Match(became[i], cosine) for j, (i, cosine) in plan.twins.items() if i in became}
        standing.look(left(), twins)
        for _ in range(PLACE_TRIES):  # what one became, or stood as, can be gone by the time it is locked
            if not left():
                return made
            made |= self._insert(conn, tenant, left(), plan)
            standing.look(left())
        if left():
            raise DatabaseUnavailable("An atom of the batch is being changed by others without a pause.")
        return made

    def _insert(self, conn: Connection, tenant: str, new: Mapping[int, Lesson], plan: _Plan) -> dict[int, UUID]:
        """Ids by position; a lesson that turns out to stand already (in the batch, or since) has none."""
        ready = [
            replace(lesson.atom, dedup_pending=(plan.pending or lesson.look_again) and lesson.atom.type in NEAR_TYPES)
            for lesson in new.values()
        ]
        ids = atoms.insert_many(conn, tenant, ready)
        made = {n: atom_id for n, atom_id in zip(new, ids, strict=True) if atom_id is not None}
        citations.add_to_new(conn, tenant, [(made[n], new[n].citations) for n in made])
        return made

    def _merge(self, conn: Connection, row: AtomRow, lesson: Lesson) -> AtomRow:
        """The locked ``row`` with the lesson's citations and tags."""
        if row.shown_as is ShownAs.RETRACTED:
            return row
        added = [citations.add(conn, row.tenant, row.id, citation) for citation in lesson.citations]
        tags = tuple(dict.fromkeys([*row.tags, *lesson.atom.tags]))
        revived = row.status == ShownAs.STALE.value and any(added)
        if not any(added) and tags == row.tags and not revived:
            return row
        values: dict[str, object] = {"tags": list(tags)}
        if revived:
            values |= {"status": ShownAs.CANDIDATE.value, "status_reason": ""}
        revision = atoms.change(conn, row, values, what="cited again")
        return replace(row, tags=tags, status=str(values.get("status", row.status)), revision=revision)


class _Standing:
    """Which lessons of a batch are said by an atom already: ``of`` by the lesson's position, and the
    atoms' locked ``rows``, which the caller keeps up to date as it changes them."""

    def __init__(self, conn: Connection, tenant: str, identities: Mapping[int, str]) -> None:
        self._conn = conn
        self._tenant = tenant
        self._identities = identities
        self.of: dict[int, _Match] = {}
        self.rows: dict[UUID, AtomRow] = {}

    def look(self, positions: Iterable[int], matches: Mapping[str, _Match] | None = None) -> None:
        """Find and lock for these lessons the near duplicate of ``matches``, else the identical atom."""
        wanted = {n: self._identities[n] for n in positions}
        if not wanted:
            return
        identical = atoms.find_identical(self._conn, self._tenant, list(wanted.values()))
        near = {n: matches[identity] for n, identity in wanted.items() if matches and identity in matches}
        ids = {match.atom_id for match in near.values()} | {row.id for row in identical.values()}
        self.rows |= atoms.lock_all(self._conn, self._tenant, ids - self.rows.keys())
        for n, identity in wanted.items():
            row = self.rows.get(near[n].atom_id) if n in near else None
            if row is not None and row.shown_as in STANDING:
                self.of[n] = near[n]
            elif identity in identical:
                self.of[n] = _Match(identical[identity].id, 1.0)


def _compared(atom: NewAtom | AtomRow) -> str:
    return embedded_text(collapse(atom.claim), collapse(atom.content))


def is_same(atom: NewAtom | AtomRow, row: NewAtom | AtomRow, cosine: float, model_name: str) -> bool:
    """Whether two atoms of one type say the same: the guards of ``dedup`` hold and so do the times."""
    if (atom.valid_from, atom.valid_to) != (row.valid_from, row.valid_to):
        return False
    return compare(_compared(atom), _compared(row), cosine, profile_for(model_name)) is Verdict.SAME
