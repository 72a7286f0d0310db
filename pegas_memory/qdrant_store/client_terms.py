"""Our nouns in the words of ``qdrant-client``, its errors in ours, and requests that a server takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from uuid import UUID

from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from pegas_memory.errors import BadSettings, InvalidVector, VectorsUnavailable, WrongDimension
from pegas_memory.model import Point, SparseVector
from pegas_memory.qdrant_store.collapse import Scored
from pegas_memory.qdrant_store.face import ScannedPoint
from pegas_memory.qdrant_store.naming import BM25, DENSE
from pegas_memory.qdrant_store.payload import (
    ENTITY_ID,
    INDEXED,
    REVISION,
    TENANT,
    Above,
    AnyOf,
    Between,
    Condition,
    FieldKind,
    to_payload,
)

BATCH_BYTES = 8 * 2**20
"""A quarter of the 32 MB above which a server refuses a request."""
BATCH_POINTS = 500
BYTES_PER_FLOAT = 24
BYTES_PER_TERM = 36
"""Upper bounds of a float, and of an index with its weight, as JSON."""


WORKER = "The worker makes it and fills it from PostgreSQL; look at `pegas-memory outbox`."
HINT = "Check PEGAS_QDRANT_URL and that the server runs; what was stored is projected when it is back."

SCHEMA: dict[FieldKind, models.PayloadSchemaType | models.KeywordIndexParams] = {
    FieldKind.TENANT: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    FieldKind.KEYWORD: models.PayloadSchemaType.KEYWORD,
    FieldKind.UUID: models.PayloadSchemaType.UUID,
    FieldKind.FLOAT: models.PayloadSchemaType.FLOAT,
}
PAYLOAD_INDEXES = {field: SCHEMA[kind] for field, kind in INDEXED.items()} | {
    REVISION: models.PayloadSchemaType.INTEGER
}


def connected(url: str, api_key: str, timeout: float) -> QdrantClient:
    try:
        # The check of versions would speak to the server before anybody asked for anything.
        return QdrantClient(url=url, api_key=api_key or None, timeout=max(1, round(timeout)), check_compatibility=False)
    except (ValueError, TypeError) as error:
        raise BadSettings("PEGAS_QDRANT_URL is no address of a Qdrant server.", "Write http://HOST:6333.") from error


@contextmanager
def translated() -> Iterator[None]:
    """Name a failure of the client or the server. What they say may hold the address and
    payload, so only the status or the kind of failure is passed on."""
    try:
        yield
    except UnexpectedResponse as error:
        raise refusal(error) from error
    except ResponseHandlingException as error:
        kind = type(error.source).__name__
        raise VectorsUnavailable(f"Qdrant did not answer ({kind}).", HINT) from error
    # ValueError: a body that is no JSON, and every refusal of the client's local mode.
    except (ApiException, QdrantException, ValueError, KeyError) as error:
        raise VectorsUnavailable(f"Qdrant answered wrongly ({type(error).__name__}).", HINT) from error


@contextmanager
def of_points() -> Iterator[None]:
    """Around what stores points: a refusal of the request itself is said of them, and not of the server, so that
    they can be set aside."""
    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code not in _OF_THE_REQUEST or b"dimension error" in (error.content or b""):
            raise
        said = f"Qdrant refuses the points (status {error.status_code})."
        raise InvalidVector(said, "See Qdrant's own log for the reason.") from error


_OF_THE_REQUEST = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)


def refusal(error: UnexpectedResponse) -> BadSettings | VectorsUnavailable | WrongDimension:
    status = error.status_code
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return BadSettings(f"Qdrant refuses the key (status {status}).", "Check PEGAS_QDRANT_API_KEY.")
    if status == HTTPStatus.BAD_REQUEST and b"dimension error" in (error.content or b""):
        return WrongDimension("The collection in Qdrant has another dimension than the embedder.")
    if status == HTTPStatus.NOT_FOUND:
        return VectorsUnavailable("The collection in Qdrant is gone.", WORKER)
    return VectorsUnavailable(f"Qdrant answered with status {status}.", HINT)


def requests_of(points: Sequence[Point]) -> Iterator[list[models.PointStruct]]:
    """The points in lists that fit one request; a point that is too big alone goes alone."""
    some: list[models.PointStruct] = []
    size = 0
    for point in points:
        struct = point_of(point)
        more = json_bytes(point, struct)
        if some and (size + more > BATCH_BYTES or len(some) >= BATCH_POINTS):
            yield some
            some, size = [], 0
        some.append(struct)
        size += more
    if some:
        yield some


def json_bytes(point: Point, struct: models.PointStruct) -> int:
    floats = 0 if point.dense is None else point.dense.size
    payload = len(json.dumps(struct.payload))
    return floats * BYTES_PER_FLOAT + len(point.sparse.indices) * BYTES_PER_TERM + payload + 200


def condition_of(condition: Condition) -> models.FieldCondition:
    match condition:
        case AnyOf(key, values):
            return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))
        case Between(key, low, high):
            return models.FieldCondition(key=key, range=models.Range(gte=low, lte=high))
        case Above(key, low):
            return models.FieldCondition(key=key, range=models.Range(gt=low))


def filter_of(found: Sequence[Condition]) -> models.Filter:
    return models.Filter(must=[condition_of(condition) for condition in found])


def sparse_of(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def point_of(point: Point) -> models.PointStruct:
    vector: dict[str, list[float] | models.SparseVector] = {}
    if point.dense is not None:
        vector[DENSE] = point.dense.tolist()
    if point.sparse.indices:
        vector[BM25] = sparse_of(point.sparse)
    return models.PointStruct(id=str(point.id), vector=vector, payload=to_payload(point.payload))


def ids_of(point_ids: Sequence[UUID]) -> list[models.ExtendedPointId]:
    return [str(point_id) for point_id in point_ids]


def id_of(row: models.Record) -> UUID:
    return UUID(str(row.id))


def scored_of(row: models.ScoredPoint) -> Scored:
    return UUID((row.payload or {})[ENTITY_ID]), row.score


def scanned_of(row: models.Record, has_dense: bool) -> ScannedPoint:
    payload = row.payload or {}
    return ScannedPoint(id_of(row), UUID(payload[ENTITY_ID]), int(payload[REVISION]), has_dense, payload[TENANT])
