"""How the store is: counts, projections, and the doctor's round."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from uuid import UUID

from pegas_memory.config import Settings
from pegas_memory.db import counts, jobs, outbox
from pegas_memory.db.outbox import ConsumerState
from pegas_memory.errors import BadSettings, NotFound, PegasError, Unavailable
from pegas_memory.model import (
    Check,
    EmbeddingState,
    ProjectionState,
    Role,
    SearchFilter,
    StatsAnswer,
)
from pegas_memory.service.library import job_answer
from pegas_memory.service.rooms import OpenRooms, degraded_by, failing_lanes
from pegas_memory.version import VERSION

JOBS_SHOWN = 10
FAILURES_SHOWN = 20
LOW_DISK = 1_000_000_000


def stats(rooms: OpenRooms, tenant: str, *, detail: bool, job_id: UUID | None) -> StatsAnswer:
    """Counts of the tenant, its latest jobs (or the one asked for), and how far the projections are.

    Raises:
        NotFound: no such job.
    """
    model = rooms.model()
    vector, embedding = [*rooms.consumers(), "", ""][:2]
    graph = rooms.graph_consumer if rooms.settings.memgraph_url else ""
    with rooms.db.tenant(tenant) as conn:
        counted = counts.of_tenant(conn, tenant)
        if job_id is None:
            rows = jobs.latest(conn, tenant, JOBS_SHOWN)
        else:
            row = jobs.find(conn, tenant, job_id)
            if row is None:
                raise NotFound("There is no job of that id.")
            rows = [row]
        states = {state.consumer: state for state in outbox.states(conn)}
        size = counts.size_on_disk(conn) if detail else 0
        failed = outbox.failures(conn, FAILURES_SHOWN) if detail else []
    mine = [states[name] for name in (vector, embedding, graph) if name in states]
    unseen = rooms.written.pending(tenant) if vector not in states else 0
    projections = {
        "vector": _projection("embedded" if rooms.settings.embedded_vectors else "qdrant", states.get(vector), unseen),
        "embedding": _projection("postgresql", states.get(embedding)),
        "graph": _projection("memgraph" if graph else "postgresql", states.get(graph)),
    }
    provider, _, name = (model.name if model else rooms.settings.embedder).partition(":")
    extra = {
        "database_bytes": size,
        "parts": _parts(rooms),
        "backfilling": [s.consumer for s in mine if s.backfilling],
        "failures": failed,
    }
    return StatsAnswer(
        atoms=counted.atoms,
        documents=counted.documents,
        chunks=counted.chunks,
        citations=counted.citations,
        open_gaps=counted.open_gaps,
        code_symbols=counted.code_symbols,
        code_dependencies=counted.code_dependencies,
        links=counted.links,
        episodes=counted.episodes,
        procedures=counted.procedures,
        jobs=tuple(job_answer(row) for row in rows),
        projections=projections,
        embedding=EmbeddingState(provider, name or provider, model.dimension if model else None),
        llm=rooms.settings.llm or "none",
        version=VERSION,
        tenant=tenant,
        degraded=degraded_by(model),
        pending=projections["vector"].pending + projections["embedding"].pending,
        detail=extra if detail else None,
    )


def _projection(backend: str, state: ConsumerState | None, unseen: int = 0) -> ProjectionState:
    if state is None:
        return ProjectionState(backend, unseen, 0.0, 0)
    return ProjectionState(
        backend, state.pending, round(state.lag_seconds, 3), state.failed, state.last_error, state.dead
    )


def _parts(rooms: OpenRooms) -> dict[str, object]:
    try:
        return rooms.part_states()
    except Unavailable as error:
        return {"engine": str(error)}


def doctor(rooms: OpenRooms) -> list[Check]:
    """Try every part once; none of the checks writes knowledge."""
    tried: tuple[tuple[str, Callable[[OpenRooms], Check]], ...] = (
        ("database", _database),
        ("embedder", _embedder),
        ("vector index", _index),
        ("graph server", _graph_server),
        ("projections", _projections),
        ("jobs", _jobs),
    )
    return [_disk(rooms.settings), *(_tried(name, check, rooms) for name, check in tried)]


def _tried(name: str, check: Callable[[OpenRooms], Check], rooms: OpenRooms) -> Check:
    try:
        return check(rooms)
    except PegasError as error:
        return Check(name, "fail", f"{error.code}: {error.message}", error.hint)


def _disk(settings: Settings) -> Check:
    free = shutil.disk_usage(settings.home).free
    state = "ok" if free > LOW_DISK else "warn"
    return Check(
        "disk", state, f"{free / 1e9:.1f} GB free for {settings.home}", "" if state == "ok" else "Free some disk space."
    )


def _database(rooms: OpenRooms) -> Check:
    with rooms.db.tenant(rooms.settings.tenant) as conn:
        version, encoding = counts.server_facts(conn)
        size = counts.size_on_disk(conn)
    where = "embedded" if rooms.settings.embedded_postgres else "server"
    said = f"PostgreSQL {version} ({where}), {encoding}, {size / 1e6:.1f} MB{_places(rooms)}"
    if encoding != "UTF8":
        return Check("database", "fail", said, "Create the database with encoding UTF8.")
    return Check("database", "ok", said, "")


def _places(rooms: OpenRooms) -> str:
    """Where the embedded cluster stands and who runs it; a doctor may name paths, answers to agents never."""
    postgres = rooms.part_states().get("postgres")
    if not rooms.settings.embedded_postgres or not isinstance(postgres, dict):
        return ""
    return "".join(
        f", {name} {postgres[name]}" for name in ("data", "socket", "account", "binaries") if name in postgres
    )


def _embedder(rooms: OpenRooms) -> Check:
    vector = rooms.embedder.embed(["a check of the embedder"], Role.QUERY)[0]
    return Check("embedder", "ok", f"{rooms.embedder.model.name}, {len(vector)} dimensions", "")


def _index(rooms: OpenRooms) -> Check:
    vector = rooms.embedder.embed(["a check of the index"], Role.QUERY)[0]
    _, incomplete = rooms.searcher.search(
        SearchFilter(tenant=rooms.settings.tenant), dense=vector, sparse=None, limit=1
    )
    if incomplete:
        return Check("vector index", "warn", incomplete, "Wait until it is rebuilt; searches answer meanwhile.")
    return Check("vector index", "ok", "embedded" if rooms.settings.embedded_vectors else "Qdrant server", "")


def _graph_server(rooms: OpenRooms) -> Check:
    if rooms.graph_scanner is None:
        return Check("graph server", "ok", "none; PostgreSQL answers what is asked of the graph", "")
    where = rooms.settings.memgraph_url.rpartition("@")[2]
    try:
        with closing(rooms.graph_scanner()) as store:
            filled = store.stands()
    except (Unavailable, BadSettings) as error:
        mend = "Check PEGAS_MEMGRAPH_URL, PEGAS_MEMGRAPH_USER and that the server runs; PostgreSQL answers meanwhile."
        return Check("graph server", "fail", f"{error.code}: {error.message} ({where})", mend)
    if not filled:
        return Check("graph server", "warn", f"it answers at {where}, and holds nothing yet", "The worker fills it.")
    return Check("graph server", "ok", f"it answers at {where}", "")


def _jobs(rooms: OpenRooms) -> Check:
    failing = failing_lanes(rooms, "jobs")
    if failing:
        return Check("jobs", "fail", "; ".join(failing), "It tries again; see logs/engine.log below PEGAS_HOME.")
    return Check("jobs", "ok", "jobs run", "")


def _projections(rooms: OpenRooms) -> Check:
    with rooms.db.tenant(rooms.settings.tenant) as conn:
        names = [*rooms.consumers(), *([rooms.graph_consumer] if rooms.settings.memgraph_url else [])]
        states = [s for s in outbox.states(conn) if s.consumer in names]
    failed = sum(s.failed for s in states)
    waiting = sum(s.pending for s in states)
    errors = "; ".join(s.last_error for s in states if s.last_error)
    said = f"{waiting} changes wait, {failed} failed" + (f": {errors}" if errors else "")
    if failed:
        return Check("projections", "fail", said, "See `pegas-memory outbox`; `outbox replay --all` tries again.")
    return Check(
        "projections", "warn" if errors else "ok", said, "The part named is down; it is tried again." if errors else ""
    )
