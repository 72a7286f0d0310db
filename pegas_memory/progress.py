"""How far a long piece of work has come, told to whoever listens; to nobody unless somebody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]
"""(what, done, of): e.g. ("pages", 120, 500)."""


def _nobody(what: str, done: int, of: int) -> None: ...


_listener: ContextVar[Listener] = ContextVar("listener", default=_nobody)


def tell(what: str, done: int, of: int) -> None:
    """Say that ``done`` of ``of`` are done. Cheap: once a page, a chapter, a block is not too often."""
    _listener.get()(what, done, of)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
