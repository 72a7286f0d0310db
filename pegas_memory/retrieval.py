"""The read path: candidates from the arms → fused → bodies and filters from PostgreSQL."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from pegas_memory import bm25, ranking
from pegas_memory.db import atoms, citations
from pegas_memory.db.atoms import AtomRow
from pegas_memory.db.session import Connection, Database
from pegas_memory.decay import strength
from pegas_memory.embedding import Embedder
from pegas_memory.errors import BadCursor, InvalidParameter, Unavailable, WrongDimension
from pegas_memory.model import (
    VISIBLE,
    ArmHits,
    Degraded,
    Dense,
    Hit,
    MemoryKind,
    Role,
    SearchFilter,
    SearchMode,
    SearchRequest,
    SearchResult,
    SparseVector,
)
from pegas_memory.ranking import Ranked
from pegas_memory.text import sha256
from pegas_memory.vectors import Searcher

MAX_LIMIT = 200
QUERY_LIMIT = 2_000
"""Characters of a question that are embedded; the rest changes nothing any model would notice."""
SLOW_FAILURE, DENSE_PAUSE = 1.0, 10.0
"""Seconds: an embedder that took longer than the first to fail is left alone for the second."""
LEAST_DEPTH, PAGES_DEEP = 200, 5
DEEPEST = PAGES_DEEP * MAX_LIMIT


def depth_of(limit: int) -> int:
    """Candidates of each arm, the same for every page of a question: fused ranks shift with the depth, so
    that pages of different depths would repeat and miss results. The pages end where the candidates do.
    Measured at 10,000 points: 20 ms for both arms at a depth of 200, 138 ms at 2,000 (2 cores)."""
    return max(LEAST_DEPTH, PAGES_DEEP * limit)


@dataclass(slots=True)
class Found:
    results: list[SearchResult]
    next_cursor: str = ""
    degraded: list[Degraded] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    similarity: Mapping[UUID, float] = field(default_factory=dict)
    """Cosine to the question, of those that the dense arm found."""
    coverage: Mapping[UUID, float] = field(default_factory=dict)
    """Share of the question's terms that each result holds."""


