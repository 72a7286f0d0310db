"""A process that reads PostgreSQL and makes points, while the one that started it stores them: the engine never
releases the GIL, so that one process could only do the one after the other.

It ends with its pipe, that is with whoever started it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pegas_memory import wire
from pegas_memory.db.outbox import Backfill
from pegas_memory.db.session import Database
from pegas_memory.engine_client.launch import PACKAGE_ROOT
from pegas_memory.errors import DatabaseUnavailable, EmbedderUnavailable, PegasError
from pegas_memory.model import Dense, EmbeddingModel, Role
from pegas_memory.rebuilding.pages import Page, pages
from pegas_memory.vectors import Vectors

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from pegas_memory.rebuilding.feeder import main; main()"


@dataclass(frozen=True, slots=True)
class _OnlyCached:
    """An embedder that is never asked: what is not cached yet has no vector yet."""

    model: EmbeddingModel

    def embed(self, texts: Sequence[str], role: Role) -> Dense:  # noqa: ARG002 - the face of an embedder
        raise EmbedderUnavailable("A rebuild takes vectors from the cache alone.")

    def close(self) -> None:
        """Nothing is open."""


def fed(url: str, model: EmbeddingModel, at: Backfill) -> Generator[Page, None, None]:
    """The pages after ``at``, made by another process.

    Raises:
        DatabaseUnavailable, DiskFull: as it met them.
    """
    child = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(PACKAGE_ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        pickle.dump((url, model, at), child.stdin)
        child.stdin.close()
        while (said := _read(child)) is not None:
            if isinstance(said, dict):
                raise wire.error_in(said)
            yield said
    finally:
        child.stdout.close()
        child.kill()
        child.wait()


def _read(child: subprocess.Popen[bytes]) -> Page | dict[str, str] | None:
    assert child.stdout is not None
    try:
        said: Page | dict[str, str] | None = pickle.load(child.stdout)  # noqa: S301 - of our own child
    except (EOFError, pickle.UnpicklingError) as error:
        raise DatabaseUnavailable("The process that reads PostgreSQL for the rebuild has ended.") from error
    return said


def main() -> None:
    url, model, at = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own parent
    out = os.fdopen(os.dup(1), "wb", buffering=1 << 20)
    os.dup2(2, 1)  # what a library prints must not end up among the pages
    db = Database(url)
    with suppress(BrokenPipeError):
        try:
            for page in pages(db, Vectors(db, _OnlyCached(model)), at):
                pickle.dump(page, out, protocol=pickle.HIGHEST_PROTOCOL)
                out.flush()
            said = None
        except PegasError as error:
            said = wire.error_out(error)
        pickle.dump(said, out)
        out.flush()
    os._exit(0)  # a broken pipe would be met again at the end
