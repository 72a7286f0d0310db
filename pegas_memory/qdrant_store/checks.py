"""What must hold of a vector before any engine sees it.

The engines do not look themselves: NaN is accepted and then never found, a wrong dimension in the
middle of a batch leaves the others stored, and a sparse vector of unequal lengths crashes the
embedded engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

import numpy as np

from pegas_memory.errors import InvalidVector, WrongDimension
from pegas_memory.model import Dense, EmbeddingModel, Point, PointPayload, SparseVector

_HIGHEST_INDEX = 2**32 - 1
_SHORTEST, _LONGEST = 1e-3, 1e12
"""Outside these lengths the engines' 32-bit arithmetic gives no cosine; an embedder's vectors have 1."""


def check_points(points: Sequence[Point], model: EmbeddingModel) -> None:
    """Refuse the whole batch when one point cannot be stored.

    Raises:
        InvalidVector, WrongDimension: naming the first point that does not fit.
    """
    for point in points:
        label = f"point {point.id}"
        if point.dense is not None:
            check_dense(point.dense, model, label)
        check_sparse(point.sparse, label)
        _check_payload(point.payload, label)


def check_replaced(tenant: str, entity_ids: Sequence[UUID], points: Sequence[Point]) -> None:
    """Every point belongs to the tenant, and to one of the entities whose points it replaces."""
    named = set(entity_ids)
    for point in points:
        if point.payload.tenant != tenant or point.payload.entity_id not in named:
            raise InvalidVector(f"The point {point.id} is of an entity that is not among those replaced.")


def check_dense(vector: Dense, model: EmbeddingModel, label: str) -> None:
    """One row of ``model.dimension`` finite numbers that has a direction."""
    if vector.ndim != 1 or vector.shape[0] != model.dimension:
        raise WrongDimension(
            f"The dense vector of the {label} has the shape {tuple(vector.shape)}, but {model.name} has"
            f" {model.dimension} dimensions."
        )
    if not np.isfinite(vector).all():
        raise InvalidVector(f"The dense vector of the {label} holds a value that is not a finite number.")
    if not _SHORTEST < float(np.linalg.norm(vector.astype(np.float64))) < _LONGEST:
        raise InvalidVector(f"The dense vector of the {label} is too near zero, or too long, to have a direction.")


def check_sparse(vector: SparseVector, label: str) -> None:
    """As many finite values as indices; indices are u32, distinct and ascending."""
    indices, values = vector.indices, vector.values
    if len(indices) != len(values):
        raise InvalidVector(f"The sparse vector of the {label} has {len(indices)} indices and {len(values)} values.")
    if indices and not 0 <= indices[0] <= indices[-1] <= _HIGHEST_INDEX:
        raise InvalidVector(f"The sparse vector of the {label} has an index outside 32 bits.")
    if any(left >= right for left, right in pairwise(indices)):
        raise InvalidVector(f"The sparse indices of the {label} are not distinct and ascending.")
    if not all(map(math.isfinite, values)):
        raise InvalidVector(f"The sparse vector of the {label} holds a value that is not a finite number.")


def _check_payload(payload: PointPayload, label: str) -> None:
    numbers = (payload.occurred, payload.confidence, payload.valid_from, payload.valid_until)
    if not all(map(math.isfinite, numbers)):
        raise InvalidVector(f"A time or the confidence of the {label} is not a finite number.")
    try:
        "".join([payload.tenant, payload.type, *payload.tags]).encode()
    except UnicodeEncodeError as error:
        raise InvalidVector(f"The tenant, type or tags of the {label} are not valid Unicode.") from error
