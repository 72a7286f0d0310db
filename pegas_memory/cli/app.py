"""The command line's one app, and the options that several verbs share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pegas_memory import model
from pegas_memory.version import VERSION

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(VERSION)
        raise typer.Exit


@app.callback()
def everywhere(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Pegas Memory: local, cited, long-term memory for agents."""


Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; repeat for more.")]
DocId = Annotated[str, typer.Option("--doc-id", help="Only what this document supports.")]
Types = Annotated[list[str] | None, typer.Option("--type", help=f"One of {', '.join(model.AtomType)}; repeatable.")]


def given(**values: Any) -> dict[str, Any]:
    """The options that were used; the tools know the defaults of the rest."""
    return {name: value for name, value in values.items() if value not in (None, "", [])}
