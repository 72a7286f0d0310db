"""Qdrant's own engine inside this process (``qdrant-edge-py``).

Facts of the engine that shape this file: it never releases the GIL, so it belongs into a process of
its own; a fork with an open shard hangs; its failures are bare ``Exception`` and Rust panics, which
are no ``Exception``; its files carry no checksums, so that the owner compares ``count`` and ``scan``
with PostgreSQL after opening.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar, cast
from uuid import UUID

import numpy as np
import qdrant_edge as qe

from pegas_memory.errors import DiskFull, ShardDamaged, VectorsUnavailable
from pegas_memory.model import ArmHits, Dense, EmbeddingModel, Point, SearchFilter, SparseVector
from pegas_memory.qdrant_store.checks import check_dense, check_points, check_replaced, check_sparse
from pegas_memory.qdrant_store.collapse import Arm, Scored, gather
from pegas_memory.qdrant_store.face import ScannedPoint
from pegas_memory.qdrant_store.naming import BM25, DENSE
from pegas_memory.qdrant_store.payload import (
    ENTITIES_PER_CALL,
    ENTITY_ID,
    INDEXED,
    REVISION,
    TENANT,
    Above,
    AnyOf,
    Between,
    Condition,
    FieldKind,
    batches,
    conditions,
    leftovers,
    of_entities,
    of_tenant,
    to_payload,
)
from pegas_memory.qdrant_store.shard_folder import (
    held,
    make_folder,
    move_aside,
    read_manifest,
    remove,
    shard_path,
    write_manifest,
)

Answer = TypeVar("Answer")

POINTS_PER_CALL = 500
"""Bounds how long one call keeps the GIL: 500 points of 768 dimensions take about 40 ms."""

HNSW_FROM_POINTS = 100_000
"""Below it exact search is fast enough (about 20 ms at 100,000 x 768) and building takes a minute of the
GIL; measured on 2 cores, measure again when the engine releases the GIL."""

_OS_ERROR = re.compile(r"os error (\d+)")
_DISK_FULL = frozenset({"28", "122"})  # ENOSPC, EDQUOT
_NOT_DAMAGE = frozenset({"12", "13", "23", "24", "30"})  # ENOMEM, EACCES, ENFILE, EMFILE, EROFS


class EdgeIndex:
    """A ``VectorIndex`` in the files of ``folder``, for one process at a time.

    What is stored is searchable at once and durable after ``flush``; a process that dies between
    loses what came after its last flush and nothing else. All methods may be called from any thread.
    """

    def __init__(self, folder: Path, model: EmbeddingModel, base: str) -> None:
        self._folder = folder
        self._model = model
        self._base = base
        self._turn = threading.RLock()
        self._held = ExitStack()
        self._shard: qe.EdgeShard | None = None
        self._closed = False
        self._damaged = False

    @staticmethod
    def wipe(folder: Path, *, keep: bool = True) -> None:
        """Move the shard of ``folder`` aside, so that the next ``ensure`` starts an empty one there.

        With ``keep`` the old one stays as ``NAME.damaged`` until the next time.

        Raises:
            VectorsUnavailable: an index still has it open; close that first.
        """
        move_aside(folder, keep=keep)

    @staticmethod
    def remove(folder: Path) -> None:
        """Delete the shard of ``folder``.

        Raises:
            VectorsUnavailable: an index still has it open; close that first.
        """
        remove(folder)

    def stands(self) -> bool:
        """Whether the folder holds a shard already. Raises as ``ensure``; opens nothing."""
        return read_manifest(self._folder, self._model)

    def ensure(self) -> None:
        """Open the shard, making it when the folder has none.

        Raises:
            WrongDimension: it was made for another model or dimension.
            ShardDamaged: it cannot be opened; ``wipe`` it and fill it anew.
            VectorsUnavailable: another process has it.
        """
        with self._turn:
            if self._closed:
                raise VectorsUnavailable("The embedded vectors are closed.")
            if self._damaged:
                raise ShardDamaged("The embedded vectors failed before and are not trusted any more.")
            if self._shard is None:
                self._open()

    def _open(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(held(self._folder))
            path, config = str(shard_path(self._folder)), _config(self._model)
            if read_manifest(self._folder, self._model):
                shard = guarded(lambda: qe.EdgeShard.load(path, config))
            else:
                make_folder(self._folder)
                shard = guarded(lambda: qe.EdgeShard.create(path, config))
                guarded(lambda: _index_payload(shard))
                guarded(shard.flush)
                write_manifest(self._folder, self._base, self._model)
            self._held = stack.pop_all()
        self._shard = shard

    def upsert(self, points: Sequence[Point]) -> None:
        """As ``VectorIndex.upsert``."""
        check_points(points, self._model)
        with self._turn:
            self._store(points)

    def replace(self, tenant: str, entity_ids: Sequence[UUID], points: Sequence[Point]) -> None:
        """As ``VectorIndex.replace``."""
        check_points(points, self._model)
        check_replaced(tenant, entity_ids, points)
        with self._turn:
            self._store(points)
            for some, kept in leftovers(entity_ids, points):
                stays: list[qe.ConditionType] = [qe.HasIdCondition(set(kept))] if kept else []
                mine: list[qe.ConditionType] = [_condition(of_tenant(tenant)), _condition(of_entities(some))]
                self._delete(qe.Filter(must=mine, must_not=stays))

    def delete_entities(self, tenant: str, entity_ids: Sequence[UUID]) -> None:
        """As ``VectorIndex.delete_entities``."""
        with self._turn:
            for some in batches(entity_ids, ENTITIES_PER_CALL):
                self._delete(_filter([of_tenant(tenant), of_entities(some)]))

    def delete_tenant(self, tenant: str) -> None:
        """As ``VectorIndex.delete_tenant``."""
        self._delete(_filter([of_tenant(tenant)]))

    def search(self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int) -> ArmHits:
        """As ``VectorIndex.search``. Word rarity (IDF) is that of the tenant alone."""
        queries: dict[Arm, qe.Query] = {}
        if dense is not None:
            check_dense(dense, self._model, "query")
            queries[Arm.DENSE] = qe.Query.Nearest(dense.tolist(), using=DENSE)
        if sparse is not None:
            check_sparse(sparse, "query")
            if sparse.indices:
                queries[Arm.LEXICAL] = qe.Query.Nearest(_sparse(sparse), using=BM25)
        if limit < 1 or not queries:
            return ArmHits()
        kept = _filter(conditions(where))
        rarity = qe.SearchParams(idf=qe.IdfParams(corpus=_filter([of_tenant(where.tenant)])))
        wanted = qe.PayloadSelector.Include([ENTITY_ID])

        def fetch(sizes: Mapping[Arm, int]) -> Mapping[Arm, Sequence[Scored]]:
            request = qe.QueryBatchRequest(
                [
                    qe.QueryRequest(
                        limit=size,
                        query=queries[arm],
                        filter=kept,
                        with_payload=wanted,
                        params=rarity if arm is Arm.LEXICAL else None,
                    )
                    for arm, size in sizes.items()
                ]
            )
            answers = self._call(lambda shard: [list(map(_scored, rows)) for rows in shard.query_batch(request)])
            return dict(zip(sizes, answers, strict=True))

        return gather(list(queries), limit, fetch)

    def count(self) -> int:
        """As ``VectorIndex.count``."""
        return self._call(lambda shard: shard.count(qe.CountRequest(exact=True)))

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        """As ``VectorIndex.scan``; reads the stored vectors' presence, not what was once claimed."""
        return [] if limit < 1 else self._call(lambda shard: _page(shard, after, limit))

    def flush(self) -> None:
        """Return when everything stored before is on the disk."""
        self._call(lambda shard: shard.flush())

    def optimize(self) -> bool:
        """Reclaim the room of deleted points, and from about 100,000 points build the search graph.

        It keeps the GIL of this process all the while (59 s for 100,000 x 768): call it when nobody
        waits, never between a request and its answer. True when something was changed.
        """
        return self._call(lambda shard: shard.optimize())

    def close(self) -> None:
        """As ``VectorIndex.close``. A damaged shard is let go without a flush."""
        with self._turn:
            shard, self._shard, self._closed = self._shard, None, True
            try:
                if shard is not None and not self._damaged:
                    guarded(shard.flush)
                    guarded(shard.close)
            finally:
                self._held.close()

    def _store(self, points: Sequence[Point]) -> None:
        for some in batches(points, POINTS_PER_CALL):
            self._update(qe.UpdateOperation.upsert_points([_point(point) for point in some]))

    def _delete(self, doomed: qe.Filter) -> None:
        self._update(qe.UpdateOperation.delete_points_by_filter(doomed))

    def _update(self, operation: qe.UpdateOperation) -> None:
        self._call(lambda shard: shard.update(operation))

    def _call(self, ask: Callable[[qe.EdgeShard], Answer]) -> Answer:
        with self._turn:
            self.ensure()
            shard = self._shard
            assert shard is not None
            try:
                return guarded(lambda: ask(shard))
            except ShardDamaged:
                self._damaged = True
                raise


