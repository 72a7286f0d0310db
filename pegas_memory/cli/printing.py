"""What a person or a script reads: answers on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import typer

from pegas_memory.config import Settings
from pegas_memory.door_log import incident
from pegas_memory.errors import InvalidParameter, PegasError
from pegas_memory.model import MAX_CARRIED_BYTES, Check, StatsAnswer, to_json
from pegas_memory.tool_text import render

USAGE, FAILED = 2, 1


class Speaker:
    """Prints one verb's answer as text or JSON, and turns its errors into exit codes."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]

    def __enter__(self) -> Speaker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, PegasError):
            self.fail(error)
            raise typer.Exit(USAGE if isinstance(error, InvalidParameter) else FAILED) from None
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        if isinstance(error, Exception) and not isinstance(error, (typer.Exit, typer.Abort)):
            self._unplanned(error)
            raise typer.Exit(FAILED) from None

    def say(self, text: str, data: Any) -> None:
        self.line(json.dumps(to_json(data), ensure_ascii=False) if self.as_json else text)

    def line(self, text: str) -> None:
        print(text, flush=True)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def fail(self, error: PegasError) -> None:
        if self.as_json:
            said = {"code": error.code, "message": error.message, "hint": error.hint}
            self.line(json.dumps({"error": said}, ensure_ascii=False))
        else:
            self.note(f"error: {error.message} [{error.code}]\n  {error.hint}")

    def _unplanned(self, error: Exception) -> None:
        code, _, message = incident(error, "cli").partition(": ")
        if self.as_json:
            self.line(json.dumps({"error": {"code": code, "message": message, "hint": ""}}))
        else:
            self.note(f"error: {message} [{code}]")

    def stdin_bytes(self) -> bytes:
        """All of stdin, up to one byte more than a document may have."""
        return sys.stdin.buffer.read(MAX_CARRIED_BYTES + 1)

    def stdin_text(self) -> str:
        """All of stdin as text. Raises ``InvalidParameter`` for what is not UTF-8."""
        try:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidParameter(
                "stdin is not UTF-8 text.", "Save it to a file and ingest the file: its kind is then recognised."
            ) from error


def checks_text(checks: Sequence[Check]) -> str:
    """One line for a check, and a second one when there is something to mend."""
    lines = []
    for check in checks:
        lines.append(f"{check.state:>4}  {check.name}: {check.detail}")
        if check.mend and check.state != "ok":
            lines.append(f"      → {check.mend}")
    return "\n".join(lines)


def where_text(settings: Settings, stats: StatsAnswer) -> str:
    """Where the data stands, and which parts serve it."""
    database = "embedded PostgreSQL below the home" if settings.embedded_postgres else "PostgreSQL by URL"
    vectors = "embedded Qdrant below the home" if settings.embedded_vectors else f"Qdrant at {settings.qdrant_url}"
    roots = os.pathsep.join(map(str, settings.ingest_roots))
    return "\n".join(
        [
            "Ready.",
            f"home:     {settings.home}",
            f"database: {database}",
            f"vectors:  {vectors}",
            f"files:    only below {roots} (PEGAS_INGEST_ROOTS)",
            f"logs:     {settings.home / 'logs'}",
            render(stats),
        ]
    )
