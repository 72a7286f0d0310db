"""Verbs that tend the projections: what they could not take, making them anew, comparing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated
from uuid import UUID

import typer

from pegas_memory.cli.app import Json, app
from pegas_memory.cli.printing import Speaker
from pegas_memory.cli.session import opened
from pegas_memory.errors import InvalidParameter
from pegas_memory.service.renewal import Collected, ReembedAnswer
from pegas_memory.service.upkeep import OnFilled, OutboxState, RebuildAnswer, ReconcileAnswer


@app.command()
def outbox(
    action: Annotated[str, typer.Argument(help="list or replay.")] = "list",
    id: Annotated[str, typer.Argument(help="Replay: only what concerns this entity.")] = "",
    all: Annotated[bool, typer.Option("--all", help="Replay: everything that failed.")] = False,
    json: Json = False,
) -> None:
    """Show what waits for each projection and what it could not take, or try the latter again."""
    with Speaker(json) as speaker:
        if action == "list" and not id:
            with opened() as (memory, _):
                state = memory.outbox()
            speaker.say(_outbox(state), state)
        elif action == "replay" and bool(id) != all:
            with opened() as (memory, _):
                count = memory.replay(_id(id) if id else None)
            speaker.say(f"{count:,} changes are tried again.", {"replayed": count})
        else:
            raise InvalidParameter(
                "That is no action of `outbox`.", "Say `outbox`, `outbox replay ID` or `outbox replay --all`."
            )


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidParameter("That is no id.", "`pegas-memory outbox` lists the ids of what failed.") from error


def _outbox(state: OutboxState) -> str:
    lines = []
    for one in state.consumers:
        filled = f"{one.filled:,} of {state.to_be_filled.get(one.consumer, 0):,}" if one.backfilling else "complete"
        said = f"pending {one.pending:,}, lag {one.lag_seconds:.1f} s, failed {one.failed:,} (dead {one.dead:,})"
        lines.append(f"{one.consumer}: generation {one.generation}, {filled}, {said}")
        if one.last_error:
            lines.append(f"  waits: {one.last_error}")
    for failure in state.failures:
        when = "dead" if failure.next_try_at is None or failure.dead else f"next try {failure.next_try_at:%H:%M:%S}"
        lines.append(
            f"{failure.entity_type} {failure.entity_id} of {failure.tenant!r} in {failure.consumer}:"
            f" {failure.attempts} attempts, {when}: {failure.last_error}"
        )
    return "\n".join(lines) or "No projection has begun yet."


@app.command()
def rebuild(
    vector: Annotated[bool, typer.Option("--vector", help="The vector index (default).")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="The graph server.")] = False,
    tenant: Annotated[str, typer.Option(help="Project all of this tenant again instead.")] = "",
    discard: Annotated[bool, typer.Option("--discard", help="Forget what an interrupted run left.")] = False,
    json: Json = False,
) -> None:
    """Make projections anew from PostgreSQL, while the service goes on."""
    with Speaker(json) as speaker:
        with opened() as (memory, _), bar(speaker, "filling") as on_rows:
            answer = memory.rebuild(
                vector=vector or not graph, graph=graph, tenant=tenant, discard=discard, on_rows=on_rows
            )
        speaker.say(_rebuilt(answer), answer)


def _rebuilt(answer: RebuildAnswer) -> str:
    said = []
    if (built := answer.vector) is not None:
        said.append(
            f"The vector index is rebuilt (generation {built.generation}): {built.rows:,} atoms, {built.points:,}"
            f" points in {built.seconds:.1f} s, {built.points_per_second:,.0f} points a second"
            + ("; an interrupted run had done the rest." if built.resumed else ".")
        )
    if answer.graph is not None:
        said.append(
            f"The graph server is filled anew (generation {answer.graph}) by the worker, once it can be reached;"
            " `pegas-memory outbox` shows how far it is."
        )
    if answer.compared is not None:
        said += [f"{answer.noted:,} rows are projected again.", _reconciled(answer.compared)]
    return "\n".join(said)


@app.command()
def reembed(
    model: Annotated[str, typer.Option(help="The new PEGAS_EMBEDDER, such as ollama:embeddinggemma.")],
    no_switch: Annotated[bool, typer.Option("--no-switch", help="Embed and build, and leave it at that.")] = False,
    json: Json = False,
) -> None:
    """Embed everything with another model beside the one in use, then switch to it."""
    with Speaker(json) as speaker:
        with opened() as (memory, _), bar(speaker, "embedding") as on_rows:
            answer = memory.reembed(model, switch=not no_switch, on_rows=on_rows)
        speaker.say(_reembedded(answer), answer)
        if not (answer.switched or no_switch):
            raise typer.Exit(1)


def _reembedded(answer: ReembedAnswer) -> str:
    lines = [
        f"{answer.embedded:,} atoms are embedded by {answer.model} ({answer.dimension} dimensions);"
        f" {answer.built.points:,} points are in its index."
    ]
    if answer.failed:
        lines.append(f"{answer.failed:,} atoms could not be embedded; words find them still.")
    lines.append(answer.next_step)
    return "\n".join(lines)


@app.command()
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this it is only listed.")] = False,
    json: Json = False,
) -> None:
    """List, or remove, what nothing uses any more: old indexes, damaged shards, vectors of texts that are gone."""
    with Speaker(json) as speaker:
        with opened() as (memory, _):
            answer = memory.gc(remove=yes)
        speaker.say(_collected(answer), answer)


def _collected(answer: Collected) -> str:
    lines = [f"index {name}" for name in answer.indexes]
    lines += [f"position of {name}" for name in answer.consumers]
    lines += [f"{answer.vectors:,} cached vectors of texts or models that nothing uses"] if answer.vectors else []
    lines += [f"{answer.outbox:,} outbox rows that every projection has passed"] if answer.outbox else []
    if not lines:
        return "There is nothing to remove."
    return "\n".join([*lines, "Removed." if answer.removed else "Give --yes to remove it."])


@app.command()
def reconcile(
    tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Mend nothing.")] = False,
    json: Json = False,
) -> None:
    """Compare the vector index and the graph server with PostgreSQL id by id, and mend what differs."""
    with Speaker(json) as speaker:
        with opened() as (memory, _):
            answer = memory.reconcile(tenant=tenant, dry_run=dry_run)
        speaker.say(_reconciled(answer), answer)
        if not answer.agrees:
            raise typer.Exit(1)


def _reconciled(answer: ReconcileAnswer) -> str:
    lines = []
    for name, what, one in (
        ("vector index", "atoms", answer.vector),
        ("graph server", "nodes and edges", answer.graph),
    ):
        if one is None:
            continue
        lines.append(f"{name}: compared {one.compared:,} {what} in {one.seconds:.1f} s")
        for kind in one.kinds:
            if kind.found:
                some = ", ".join(map(str, kind.ids[:5])) + (", …" if kind.found > 5 else "")
                lines.append(f"  {kind.kind}: {kind.found:,} found, {kind.mended:,} mended ({some})")
        lines.append(f"  {one.left:,} differences stay." if one.left else "  It agrees with PostgreSQL.")
    lines += [f"{one.part}: not compared, {one.reason}" for one in answer.not_compared]
    return "\n".join(lines)


@contextmanager
def bar(speaker: Speaker, what: str) -> Iterator[OnFilled | None]:
    """A bar on stderr when that is a terminal; nothing otherwise."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal or speaker.as_json:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