def guarded(call: Callable[[], Answer]) -> Answer:
    """Run one call of the engine and name its failure.

    The only place that catches BaseException: a Rust panic arrives as ``pyo3_runtime.PanicException``,
    which derives from it and cannot be imported. Everything that ends a process passes through. As
    vectors and payload were validated before, what remains is the disk or damage.
    """
    try:
        return call()
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        code = _OS_ERROR.search(str(error))
        if code is not None and code[1] in _DISK_FULL:
            raise DiskFull("There is no room on the disk for the embedded vectors.") from error
        if code is not None and code[1] in _NOT_DAMAGE:
            raise VectorsUnavailable(f"The embedded vectors cannot be used (os error {code[1]}).") from error
        raise ShardDamaged(f"The embedded vector engine failed ({type(error).__name__}).") from error


def _config(model: EmbeddingModel) -> qe.EdgeConfig:
    kilobytes = HNSW_FROM_POINTS * model.dimension * 4 // 1024
    return qe.EdgeConfig(
        vectors={DENSE: qe.EdgeVectorParams(size=model.dimension, distance=qe.Distance.Cosine)},
        sparse_vectors={BM25: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
        optimizers=qe.EdgeOptimizersConfig(indexing_threshold=kilobytes),
        # Off: it does not sync either, and one operation that panics would panic again on every load.
        wal_enabled=False,
    )


def _index_payload(shard: qe.EdgeShard) -> None:
    for field, kind in INDEXED.items():
        shard.update(qe.UpdateOperation.create_field_index(field, _SCHEMA[kind]))


_SCHEMA: dict[FieldKind, qe.PayloadSchemaType | qe.PayloadSchemaParams] = {
    FieldKind.TENANT: qe.KeywordIndexParams(is_tenant=True),
    FieldKind.KEYWORD: qe.PayloadSchemaType.Keyword,
    FieldKind.UUID: qe.PayloadSchemaType.Uuid,
    FieldKind.FLOAT: qe.PayloadSchemaType.Float,
}


def _condition(condition: Condition) -> qe.FieldCondition:
    match condition:
        case AnyOf(key, values):
            return qe.FieldCondition(key, match=qe.MatchAny(list(values)))
        case Between(key, low, high):
            return qe.FieldCondition(key, range=qe.RangeFloat(gte=low, lte=high))
        case Above(key, low):
            return qe.FieldCondition(key, range=qe.RangeFloat(gt=low))


def _filter(found: Sequence[Condition]) -> qe.Filter:
    return qe.Filter(must=[_condition(condition) for condition in found])


def _sparse(vector: SparseVector) -> qe.SparseVector:
    return qe.SparseVector(list(vector.indices), list(vector.values))


def _point(point: Point) -> qe.Point:
    vector: dict[str, qe.NamedVector] = {}
    if point.dense is not None:
        # A buffer of floats is read four times as fast as a list of them.
        vector[DENSE] = cast("list[float]", np.ascontiguousarray(point.dense, dtype=np.float32).data)
    if point.sparse.indices:
        vector[BM25] = _sparse(point.sparse)
    return qe.Point(point.id, vector, to_payload(point.payload))


def _scored(row: qe.ScoredPoint) -> Scored:
    return UUID((row.payload or {})[ENTITY_ID]), row.score


def _page(shard: qe.EdgeShard, after: UUID | None, limit: int) -> list[ScannedPoint]:
    request = qe.ScrollRequest(
        offset=after,
        limit=limit + 1,  # the offset is inclusive
        with_payload=qe.PayloadSelector.Include([ENTITY_ID, REVISION, TENANT]),
        with_vector=False,
    )
    rows = [row for row in shard.scroll(request)[0] if row.id != after][:limit]
    embedded = qe.Filter(must=[qe.HasIdCondition({row.id for row in rows}), qe.HasVectorCondition(DENSE)])
    request = qe.ScrollRequest(limit=limit, filter=embedded, with_payload=False, with_vector=False)
    with_dense = {row.id for row in shard.scroll(request)[0]} if rows else set()
    return [_scanned(row, row.id in with_dense) for row in rows]


def _scanned(row: qe.Record, has_dense: bool) -> ScannedPoint:
    payload = row.payload or {}
    return ScannedPoint(UUID(str(row.id)), UUID(payload[ENTITY_ID]), int(payload[REVISION]), has_dense, payload[TENANT])
