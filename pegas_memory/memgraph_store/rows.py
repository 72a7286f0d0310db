"""Nodes and edges as a graph server holds them, and batches that fit into one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pegas_memory.model import Edge, Node

BATCH_ROWS = 1_000
BATCH_BYTES = 1_000_000
"""Whichever is reached first. 1,000 rows take about 0.2 s on the test peer; a server keeps a transaction in
memory twice, as a message and as changes."""
_ROW_BYTES = 300
"""What a row takes beside its texts."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Held:
    """What the server has: a node or edge with the version it stands at. ``kind`` is the node's, or the
    edge's own. A node whose edges are not all there yet has revision 0."""

    uid: str
    tenant: str
    kind: str
    id: UUID
    revision: int
    generation: int


@dataclass(frozen=True, slots=True)
class Names:
    """How one installation's nodes and edges are named in a server that others use too."""

    instance: UUID

    def uid(self, tenant: str, entity_id: UUID) -> str:
        """Unambiguous though a tenant may hold slashes: the parts beside it have a fixed length."""
        return f"{self.instance}/{tenant}/{entity_id}"

    def span(self, tenant: str = "") -> tuple[str, str]:
        """Between which two uids all of a tenant lie, or all of the installation. Between those of tenant ``a``
        lie those of ``a/b`` as well."""
        prefix = f"{self.instance}/{tenant}" if tenant else str(self.instance)
        return f"{prefix}/", f"{prefix}0"  # 0 is the character after /

    def node(self, node: Node, generation: int) -> Row:
        return {
            "uid": self.uid(node.tenant, node.ref.id),
            "instance": str(self.instance),
            "tenant": node.tenant,
            "id": str(node.ref.id),
            "kind": node.ref.kind.value,
            "revision": node.revision,
            "generation": generation,
            "type": node.type,
            "shown_as": node.shown_as,
            "name": node.name,
            "names": list(node.names),
        }

    def edge(self, edge: Edge, generation: int) -> Row:
        values = {
            "uid": self.uid(edge.tenant, edge.id),
            "instance": str(self.instance),
            "tenant": edge.tenant,
            "id": str(edge.id),
            "kind": edge.kind,
            "confidence": edge.confidence,
            "source": edge.source,
            "inferred": edge.inferred,
            "revision": edge.revision,
            "generation": generation,
        }
        return {
            "src": self.uid(edge.tenant, edge.src.id),
            "dst": self.uid(edge.tenant, edge.dst.id),
            "values": values,
        }


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """In order, limited by rows and by bytes; one row that is larger than a batch goes alone."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        row_size = _size(row)
        if batch and (len(batch) == BATCH_ROWS or size + row_size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row_size
    if batch:
        yield batch


def _size(row: Row) -> int:
    texts = [*row.values(), *row.get("values", {}).values()]
    listed = [name for value in texts if isinstance(value, list) for name in value]
    return _ROW_BYTES + sum(len(text.encode()) for text in [*texts, *listed] if isinstance(text, str))


def pages(items: Sequence[str], size: int = BATCH_ROWS) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
