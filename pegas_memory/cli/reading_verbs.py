"""Verbs that open a memory at its sources, and list or check the documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from uuid import UUID

import typer

from pegas_memory import model
from pegas_memory.cli.app import Json, Tags, app
from pegas_memory.cli.printing import Speaker
from pegas_memory.cli.session import opened
from pegas_memory.errors import InvalidParameter
from pegas_memory.service.reading_room import OnDocuments
from pegas_memory.text import collapse, quoted, tail_of

LONGEST_SHOWN = 900
"""Characters of a quote that are printed; ``--json`` has the whole."""
FAULTS_SHOWN = 50
STANDS = {
    model.Standing.AT_LOCATOR: "the quote stands where it was read",
    model.Standing.ELSEWHERE: "the quote stands in the stored text; the citation does not name the place",
    model.Standing.ABSENT: "the quote does not stand in the stored text",
    model.Standing.NO_QUOTE: "cited without a quote",
    model.Standing.NO_STORED_TEXT: "the source was named, never read: the quote cannot be checked",
}
FILE = {
    model.SourceState.UNCHANGED: "the file is unchanged",
    model.SourceState.CHANGED: "the file has changed since",
    model.SourceState.MISSING: "the file is gone",
    model.SourceState.NOT_ALLOWED: "the file lies outside PEGAS_INGEST_ROOTS and was not looked at",
    model.SourceState.NOT_CHECKED: "the source itself was not checked",
}


@app.command(name="open")
def open_(
    id: Annotated[str, typer.Argument(help="Id of an atom (memory_search shows it).", metavar="ATOM")],
    json: Json = False,
) -> None:
    """Show a claim at its sources: each quote in its context, and whether it still stands."""
    with Speaker(json) as speaker:
        wanted = _id(id)
        with opened() as (memory, _):
            found = memory.opened(wanted)
        speaker.say(_opened(found), found)


def _id(text: str) -> UUID:
    try:
        return UUID(text.strip())
    except ValueError as error:
        raise InvalidParameter("That is no id: a UUID is needed.", "`pegas-memory search` shows ids.") from error


def _opened(found: model.OpenedMemory) -> str:
    state = f", {found.status}" if found.status else ""
    if found.kind != "atom":
        lines = [f"{found.id} is of kind {found.kind}{state}: {quoted(collapse(found.text)[:400])}"]
        return "\n".join([*lines, "Only atoms have citations to open."])
    by = f" by {found.superseded_by}" if found.superseded_by else ""
    lines = [f"{found.id} [{found.type}{state}{by}, confidence {found.confidence:.2f}]", quoted(collapse(found.text))]
    for number, passage in enumerate(found.passages, 1):
        lines += ["", *_passage(number, passage)]
    if not found.passages:
        lines += ["", "It was stored without a source."]
    lines += [f"… and {found.more:,} more citations."] if found.more else []
    return "\n".join(lines)


def _passage(number: int, passage: model.Passage) -> list[str]:
    where = passage.locator.removeprefix(f"{passage.title}, ")
    lines = [
        f"[{number}] {quoted(collapse(passage.title)[:200])}{f', at {quoted(tail_of(where, 200))}' if where else ''}"
    ]
    lines += [f"    {passage.link}"] if passage.link else []
    lines.append(f"    {STANDS[passage.standing]}; {FILE[passage.source]}")
    if not passage.quote:
        return lines
    words = passage.quote
    if len(words) > LONGEST_SHOWN:
        half = LONGEST_SHOWN // 2
        words = f"{words[:half]} […] {words[-half:]}"
    shown = f"{passage.before}⟦{words}⟧{passage.after}"
    return [*lines, *(f"    | {line}" for line in shown.splitlines())]


@app.command()
def documents(
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(model.DocumentKind)}.")] = "",
    tag: Tags = None,
    limit: Annotated[int, typer.Option(help="Documents in a page, 1 to 200.")] = 50,
    cursor: Annotated[str, typer.Option(help="next_cursor of the page before.")] = "",
    check: Annotated[bool, typer.Option("--check", help="Check that every quote stands where it was read.")] = False,
    json: Json = False,
) -> None:
    """List the documents that were read or cited, the newest first; or check every citation."""
    with Speaker(json) as speaker:
        if check:
            if kind or tag or cursor:
                raise InvalidParameter("`--check` goes through all documents.", "Leave the filters out.")
            with opened() as (memory, _), _bar(speaker) as on_documents:
                answer = memory.check_citations(on_documents)
            speaker.say(_checked(answer), answer)
            if answer.faulty:
                raise typer.Exit(1)
            return
        wanted = _kind(kind)
        with opened() as (memory, _):
            page = memory.documents(kind=wanted, tags=tag or (), limit=limit, cursor=cursor)
        speaker.say(_listed(page), page)


def _kind(text: str) -> model.DocumentKind | None:
    try:
        return model.DocumentKind(text) if text else None
    except ValueError as error:
        raise InvalidParameter("`kind` is no kind of document.", f"One of: {', '.join(model.DocumentKind)}.") from error


def _listed(page: model.DocumentPage) -> str:
    lines = []
    for one in page.documents:
        size = f"{one.pages:,} pages" if one.pages else f"{one.characters:,} characters"
        said = f"{size}, {one.chunks:,} chunks, " if one.characters else ""
        when = (one.ingested_at or one.created_at).date().isoformat()
        name = quoted(collapse(one.title)[:200])
        lines.append(f"{one.doc_id} [{one.kind}, {one.state}, {when}] {name}: {said}{one.atoms:,} atoms")
        lines += [f"    {quoted(one.uri[:300])}"] if one.uri != one.title else []
    lines += [f'more: --cursor "{page.next_cursor}"'] if page.next_cursor else []
    return "\n".join(lines) or "No document was read or cited yet."


def _checked(answer: model.CitationCheck) -> str:
    lines = [
        f"{answer.documents:,} documents, {answer.citations:,} citations:"
        f" {answer.held:,} quotes stand where they were read, {answer.faulty:,} do not."
    ]
    if answer.unlocated:
        lines.append(f"Quotes that name no place, of which nothing can be said: {answer.unlocated:,}.")
    if answer.untold:
        lines.append(f"Citations of sources that were never read: {answer.untold:,}.")
    if answer.being_read:
        lines.append(f"Passed over, since they are being read or were left half read: {answer.being_read:,}.")
    lines += [
        f"citation {fault.citation_id} of atom {fault.atom_id} in {fault.doc_id}: {fault.reason}"
        for fault in answer.faults[:FAULTS_SHOWN]
    ]
    if answer.faulty > FAULTS_SHOWN:
        lines.append(f"… and {answer.faulty - FAULTS_SHOWN:,} more.")
    if answer.faulty:
        lines.append("Purge these documents (`verify --doc-id ID --verdict purge`) and ingest them again.")
    return "\n".join(lines)


@contextmanager
def _bar(speaker: Speaker) -> Iterator[OnDocuments | None]:
    """A count on stderr when that is a terminal; nothing otherwise."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or speaker.as_json:
        yield None
        return
    with console.status("checking") as status:
        yield lambda documents, citations: status.update(f"{documents:,} documents, {citations:,} citations")