class Retrieval:
    def __init__(self, db: Database, embedder: Embedder, searcher: Searcher) -> None:
        self._db = db
        self._embedder = embedder
        self._searcher = searcher
        self._dense_after = 0.0
        self._query_vector = lru_cache(maxsize=256)(self._embed_query)

    def search(self, tenant: str, request: SearchRequest, now: datetime) -> Found:
        """Answer a search. An arm that is down is named in ``degraded`` and the others answer.

        Raises:
            InvalidParameter, BadCursor, DatabaseUnavailable.
        """
        if not 1 <= request.limit <= MAX_LIMIT:
            raise InvalidParameter(f"`limit` is {request.limit}; it must be from 1 to {MAX_LIMIT}.")
        where = _filter(tenant, request)
        if request.ids:
            return self._by_ids(tenant, request, now)
        if MemoryKind.KNOWLEDGE not in request.memory:
            missing = ", ".join(sorted(request.memory))
            return Found([], degraded=[Degraded(missing, "not_available_yet: only knowledge is stored so far")])
        if not request.query.strip():
            return self._newest(where, request, now)
        return self._ranked(where, request, now)

    def _by_ids(self, tenant: str, request: SearchRequest, now: datetime) -> Found:
        with self._db.tenant(tenant) as conn:
            rows = atoms.fetch(conn, tenant, request.ids)
            ordered = [rows[i] for i in dict.fromkeys(request.ids) if i in rows]
            return Found(_results(conn, tenant, [(row, Ranked(row.id, 1.0)) for row in ordered], now, explain=None))

    def _newest(self, where: SearchFilter, request: SearchRequest, now: datetime) -> Found:
        after = _Cursor.read(request, "newest")
        before = (datetime.fromisoformat(after.at), UUID(after.id)) if after else None
        started = time.perf_counter()
        with self._db.tenant(where.tenant) as conn:
            rows = atoms.newest(conn, where, request.limit + 1, before=before)
            shown = rows[: request.limit]
            pairs = [(row, Ranked(row.id, 1.0)) for row in shown]
            found = Found(_results(conn, where.tenant, pairs, now, explain=None))
        found.timings["postgres"] = _since(started)
        if len(rows) > request.limit:
            last = shown[-1]
            found.next_cursor = _Cursor("newest", 0, last.created_at.isoformat(), str(last.id)).write(request)
        return found

    def _ranked(self, where: SearchFilter, request: SearchRequest, now: datetime) -> Found:
        cursor = _Cursor.read(request, "ranked")
        skip = cursor.offset if cursor else 0
        degraded: list[Degraded] = []
        timings: dict[str, float] = {}
        question = bm25.terms(request.query[:QUERY_LIMIT])
        depth = cursor.depth if cursor else depth_of(request.limit)
        hits = self._candidates(where, request, question, depth, degraded, timings)
        started = time.perf_counter()
        with self._db.tenant(where.tenant) as conn:
            ordered = _order(request.mode, hits, lambda best: self._coverage_of(conn, where, question, best))
            ids = [ranked.entity_id for ranked in ordered]
            page = atoms.page_of(conn, where, ids, skip=skip, limit=request.limit + 1)
            shown = page[: request.limit]
            covered = {row.id: ranking.coverage(question, row.terms) for row in shown}
            by_id = {ranked.entity_id: ranked for ranked in ordered}
            pairs = [(row, by_id[row.id]) for row in shown]
            results = _results(conn, where.tenant, pairs, now, explain=covered if request.explain else None)
        timings["postgres"] = timings.get("postgres", 0.0) + _since(started)
        similarity = {hit.entity_id: hit.score for hit in hits.dense}
        found = Found(results, "", degraded, timings, similarity, covered)
        if len(page) > request.limit:
            found.next_cursor = _Cursor("ranked", skip + request.limit, depth=depth).write(request)
        elif max(len(hits.dense), len(hits.lexical)) >= depth:
            degraded.append(Degraded("pages", f"they end with the best {depth} of each arm; a filter finds others"))
        return found

    def _coverage_of(self, conn: Connection, where: SearchFilter, question: Sequence[str], best: UUID) -> float:
        """Share of the question's terms that the best keyword match holds; 1 when it is hidden by the filter."""
        row = atoms.matching(conn, where, [best]).get(best)
        return ranking.coverage(question, row.terms) if row is not None else 1.0

    def _candidates(
        self,
        where: SearchFilter,
        request: SearchRequest,
        question: Sequence[str],
        depth: int,
        degraded: list[Degraded],
        timings: dict[str, float],
    ) -> ArmHits:
        dense: Dense | None = None
        sparse: SparseVector | None = None
        if request.mode is not SearchMode.LEXICAL:
            dense = self._dense(request.query, degraded, timings)
        if request.mode is not SearchMode.DENSE or dense is None:
            sparse = bm25.encode_query(request.query[:QUERY_LIMIT])
        if dense is None and (sparse is None or not sparse.indices):
            return ArmHits()
        started = time.perf_counter()
        try:
            hits, incomplete = self._searcher.search(
                where, dense=dense, sparse=sparse if sparse and sparse.indices else None, limit=depth
            )
        except Unavailable as error:
            degraded.append(Degraded("vector index", f"{error.code}: keyword matches come from PostgreSQL instead"))
            return self._fallback(where, question, depth)
        timings["engine"] = _since(started)
        if incomplete:
            degraded.append(Degraded("vector index", incomplete))
            if len(hits.dense) + len(hits.lexical) < depth:
                return _joined(hits, self._fallback(where, question, depth))
        return hits

    def _dense(self, query: str, degraded: list[Degraded], timings: dict[str, float]) -> Dense | None:
        started = time.perf_counter()
        if time.monotonic() < self._dense_after:
            degraded.append(Degraded("dense arm", "embedder_unavailable: it was too slow a moment ago"))
            return None
        try:
            return self._query_vector(query[:QUERY_LIMIT].strip())
        except (Unavailable, WrongDimension) as error:
            if _since(started) > SLOW_FAILURE * 1000:
                self._dense_after = time.monotonic() + DENSE_PAUSE
            degraded.append(Degraded("dense arm", f"{error.code}: {error.message}"))
            return None
        finally:
            timings["embed"] = _since(started)

    def _embed_query(self, query: str) -> Dense:
        vector: Dense = self._embedder.embed([query], Role.QUERY)[0]
        return vector

    def _fallback(self, where: SearchFilter, question: Sequence[str], depth: int) -> ArmHits:
        with self._db.tenant(where.tenant) as conn:
            scored = atoms.by_terms(conn, where, sorted(set(question)), depth)
        return ArmHits(lexical=tuple(Hit(i, score) for i, score in scored))


