"""The embedded shard and what becomes of it when it cannot be trusted: a new one, filled from PostgreSQL."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from pegas_memory.db import outbox
from pegas_memory.db.session import Database
from pegas_memory.engine.shard_check import difference
from pegas_memory.engine_client.launch import has_space
from pegas_memory.errors import DiskFull, PegasError, ShardDamaged, VectorsUnavailable, WrongDimension
from pegas_memory.model import ArmHits, Dense, EmbeddingModel, Point, SearchFilter, SparseVector
from pegas_memory.qdrant_store import EdgeIndex, ScannedPoint, edge_folder

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
CATCHING_UP = "The vectors of the last moments before a restart are being brought back."
REBUILDING = "The vectors are being rebuilt from PostgreSQL; results may be incomplete."


class KeptShard:
    """A ``VectorIndex`` over one embedded shard. Any call may find it damaged; the next :meth:`settle`
    then moves it aside, opens an empty one and has its consumer filled again.

    ``settle`` and ``caught_up`` are for the projecting thread alone; everything else is thread-safe.
    """

    def __init__(self, parent: Path, base: str, model: EmbeddingModel, db: Database, consumer: str) -> None:
        self._home = parent.parent
        self._folder = edge_folder(parent, base, model)
        self._base = base
        self._model = model
        self._db = db
        self._consumer = consumer
        # While this file stands, the shard and the consumer's position do not belong together.
        self._mark = self._folder.with_name(self._folder.name + ".rebuild")
        self._swap = threading.Lock()
        self._index: EdgeIndex | None = None
        self._damage = ""
        self._rebuilding = False
        self._behind = True
        self._unchecked = True

    @property
    def state(self) -> str:
        """ready | rebuilding | damaged | closed"""
        if self._damage:
            return "damaged"
        if self._index is None:
            return "closed"
        return "rebuilding" if self._rebuilding else "ready"

    @property
    def degraded(self) -> str:
        """Why an answer may be incomplete; "" when it is not."""
        if self._rebuilding or self._damage:
            return REBUILDING
        return CATCHING_UP if self._behind else ""

    @property
    def lacks_space(self) -> bool:
        """Not open, and not to be opened before there is room on the disk."""
        return self._index is None and not has_space(self._home)

    def settle(self) -> bool:
        """Have a shard that can be trusted open. Cheap when it is. True when it is a new, empty one,
        whose consumer was sent back to the beginning.

        Raises:
            VectorsUnavailable, DatabaseUnavailable, DiskFull, HomeNotWritable: not now.
        """
        if self._index is not None and not self._damage:
            return False
        self._check_space()
        if not self._damage and not self._mark.exists():
            try:
                self._open()
            except (ShardDamaged, WrongDimension) as error:
                self._condemn(error.message)
        if not self._damage and not self._mark.exists():
            return False
        self._renew()
        return True

    def _open(self) -> None:
        index = EdgeIndex(self._folder, self._model, self._base)
        index.ensure()
        with self._db.everything() as conn:
            outbox.register(conn, self._consumer)
            self._rebuilding = outbox.backfill_of(conn, self._consumer) is not None
        with self._swap:
            self._index = index

    def _renew(self) -> None:
        log.warning("shard renewed consumer=%s reason=%s", self._consumer, self._damage or "interrupted rebuild")
        with _writing():
            self._mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._mark.touch()
        self._let_go()
        EdgeIndex.wipe(self._folder)
        with self._db.everything() as conn:
            outbox.reset_position(conn, self._consumer)
        with _writing():
            self._mark.unlink()
        self._damage = ""
        self._unchecked = False  # it holds what is projected from here on
        self._open()

    def _condemn(self, reason: str) -> None:
        if not self._damage:
            log.warning("shard condemned consumer=%s reason=%s", self._consumer, reason)
        self._damage = reason
        try:
            self._mark.touch()
        except OSError as error:  # then only this process knows; the check at the next start will find it
            log.warning("shard mark not written: %s", error.strerror)

    def up_to_date(self) -> None:
        """The projection has no more to do: what it repeated after a start is back."""
        self._behind = False

    def caught_up(self) -> None:
        """The projection has no more to do: the rebuild is over, and now the shard can be compared.

        Raises:
            DatabaseUnavailable.
        """
        if self._rebuilding:
            with self._db.everything() as conn:
                self._rebuilding = outbox.backfill_of(conn, self._consumer) is not None
        if self._unchecked and not self._rebuilding and not self._damage:
            found = difference(self._db, self, self._consumer)
            if found is None:
                return  # something was written meanwhile: compare at the next rest
            self._unchecked = False
            if found:
                self._condemn(found)

    def _use(self, ask: Callable[[EdgeIndex], Answer]) -> Answer:
        index = self._index
        if index is None or self._damage:
            raise VectorsUnavailable("The embedded vectors are not open." if not self._damage else REBUILDING)
        try:
            return ask(index)
        except ShardDamaged as error:
            self._condemn(error.message)
            raise VectorsUnavailable(REBUILDING) from error

    def ensure(self) -> None:
        self._use(lambda index: index.ensure())

    def _check_space(self) -> None:
        """Before anything grows: its files are mapped, and where the disk is full the process would be ended."""
        if not has_space(self._home):
            raise DiskFull("The disk of PEGAS_HOME is full; new vectors wait in PostgreSQL.")

    def upsert(self, points: Sequence[Point]) -> None:
        self._check_space()
        self._use(lambda index: index.upsert(points))

    def replace(self, entity_ids: Sequence[UUID], points: Sequence[Point]) -> None:
        self._check_space()
        self._use(lambda index: index.replace(entity_ids, points))

    def delete_entities(self, tenant: str, entity_ids: Sequence[UUID]) -> None:
        self._use(lambda index: index.delete_entities(tenant, entity_ids))

    def delete_tenant(self, tenant: str) -> None:
        self._use(lambda index: index.delete_tenant(tenant))

    def search(self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int) -> ArmHits:
        return self._use(lambda index: index.search(where, dense=dense, sparse=sparse, limit=limit))

    def count(self) -> int:
        return self._use(lambda index: index.count())

    def scan(self, after: UUID | None, limit: int) -> list[ScannedPoint]:
        return self._use(lambda index: index.scan(after, limit))

    def flush(self) -> None:
        self._use(lambda index: index.flush())

    def close(self) -> None:
        """Flush and release; a damaged shard is renewed at the next start."""
        self._let_go()

    def _let_go(self) -> None:
        with self._swap:
            index, self._index = self._index, None
        if index is not None:
            try:
                index.close()
            except PegasError as error:
                self._condemn(error.message)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VectorsUnavailable(f"The folder of the embedded vectors cannot be written ({error.strerror}).") from error
