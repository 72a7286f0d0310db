"""Backup and move: whole tenants into one file, and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from pegas_memory.cli.app import Json, app
from pegas_memory.cli.printing import Speaker
from pegas_memory.cli.session import opened
from pegas_memory.errors import InvalidParameter
from pegas_memory.service.archive import Archived, OnRows


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="The archive to write.")],
    tenant: Annotated[str, typer.Option(help="Whose memory (default: PEGAS_TENANT).")] = "",
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="Everybody's.")] = False,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="The vectors too, so that nothing is embedded again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE when it is there.")] = False,
    json: Json = False,
) -> None:
    """Write all that a tenant knows into one portable archive, while the service goes on."""
    with Speaker(json) as speaker:
        if tenant and all_tenants:
            raise InvalidParameter("--tenant and --all-tenants exclude each other.", "Give one of them.")
        with opened() as (memory, _), _bar(speaker) as on_rows:
            written = memory.export_archive(
                file, tenant or None, all_tenants=all_tenants, vectors=vectors, replace=force, on_rows=on_rows
            )
        speaker.say(f"Wrote {file}: {_counted(written)}.", written)


@app.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(help="An archive that export wrote.")],
    tenant: Annotated[str, typer.Option(help="Into this tenant instead of the one that the archive names.")] = "",
    json: Json = False,
) -> None:
    """Read an archive into an empty tenant: all of it, or nothing."""
    with Speaker(json) as speaker:
        with opened() as (memory, settings), _bar(speaker) as on_rows:
            read = memory.import_archive(file, tenant or None, on_rows=on_rows)
        said = [f"Read {file}: {_counted(read)}. The vector index and the graph are being filled."]
        if settings.tenant not in read.tenants:
            said.append(f"This process uses tenant {settings.tenant!r}; set PEGAS_TENANT to see what was read.")
        speaker.say("\n".join(said), read)


def _counted(archived: Archived) -> str:
    names = ", ".join(map(repr, archived.tenants[:5])) + (", …" if len(archived.tenants) > 5 else "")
    atoms, documents = archived.rows.get("pm_atom", 0), archived.rows.get("pm_document", 0)
    return (
        f"tenant{'s' * (len(archived.tenants) > 1)} {names}, {atoms} atoms, {documents} documents,"
        f" {sum(archived.rows.values())} rows in all, {'with' if archived.vectors else 'without'} vectors,"
        f" {archived.bytes / 1e6:.1f} MB"
    )


@contextmanager
def _bar(speaker: Speaker) -> Iterator[OnRows | None]:
    """A bar on stderr when that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal or speaker.as_json:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        yield show
