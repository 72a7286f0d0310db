"""The embedded shard and what becomes of it when it cannot be trusted: a new one, filled from PostgreSQL."""

from __future__ import annotations

import logging
import threading
import time
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
from pegas_memory.qdrant_store import EdgeIndex, ScannedPoint, edge_folder, edge_folders

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
MISSED_SECONDS = 1.5
CATCHING_UP = "The vectors of the last moments before a restart are being brought back."
REBUILDING = "The vectors are being rebuilt from PostgreSQL; results may be incomplete."


class KeptShard:
    """A ``VectorIndex`` over the embedded shard of its consumer's generation. Any call may find it damaged;
    the next :meth:`settle` then moves it aside, opens an empty one and has its consumer filled again.

    ``settle``, ``caught_up`` and ``adopt`` are for one thread at a time, the projecting one; everything else
    is thread-safe.
    """

    def __init__(self, parent: Path, base: str, model: EmbeddingModel, db: Database, consumer: str) -> None:
        self._home = parent.parent
        self._parent = parent
        self._folder = edge_folder(parent, base, model)
        self._base = base
        self._model = model
        self._db = db
        self._consumer = consumer
        self.generation = 0
        self._missed = 0.0
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
            if not self._missing():
                return False
            self._condemn("its folder is gone")
        self._check_space()
        if not self._damage:
            self._find()
        if not self._damage and not self._mark.exists():
            try:
                if EdgeIndex(self._folder, self._model, self._base).stands():
                    self._open()
                    return False
                self._damage = "there is none"
            except (ShardDamaged, WrongDimension) as error:
                self._condemn(error.message)
        self._renew()
        return True

    def follow(self) -> None:
        """For whoever is about to write: the shard is that of the consumer's generation. A switch whose answer was
        lost leaves another one open, which is let go; the next ``settle`` opens the right one.

        Raises:
            VectorsUnavailable: it was another one. DatabaseUnavailable.
        """
        with self._db.everything() as conn:
            serving = outbox.generation_of(conn, self._consumer)
        if serving is not None and serving != self.generation:
            self._let_go()
            raise VectorsUnavailable("The embedded vectors were switched to another generation.")

    def _missing(self) -> bool:
        """Whether the open shard's folder was removed and stays so: the whole home may be going, and is not to
        be made again amid that."""
        if self._folder.exists():
            self._missed = 0.0
            return False
        self._missed = self._missed or time.monotonic()
        return time.monotonic() - self._missed > MISSED_SECONDS

    @property
    def _mark(self) -> Path:
        """While this file stands, the shard and the consumer's position do not belong together."""
        return self._folder.with_name(self._folder.name + ".rebuild")

    def _find(self) -> None:
        """Which generation serves; what an interrupted switch left of others goes."""
        with self._db.everything() as conn:
            outbox.register(conn, self._consumer)
            self._be(outbox.generation_of(conn, self._consumer) or 1)
            building = outbox.generation_of(conn, outbox.building_name(self._consumer))
        for generation, folder in edge_folders(self._parent, self._base, self._model).items():
            if generation not in {self.generation, building}:
                self._remove(folder)

    def _be(self, generation: int) -> None:
        self.generation = generation
        self._folder = edge_folder(self._parent, self._base, self._model, generation)

    def _remove(self, folder: Path) -> None:
        try:
            EdgeIndex.remove(folder)
        except PegasError as error:  # in use, or not ours to write: it only takes room
            log.warning("shard %s not removed error=%s", folder.name, error.code)

    def _open(self) -> None:
        index = EdgeIndex(self._folder, self._model, self._base)
        index.ensure()
        with self._db.everything() as conn:
            outbox.register(conn, self._consumer)
            self._rebuilding = outbox.backfill_of(conn, self._consumer) is not None
        with self._swap:
            self._index = index

    def adopt(self, generation: int, catch_up: Callable[[EdgeIndex], None]) -> None:
        """Serve the shard of ``generation``, which another process has built, from the moment it has caught
        up. Searches go on all the while. Nothing when it is the one already.

        Raises:
            ShardDamaged: it cannot be used; it has to be built again.
            PositionMoved: it is not the one that is being built, or not complete.
        """
        if generation == self.generation:
            return
        built = EdgeIndex(edge_folder(self._parent, self._base, self._model, generation), self._model, self._base)
        try:
            if not built.stands():
                raise ShardDamaged("The shard that was built is gone.")
            built.ensure()
            catch_up(built)
            built.flush()
            with self._db.everything() as conn:
                if outbox.generation_of(conn, outbox.building_name(self._consumer)) != generation:
                    raise outbox.PositionMoved(self._consumer)
                outbox.promote(conn, self._consumer)
        except BaseException:
            built.close()
            raise
        with self._swap:
            old, self._index = self._index, built
        left = self._folder
        self._be(generation)
        self._damage, self._rebuilding, self._unchecked = "", False, True
        if old is not None:
            _close(old)
        self._remove(left)
        log.info("shard adopted consumer=%s generation=%d", self._consumer, generation)

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
        except VectorsUnavailable as error:
            if index is not self._index:  # another one has taken its place meanwhile
                return self._use(ask)
            if isinstance(error, ShardDamaged):
                self._condemn(error.message)
                raise VectorsUnavailable(REBUILDING) from error
            raise

    def ensure(self) -> None:
        self._use(lambda index: index.ensure())

    def _check_space(self) -> None:
        """Before anything grows: its files are mapped, and where the disk is full the process would be ended."""
        if not has_space(self._home):
            raise DiskFull("The disk of PEGAS_HOME is full; new vectors wait in PostgreSQL.")

    def upsert(self, points: Sequence[Point]) -> None:
        self._check_space()
        self._use(lambda index: index.upsert(points))

    def replace(self, tenant: str, entity_ids: Sequence[UUID], points: Sequence[Point]) -> None:
        self._check_space()
        self._use(lambda index: index.replace(tenant, entity_ids, points))

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


def _close(index: EdgeIndex) -> None:
    try:
        index.close()
    except PegasError as error:  # it goes anyway
        log.warning("old shard not closed in order error=%s", error.code)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VectorsUnavailable(f"The folder of the embedded vectors cannot be written ({error.strerror}).") from error
