"""Finding where a graph server differs from PostgreSQL, node by node and edge by edge, and mending it through
the outbox. What differs is drift only when it still does after the projection has passed all that was written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from pegas_memory.db import graph, outbox
from pegas_memory.db.outbox import FILLABLE, Backfill
from pegas_memory.db.session import Database
from pegas_memory.errors import GraphUnavailable
from pegas_memory.memgraph_store import GraphStore, Held
from pegas_memory.model import NodeKind
from pegas_memory.rebuilding.compare import Entity
from pegas_memory.rebuilding.reconcile import SETTLE_SECONDS, Reconciled, found_kinds, settle

PAGE = 1_000
SCAN_PAGE = 10_000
_NODES = frozenset(NodeKind)
Present = dict[Entity, tuple[str, int]]
"""Kind in the outbox, and revision, of each node or edge that has to be there."""


@dataclass(slots=True)
class GraphDrift:
    """Nodes and edges by how they differ, each with its kind in the outbox and PostgreSQL's revision."""

    missing: Present = field(default_factory=dict)
    behind: Present = field(default_factory=dict)
    ahead: Present = field(default_factory=dict)
    """Of a revision that PostgreSQL has not reached: it went back to a backup."""
    doubled: Present = field(default_factory=dict)
    orphaned: Present = field(default_factory=dict)

    def kinds(self) -> dict[str, Present]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __bool__(self) -> bool:
        return any(self.kinds().values())

    def lasting(self, later: GraphDrift) -> GraphDrift:
        """What still differs in the same way ``later``."""
        again = later.kinds()
        return GraphDrift(
            **{
                name: {entity: what for entity, what in found.items() if again[name].get(entity) == what}
                for name, found in self.kinds().items()
            }
        )


def reconcile_graph(
    db: Database, store: GraphStore, consumer: str, *, tenant: str = "", mend: bool = True
) -> Reconciled:
    """``store`` is only read, and need not be open; the worker that has the server's turn does the mending.

    Raises:
        GraphUnavailable: the server cannot be read, or is not brought up to date. DatabaseUnavailable.
    """
    started = time.monotonic()
    drift, compared = _drift(db, store, consumer, tenant)
    left = drift
    if mend and drift:
        _mend(db, consumer, drift)
        left, _ = _drift(db, store, consumer, tenant)
    kinds = found_kinds(drift.kinds(), left.kinds(), mend=mend)
    stays = sum(map(len, left.kinds().values()))
    return Reconciled(compared, kinds, stays, round(time.monotonic() - started, 3))


def _drift(db: Database, store: GraphStore, consumer: str, tenant: str) -> tuple[GraphDrift, int]:
    _settle(db, consumer)
    seen, compared = _compare(db, store, tenant)
    if not seen:
        return seen, compared
    _settle(db, consumer)
    later, compared = _compare(db, store, tenant)
    return seen.lasting(later), compared


def _settle(db: Database, consumer: str) -> None:
    """Return when all that is committed now is projected, and no filling is under way."""
    deadline = time.monotonic() + SETTLE_SECONDS
    settle(db, [consumer])
    while True:
        with db.everything() as conn:
            if outbox.progress(conn, [consumer], at_most=1)[1]:
                return
        if time.monotonic() > deadline:
            raise GraphUnavailable(
                "The graph server is still being filled.", "Try again when it is; see `pegas-memory outbox`."
            )
        time.sleep(0.05)


def _compare(db: Database, store: GraphStore, tenant: str) -> tuple[GraphDrift, int]:
    wanted = _wanted(db, tenant)
    drift = GraphDrift()
    seen: set[Entity] = set()
    for scan, kind in ((store.scan_nodes, ""), (store.scan_edges, "link")):
        for held in _held(scan):
            if tenant and held.tenant != tenant:
                continue
            entity = (held.tenant, held.id)
            what = wanted.get(entity)
            if what is None:
                drift.orphaned[entity] = (kind or held.kind, 0)
            elif entity in seen:
                drift.doubled[entity] = what
            elif held.revision < what[1]:
                drift.behind[entity] = what
            elif held.revision > what[1]:
                drift.ahead[entity] = what
            seen.add(entity)
    drift.missing = {entity: what for entity, what in wanted.items() if entity not in seen}
    return drift, len(wanted)


def _wanted(db: Database, tenant: str) -> Present:
    """Every node, and every edge both of whose ends stand."""
    wanted: Present = {}
    at = Backfill("", "", None)
    while True:
        with db.everything() as conn:
            page = outbox.backfill_page(conn, at, tuple(FILLABLE), PAGE)
        if not page:
            return wanted
        at = at.moved_to(page[-1], len(page))
        kind = page[-1].entity_type
        by_tenant: dict[str, list[UUID]] = {}
        for change in page:
            if not tenant or change.tenant == tenant:
                by_tenant.setdefault(change.tenant, []).append(change.entity_id)
        for name, ids in by_tenant.items():
            with db.tenant(name) as conn:
                if kind in _NODES:
                    wanted |= {(name, key): (kind, node.revision) for key, node in graph.nodes(conn, name, ids).items()}
                    continue
                edges = (graph.links if kind == "link" else graph.dependencies)(conn, name, ids)
            wanted |= {
                (name, key): (kind, edge.revision)
                for key, edge in edges.items()
                if (name, edge.src.id) in wanted and (name, edge.dst.id) in wanted
            }


def _held(scan: Callable[[str, int], list[Held]]) -> Iterator[Held]:
    """Everything, page by page. The last uid of a full page is read again with the next one: what is doubled may
    lie on both sides of the cut."""
    after = ""
    while page := scan(after, SCAN_PAGE):
        last = page[-1].uid
        whole = page if len(page) < SCAN_PAGE else [held for held in page if held.uid != last]
        yield from whole
        if len(page) < SCAN_PAGE:
            return
        after = whole[-1].uid if whole else last


def _mend(db: Database, consumer: str, drift: GraphDrift) -> None:
    """A version guard would refuse what is ahead, and keeps what is doubled: those are made anew, with all the
    rest, under the next generation."""
    noted: dict[tuple[str, str, str], list[UUID]] = {}
    for name, found in drift.kinds().items():
        for (tenant, entity_id), (kind, _) in found.items():
            op = "delete" if name == "orphaned" else "upsert"
            noted.setdefault((tenant, kind, op), []).append(entity_id)
    with db.everything() as conn:
        for (tenant, kind, op), ids in noted.items():
            outbox.enqueue(conn, tenant, kind, ids, op=op)
        if drift.ahead or drift.doubled:
            outbox.refill(conn, consumer)
