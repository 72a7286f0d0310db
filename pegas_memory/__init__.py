"""Pegas Memory: the long-term memory and knowledge base of a research agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pegas_memory.wiring import PegasMemory

__all__ = ["PegasMemory"]


def __getattr__(name: str) -> Any:
    if name == "PegasMemory":
        from pegas_memory.wiring import PegasMemory

        return PegasMemory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
