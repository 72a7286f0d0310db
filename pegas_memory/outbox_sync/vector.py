"""Atoms → their vectors in the cache, and → the vector index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from pegas_memory import bm25
from pegas_memory.db import atoms, citations, outbox, tenants
from pegas_memory.db.atoms import AtomRow
from pegas_memory.db.outbox import Backfill, Change
from pegas_memory.db.session import Database
from pegas_memory.errors import InputError, PegasError
from pegas_memory.model import FOREVER, Dense, MemoryKind, Point, PointPayload, SparseVector, point_id
from pegas_memory.outbox_sync.names import embedding_consumer
from pegas_memory.qdrant_store import VectorIndex
from pegas_memory.vectors import Vectors, embedded_text

ATOMS = ("atom",)
_PAGE = 256
_NO_WORDS = SparseVector((), ())


class EmbeddingProjection:
    """Fills the vector cache for atoms; tells the outbox, so that the index takes the vector up."""

    fills = ATOMS

    def __init__(self, db: Database, vectors: Vectors) -> None:
        self._db = db
        self._vectors = vectors
        self.consumer = embedding_consumer(vectors.model)

    def project(self, changes: Sequence[Change]) -> None:
        by_tenant: dict[str, dict[UUID, Change]] = {}
        for change in changes:
            if change.entity_type == "atom" and change.op != "embedded":
                by_tenant.setdefault(change.tenant, {})[change.entity_id] = change
        for tenant, wanted in by_tenant.items():
            self._embed(tenant, wanted)

    def _embed(self, tenant: str, changes: dict[UUID, Change]) -> None:
        with self._db.tenant(tenant) as conn:
            rows = atoms.fetch(conn, tenant, list(changes))
            texts = {row.id: self._vectors.parts(embedded_text(row.claim, row.content)) for row in rows.values()}
            known = self._vectors.cached_since(
                conn, tenant, [part for parts in texts.values() for part in parts], self.consumer
            )
        untold = [atom_id for atom_id, parts in texts.items() if not _was_there(changes[atom_id], parts, known)]
        if not untold:
            return
        missing = [part for atom_id in untold for part in texts[atom_id] if part not in known]
        try:
            made = self._vectors.made(missing)
        except InputError as error:
            raise PegasError(f"The text cannot be embedded ({error.code}).") from error
        self._keep(tenant, {atom_id: texts[atom_id] for atom_id in untold}, made)

    def _keep(self, tenant: str, texts: dict[UUID, list[str]], made: dict[str, Dense]) -> None:
        """Cache what was made for the atoms that still stand (some may have been purged meanwhile), and tell the
        outbox in the same transaction."""
        with self._db.tenant(tenant) as conn:
            if not tenants.joined(conn, tenant):
                return
            standing = list(atoms.fetch(conn, tenant, list(texts)))
            kept = {part: made[part] for atom_id in standing for part in texts[atom_id] if part in made}
            self._vectors.keep_in(conn, tenant, kept)
            outbox.enqueue(conn, tenant, "atom", standing, op="embedded")

    def make_durable(self) -> None:
        """PostgreSQL made it so at commit."""

    def filled(self, generation: int) -> None:
        """Nothing to switch: the cache is asked text by text."""


class VectorProjection:
    """Atoms → the vector index: one point for each part, the sparse vector on the first."""

    fills = ATOMS

    def __init__(self, db: Database, vectors: Vectors, index: VectorIndex, consumer: str) -> None:
        self._db = db
        self._vectors = vectors
        self._index = index
        self.consumer = consumer

    def project(self, changes: Sequence[Change]) -> None:
        for tenant in dict.fromkeys(change.tenant for change in changes if change.entity_type == "tenant"):
            self._start_over(tenant)
        for tenant, ids in _atoms_by_tenant(changes).items():
            self._bring(tenant, ids)

    def _bring(self, tenant: str, ids: Sequence[UUID]) -> None:
        with self._db.tenant(tenant) as conn:
            rows = atoms.fetch(conn, tenant, ids)
            doc_ids = citations.doc_ids_of(conn, tenant, list(rows))
        points = self._points(tenant, list(rows.values()), doc_ids)
        if rows:
            self._index.replace(tenant, list(rows), points)
        gone = [atom_id for atom_id in ids if atom_id not in rows]
        if gone:
            self._index.delete_entities(tenant, gone)

    def _start_over(self, tenant: str) -> None:
        """All that the tenant had was purged; what it has stored since is put again."""
        self._index.delete_tenant(tenant)
        for ids in self._all_of(tenant):
            self._bring(tenant, ids)

    def _all_of(self, tenant: str) -> Iterator[list[UUID]]:
        at = Backfill("atom", tenant, None)
        while True:
            with self._db.tenant(tenant) as conn:
                page = outbox.backfill_page(conn, at, ATOMS, _PAGE)
            if not page:
                return
            yield [change.entity_id for change in page]
            at = at.moved_to(page[-1], len(page))

    def make_durable(self) -> None:
        self._index.flush()

    def filled(self, generation: int) -> None:
        """The index is complete; who built it beside another one switches."""

    def _points(self, tenant: str, rows: Sequence[AtomRow], doc_ids: dict[UUID, tuple[UUID, ...]]) -> list[Point]:
        parts = {row.id: self._vectors.parts(embedded_text(row.claim, row.content)) for row in rows}
        known = self._vectors.cached(tenant, [part for listed in parts.values() for part in listed])
        return [p for row in rows for p in points_of(row, doc_ids.get(row.id, ()), parts[row.id], known)]


def points_of(row: AtomRow, doc_ids: tuple[UUID, ...], parts: Sequence[str], vectors: dict[str, Dense]) -> list[Point]:
    """The points of one atom; a part whose vector is pending has none yet."""
    payload = PointPayload(
        tenant=row.tenant,
        memory=MemoryKind.KNOWLEDGE,
        entity_id=row.id,
        revision=row.revision,
        type=row.type,
        shown_as=row.shown_as,
        tags=row.tags,
        doc_ids=doc_ids,
        occurred=(row.occurred_at or row.created_at).timestamp(),
        confidence=row.confidence,
        valid_from=row.held_from.timestamp(),
        valid_until=FOREVER if row.held_until is None else row.held_until.timestamp(),
    )
    whole = bm25.encode_document(embedded_text(row.claim, row.content))
    return [
        Point(point_id(row.tenant, row.id, n), payload, whole if n == 0 else _NO_WORDS, vectors.get(part))
        for n, part in enumerate(parts)
        if n == 0 or part in vectors
    ]


def _was_there(change: Change, parts: Sequence[str], known: Mapping[str, str | None]) -> bool:
    """Whether everybody who reads the change finds the vectors of its text: they came in its own transaction, or
    stood before it. Whoever else cached them may have done so after the index was given the atom without."""
    return bool(change.xid) and all(part in known and known[part] in {None, change.xid} for part in parts)


def _atoms_by_tenant(changes: Sequence[Change]) -> dict[str, list[UUID]]:
    found: dict[str, list[UUID]] = {}
    for change in changes:
        if change.entity_type == "atom":
            found.setdefault(change.tenant, []).append(change.entity_id)
    return found
