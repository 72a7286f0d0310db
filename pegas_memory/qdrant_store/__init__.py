"""Vectors: Qdrant's server and Qdrant's embedded engine behind one face.

``ServerIndex`` is imported on first use: its client library takes longer to load than a call may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegas_memory.qdrant_store.face import ScannedPoint, VectorIndex
from pegas_memory.qdrant_store.naming import edge_folder, edge_folders, shard_folders
from pegas_memory.qdrant_store.opening import server_index
from pegas_memory.qdrant_store.payload import FORMAT

if TYPE_CHECKING:
    from pegas_memory.qdrant_store.edge import EdgeIndex
    from pegas_memory.qdrant_store.server import ServerIndex

__all__ = [
    "FORMAT",
    "EdgeIndex",
    "ScannedPoint",
    "ServerIndex",
    "VectorIndex",
    "edge_folder",
    "edge_folders",
    "server_index",
    "shard_folders",
]


def __getattr__(name: str) -> object:
    if name == "EdgeIndex":
        from pegas_memory.qdrant_store.edge import EdgeIndex

        return EdgeIndex
    if name == "ServerIndex":
        from pegas_memory.qdrant_store.server import ServerIndex

        return ServerIndex
    raise AttributeError(name)
