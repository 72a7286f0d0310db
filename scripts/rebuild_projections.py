"""Make the projections anew from PostgreSQL: ``pegas-memory rebuild`` for a checkout, with the same options."""

from __future__ import annotations

import sys

from pegas_memory.cli.verbs import run

if __name__ == "__main__":
    sys.exit(run(["rebuild", *sys.argv[1:]]))
