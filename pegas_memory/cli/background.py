"""``pegas-memory worker``: the worker without an agent. Where the engine process is needed it has the
worker in it, so the verb only keeps it up; in the server profile the worker runs right here."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from pegas_memory.cli.printing import Speaker
from pegas_memory.config import Settings
from pegas_memory.errors import PegasError


def work(settings: Settings, speaker: Speaker) -> None:
    """Until SIGINT, SIGTERM or SIGHUP. Main thread only.

    Raises PegasError when a part without which nothing works cannot be opened.
    """
    wait = _until_signalled()
    if settings.needs_engine:
        _keep_engine(settings, speaker, wait)
    else:
        _work_here(settings, speaker, wait)


def _until_signalled() -> Callable[[], object]:
    """A function that waits for the signals, through a pipe: a handler that takes a lock could
    interrupt the very thread that holds it."""
    read, write = os.pipe()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.write(write, b"x"))
    return lambda: os.read(read, 1)


def _keep_engine(settings: Settings, speaker: Speaker, wait: Callable[[], object]) -> None:
    from pegas_memory import PegasMemory

    with PegasMemory.open(settings):
        speaker.note("The engine process of this PEGAS_HOME runs the worker; it stays up until you interrupt.")
        wait()


def _work_here(settings: Settings, speaker: Speaker, wait: Callable[[], object]) -> None:
    from pegas_memory.engine.rooms import Rooms

    rooms = Rooms(settings)
    try:
        rooms.open()
        if trouble := _trouble(settings):
            speaker.note(f"Not projecting yet, tried again until it works: {trouble}")
        speaker.note("Working; interrupt to stop.")
        wait()
    finally:
        rooms.close()


def _trouble(settings: Settings) -> str:
    """Why nothing can be projected now, "" when all is well."""
    from pegas_memory.embedding import open_embedder
    from pegas_memory.qdrant_store import server_index

    embedder = open_embedder(settings)
    try:
        index = server_index(settings, embedder.model, "")
        try:
            index.stands()
        finally:
            index.close()
    except PegasError as error:
        return f"{error.message} [{error.code}]"
    finally:
        embedder.close()
    return ""
