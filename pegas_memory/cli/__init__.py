"""The verbs for a person. ``pegas-memory mcp`` is started by agents, often twice in a row, so it goes
straight to the server before anything of the other verbs is imported."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    if sys.argv[1:] == ["mcp"]:
        from pegas_memory.mcp_server_stdio import main as serve

        serve()
    from pegas_memory.cli.verbs import run

    raise SystemExit(run(sys.argv[1:]))
