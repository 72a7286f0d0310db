"""Nodes and edges → a graph server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from pegas_memory.db import graph, outbox
from pegas_memory.db.outbox import FILLABLE, Backfill, Change
from pegas_memory.db.session import Database
from pegas_memory.memgraph_store import GraphStore
from pegas_memory.model import Edge, NodeKind

_NODES = frozenset(NodeKind)
_PAGE = 1_000


class GraphProjection:
    """Brings nodes and edges of a slice to their present state; a new node brings all edges that touch it.

    So an edge is in the server as soon as both its ends are, in whatever order the three were noted: an edge
    that came before one of its ends was left out, and comes with that end.
    """

    fills = tuple(FILLABLE)

    def __init__(self, db: Database, store: GraphStore, consumer: str, generation: int) -> None:
        """``generation`` of the consumer; ``store`` must be open."""
        self._db = db
        self._store = store
        self._generation = generation
        self.consumer = consumer

    def project(self, changes: Sequence[Change]) -> None:
        for tenant in dict.fromkeys(change.tenant for change in changes if change.entity_type == "tenant"):
            self._start_over(tenant)
        for tenant in dict.fromkeys(change.tenant for change in changes):
            self._bring(tenant, [change for change in changes if change.tenant == tenant])

    def make_durable(self) -> None:
        """The server made it so at commit."""

    def filled(self, generation: int) -> None:
        self._store.complete(generation)

    def _bring(self, tenant: str, changes: Sequence[Change]) -> None:
        node_ids = [change.entity_id for change in changes if change.entity_type in _NODES]
        link_ids = [change.entity_id for change in changes if change.entity_type == "link"]
        dependency_ids = [change.entity_id for change in changes if change.entity_type == "dependency"]
        with self._db.tenant(tenant) as conn:
            nodes = graph.nodes(conn, tenant, node_ids)
            edges = graph.links(conn, tenant, link_ids) | graph.dependencies(conn, tenant, dependency_ids)
        gone = [edge_id for edge_id in (*link_ids, *dependency_ids) if edge_id not in edges]
        self._store.drop(tenant, [node_id for node_id in node_ids if node_id not in nodes], gone)
        new = self._store.put(list(nodes.values()), list(edges.values()), self._generation)
        if new:
            for touching in self._touching(tenant, sorted(new)):
                self._store.put([], touching, self._generation)
            self._store.settle(tenant, sorted(new))

    def _touching(self, tenant: str, ids: Sequence[UUID]) -> Iterator[list[Edge]]:
        after: UUID | None = None
        while True:
            with self._db.tenant(tenant) as conn:
                page = graph.touching(conn, tenant, ids, after=after, limit=_PAGE)
            if page:
                yield list(page.values())
            if len(page) < _PAGE:
                return
            after = max(page)

    def _start_over(self, tenant: str) -> None:
        """All that the tenant had was purged; what it has stored since is put again."""
        self._store.drop_tenant(tenant)
        for kind in self.fills:
            at = Backfill(kind, tenant, None)
            while page := self._page(tenant, at):
                self._bring(tenant, page)
                at = at.moved_to(page[-1], len(page))

    def _page(self, tenant: str, at: Backfill) -> tuple[Change, ...]:
        with self._db.tenant(tenant) as conn:
            return outbox.backfill_page(conn, at, (at.kind,), _PAGE)
