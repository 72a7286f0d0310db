"""The reading room: a memory opened at its sources, the documents, and whether every quote stands."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

from pegas_memory import ingest
from pegas_memory.db import atoms, documents, passages
from pegas_memory.db.passages import CitedPassage, StoredChunk, StoredCitation
from pegas_memory.errors import BadCursor, InputError, InvalidParameter, NotFound, PathNotAllowed
from pegas_memory.model import (
    CitationCheck,
    CitationFault,
    DocumentKind,
    DocumentPage,
    OpenedMemory,
    Passage,
    SourceState,
    Standing,
)
from pegas_memory.service.rooms import OpenRooms
from pegas_memory.text import clean_tags

AROUND = 300
"""Characters shown on either side of a quote."""
PASSAGES = 20
FAULTS = 1_000
PAGE = 200
ENDS_OF_A_LINK = 5
"""Words at either end of a quote by which a browser finds it on its page."""

LONGEST_DIRECTIVE = 1_000

OnDocuments = Callable[[int, int], None]
"""(documents checked, citations checked)"""


def opened(rooms: OpenRooms, tenant: str, some_id: UUID) -> OpenedMemory:
    """A memory with the passages that support it; an id of another kind says what it is.

    Raises:
        NotFound.
    """
    with rooms.db.tenant(tenant) as conn:
        atom = atoms.fetch(conn, tenant, [some_id]).get(some_id)
        if atom is None:
            other = passages.named(conn, tenant, some_id)
            if other is None:
                raise NotFound("Nothing in this memory has that id.")
            return OpenedMemory(some_id, other.kind, "", other.text, "", other.status, None)
        cited = passages.of_atom(conn, tenant, some_id, around=AROUND, limit=PASSAGES)
        more = passages.count_of_atom(conn, tenant, some_id) - len(cited)
    roots = rooms.settings.ingest_roots
    states = {one.doc_id: _source_state(rooms, one, roots) for one in cited}
    return OpenedMemory(
        id=some_id,
        kind="atom",
        type=atom.type,
        text=atom.claim,
        content=atom.content,
        status=atom.shown_as.value,
        confidence=atom.confidence,
        superseded_by=atom.superseded_by,
        passages=tuple(_passage(one, states[one.doc_id]) for one in cited),
        more=more,
    )


def _passage(cited: CitedPassage, source: SourceState) -> Passage:
    found = cited.place >= 0
    words = cited.quote or (cited.words if found else "")
    return Passage(
        doc_id=cited.doc_id,
        title=cited.title,
        kind=cited.kind,
        uri=cited.uri,
        link=_link(cited, words),
        locator=cited.locator_text,
        before=_from_word(cited.before) if found else "",
        quote=words,
        after=_to_word(cited.after) if found else "",
        standing=_standing(cited),
        source=source,
    )


def _standing(cited: CitedPassage) -> Standing:
    if not cited.characters:
        return Standing.NO_STORED_TEXT
    if not cited.quote:
        return Standing.NO_QUOTE
    if cited.place < 0:
        return Standing.ABSENT
    return Standing.AT_LOCATOR if cited.locator.get("start") == cited.place else Standing.ELSEWHERE


def _from_word(before: str) -> str:
    """The end of what stands before, from a line's or word's beginning when it was cut out of more."""
    if len(before) < AROUND:
        return before
    at = before.find("\n", 0, AROUND // 2)
    return before[(at if at >= 0 else max(before.find(" "), 0)) :].lstrip()


def _to_word(after: str) -> str:
    if len(after) < AROUND:
        return after
    at = after.rfind("\n", AROUND // 2)
    at = at if at > 0 else after.rfind(" ")
    return after[: at if at > 0 else AROUND].rstrip()


def _link(cited: CitedPassage, words: str) -> str:
    """The address that opens the source at the passage: a page of a PDF, the words on a web page."""
    if urlsplit(cited.uri).scheme not in ("http", "https", "file"):
        return ""
    if cited.kind == DocumentKind.PDF:
        page = cited.locator.get("page")
        return f"{cited.uri.partition('#')[0]}#page={page}" if page else cited.uri
    if cited.kind not in (DocumentKind.WEB, DocumentKind.HTML) or not words.split():
        return cited.uri
    directive = _text_directive(words)
    return (
        f"{cited.uri}{'' if '#' in cited.uri else '#'}:~:text={directive}"
        if len(directive) <= LONGEST_DIRECTIVE
        else cited.uri
    )


def _text_directive(words: str) -> str:
    """The quote as a text fragment; a long one, or one of several lines, by its first and last words."""
    all_words = words.split()
    if len(all_words) <= 2 * ENDS_OF_A_LINK and "\n" not in words:
        return _in_fragment(all_words)
    return f"{_in_fragment(all_words[:ENDS_OF_A_LINK])},{_in_fragment(all_words[-ENDS_OF_A_LINK:])}"


def _in_fragment(words: Sequence[str]) -> str:
    return quote(" ".join(words), safe="").replace("-", "%2D")


def _source_state(rooms: OpenRooms, cited: CitedPassage, roots: Sequence[Path]) -> SourceState:
    """Whether the file still holds the bytes that were read; only a file below the roots is looked at."""
    address = urlsplit(cited.uri)
    if address.scheme != "file" or not cited.content_hash:
        return SourceState.NOT_CHECKED
    try:
        path = ingest.allowed_path(unquote(address.path), roots, (rooms.settings.home,))
        if not path.exists():
            return SourceState.MISSING
        same = hashlib.sha256(ingest.read_allowed(path)).hexdigest() == cited.content_hash
    except PathNotAllowed:
        return SourceState.NOT_ALLOWED
    except InputError:
        return SourceState.CHANGED
    return SourceState.UNCHANGED if same else SourceState.CHANGED


def listed(
    rooms: OpenRooms, tenant: str, *, kind: DocumentKind | None, tags: Sequence[str], limit: int, cursor: str
) -> DocumentPage:
    """Documents, the newest first, a page at a time.

    Raises:
        InvalidParameter, BadCursor.
    """
    if not 1 <= limit <= PAGE:
        raise InvalidParameter(f"`limit` is {limit}; it must be from 1 to {PAGE}.")
    before = _read_cursor(cursor) if cursor else None
    wanted = kind.value if kind else ""
    with rooms.db.tenant(tenant) as conn:
        found = passages.documents(conn, tenant, kind=wanted, tags=clean_tags(tags), before=before, limit=limit + 1)
    page = found[:limit]
    return DocumentPage(tuple(page), _cursor(page[-1].doc_id) if len(found) > limit else "")


def _cursor(last: UUID) -> str:
    return base64.urlsafe_b64encode(last.bytes).decode().rstrip("=")


def _read_cursor(cursor: str) -> UUID:
    try:
        return UUID(bytes=base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error) as error:
        raise BadCursor("`cursor` is not one that a list of documents gave out.") from error


def check(rooms: OpenRooms, tenant: str, on_documents: OnDocuments | None = None) -> CitationCheck:
    """Whether every quote stands in its document at its locator, and begins in its chunk. Holds one document's
    text at a time; documents that a job is writing are passed over."""
    count = _Count()
    after: UUID | None = None
    while True:
        with rooms.db.tenant(tenant) as conn:
            page = passages.to_check(conn, tenant, after, PAGE)
        for document in page:
            count.documents += 1
            if document.told and not document.finished:
                count.being_read += 1
                continue
            with rooms.db.snapshot(tenant) as conn:
                body = documents.body_of(conn, tenant, document.id) if document.told else ""
                spans = _spans(passages.chunks_of(conn, tenant, document.id), body)
                count.look_at(document.id, passages.citations_of(conn, tenant, document.id), body, spans)
            if on_documents is not None:
                on_documents(count.documents, count.citations)
        if len(page) < PAGE:
            return count.answer()
        after = page[-1].id


_NOWHERE = (-1, -1)


def _spans(chunks: Iterator[StoredChunk], body: str) -> dict[UUID, tuple[int, int]]:
    """Where each chunk stands; nowhere when the document does not hold its text there."""
    return {
        chunk.id: (chunk.start, chunk.end) if body[chunk.start : chunk.end] == chunk.text else _NOWHERE
        for chunk in chunks
    }


class _Count:
    """What a check has seen so far."""

    def __init__(self) -> None:
        self.documents = self.being_read = 0
        self.citations = self.held = self.unlocated = self.untold = self.faulty = 0
        self.faults: list[CitationFault] = []

    def look_at(
        self, doc_id: UUID, cited: Iterator[StoredCitation], body: str, spans: dict[UUID, tuple[int, int]]
    ) -> None:
        for citation in cited:
            self.citations += 1
            if not body:
                self.untold += 1
            elif citation.start is None:
                self.unlocated += 1
            elif reason := _fault(citation, citation.start, body, spans):
                self.faulty += 1
                if len(self.faults) < FAULTS:
                    self.faults.append(CitationFault(citation.id, citation.atom_id, doc_id, reason))
            else:
                self.held += 1

    def answer(self) -> CitationCheck:
        return CitationCheck(
            documents=self.documents,
            citations=self.citations,
            held=self.held,
            unlocated=self.unlocated,
            untold=self.untold,
            being_read=self.being_read,
            faulty=self.faulty,
            faults=tuple(self.faults),
        )


def _fault(citation: StoredCitation, start: int, body: str, spans: dict[UUID, tuple[int, int]]) -> str:
    if body[start : citation.end] != citation.quote:
        return "the quote does not stand at its locator"
    if citation.chunk_id is None:
        return ""
    first, last = spans.get(citation.chunk_id, _NOWHERE)
    if last < 0:
        return "its chunk is gone" if citation.chunk_id not in spans else "its chunk is no part of the document"
    return "" if first <= start < last else "its chunk does not hold where the quote begins"
