"""Store, search and gather context."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from pegas_memory import bm25
from pegas_memory.db import atoms, documents, links
from pegas_memory.db.atoms import AtomRow, NewAtom
from pegas_memory.db.citations import NewCitation
from pegas_memory.db.session import Connection
from pegas_memory.errors import EmptyText, InvalidParameter, NotAvailableYet, NotFound
from pegas_memory.model import (
    Degraded,
    LinkRequest,
    MemoryKind,
    SearchAnswer,
    SearchRequest,
    ShownAs,
    SourceRef,
    StoreAnswer,
    StoreRequest,
)
from pegas_memory.pipeline import Learned, Lesson
from pegas_memory.service.rooms import OpenRooms, degraded_by, waiting_in
from pegas_memory.text import (
    CLAIM_LIMIT,
    CONTENT_LIMIT,
    URI_LIMIT,
    clean_json,
    clean_name,
    clean_tags,
    clean_text,
    collapse,
    first_sentence,
    language_of,
)

DEFAULT_CONFIDENCE = 0.5
DEFAULT_IMPORTANCE = 0.5
KIND_LIMIT = 60
LOOKED_FOR_LATER = (
    Degraded("embedder", "it or the vector index did not answer; near duplicates are looked for later"),
)


def store(rooms: OpenRooms, tenant: str, request: StoreRequest) -> StoreAnswer:
    """Store one typed claim with its source, links and tags; a duplicate gives them to what stands.

    Raises:
        EmptyText, TextTooLong, InvalidParameter, NotFound (``replaces`` or a link's id), NotAvailableYet.
    """
    if request.memory is not MemoryKind.KNOWLEDGE:
        raise NotAvailableYet(f"memory={request.memory.value!r} cannot be stored yet.")
    atom = _checked(request)
    wanted_links = tuple(_checked_link(link) for link in request.links)
    source = _checked_source(request.source) if request.source is not None else None
    if request.replaces is not None:
        _check_replaceable(rooms, tenant, request.replaces)

    def prepare(conn: Connection, lesson: Lesson) -> Lesson:
        return _citing(conn, tenant, lesson, source) if source is not None else lesson

    consumers = rooms.consumers()
    waiting: list[int] = []

    def finish(conn: Connection, learned: Learned) -> None:
        if learned.status != ShownAs.RETRACTED.value:
            _relate(rooms, conn, tenant, learned, wanted_links, request.replaces)
        waiting.append(waiting_in(conn, consumers))

    lessons = [Lesson(atom, corrects=request.replaces, look_again=True)]
    (learned,), xid = rooms.learner.learn(tenant, lessons, rooms.recent(tenant), prepare=prepare, finish=finish)
    rooms.written.note(tenant, xid)
    unchanged = learned.status == ShownAs.RETRACTED.value or request.replaces == learned.atom_id
    replaced = None if unchanged else request.replaces
    return StoreAnswer(
        atom_id=learned.atom_id,
        created=learned.created,
        duplicate_of=learned.duplicate_of,
        similarity=round(learned.similarity, 4) if learned.similarity is not None else None,
        replaced=replaced,
        status=learned.status,
        revision=learned.revision,
        degraded=degraded_by(rooms.model()) or (LOOKED_FOR_LATER if learned.unsure else ()),
        pending=waiting[-1],
    )


def _checked(request: StoreRequest) -> NewAtom:
    content = clean_text(request.content, field="content", max_characters=CONTENT_LIMIT).strip("\n")
    claim = clean_text(request.claim, field="claim", max_characters=CLAIM_LIMIT)
    if not collapse(claim):
        claim = first_sentence(content, CLAIM_LIMIT)
    if not any(character.isalnum() for character in claim):
        raise EmptyText("`claim` and `content` hold no word.")
    for name, value in (("confidence", request.confidence), ("importance", request.importance)):
        if value is not None and not 0 <= value <= 1:
            raise InvalidParameter(f"`{name}` is {value}; it must be from 0 to 1.")
    if request.valid_from and request.valid_to and request.valid_from > request.valid_to:
        raise InvalidParameter("`valid_from` is later than `valid_to`.")
    return NewAtom(
        type=request.type,
        claim=claim,
        content=content,
        confidence=DEFAULT_CONFIDENCE if request.confidence is None else request.confidence,
        importance=DEFAULT_IMPORTANCE if request.importance is None else request.importance,
        tags=clean_tags(request.tags),
        metadata=clean_json(dict(request.metadata), field="metadata"),
        valid_from=request.valid_from,
        valid_to=request.valid_to,
        language=language_of(f"{claim} {content}"),
        terms=tuple(bm25.terms(f"{claim}\n{content}")),
        distilled_by="stored",
    )


def _checked_link(link: LinkRequest) -> LinkRequest:
    kind = clean_name(link.kind, field="links.kind", max_characters=KIND_LIMIT)
    if " " in kind:
        raise InvalidParameter("A link's `kind` is one token without spaces, such as depends_on.")
    if not 0 <= link.confidence <= 1:
        raise InvalidParameter(f"A link's `confidence` is {link.confidence}; it must be from 0 to 1.")
    return replace(link, kind=kind, dst=clean_name(link.dst, field="links.dst"))


def _checked_source(source: SourceRef) -> SourceRef:
    uri = clean_text(source.uri, field="source.uri", max_characters=URI_LIMIT, multiline=False)
    title = clean_text(source.title, field="source.title", max_characters=URI_LIMIT, multiline=False)
    if not uri and not title:
        raise InvalidParameter("`source` needs a `uri` or a `title`.")
    if source.authority is not None and not 0 <= source.authority <= 1:
        raise InvalidParameter(f"`source.authority` is {source.authority}; it must be from 0 to 1.")
    quote = clean_text(source.quote, field="source.quote", max_characters=CONTENT_LIMIT).strip()
    locator = clean_text(source.locator, field="source.locator", max_characters=URI_LIMIT, multiline=False)
    return SourceRef(uri, title, quote, locator, source.authority)


def _citing(conn: Connection, tenant: str, lesson: Lesson, source: SourceRef) -> Lesson:
    """The lesson citing its source; the document that the source is gets made when it is new."""
    doc_id = documents.cite_source(conn, tenant, uri=source.uri, title=source.title, authority=source.authority)
    citation = NewCitation(doc_id, source.quote, locator_text=source.locator)
    return replace(lesson, atom=replace(lesson.atom, doc_id=doc_id), citations=(citation,))


def _check_replaceable(rooms: OpenRooms, tenant: str, atom_id: UUID) -> None:
    with rooms.db.tenant(tenant) as conn:
        row = atoms.fetch(conn, tenant, [atom_id]).get(atom_id)
    if row is None:
        raise NotFound("`replaces` names no atom of this memory.")


def _relate(
    rooms: OpenRooms,
    conn: Connection,
    tenant: str,
    learned: Learned,
    wanted: tuple[LinkRequest, ...],
    replaces: UUID | None,
) -> None:
    """Links and the correction, in the transaction that stores the atom."""
    for link in wanted:
        dst = _link_end(conn, tenant, link.dst)
        links.put(conn, tenant, ("atom", learned.atom_id), dst, link.kind, link.confidence)
    if replaces is not None and replaces != learned.atom_id:
        old = atoms.lock(conn, tenant, replaces)
        if old is not None and old.superseded_by != learned.atom_id:
            _refuse_if_gone(old)
            atoms.supersede(conn, old, learned.atom_id, at=rooms.clock(), reason="replaced by its author")


def _refuse_if_gone(old: AtomRow) -> None:
    if old.superseded_by is not None:
        raise InvalidParameter(
            f"`replaces` names an atom that {old.superseded_by} replaced already.", "Replace that one instead."
        )
    if old.retracted_at is not None:
        raise InvalidParameter("`replaces` names a retracted atom.", "Store the new claim without `replaces`.")


def _link_end(conn: Connection, tenant: str, dst: str) -> tuple[str, UUID]:
    try:
        node_id = UUID(dst)
    except ValueError:
        return "entity", links.entity_named(conn, tenant, dst)
    kind = links.kind_of(conn, tenant, node_id)
    if kind is None:
        raise NotFound(
            "A link's `dst` is an id that this memory does not hold.", "Give an id from memory_search, or a name."
        )
    return kind, node_id


def search(rooms: OpenRooms, tenant: str, request: SearchRequest) -> SearchAnswer:
    """Search; waits, bounded, for writes of a moment before to be findable."""
    settled = rooms.written.settle(tenant)
    found = rooms.retrieval.search(tenant, request, rooms.clock())
    return SearchAnswer(
        results=tuple(found.results),
        next_cursor=found.next_cursor,
        degraded=(*settled.degraded, *found.degraded),
        pending=settled.pending,
        timings={**found.timings, "wait": settled.waited},
    )
