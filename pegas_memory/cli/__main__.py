"""``python -m pegas_memory.cli``."""

from __future__ import annotations

from pegas_memory.cli import main

main()
