"""``python -m pegas_memory.engine``: started by clients, detached, with their settings on its stdin.

Without a pipe on stdin (started by hand) the settings are read as everywhere else.
"""

from __future__ import annotations

import json
import os
import stat
import sys

from pegas_memory.config import Settings, load_settings
from pegas_memory.engine.journal import open_journal
from pegas_memory.engine.process import Engine
from pegas_memory.engine_client.place import Place
from pegas_memory.errors import PegasError


def main() -> int:
    """Exit codes: 0 stopped in order or not needed, 1 could not start, 2 the settings cannot be used."""
    try:
        settings = _settings()
    except PegasError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    place = Place(settings.home)
    try:
        place.prepare()
        open_journal(place.log)
    except OSError as error:
        sys.stderr.write(f"The engine's log cannot be written: {error.strerror}\n")
        return 1
    except PegasError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        return Engine(settings).run()
    except PegasError as error:
        place.note_error(error)
        return 1


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
