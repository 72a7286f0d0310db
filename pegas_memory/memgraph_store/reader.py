"""The graph server as it is asked: in read-only transactions, and only once it was filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from pegas_memory.errors import GraphUnavailable
from pegas_memory.memgraph_store.connection import Server, Transaction
from pegas_memory.memgraph_store.rows import Names, Row
from pegas_memory.model import (
    Direction,
    Edge,
    EdgeFilter,
    NodeKind,
    NodeRef,
)

_QUESTIONS = {Direction.OUT: "edges_out", Direction.IN: "edges_in", Direction.BOTH: "edges_both"}
T = TypeVar("T")


class GraphReader:
    """``graph.Graph`` over Bolt. Thread-safe. Raises GraphUnavailable also while the server is being filled."""

    backend = "memgraph"

    def __init__(self, server: Server, instance: UUID) -> None:
        self._server = server
        self._names = Names(instance)

    def edges_at(
        self, tenant: str, refs: Sequence[NodeRef], where: EdgeFilter, *, after: UUID | None, limit: int
    ) -> list[Edge]:
        rows = self._ask(
            lambda transaction: transaction.run(
                _QUESTIONS[where.direction],
                uids=[self._names.uid(tenant, ref.id) for ref in refs],
                instance=str(self._names.instance),
                tenant=tenant,
                after=str(after) if after else "",
                kinds=sorted(where.kinds),
                inferred=where.include_inferred,
                limit=limit,
            )
        )
        return [_edge(tenant, row) for row in rows]

    def close(self) -> None:
        self._server.close()

    def _ask(self, question: Callable[[Transaction], T]) -> T:
        def answered(transaction: Transaction) -> T:
            fence = transaction.run("is_complete", instance=str(self._names.instance))
            if not fence or not fence[0]["complete"]:
                raise GraphUnavailable(
                    "The graph server is being filled from PostgreSQL.", "It answers as soon as that is done."
                )
            return question(transaction)

        return self._server.read(answered)


def _edge(tenant: str, row: Row) -> Edge:
    return Edge(
        tenant,
        UUID(row["id"]),
        NodeRef(NodeKind(row["src_kind"]), UUID(row["src"])),
        NodeRef(NodeKind(row["dst_kind"]), UUID(row["dst"])),
        row["kind"],
        row["confidence"],
        row["source"],
        row["inferred"],
        row["revision"],
    )