def _filter(tenant: str, request: SearchRequest) -> SearchFilter:
    return SearchFilter(
        tenant=tenant,
        memory=frozenset({MemoryKind.KNOWLEDGE}),
        types=frozenset(t.value for t in request.types),
        shown_as=request.statuses or (frozenset() if request.as_of else VISIBLE),
        tags=request.tags,
        doc_id=request.doc_id,
        since=request.since,
        until=request.until,
        min_confidence=request.min_confidence,
        as_of=request.as_of,
    )


def _order(mode: SearchMode, hits: ArmHits, coverage_of: Callable[[UUID], float]) -> list[Ranked]:
    if mode is SearchMode.DENSE and hits.dense:
        return ranking.by_similarity(hits.dense)
    if mode is SearchMode.LEXICAL or not hits.dense:
        return ranking.by_keywords(hits.lexical, coverage_of(hits.lexical[0].entity_id) if hits.lexical else 1.0)
    return ranking.fuse({"dense": hits.dense, "lexical": hits.lexical})


def _joined(hits: ArmHits, more: ArmHits) -> ArmHits:
    known = {h.entity_id for h in hits.lexical}
    return ArmHits(hits.dense, (*hits.lexical, *(h for h in more.lexical if h.entity_id not in known)))


def _results(
    conn: Connection,
    tenant: str,
    pairs: Sequence[tuple[AtomRow, Ranked]],
    now: datetime,
    explain: Mapping[UUID, float] | None,
) -> list[SearchResult]:
    cited = citations.of_atoms(conn, tenant, [row.id for row, _ in pairs])
    return [
        SearchResult(
            atom_id=row.id,
            memory=MemoryKind.KNOWLEDGE,
            type=row.type,
            claim=row.claim,
            content=row.content,
            status=row.shown_as.value,
            confidence=row.confidence,
            score=round(ranked.score, 4),
            strength=round(strength(now, row.last_access or row.created_at, row.stability), 4),
            tags=row.tags,
            metadata=row.metadata,
            occurred_at=row.occurred_at,
            created_at=row.created_at,
            citations=tuple(cited.get(row.id, ())),
            superseded_by=row.superseded_by,
            explain=_explained(row, ranked, explain) if explain is not None else None,
        )
        for row, ranked in pairs
    ]


def _explained(row: AtomRow, ranked: Ranked, covered: Mapping[UUID, float]) -> dict[str, object]:
    return {
        "ranks": dict(ranked.ranks),
        "arm_scores": {name: round(score, 4) for name, score in ranked.arm_scores.items()},
        "arm_weights": {name: ranking.ARM_WEIGHTS[name] for name in ranked.ranks},
        "term_coverage": round(covered.get(row.id, 0.0), 4),
    }


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where the next page starts; bound to the request that made it."""

    kind: str
    offset: int = 0
    at: str = ""
    id: str = ""
    depth: int = LEAST_DEPTH

    def write(self, request: SearchRequest) -> str:
        body = [self.kind, self.offset, self.at, self.id, self.depth, _fingerprint(request)]
        return base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, request: SearchRequest, kind: str) -> _Cursor | None:
        if not request.cursor:
            return None
        try:
            padded = request.cursor + "=" * (-len(request.cursor) % 4)
            found, offset, at, last, depth, fingerprint = json.loads(base64.urlsafe_b64decode(padded))
            cursor = cls(str(found), int(offset), str(at), str(last), int(depth))
            if cursor.kind == "newest":
                datetime.fromisoformat(cursor.at), UUID(cursor.id)
        except (ValueError, TypeError, binascii.Error) as error:
            raise BadCursor("`cursor` is not one that a search gave out.") from error
        within = 0 <= cursor.offset <= 2 * DEEPEST and 1 <= cursor.depth <= DEEPEST
        if cursor.kind != kind or fingerprint != _fingerprint(request) or not within:
            raise BadCursor("`cursor` belongs to another search.")
        return cursor


def _fingerprint(request: SearchRequest) -> str:
    parts: list[object] = [request.query, request.mode.value, request.doc_id, request.since, request.until]
    parts += [request.as_of, request.min_confidence]
    parts += [sorted(v) for v in (request.types, request.statuses, request.tags, request.memory)]
    return sha256(*map(str, parts))[:16]


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
