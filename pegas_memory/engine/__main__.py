"""``python -m pegas_memory.engine``: started by clients, detached, with their settings on its stdin.

Without a pipe on stdin (started by hand) the settings are read as everywhere else.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import suppress

from pegas_memory.config import Settings, load_settings
from pegas_memory.engine.journal import open_journal
from pegas_memory.engine.process import Engine
from pegas_memory.engine_client.launch import exit_code
from pegas_memory.engine_client.place import Place, refusal
from pegas_memory.errors import BadSettings, PegasError


def main() -> int:
    """Exit codes: 0 stopped in order or not needed; else why not, see ``launch.exit_code``."""
    try:
        settings = _settings()
    except PegasError as error:
        _say(error)
        return exit_code(BadSettings(""))
    place = Place(settings.home)
    try:
        return _run(place, settings)
    except PegasError as error:
        _say(error)
        place.note_error(error)
        return exit_code(error)


def _run(place: Place, settings: Settings) -> int:
    try:
        place.prepare()
        open_journal(place.log)
        return Engine(settings).run()
    except OSError as error:
        raise refusal(error, "PEGAS_HOME cannot be used") from error


def _say(error: PegasError) -> None:
    with suppress(OSError):  # the log's disk may be full; the exit code tells the client
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()


def _settings() -> Settings:
    given = sys.stdin.buffer.read() if sys.stdin is not None and stat.S_ISFIFO(os.fstat(0).st_mode) else b""
    settings = load_settings(**json.loads(given)) if given else load_settings()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return settings


if __name__ == "__main__":
    sys.exit(main())
