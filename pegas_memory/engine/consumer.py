"""One consumer of the outbox in this process: its turn, its target, its Sync."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pegas_memory.db import outbox
from pegas_memory.db.session import Database
from pegas_memory.db.turns import Turn
from pegas_memory.outbox_sync import Projection, Sync

log = logging.getLogger(__name__)


class Consumer:
    """One projection's Sync, made by the thread that steps it, and made anew, target and all, after
    :meth:`restart`, when its position was moved, and when ``lost()`` says that the target is gone."""

    def __init__(
        self, db: Database, name: str, make: Callable[[], Projection], lost: Callable[[], bool] = lambda: False
    ) -> None:
        self._db = db
        self._make = make
        self._lost = lost
        self.name = name
        self._sync: Sync | None = None
        self._turn = Turn(db.url, name)

    def step(self) -> bool:
        """False also while another process has this consumer's turn (a server target has several)."""
        if not self._turn.mine():
            self._sync = None
            return False
        try:
            if self._sync is None or self._lost():
                self._sync = None
                self._mend()
                self._sync = Sync(self._db, [self._make()])
            return self._sync.step()
        except outbox.PositionMoved:
            self._sync = None
            return True

    def _mend(self) -> None:
        """Before the target is opened: a restored database may say that it is another one now."""
        with self._db.everything() as conn:
            for consumer in outbox.mend_foreign_xids(conn):
                log.warning("projection %s is filled anew: its position was of another database cluster", consumer)

    def restart(self) -> None:
        """Forget what was remembered of a target that is gone."""
        self._sync = None

    def settle(self) -> None:
        """What was moved meanwhile is settled by whoever moved it."""
        if self._sync is not None:
            try:
                self._sync.settle()
            except outbox.PositionMoved:
                self._sync = None

    def close(self) -> None:
        self._turn.close()
