"""``pegas-memory worker``: the worker without an agent. Where the engine process is needed it has the
worker in it, so the verb only keeps it up; in the server profile the worker runs right here."""

from __future__ import annotations

import signal
import threading

from pegas_memory.cli.printing import Speaker
from pegas_memory.config import Settings


def work(settings: Settings, speaker: Speaker) -> None:
    """Until SIGINT, SIGTERM or SIGHUP. Raises PegasError when a part cannot be opened."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    if settings.needs_engine:
        _keep_engine(settings, speaker, stop)
    else:
        _work_here(settings, speaker, stop)


def _keep_engine(settings: Settings, speaker: Speaker, stop: threading.Event) -> None:
    from pegas_memory import PegasMemory

    with PegasMemory.open(settings):
        speaker.note("The engine process of this PEGAS_HOME runs the worker; it stays up until you interrupt.")
        stop.wait()


def _work_here(settings: Settings, speaker: Speaker, stop: threading.Event) -> None:
    from pegas_memory.engine.rooms import Rooms

    rooms = Rooms(settings)
    try:
        rooms.open()
        speaker.note("Working; interrupt to stop.")
        stop.wait()
    finally:
        rooms.close()
