"""Verbs that judge what memory holds, and delete for good."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pegas_memory import model
from pegas_memory.cli.app import Json, app, given
from pegas_memory.cli.printing import Speaker
from pegas_memory.cli.session import call, opened
from pegas_memory.errors import InvalidParameter


@app.command()
def verify(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of atoms.", metavar="[ID]...")] = None,
    doc_id: Annotated[str, typer.Option(help="Judge this document and what only it supports.")] = "",
    verdict: Annotated[str, typer.Option(help=f"One of {', '.join(model.Verdict)}.")] = "",
    reason: Annotated[str, typer.Option(help="Why; kept for the audit.")] = "",
    json: Json = False,
) -> None:
    """Give a verdict: mark, hide, bring back, or purge for good."""
    with Speaker(json) as speaker:
        call(speaker, "memory_verify", given(atom_ids=ids, doc_id=doc_id, verdict=verdict, reason=reason))


@app.command()
def tenants(
    action: Annotated[str, typer.Argument(help="list or delete.")] = "list",
    name: Annotated[str, typer.Argument(help="The tenant to delete.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")] = False,
    reason: Annotated[str, typer.Option(help="Why; kept for the audit.")] = "",
    json: Json = False,
) -> None:
    """List the tenants with what they hold, or delete one for good."""
    with Speaker(json) as speaker:
        if (action, bool(name)) == ("list", False):
            with opened() as (memory, _):
                known = memory.tenants()
            speaker.say(_listed(known), {"tenants": known})
        elif (action, bool(name)) == ("delete", True):
            _confirm(speaker, name, yes)
            with opened() as (memory, _):
                deleted = memory.delete_tenant(name, reason)
            rows = sum(deleted.removed.values())
            speaker.say(f"Deleted tenant {name!r}: {rows:,} rows. The index follows.", deleted)
        else:
            raise InvalidParameter("Say `tenants list` or `tenants delete NAME`.")


def _confirm(speaker: Speaker, name: str, yes: bool) -> None:
    if yes:
        return
    if speaker.as_json or not sys.stdin.isatty():
        raise InvalidParameter("Deleting a tenant cannot be undone.", "Give --yes to do it.")
    typed = typer.prompt(f"All that tenant {name!r} holds goes for good. Type its name to go on", err=True)
    if typed != name:
        raise InvalidParameter("That is not its name; nothing was deleted.")


def _listed(known: Sequence[model.TenantState]) -> str:
    lines = [
        f"{tenant.name!r}: {tenant.atoms:,} atoms, {tenant.documents:,} documents, {tenant.links:,} links,"
        f" {tenant.gaps:,} gaps, {tenant.symbols:,} symbols"
        + ("; being deleted: run `pegas-memory tenants delete` again to end it" if tenant.deleting else "")
        for tenant in known
    ]
    return "\n".join(lines) or "Nothing is stored for any tenant yet."
