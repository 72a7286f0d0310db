"""A Qdrant server by URL (``qdrant-client``).

No server was at hand when this was written: the contract suite ran against the client's own local
mode, which answers like a server but is none. Unproven by it: payload indexes, search over a built
HNSW graph, time-outs, and two processes making one collection. That a request stays below the 32 MB
of a server is proven by what is sent, to a peer that is none. Word rarity (IDF) within the tenant
needs a server that knows ``SearchParams.idf``; an older one ignores it and takes the rarity of the
whole collection. An older one may also ignore ``update_filter``, which keeps a writer that was left
behind from putting an older revision over a newer one; a deletion has no such guard on any server,
so that one written by it after a deletion stays until ``pegas-memory reconcile``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from uuid import UUID

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from pegas_memory.errors import ForeignCollection, SetupError, VectorsUnavailable, WrongDimension
from pegas_memory.model import ArmHits, Dense, EmbeddingModel, Point, SearchFilter, SparseVector
from pegas_memory.qdrant_store.checks import check_dense, check_points, check_replaced, check_sparse
from pegas_memory.qdrant_store.client_terms import (
    PAYLOAD_INDEXES,
    WORKER,
    condition_of,
    connected,
    filter_of,
    id_of,
    ids_of,
    of_points,
    requests_of,
    scanned_of,
    scored_of,
    sparse_of,
    translated,
)
from pegas_memory.qdrant_store.collapse import Arm, Scored, gather
from pegas_memory.qdrant_store.face import ScannedPoint
from pegas_memory.qdrant_store.naming import BM25, DENSE, alias_name, generation_in, physical_name
from pegas_memory.qdrant_store.payload import (
    ENTITIES_PER_CALL,
    ENTITY_ID,
    REVISION,
    TENANT,
    batches,
    conditions,
    leftovers,
    of_entities,
    of_tenant,
)

_MODEL, _INSTANCE = "pegas_model", "pegas_instance"


class ServerIndex:
    """A ``VectorIndex`` on a server: physical collection ``BASE__MODEL__DIM__N`` behind the alias
    ``BASE__MODEL__DIM``. Writes return when the server has applied them.

    With a ``generation`` it reads and writes that one collection; ``None`` reads whichever the alias leads
    to, and makes none. Collections of another ``instance`` are refused ('' takes them all). ``client``
    replaces the connection that ``url`` would open.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        model: EmbeddingModel,
        base: str,
        *,
        generation: int | None = 1,
        instance: str = "",
        timeout: float = 30.0,
        client: QdrantClient | None = None,
    ) -> None:
        self._model = model
        self._alias = alias_name(base, model)
        self._name = self._alias if generation is None else physical_name(self._alias, generation)
        self.generation = generation
        self._instance = instance
        self._client = client if client is not None else connected(url, api_key, timeout)
        self._ready = False
        self._stood = False
        self._closed = False

    def stands(self) -> bool:
        """Whether the collection is there. Raises as :meth:`ensure`; makes and changes nothing."""
        self._check_open()
        with translated():
            names = {collection.name for collection in self._client.get_collections().collections}
            if self._alias in names:
                raise ForeignCollection(f"A collection with the name {self._alias} stands where the alias belongs.")
            if (led := self._led_to()) is not None:
                self._check(led)
                if generation_in(led, self._alias) is None:
                    raise ForeignCollection(f"The alias {self._alias} leads to {led}, which is not one of ours.")
            if self.generation is None:
                return led is not None
            if self._name in names and led != self._name:
                self._check(self._name)
            return self._name in names

    def ensure(self) -> None:
        """Make the collection, empty, if there is none; one that is there is checked.

        Raises:
            WrongDimension: it, or what the alias leads to, holds vectors of another model or dimension.
            ForeignCollection: it, or what stands at the alias, is not ours; it is left alone.
            BadSettings: the server refuses the key.
            VectorsUnavailable: the server cannot be reached; or, without a generation, there is none yet.
        """
        self._ready = False
        if not self.stands():
            if self.generation is None:
                raise VectorsUnavailable("Qdrant has no collection yet.", WORKER)
            with translated():
                self._make()
        if self.generation is not None:
            with translated():
                if self._led_to() is None and self.generation == 1:
                    self._point_alias()
                self._index_payload()
        self._ready = self._stood = True

    def switch(self) -> None:
        """Let every search ask this generation from now on; nothing when it does already."""
        with self._speaking():
            if self._led_to() != self._name:
                self._point_alias()

    def has_alias(self) -> bool:
        """Whether searches are led anywhere."""
        with translated():
            return self._led_to() is not None

    def drop_older(self) -> None:
        """Delete the collections of lower generations that are ours; the alias must not lead to one."""
        with self._speaking():
            for name, generation in self._siblings().items():
                if generation < (self.generation or 0):
                    self._client.delete_collection(name)

    def drop(self) -> None:
        """Delete the collection; it is one that is being built, which no alias leads to."""
        if self.stands():
            with translated():
                self._client.delete_collection(self._name)
        self._ready = False

    def others(self, generations: Collection[int]) -> list[str]:
        """This installation's collections beside those generations of this model."""
        kept = {physical_name(self._alias, generation) for generation in generations}
        base = self._alias.partition("__")[0]
        with self._speaking():
            names = [collection.name for collection in self._client.get_collections().collections]
            near = [name for name in names if name.startswith(f"{base}__") and name not in kept]
            return [name for name in near if self._metadata(name).get(_INSTANCE) == self._instance]

    def drop_others(self, names: Iterable[str]) -> None:
        """Delete collections that :meth:`others` named."""
        with self._speaking():
            for name in names:
                self._client.delete_collection(name)

    def _siblings(self) -> dict[str, int]:
        """The collections of this alias that belong to this installation, by name."""
        names = [collection.name for collection in self._client.get_collections().collections]
        ours = {name: n for name in names if (n := generation_in(name, self._alias)) is not None}
        return {name: n for name, n in ours.items() if self._metadata(name).get(_INSTANCE) == self._instance}

    def _led_to(self) -> str | None:
        aliases = {a.alias_name: a.collection_name for a in self._client.get_aliases().aliases}
        return aliases.get(self._alias)

    def _point_alias(self) -> None:
        link = models.CreateAlias(collection_name=self._name, alias_name=self._alias)
        self._client.update_collection_aliases([models.CreateAliasOperation(create_alias=link)])

    def _make(self) -> None:
        try:
            self._client.create_collection(
                self._name,
                vectors_config={
                    DENSE: models.VectorParams(size=self._model.dimension, distance=models.Distance.COSINE)
                },
                sparse_vectors_config={BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                metadata={_MODEL: self._model.name, _INSTANCE: self._instance},
            )
        except UnexpectedResponse as error:
            if error.status_code != HTTPStatus.CONFLICT:  # another process made it meanwhile
                raise

    def _check(self, physical: str) -> None:
        config = self._client.get_collection(physical).config
        vectors, sparse = config.params.vectors, config.params.sparse_vectors or {}
        dense = vectors.get(DENSE) if isinstance(vectors, dict) else None
        metadata = config.metadata or {}
        if (
            dense is None
            or dense.size != self._model.dimension
            or dense.distance != models.Distance.COSINE
            or BM25 not in sparse
            or metadata.get(_MODEL, self._model.name) != self._model.name
        ):
            raise WrongDimension(
                f"The collection {physical} does not hold vectors of {self._model.name} with"
                f" {self._model.dimension} dimensions."
            )
        if self._instance and metadata.get(_INSTANCE) != self._instance:
            raise ForeignCollection(f"The collection {physical} belongs to another installation.")

    def _metadata(self, physical: str) -> dict[str, Any]:
        return self._client.get_collection(physical).config.metadata or {}

    def _index_payload(self) -> None:
        standing = self._client.get_collection(self._name).payload_schema
        for field, kind in PAYLOAD_INDEXES.items():
            if field not in standing:
                self._client.create_payload_index(self._name, field, kind, wait=True)

    def upsert(self, points: Sequence[Point]) -> None:
        """As ``VectorIndex.upsert``; sent in requests of at most 8 MB and 500 points. A server that
        fails between two of them has the first: send all again. A point that is there with a higher
        revision stays."""
        check_points(points, self._model)
        by_revision: dict[int, list[Point]] = {}
        for point in points:
            by_revision.setdefault(point.payload.revision, []).append(point)
        for revision, same in by_revision.items():
            newer_stays = models.Filter(
                must=[models.FieldCondition(key=REVISION, range=models.Range(lte=float(revision)))]
            )
            for some in requests_of(same):
                with self._speaking(), of_points():
                    self._client.upsert(self._name, some, wait=True, update_filter=newer_stays)

    def replace(self, tenant: str, entity_ids: Sequence[UUID], points: Sequence[Point]) -> None:
        """As ``VectorIndex.replace``."""
        check_replaced(tenant, entity_ids, points)
        self.upsert(points)
        for some, kept in leftovers(entity_ids, points):
            stays: list[models.Condition] = [models.HasIdCondition(has_id=ids_of(kept))] if kept else []
            mine: list[models.Condition] = [condition_of(of_tenant(tenant)), condition_of(of_entities(some))]
            self._delete(models.Filter(must=mine, must_not=stays or None))

    def delete_entities(self, tenant: str, entity_ids: Sequence[UUID]) -> None:
        """As ``VectorIndex.delete_entities``."""
        for some in batches(entity_ids, ENTITIES_PER_CALL):
            self._delete(filter_of([of_tenant(tenant), of_entities(some)]))

    def delete_tenant(self, tenant: str) -> None:
        """As ``VectorIndex.delete_tenant``."""
        self._delete(filter_of([of_tenant(tenant)]))

    def search(self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int) -> ArmHits:
        """As ``VectorIndex.search``."""
        queries: dict[Arm, models.NearestQuery] = {}
        if dense is not None:
            check_dense(dense, self._model, "query")
            queries[Arm.DENSE] = models.NearestQuery(nearest=dense.tolist())
        if sparse is not None:
            check_sparse(sparse, "query")
            if sparse.indices:
                queries[Arm.LEXICAL] = models.NearestQuery(nearest=sparse_of(sparse))
        if limit < 1 or not queries:
            return ArmHits()
        kept = filter_of(conditions(where))
        rarity = models.SearchParams(idf=models.IdfCorpusParams(corpus=filter_of([of_tenant(where.tenant)])))

        def fetch(sizes: Mapping[Arm, int]) -> Mapping[Arm, Sequence[Scored]]:
            requests = [
                models.QueryRequest(
                    query=queries[arm],
                    using=DENSE if arm is Arm.DENSE else BM25,
                    filter=kept,
                    limit=size,
                    with_payload=[ENTITY_ID],
                    params=rarity if arm is Arm.LEXICAL else None,
                )
                for arm, size in sizes.items()
            ]
            with self._speaking():
                answers = self._client.query_batch_points(self._name, requests)
                rows = [[scored_of(point) for point in answer.points] for answer in answers]
                return dict(zip(sizes, rows, strict=True))

        return gather(list(queries), limit, fetch)

    def count(self) -> int:
        """As ``VectorIndex.count``."""
        with self._speaking():
            return self._client.count(self._name, exact=True).count

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        """As ``VectorIndex.scan``."""
        if limit < 1:
            return []
        with self._speaking():
            rows, _ = self._client.scroll(
                self._name,
                offset=None if after is None else str(after),
                limit=limit + 1,  # the offset is inclusive
                with_payload=[ENTITY_ID, REVISION, TENANT],
                with_vectors=False,
            )
            rows = [row for row in rows if id_of(row) != after][:limit]
            if not rows:
                return []
            embedded = models.Filter(
                must=[
                    models.HasIdCondition(has_id=[row.id for row in rows]),
                    models.HasVectorCondition(has_vector=DENSE),
                ]
            )
            found, _ = self._client.scroll(
                self._name, scroll_filter=embedded, limit=len(rows), with_payload=False, with_vectors=False
            )
            with_dense = {id_of(row) for row in found}
            return [scanned_of(row, id_of(row) in with_dense) for row in rows]

    def flush(self) -> None:
        """Nothing to do: every write waited for the server."""

    def close(self) -> None:
        """As ``VectorIndex.close``."""
        if not self._closed:
            self._closed = True
            with translated():
                self._client.close()

    def _delete(self, doomed: models.Filter) -> None:
        with self._speaking():
            self._client.delete(self._name, models.FilterSelector(filter=doomed), wait=True)

    def _check_open(self) -> None:
        if self._closed:
            raise VectorsUnavailable("The connection to Qdrant is closed.")

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        self._check_open()
        stood = self._stood
        try:
            if not stood:
                self.ensure()
            if not self._ready and not self.stands():
                raise VectorsUnavailable("The collection in Qdrant is gone.", WORKER)
            self._ready = True
            with translated():
                yield
        except VectorsUnavailable:
            self._ready = False  # the server may come back without the collection
            raise
        except SetupError as error:
            self._ready = False
            if not stood and self.generation is not None:
                raise
            # A search does without; and what was ours and fitted before is no fault of a single write.
            raise VectorsUnavailable(error.message, error.hint) from error
