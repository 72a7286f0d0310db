"""What goes into a model and what may come out of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegas_memory.errors import EmbedderMisbehaved, EmptyText, InvalidParameter
from pegas_memory.model import Dense


def prepared(texts: Sequence[str], max_characters: int) -> list[str]:
    """``texts`` cut at ``max_characters``, with NUL (which ends a text for C libraries) as a space.

    Raises:
        EmptyText, InvalidParameter: naming the position of the text, not its words.
    """
    if isinstance(texts, str):
        raise InvalidParameter("One text was given where a list of texts is embedded.")
    ready = []
    for position, text in enumerate(texts, 1):
        # Stripped before, so that blank room does not use up the limit, and after, so that the same
        # words give the same vector wherever the cut fell.
        cut = text.replace("\x00", " ").strip()[:max_characters].rstrip()
        if not cut:
            raise EmptyText(f"Text {position} of {len(texts)} to embed is empty.")
        try:
            cut.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidParameter(f"Text {position} of {len(texts)} to embed is not valid Unicode.") from error
        ready.append(cut)
    return ready


def unit_vectors(rows: object, *, texts: int, source: str) -> Dense:
    """``rows`` as float32 of shape (texts, dimension), each divided by its length.

    Raises:
        EmbedderMisbehaved: not a matrix, a row too few or too many, NaN or infinity, a zero vector.
    """
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise EmbedderMisbehaved(f"{source} answered something that is not a list of equally long vectors.") from error
    count = matrix.shape[0] if matrix.ndim else 0
    if count != texts:
        raise EmbedderMisbehaved(f"{source} answered {count} vectors for {texts} texts.")
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise EmbedderMisbehaved(f"{source} answered something that is not a list of vectors.")
    if not np.isfinite(matrix).all():
        raise EmbedderMisbehaved(f"{source} answered a vector with NaN or infinity in it.")
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not (largest > 1e-12).all():
        raise EmbedderMisbehaved(f"{source} answered a vector of zeros.")
    scaled = matrix / largest
    vectors: Dense = (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)
    return vectors
