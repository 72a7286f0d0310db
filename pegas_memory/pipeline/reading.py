"""A source as a caller names it → its bytes, with what identifies them. Nothing is parsed here."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pegas_memory import ingest
from pegas_memory.db.documents import DocumentRow
from pegas_memory.model import Distill, DocumentKind
from pegas_memory.reading import Source

DISTILLER = "2"
"""Part of a document's version: raised when readers, chunks or claims become other ones."""
SNIPPET_AUTHORITY = 0.2
PARTIAL_AUTHORITY = 0.3
SNIPPET = "snippet"
"""Key of the metadata of a document that is only the snippet of a page that could not be read."""
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


@dataclass(frozen=True, slots=True)
class Item:
    """One document to be: an address, a file, or what the job carries with it. ``name`` is a file's path within
    its repository."""

    payload: Mapping[str, Any]
    uri: str
    path: Path | None = None
    name: str = ""

    @property
    def kind(self) -> DocumentKind | None:
        return DocumentKind(self.payload["kind"]) if self.payload.get("kind") else None

    @property
    def distill(self) -> Distill:
        return Distill(self.payload.get("distill", "auto"))

    @property
    def distiller(self) -> str:
        return f"{'off' if self.distill is Distill.OFF else 'extractive'}-{DISTILLER}"


@dataclass(frozen=True, slots=True)
class Taken:
    """``at_most`` bounds the authority of what stands in for the source; ``metadata`` says how it was got."""

    source: Source
    content_hash: str
    """sha256 of the bytes, in hex."""
    at_most: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    etag: str = ""
    last_modified: str = ""


def is_address(source: str) -> bool:
    return _SCHEME.match(source) is not None


def item_of(payload: Mapping[str, Any], closed: Sequence[Path]) -> Item:
    """The one document that an ingest job's payload names.

    Raises ``PathNotAllowed``.
    """
    source = str(payload.get("source", ""))
    if not source:
        name = "stdin" if payload.get("data") else "text"
        return Item(payload, f"{name}:{digest(_carried(payload))[:32]}")
    if is_address(source):
        return Item(payload, source)
    path = ingest.allowed_path(source, [Path(root) for root in payload.get("roots", [])], closed)
    return Item(payload, path.as_uri(), path)


def take(item: Item, known: DocumentRow | None) -> Taken | None:
    """The bytes; None when the server of an address says that they are those that are ``known``.

    Raises ``UnreadableFile``, ``PathNotAllowed``, ``FetchFailed``, ``FetchTimeout``, ``UrlNotAllowed``.
    """
    if item.path is not None:
        return _taken(item, ingest.read_allowed(item.path), name=item.name or item.path.name)
    if is_address(item.uri):
        return _fetched(item, known)
    return _taken(item, _carried(item.payload), decoded="text" in item.payload)


def stand_in(item: Item, code: str) -> Taken:
    """The snippet of a page that could not be read, for the reason ``code``."""
    data = str(item.payload["snippet"]).encode()
    note = f"The page could not be read ({code}); the snippet was stored in its place."
    title = str(item.payload.get("title") or item.uri)
    return Taken(
        Source(data, DocumentKind.TEXT, title=title, distill=item.distill, decoded=True),
        digest(data),
        at_most=SNIPPET_AUTHORITY,
        metadata={SNIPPET: True},
        warnings=(note,),
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _carried(payload: Mapping[str, Any]) -> bytes:
    data = payload.get("data")
    return base64.b64decode(data) if data else str(payload.get("text", "")).encode()


def _taken(item: Item, data: bytes, *, name: str = "", decoded: bool = False) -> Taken:
    source = Source(
        data, item.kind, name, title=str(item.payload.get("title", "")), distill=item.distill, decoded=decoded
    )
    return Taken(source, digest(data))


def _fetched(item: Item, known: DocumentRow | None) -> Taken | None:
    """Conditionally, when the whole page is known as it would be read now."""
    from pegas_memory.ingest.download import NotModified

    payload = item.payload
    asked = known
    if known and (not known.ingested_at or known.metadata.get(SNIPPET) or known.distilled_by != item.distiller):
        asked = None
    got = ingest.fetch(
        item.uri,
        proxy_url=str(payload.get("proxy_url", "")),
        allow_private=bool(payload.get("allow_private")),
        etag=asked.fetch_etag if asked else "",
        last_modified=asked.fetch_last_modified if asked else "",
    )
    if isinstance(got, NotModified):
        return None
    served = "html" in got.content_type.lower() or not got.content_type
    return Taken(
        Source(
            got.data,
            item.kind or (DocumentKind.WEB if served else None),
            got.url,
            got.content_type,
            str(payload.get("title", "")),
            item.distill,
        ),
        digest(got.data),
        metadata={"fetched_from": got.url} if got.url != item.uri else {},
        etag=got.etag,
        last_modified=got.last_modified,
    )
