"""What the child process does with a source: read, cut into chunks, distil."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from pegas_memory import ingest
from pegas_memory.distill import chunk_atoms, distill_extractive
from pegas_memory.model import Distill, DocumentKind, Extracted
from pegas_memory.reading.source import Reading, Source
from pegas_memory.text import clean_text

MAX_TITLE = 500


def read(source: Source) -> Reading:
    """Raises what the readers of ``ingest`` raise (``InputError``)."""
    document = _titled(_document(source), source)
    chunks = ingest.chunk(document)
    distil = chunk_atoms if source.distill is Distill.OFF else distill_extractive
    return Reading(document, chunks, distil(document, chunks))


def _document(source: Source) -> Extracted:
    if source.decoded:
        return ingest.read_text(source.data.decode(), source.kind or DocumentKind.TEXT, source.title)
    return ingest.read_bytes(source.data, source.kind, source.name, source.content_type)


def _titled(document: Extracted, source: Source) -> Extracted:
    """With the caller's title, else the document's own, else the name of its file."""
    if source.title:
        return replace(document, title=source.title)
    if document.title or source.decoded or "://" in source.name:
        return document
    stem = PurePath(source.name).stem
    return replace(document, title=clean_text(stem, field="title", max_characters=MAX_TITLE)) if stem else document
