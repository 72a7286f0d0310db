"""PostgreSQL's outbox → projections. Each projection has its own position and its own failures, so
that one that is slow or down neither delays another nor makes it repeat its work."""

from __future__ import annotations

from pegas_memory.outbox_sync.graph import GraphProjection as GraphProjection
from pegas_memory.outbox_sync.names import embedding_consumer as embedding_consumer
from pegas_memory.outbox_sync.names import graph_consumer as graph_consumer
from pegas_memory.outbox_sync.names import graph_target as graph_target
from pegas_memory.outbox_sync.names import vector_consumer as vector_consumer
from pegas_memory.outbox_sync.names import vector_target as vector_target
from pegas_memory.outbox_sync.sync import Projection as Projection
from pegas_memory.outbox_sync.sync import Sync as Sync
from pegas_memory.outbox_sync.vector import EmbeddingProjection as EmbeddingProjection
from pegas_memory.outbox_sync.vector import VectorProjection as VectorProjection
from pegas_memory.outbox_sync.vector import points_of as points_of
