"""The whole product in one stdio server: PostgreSQL by URL, and everything else in this process, so that a
small pool is shared by all and what a library prints would reach the wire if anything could.

PEGAS_TEST_POOL is the size of the pool; PEGAS_TEST_LOUD sets every third-party logger to DEBUG and lets it
write to the stdout that the interpreter began with.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOUD = (
    "asyncio", "charset_normalizer", "courlan", "htmldate", "httpcore", "httpx", "justext", "mcp",
    "psycopg", "pypdf", "pypdfium2", "qdrant_client", "rich", "sqlalchemy.engine", "trafilatura",
)  # fmt: skip


@contextmanager
def open_whole() -> Iterator[object]:
    from pegas_memory.config import load_settings
    from tests.support.local_memory import local_memory

    settings = load_settings()
    pool = int(os.environ.get("PEGAS_TEST_POOL", "8"))
    url = settings.database_url.get_secret_value()
    with local_memory(url, settings.home, settings.embedder, pool_size=pool) as memory:
        yield memory


def let_them_shout() -> None:
    for name in LOUD:
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(logging.StreamHandler(sys.__stdout__))


if __name__ == "__main__":
    from pegas_memory.mcp_server_stdio import claim_wire, run

    parent = os.getppid()
    wire = claim_wire()
    if os.environ.get("PEGAS_TEST_LOUD"):
        let_them_shout()
    run(*wire, parent, open_whole)
    sys.exit(1)
