"""The engine as its clients see it: calls that find, start and outlive engine processes."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np

from pegas_memory import wire
from pegas_memory.config import Settings
from pegas_memory.engine_client.launch import Starter, plain
from pegas_memory.engine_client.link import SILENCE, Link, LinkLost, NoAnswer, NobodyThere
from pegas_memory.engine_client.place import Place, is_held
from pegas_memory.errors import BadSettings, EngineUnavailable, PegasError, TextTooLong
from pegas_memory.model import ArmHits, Dense, EmbeddingModel, Role, SearchFilter, SparseVector
from pegas_memory.version import VERSION

log = logging.getLogger(__name__)

# Seconds. A tool call asks for an embedding and a search: the two and a start of the engine stay within 25.
START, WAKE, MODEL, SEARCH, STATUS = 12.0, 1.0, 5.0, 8.0, 5.0
SCAN, ADOPT = 30.0, 600.0
"""Adopting opens a whole shard and projects what was written since it was filled."""
EMBED, EMBED_EACH = 13.0, 2.0
PROBE = 2.0
BUSY = 6.0
"""How long a new connection that hears nothing is tried again: a machine may be that busy."""
QUIET = 10.0
"""How long an engine that did not answer is left alone; then one call looks whether it does."""
FAILED = 3.0
"""How long a failed start is the answer to further calls, instead of a process for each of them."""

IDLE_LINKS = 4
_SLICE_TEXTS, _SLICE_CHARACTERS = 32, 4_000_000
_HELLO_WAIT = 5.0
_LEAVING = 60.0
_LEAVING_CLIENTS = 1.0

# What an engine was started with and cannot change: clients that need it otherwise cannot share it.
_SHARED = (
    "database_url", "qdrant_url", "qdrant_api_key", "qdrant_collection", "embedder", "ollama_url",
    "openai_api_key", "llm", "memgraph_url", "memgraph_user", "memgraph_password",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """``database_url`` is for SQLAlchemy and holds the password; ``model`` is None while unknown."""

    pid: int
    version: str
    database_url: str = field(repr=False)
    model: EmbeddingModel | None


def profile(settings: Settings) -> dict[str, str]:
    """What has to be equal for two processes to share an engine, by setting; values are hashed."""
    values = plain(settings)
    hashed = {name: hashlib.sha256(str(values[name]).encode()).hexdigest()[:16] for name in _SHARED}
    return {**hashed, "version": VERSION}


class EngineClient:
    """Thread-safe. Each call runs on a connection of its own, so a long one holds up no other.

    A call whose engine dies under it is sent once more, to a new engine: every method may be repeated.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._place = Place(settings.home)
        self._connecting = threading.Lock()
        self._guard = threading.Lock()
        self._idle: list[Link] = []
        self._presence: Link | None = None
        self._info: EngineInfo | None = None
        self._closed = False
        self._trouble: PegasError | None = None
        self._trouble_until = 0.0
        self._frozen = False

    def connect(self, timeout: float = 60) -> EngineInfo:
        """Make sure that an engine runs and is ready; costs microseconds when it is.

        Raises:
            EngineUnavailable: not within ``timeout`` seconds. BadSettings: it runs for other clients with
            other settings. PegasError: what keeps the engine from starting, as it said it.
        """
        deadline = time.monotonic() + timeout
        if not self._connecting.acquire(timeout=timeout):
            raise EngineUnavailable("Another call is still waiting for the engine to start.")
        try:
            if self._closed:
                raise EngineUnavailable("This client was closed.", "Open a new one.")
            if self._presence is None or self._info is None or not self._presence.alive():
                self._forget()
                self._fail_fast()
                self._presence, self._info = self._open_noting(deadline)
            return self._info
        finally:
            self._connecting.release()

    def _open_noting(self, deadline: float) -> tuple[Link, EngineInfo]:
        begun = time.monotonic()
        try:
            return self._open(deadline)
        except NoAnswer as error:
            if time.monotonic() - begun >= SILENCE:  # else the caller had no time for an answer
                self._note(error, QUIET, frozen=True)
            raise
        except BadSettings:
            raise  # the others, who have other settings, may leave at any time
        except EngineUnavailable as error:
            if time.monotonic() - begun >= START / 2:  # else the caller had no time for a start
                self._note(error, FAILED)
            raise
        except PegasError as error:
            self._note(error, FAILED)
            raise

    def _note(self, error: PegasError, seconds: float, *, frozen: bool = False) -> None:
        self._trouble, self._frozen = error, frozen
        self._trouble_until = time.monotonic() + seconds

    def _fail_fast(self) -> None:
        """Raises what was noted a moment ago."""
        if self._trouble is not None and time.monotonic() < self._trouble_until:
            raise type(self._trouble)(self._trouble.message, self._trouble.hint)

    def _open(self, deadline: float) -> tuple[Link, EngineInfo]:
        """A greeted connection. An engine on its way out is waited for and followed by a new one."""
        pause, begun = 0.02, time.monotonic()
        starter = Starter(self._place, self._settings, deadline)
        while True:
            link: Link | None = None
            try:
                link = starter.reach()
                return link, self._greet(link, deadline)
            except BaseException as error:
                if link is not None:
                    link.close()
                until = deadline if isinstance(error, LinkLost) else min(deadline, begun + BUSY)
                if not isinstance(error, LinkLost | NoAnswer) or time.monotonic() + pause >= until:
                    raise
                starter.mourn()
                time.sleep(pause)
                pause = min(1.0, 2 * pause)

    def _greet(self, link: Link, deadline: float) -> EngineInfo:
        patience = time.monotonic() + _LEAVING_CLIENTS
        while True:
            left = deadline - time.monotonic()
            wait = max(0.0, min(_HELLO_WAIT, left))
            parameters = {"wait": wait, "profile": profile(self._settings), "pid": os.getpid()}
            said = link.call("hello", parameters, wait + 10, self._answers)
            if said["differs"]:
                if said["state"] != "failed" and said["clients"] > 1 and time.monotonic() < patience:
                    time.sleep(0.05)  # they may be hanging up just now
                    continue
                self._replace(link, said)
            match said["state"]:
                case "ready":
                    return EngineInfo(said["pid"], said["version"], said["database_url"], wire.model_in(said["model"]))
                case "failed":
                    raise wire.error_in(said["error"])
                case "stopping":
                    raise LinkLost("The engine is stopping.")
            if left <= 0:
                raise EngineUnavailable(f"The engine is still starting ({said['phase']}).", "Try again in a moment.")

    def _replace(self, link: Link, said: Mapping[str, Any]) -> None:
        names = ", ".join(name if name == "version" else f"PEGAS_{name.upper()}" for name in said["differs"])
        if said["clients"] > 1 and said["state"] != "failed":
            raise BadSettings(
                f"The engine of this PEGAS_HOME serves other programs with a different {names}.",
                "Give every program the same settings, or stop the others first.",
            )
        link.call("shutdown", {}, 30)
        raise LinkLost(f"The engine is replaced by one with another {names}.")

    def _call(self, method: str, parameters: Mapping[str, Any], timeout: float, start: float = START) -> Any:
        """``timeout`` is for the answer and ``start`` for the engine that may have to be started, in seconds."""
        deadline = time.monotonic() + timeout + start
        for last in (False, True):
            self._look_again()
            left = deadline - timeout - time.monotonic()
            self.connect(max(0.0, left))
            try:
                return self._call_once(method, parameters, timeout)
            except NobodyThere as error:
                self._note(error, QUIET, frozen=True)
                raise
            except LinkLost:
                with self._connecting:
                    self._forget()
                if last:
                    raise
        raise AssertionError("unreachable")

    def _look_again(self) -> None:
        """Nothing while all is well. After a silence: fail fast, and when its time is over ask once."""
        if not self._frozen:
            return
        with self._guard:
            self._fail_fast()
            assert self._trouble is not None
            self._note(self._trouble, QUIET, frozen=True)  # the others go on failing fast while this one asks
        if not self._answers():
            self._fail_fast()
        self._frozen, self._trouble = False, None

    def _answers(self) -> bool:
        """Whether the engine answers anything; also when none listens, which is another trouble."""
        try:
            link = Link(self._place, PROBE)
        except EngineUnavailable:
            return not is_held(self._place.engine_lock)
        try:
            link.call("ping", {}, PROBE)
        except LinkLost:
            return True
        except NoAnswer:
            return False
        finally:
            link.close()
        return True

    def _call_once(self, method: str, parameters: Mapping[str, Any], timeout: float) -> Any:
        link = self._borrow()
        in_step = False
        try:
            answer = link.call(method, parameters, timeout, self._answers)
            in_step = True
        except PegasError as error:
            in_step = not isinstance(error, EngineUnavailable)
            raise
        finally:
            if in_step:
                self._give_back(link)
            else:
                link.close()
        return answer

    def _borrow(self) -> Link:
        with self._guard:
            if self._idle:
                return self._idle.pop()
        try:
            return Link(self._place)
        except EngineUnavailable as error:
            raise LinkLost(error.message) from error

    def _give_back(self, link: Link) -> None:
        with self._guard:
            if len(self._idle) < IDLE_LINKS and not self._closed:
                self._idle.append(link)
                return
        link.close()

    def _forget(self) -> None:
        with self._guard:
            links, self._idle = self._idle, []
        if self._presence is not None:
            links.append(self._presence)
        self._presence = self._info = None
        for link in links:
            link.close()

    def embed(self, texts: Sequence[str], role: Role) -> Dense:
        """Vectors of ``texts``: float32, shape (len(texts), dimension), L2-normalised.

        Raises:
            EmbedderUnavailable, EmbedderMisbehaved, EngineUnavailable, TextTooLong.
        """
        parts: list[Dense] = [
            self._call("embed", {"texts": part, "role": role}, EMBED + EMBED_EACH * len(part))
            for part in _slices(texts)
        ]
        if not parts:
            return np.zeros((0, self.model().dimension), dtype=np.float32)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def search(
        self, where: SearchFilter, *, dense: Dense | None, sparse: SparseVector | None, limit: int
    ) -> tuple[ArmHits, str]:
        """Best entities of each arm, and why they may be incomplete ("" when they are not).

        Raises:
            VectorsUnavailable, WrongDimension, EngineUnavailable.
        """
        parameters = {
            "where": wire.filter_out(where), "dense": dense, "sparse": wire.sparse_out(sparse), "limit": limit,
        }  # fmt: skip
        answer = self._call("search", parameters, SEARCH)
        return wire.hits_in(answer["hits"]), str(answer["degraded"])

    def scan(self, after: UUID | None, limit: int) -> list[tuple[UUID, UUID, int, bool, str]]:
        """A page of the shard's points, as ``VectorIndex.scan`` gives them.

        Raises:
            VectorsUnavailable, EngineUnavailable.
        """
        return [tuple(row) for row in self._call("scan", {"after": after, "limit": limit}, SCAN)]

    def adopt(self, generation: int) -> None:
        """Have the engine serve the shard of ``generation``, which this process has filled and closed.

        Raises:
            VectorsUnavailable, EngineUnavailable, DatabaseUnavailable, DiskFull.
        """
        self._call("adopt", {"generation": generation}, ADOPT)

    def model(self) -> EmbeddingModel:
        """The embedding model; may ask its endpoint.

        Raises:
            EmbedderUnavailable, EngineUnavailable.
        """
        known = self._info
        found = (known.model if known else None) or wire.model_in(self._call("model", {}, MODEL))
        if found is None:
            raise EngineUnavailable("The engine does not know its embedding model.")
        return found

    def wake(self) -> None:
        """There are new outbox rows or jobs. Never raises and takes about a second at most: the engine is
        started when none runs, and finds by itself what was written while nobody could tell it."""
        try:
            self._call("wake", {}, WAKE, start=WAKE)
        except PegasError as error:
            log.info("engine not woken error=%s %s", error.code, error.message)

    def status(self) -> dict[str, object]:
        """How the engine and its parts are, as plain values."""
        answer: dict[str, object] = self._call("status", {}, STATUS)
        return answer

    def is_running(self) -> bool:
        """Whether an engine listens now. Starts none."""
        try:
            Link(self._place).close()
        except EngineUnavailable:
            return False
        return True

    def shutdown(self) -> None:
        """Stop the running engine, and PostgreSQL with it, in order; none is started for it.

        Returns when it has let go of everything, or after ``_LEAVING`` seconds.
        """
        with self._connecting:
            self._forget()
        try:
            link = Link(self._place)
        except EngineUnavailable:
            return
        deadline = time.monotonic() + _LEAVING
        try:
            link.call("shutdown", {}, _LEAVING)
            while link.alive() and time.monotonic() < deadline:
                time.sleep(0.02)
        except LinkLost:
            pass  # somebody else told it before
        finally:
            link.close()
        while is_held(self._place.engine_lock) and time.monotonic() < deadline:
            time.sleep(0.02)

    def close(self) -> None:
        """Release the connections; the engine stays."""
        with self._connecting:
            self._closed = True
            self._forget()

    def __enter__(self) -> EngineClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _slices(texts: Sequence[str]) -> list[list[str]]:
    """``texts`` in runs that fit a frame whatever the script (up to four bytes a character)."""
    runs: list[list[str]] = []
    room = 0
    for text in texts:
        if len(text) > _SLICE_CHARACTERS:
            raise TextTooLong(f"A text of {len(text)} characters cannot be embedded at once.")
        if not runs or len(runs[-1]) == _SLICE_TEXTS or len(text) > room:
            runs.append([])
            room = _SLICE_CHARACTERS
        runs[-1].append(text)
        room -= len(text)
    return runs
