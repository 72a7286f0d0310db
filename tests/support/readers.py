"""Looking at reading processes from outside."""

from __future__ import annotations

import os
from pathlib import Path


def children(parent: int = 0) -> list[int]:
    """The reading processes of ``parent``, else of this process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            ours = int(fields[1]) == (parent or os.getpid()) and fields[0] != "Z"
            if ours and b"pegas_memory.reading" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return sorted(found)
