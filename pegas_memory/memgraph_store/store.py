"""The graph server as a projection writes it: every transaction behind a fence, every write guarded by version.

What is written carries our label and the installation's id; nothing else in the server is touched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from pegas_memory.errors import GraphFenced
from pegas_memory.memgraph_store.connection import Server, Transaction
from pegas_memory.memgraph_store.rows import Held, Names, Row, batches, pages
from pegas_memory.model import Edge, Node

FORMAT = 1
"""What a node and an edge hold in the server: with another one a server is filled anew."""
SWEEP_PAGE = 2_000
_ANY_GENERATION = 2**62
T = TypeVar("T")

log = logging.getLogger(__name__)


class GraphStore:
    """One installation's graph in a server. For one thread at a time, as a projection is.

    All but ``open``, the scans and ``close`` raise GraphFenced when another consumer has opened the server since,
    or the server was emptied; then ``is_open`` is False, and ``open`` begins again.
    """

    def __init__(self, server: Server, instance: UUID) -> None:
        self._server = server
        self._names = Names(instance)
        self._token: int | None = None
        self.filling = 0
        """As found by ``open``: the generation whose filling was begun in this very server, 0 for none."""

    @property
    def is_open(self) -> bool:
        return self._token is not None

    def open(self, token: int | None = None) -> bool:
        """Take the server over; who had it before is fenced off. By default with the token after the last.

        Returns True when the server does not hold a complete graph of this installation and must be filled.

        Raises:
            GraphUnavailable, BadSettings: as ``Server.write``.
            GraphFenced: a later ``token`` has opened the server.
        """
        self._server.prepare()

        def take(transaction: Transaction) -> tuple[int, bool, int]:
            (fence,) = transaction.run("make_fence", instance=str(self._names.instance))
            taken = fence["token"] + 1 if token is None else token
            self._pass_fence(transaction, taken)
            return taken, not fence["complete"], fence["filling"]

        self._token, empty, self.filling = self._server.write(take)
        return empty

    def put(self, nodes: Sequence[Node], edges: Sequence[Edge], generation: int) -> set[UUID]:
        """Bring nodes, then edges, to these versions. An edge one of whose ends the server lacks is left out.

        Within a generation an older revision never replaces a newer one; a newer generation replaces whatever
        stands, and its number only grows. Repeating it changes nothing.

        Returns those of ``nodes`` that are new: put the edges that touch them as well, then ``settle`` them.
        """
        fresh: set[str] = set()
        for rows in batches(self._names.node(node, generation) for node in _newest(nodes)):
            fresh |= self._fenced(partial(_put_nodes, rows=rows))
        for rows in batches(self._names.edge(edge, generation) for edge in _newest_edges(edges)):
            self._fenced(partial(_put_edges, rows=rows))
        return {node.ref.id for node in nodes if self._names.uid(node.tenant, node.ref.id) in fresh}

    def settle(self, tenant: str, ids: Sequence[UUID]) -> None:
        """All edges of these nodes are there."""
        for uids in pages([self._names.uid(tenant, node_id) for node_id in ids]):
            self._run("settle_nodes", uids=uids)

    def drop(self, tenant: str, nodes: Sequence[UUID], edges: Sequence[UUID]) -> None:
        """Remove edges, and nodes with all their edges. A node to which another program has tied something
        loses its properties and stays."""
        self._drop_edges([self._names.uid(tenant, edge_id) for edge_id in edges])
        self._drop_nodes([self._names.uid(tenant, node_id) for node_id in nodes])

    def drop_tenant(self, tenant: str) -> None:
        self._sweep(self._names.span(tenant), tenant=tenant)

    def stands(self) -> bool:
        """Whether the server still knows this installation; False once it was emptied. Raises GraphUnavailable."""
        found = self._server.read(
            lambda transaction: transaction.run("is_complete", instance=str(self._names.instance))
        )
        if not found:
            self._token = None
        return bool(found)

    def begin(self, generation: int) -> None:
        """A filling under this generation starts; found again by ``open`` unless the server is emptied."""
        self._run("mark_filling", instance=str(self._names.instance), generation=generation)
        self.filling = generation

    def complete(self, generation: int) -> None:
        """The graph is filled: what is of an older generation goes, and the server may answer questions."""
        self._sweep(self._names.span(), older_than=generation)
        self._run("mark_complete", instance=str(self._names.instance))

    def scan_nodes(self, after: str, limit: int) -> list[Held]:
        """All nodes of the installation, page by page: uids ascending from after ``after``, "" to begin."""
        return self._scan("scan_nodes", after, self._names.span(), limit)

    def scan_edges(self, after: str, limit: int) -> list[Held]:
        return self._scan("scan_edges", after, self._names.span(), limit)

    def close(self) -> None:
        self._server.close()

    def _run(self, name: str, /, **parameters: Any) -> list[Row]:
        return self._fenced(lambda transaction: transaction.run(name, **parameters))

    def _fenced(self, work: Callable[[Transaction], T]) -> T:
        token = self._token
        if token is None:
            raise GraphFenced("The graph server has to be opened anew.")

        def behind(transaction: Transaction) -> T:
            self._pass_fence(transaction, token)
            return work(transaction)

        try:
            return self._server.write(behind)
        except GraphFenced:
            self._token = None
            raise

    def _pass_fence(self, transaction: Transaction, token: int) -> None:
        """First in every transaction that writes. Two of them collide here, so they take turns."""
        if not transaction.run("take_fence", instance=str(self._names.instance), token=token):
            raise GraphFenced("Another worker has taken the graph server over, or the server was emptied.")

    def _drop_edges(self, uids: Sequence[str]) -> None:
        for page in pages(uids):
            self._run("delete_edges", uids=page)

    def _drop_nodes(self, uids: Sequence[str]) -> None:
        for page in pages(uids):
            left = SWEEP_PAGE  # a hub may have more edges than one transaction should hold
            while left == SWEEP_PAGE:
                (found,) = self._run("drop_edges_of", uids=page, instance=str(self._names.instance), limit=SWEEP_PAGE)
                left = found["dropped"]
            self._fenced(partial(_delete_nodes, uids=page))

    def _sweep(self, span: tuple[str, str], *, tenant: str = "", older_than: int = _ANY_GENERATION) -> None:
        """Remove what lies in the span, of that tenant alone when one is named."""
        wanted = {"after": span[0], "until": span[1], "tenant": tenant, "generation": older_than, "limit": SWEEP_PAGE}
        for found, drop in (("unwanted_edges", self._drop_edges), ("unwanted_nodes", self._drop_nodes)):
            while rows := self._run(found, **wanted):
                drop([row["uid"] for row in rows])

    def _scan(self, name: str, after: str, span: tuple[str, str], limit: int) -> list[Held]:
        first, until = span
        rows = self._server.read(
            lambda transaction: transaction.run(name, after=after or first, until=until, limit=limit)
        )
        return [
            Held(
                row["uid"],
                row["tenant"],
                row["kind"],
                UUID(row["id"]),
                row["revision"] if row["settled"] else 0,
                row["generation"],
            )
            for row in rows
        ]


def _newest(nodes: Sequence[Node]) -> list[Node]:
    found: dict[tuple[str, UUID], Node] = {}
    for node in sorted(nodes, key=lambda node: node.revision):
        found[node.tenant, node.ref.id] = node
    return list(found.values())


def _newest_edges(edges: Sequence[Edge]) -> list[Edge]:
    found: dict[tuple[str, UUID], Edge] = {}
    for edge in sorted(edges, key=lambda edge: edge.revision):
        found[edge.tenant, edge.id] = edge
    return list(found.values())


def _put_nodes(transaction: Transaction, rows: list[Row]) -> set[str]:
    """Returns the uids of those whose edges are not all there."""
    known = {row["uid"]: row for row in transaction.run("known_nodes", uids=[row["uid"] for row in rows])}
    new: dict[str, list[Row]] = {}
    changed: list[Row] = []
    for row in rows:
        stands = known.get(row["uid"])
        if stands is None:
            new.setdefault(row["kind"], []).append({**row, "settled": False})
        elif _is_older(stands, row):
            changed.append({**row, "generation": max(row["generation"], stands["generation"])})
    for kind, created in new.items():
        transaction.run(f"create_{kind}", rows=created)
    if changed:
        transaction.run("change_nodes", rows=changed)
    return {row["uid"] for row in rows if row["uid"] not in known or not known[row["uid"]]["settled"]}


def _put_edges(transaction: Transaction, rows: list[Row]) -> None:
    """A changed edge is made anew: its ends may be others, and only so can a server that knows no edge by its
    uid inside UNWIND change many at once."""
    known = {row["uid"]: row for row in transaction.run("known_edges", uids=[row["values"]["uid"] for row in rows])}
    wanted: list[Row] = []
    replaced: list[str] = []
    for row in rows:
        values = row["values"]
        stands = known.get(values["uid"])
        if stands is None:
            wanted.append(row)
        elif _is_older(stands, values) or (
            stands["revision"] == values["revision"] and (stands["src"], stands["dst"]) != (row["src"], row["dst"])
        ):
            replaced.append(values["uid"])
            kept = max(values["generation"], stands["generation"])
            wanted.append({**row, "values": {**values, "generation": kept}})
    if replaced:
        transaction.run("delete_edges", uids=replaced)
    if wanted:
        transaction.run("create_edges", rows=wanted)


def _is_older(stands: Row, given: Row) -> bool:
    """Whether what stands gives way: it is of an older generation, or in the same one of an older revision.
    A newer generation reads PostgreSQL anew and is right even if its revisions went back (a backup)."""
    return bool(stands["generation"] < given["generation"] or stands["revision"] < given["revision"])


def _delete_nodes(transaction: Transaction, uids: list[str]) -> None:
    tied = {row["uid"] for row in transaction.run("tied_nodes", uids=uids)}
    if tied:
        log.warning("%d nodes stay in the graph server, emptied: another program has tied edges to them", len(tied))
        transaction.run("empty_nodes", uids=sorted(tied))
    transaction.run("delete_nodes", uids=[uid for uid in uids if uid not in tied])
