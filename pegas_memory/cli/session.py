"""How a verb reaches the memory: settings, one open memory, one call by the tool's own rules."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from pegas_memory.cli.printing import Speaker
from pegas_memory.config import Settings, load_settings
from pegas_memory.door_log import log_to
from pegas_memory.errors import EmptyText, InvalidParameter, PegasError
from pegas_memory.mcp_tools import tools_by_name
from pegas_memory.model import Check, IngestAnswer, JobState
from pegas_memory.tool_calls import Memory, ingest_request
from pegas_memory.tool_params import parse_arguments
from pegas_memory.tool_text import render

if TYPE_CHECKING:
    from pegas_memory import PegasMemory

POLL_SECONDS = 0.5
CANCEL_LOOKS = 20
SAID_FIRST, SAID_EVERY = 5.0, 30.0
"""Seconds of a long ingest until its first line on stderr, and between the next ones."""
STDIN = "-"
RUNNING = (JobState.QUEUED, JobState.RUNNING)


def started() -> Settings:
    """The settings, with the log file open; nothing that is logged reaches the terminal.

    Raises ``BadSettings``.
    """
    logging.getLogger().addHandler(logging.NullHandler())
    settings = load_settings()
    log_to(settings.home, "cli")
    return settings


@contextmanager
def opened() -> Iterator[tuple[PegasMemory, Settings]]:
    settings = started()
    from pegas_memory import PegasMemory

    with PegasMemory.open(settings) as memory:
        yield memory, settings


def round_of_checks() -> list[Check]:
    """The doctor's checks; a memory that does not open is the one that failed."""
    try:
        with opened() as (memory, _):
            return list(memory.doctor())
    except PegasError as error:
        return [Check("opening", "fail", f"{error.code}: {error.message}", error.hint)]


def call(speaker: Speaker, tool: str, given: Mapping[str, Any]) -> None:
    """Parse as the tool does, call, print."""
    spec = tools_by_name()[tool]
    arguments = parse_arguments(spec.params, given)
    use = spec.call(arguments)
    with opened() as (memory, _):
        answer = use(memory, Event())
    speaker.say(render(answer, whole=bool(arguments.get("ids"))), answer)


def ingest_all(speaker: Speaker, sources: Sequence[str], given: Mapping[str, Any]) -> bool:
    """Ingest each source to its end, one after the other; False when one of them failed."""
    params = tools_by_name()["memory_ingest"].params
    requests = [
        replace(
            ingest_request(parse_arguments(params, {**given, "source": _source(source), "wait": False})),
            **_read(speaker, source),
        )
        for source in sources
    ]
    ended: list[Any] = []
    good = True
    with opened() as (memory, _), _progress(speaker, sources) as show:
        for source, request in zip(sources, requests, strict=True):
            try:
                answer = _to_the_end(memory, memory.ingest(request), show, speaker)
            except PegasError as error:
                good = False
                said = {"code": error.code, "message": error.message, "hint": error.hint}
                ended.append({"source": source, "error": said})
                if not speaker.as_json:
                    speaker.note(f"{source}: {error.message} [{error.code}]\n  {error.hint}")
                continue
            good = good and answer.state is JobState.DONE
            ended.append(answer)
            if not speaker.as_json:
                speaker.line(f"{source}\n{render(answer)}")
    if speaker.as_json:
        speaker.say("", ended[0] if len(ended) == 1 else ended)
    return good


def _source(source: str) -> str:
    if not source.strip():
        raise InvalidParameter("A source is empty.", "Give a file, a folder, a pattern, a URL or -.")
    return source if source == STDIN or "://" in source else str(Path(source).expanduser().absolute())


def _read(speaker: Speaker, source: str) -> dict[str, Any]:
    """In the place of ``-``: the bytes on stdin, whatever kind of document they are."""
    if source != STDIN:
        return {}
    data = speaker.stdin_bytes()
    if not data.strip():
        raise EmptyText("stdin is empty.", "Pipe a document into the command.")
    return {"source": "", "data": data}


def _to_the_end(
    memory: Memory, answer: IngestAnswer, show: Callable[[IngestAnswer], None], speaker: Speaker
) -> IngestAnswer:
    """Wait for the job; an interrupt cancels it and says what became of it."""
    try:
        pause = 0.02
        while answer.state in RUNNING:
            show(answer)
            time.sleep(pause)
            pause = min(POLL_SECONDS, pause * 1.5)
            answer = memory.job(answer.job_id)
        show(answer)
    except KeyboardInterrupt:
        stopped = memory.cancel_job(answer.job_id)
        for _ in range(CANCEL_LOOKS):
            if stopped.state not in RUNNING:
                break
            time.sleep(POLL_SECONDS)
            stopped = memory.job(answer.job_id)
        speaker.note(f"Interrupted. Job {stopped.job_id} is {stopped.state}; what it stored stays.")
        raise
    return answer


def _lines(speaker: Speaker) -> Callable[[IngestAnswer], None]:
    due = time.monotonic() + SAID_FIRST

    def show(answer: IngestAnswer) -> None:
        nonlocal due
        if answer.state in RUNNING and time.monotonic() >= due and not speaker.as_json:
            due = time.monotonic() + SAID_EVERY
            speaker.note(f"job {answer.job_id}: {answer.percent:.0f} %, {answer.stage}")

    return show


@contextmanager
def _progress(speaker: Speaker, sources: Sequence[str]) -> Iterator[Callable[[IngestAnswer], None]]:
    """A bar on stderr when that is a terminal; else a line every half a minute, and none with ``--json``."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal or speaker.as_json:
        yield _lines(speaker)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("waiting", total=100.0 * len(sources))
        ended = 0

        def show(answer: IngestAnswer) -> None:
            nonlocal ended
            over = answer.state not in RUNNING
            which = f"{min(ended + 1, len(sources))}/{len(sources)} " if len(sources) > 1 else ""
            done = 100.0 * ended + (100.0 if over else answer.percent)
            progress.update(task, completed=done, description=f"{which}{answer.stage}")
            ended += over

        yield show
