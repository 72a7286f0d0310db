"""A graph server (Memgraph, or one that speaks Bolt and openCypher like it): written by a projection, asked by
the graph's questions."""

from __future__ import annotations

from pegas_memory.memgraph_store.connection import Server as Server
from pegas_memory.memgraph_store.reader import GraphReader as GraphReader
from pegas_memory.memgraph_store.rows import Held as Held
from pegas_memory.memgraph_store.store import FORMAT as FORMAT
from pegas_memory.memgraph_store.store import GraphStore as GraphStore
