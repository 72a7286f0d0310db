"""Names of collections: physical ``BASE__MODEL__DIM__N`` behind the alias ``BASE__MODEL__DIM``."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pegas_memory.model import EmbeddingModel

DENSE = "dense"
BM25 = "bm25"

_LONGEST_PART = 80


def _part(name: str) -> str:
    """``name`` as one part of a collection's name. ``ollama:embeddinggemma`` becomes
    ``ollama-embeddinggemma``; a name that loses more than its colons gets a hash, so that two
    models never share a collection."""
    plain = name.replace(":", "-")
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-._") or "x"
    safe = re.sub("__+", "_", safe)
    if safe == plain and len(safe) <= _LONGEST_PART:
        return safe
    return f"{safe[:_LONGEST_PART]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def alias_name(base: str, model: EmbeddingModel) -> str:
    """The stable name by which a (model, dimension) is addressed."""
    return f"{_part(base)}__{_part(model.name)}__{model.dimension}"


def physical_name(alias: str, generation: int) -> str:
    """The real collection behind ``alias``; ``generation`` counts from 1."""
    return f"{alias}__{generation}"


def generation_in(name: str, alias: str) -> int | None:
    """The generation of a collection behind ``alias``; None for the name of something else."""
    number = name.removeprefix(f"{alias}__")
    return int(number) if number != name and number.isdecimal() else None


def edge_folder(parent: Path, base: str, model: EmbeddingModel, generation: int = 1) -> Path:
    """Where below ``parent`` the embedded shard of this (model, dimension) stands."""
    alias = alias_name(base, model)
    return parent / (alias if generation == 1 else physical_name(alias, generation))


def edge_folders(parent: Path, base: str, model: EmbeddingModel) -> dict[int, Path]:
    """The shards of this (model, dimension) that stand below ``parent``, by generation."""
    alias = alias_name(base, model)
    standing = [path.name for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []
    found = {1: parent / alias} if alias in standing else {}
    return found | {n: parent / name for name in standing if (n := generation_in(name, alias)) and n > 1}


def shard_folders(parent: Path, base: str) -> list[str]:
    """The names of all shards of ``base`` below ``parent``, of whatever model, damaged ones included."""
    if not parent.is_dir():
        return []
    return [path.name for path in parent.iterdir() if path.is_dir() and path.name.startswith(f"{_part(base)}__")]
