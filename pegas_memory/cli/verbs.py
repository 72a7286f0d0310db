"""The verbs: parse → one call of the service → print. They take what the tools of the same name take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pegas_memory import model
from pegas_memory.cli.app import DocId, Json, Tags, Types, app, given
from pegas_memory.cli.printing import Speaker, checks_text, where_text
from pegas_memory.cli.session import call, ingest_all, opened, round_of_checks, started


@app.command()
def init(json: Json = False) -> None:
    """Open every part once, and say where things are."""
    with Speaker(json) as speaker, opened() as (memory, settings):
        speaker.say(where_text(settings, memory.stats()), {"home": str(settings.home), "stats": memory.stats()})


@app.command()
def status(
    detail: Annotated[bool, typer.Option(help="Add sizes and recent activity.")] = False, json: Json = False
) -> None:
    """Count what memory holds; show jobs and pending work."""
    with Speaker(json) as speaker:
        call(speaker, "memory_stats", {"detail": detail})


@app.command()
def doctor(json: Json = False) -> None:
    """Check every part, and say how to mend what is broken."""
    with Speaker(json) as speaker:
        checks = round_of_checks()
        speaker.say(checks_text(checks), {"checks": checks})
        if any(check.state == "fail" for check in checks):
            raise typer.Exit(1)


@app.command()
def store(
    claim: Annotated[str, typer.Argument(help="One self-contained sentence; - reads it from stdin.")],
    type: Annotated[str, typer.Option(help=f"One of {', '.join(model.AtomType)}.")] = "",
    content: Annotated[str, typer.Option(help="Details, code or a table.")] = "",
    source: Annotated[str, typer.Option(help="Address of the source.")] = "",
    title: Annotated[str, typer.Option(help="Title of the source.")] = "",
    quote: Annotated[str, typer.Option(help="Exact words of the source.")] = "",
    tag: Tags = None,
    confidence: Annotated[float | None, typer.Option(help="From 0 to 1.")] = None,
    replaces: Annotated[str, typer.Option(help="Id of the atom that this corrects.")] = "",
    json: Json = False,
) -> None:
    """Store one claim, with its source."""
    with Speaker(json) as speaker:
        options = given(type=type, content=content, tags=tag, confidence=confidence, replaces=replaces)
        cited = given(uri=source, title=title, quote=quote)
        text = speaker.stdin_text() if claim == "-" else claim
        call(speaker, "memory_store", {"claim": text, "source": cited or None, **options})


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Words or a question; empty lists the newest.")] = "",
    limit: Annotated[int | None, typer.Option(help="Results in a page (default 10).")] = None,
    type: Types = None,
    tag: Tags = None,
    status: Annotated[list[str] | None, typer.Option(help="Also stale, retracted, superseded; repeatable.")] = None,
    mode: Annotated[str, typer.Option(help="hybrid, dense or lexical.")] = "",
    doc_id: DocId = "",
    id: Annotated[list[str] | None, typer.Option("--id", help="Fetch by id; repeatable.")] = None,
    since: Annotated[str, typer.Option(help="ISO 8601.")] = "",
    until: Annotated[str, typer.Option(help="ISO 8601.")] = "",
    explain: Annotated[bool, typer.Option(help="Show ranks and factors.")] = False,
    cursor: Annotated[str, typer.Option(help="next_cursor of the page before.")] = "",
    json: Json = False,
) -> None:
    """Find stored claims with their citations."""
    with Speaker(json) as speaker:
        options = given(
            limit=limit, types=type, tags=tag, statuses=status, mode=mode, doc_id=doc_id, ids=id,
            since=since, until=until, explain=explain, cursor=cursor,
        )  # fmt: skip
        call(speaker, "memory_search", {"query": query, **options})


@app.command()
def context(
    question: Annotated[str, typer.Argument(help="The question in full.")],
    max_tokens: Annotated[int | None, typer.Option(help="Budget (default 2000).")] = None,
    type: Types = None,
    tag: Tags = None,
    doc_id: DocId = "",
    json: Json = False,
) -> None:
    """Cited excerpts for answering a question."""
    with Speaker(json) as speaker:
        options = given(max_tokens=max_tokens, types=type, tags=tag, doc_id=doc_id)
        call(speaker, "memory_get_context", {"question": question, **options})


@app.command()
def ingest(
    sources: Annotated[
        list[str] | None, typer.Argument(help="Files, folders, patterns or URLs; - reads stdin.")
    ] = None,
    title: Annotated[str, typer.Option(help="Title.")] = "",
    kind: Annotated[str, typer.Option(help=f"auto, {', '.join(model.DocumentKind)}.")] = "",
    tag: Tags = None,
    distill: Annotated[str, typer.Option(help="auto, llm, extractive or off.")] = "",
    job: Annotated[str, typer.Option(help="Ask about a job instead of ingesting.")] = "",
    action: Annotated[str, typer.Option(help="With --job: cancel or retry.")] = "",
    json: Json = False,
) -> None:
    """Read whole documents into memory."""
    with Speaker(json) as speaker:
        if job or action or not sources:
            call(speaker, "memory_ingest", {"job_id": job, "action": action})
            return
        options = given(title=title, kind=kind, tags=tag, distill=distill)
        if not ingest_all(speaker, sources, options):
            raise typer.Exit(1)


@app.command()
def mcp() -> None:
    """Serve MCP on stdin and stdout (for agents)."""
    from pegas_memory.mcp_server_stdio import main

    main()


@app.command()
def worker() -> None:
    """Project and tend in the background, until interrupted (server profile)."""
    from pegas_memory.cli.background import work

    with Speaker(False) as speaker:
        work(started(), speaker)


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option(help="Use and keep this folder instead of a temporary one.")] = None,
    json: Json = False,
) -> None:
    """Show it at work: a real MCP client ingests, stores, searches and checks the citations."""
    from pegas_memory.demo import run

    with Speaker(json) as speaker:
        raise typer.Exit(run(speaker.line, home=keep, as_json=json))


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code: 0 done, 1 the product could not, 2 wrong usage."""
    try:
        app(args=arguments, prog_name="pegas-memory", standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


import pegas_memory.cli.archive_verbs  # noqa: E402  (its verbs come after these)
import pegas_memory.cli.judging_verbs  # noqa: E402
import pegas_memory.cli.reading_verbs  # noqa: E402
import pegas_memory.cli.upkeep_verbs  # noqa: E402, F401
