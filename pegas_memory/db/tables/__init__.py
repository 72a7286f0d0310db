"""The canonical schema (CONTRACT §5). The tenant is part of every primary, unique and foreign key of
what belongs to a tenant; ``pm_projection`` and ``pm_instance`` belong to the installation."""

from __future__ import annotations

from pegas_memory.db.tables.code import pm_code_dependency as pm_code_dependency
from pegas_memory.db.tables.code import pm_code_symbol as pm_code_symbol
from pegas_memory.db.tables.columns import LIVE as LIVE
from pegas_memory.db.tables.columns import NODE_KINDS as NODE_KINDS
from pegas_memory.db.tables.columns import metadata as metadata
from pegas_memory.db.tables.knowledge import pm_atom as pm_atom
from pegas_memory.db.tables.knowledge import pm_atom_link as pm_atom_link
from pegas_memory.db.tables.knowledge import pm_chunk as pm_chunk
from pegas_memory.db.tables.knowledge import pm_citation as pm_citation
from pegas_memory.db.tables.knowledge import pm_document as pm_document
from pegas_memory.db.tables.knowledge import pm_entity as pm_entity
from pegas_memory.db.tables.knowledge import pm_research_gap as pm_research_gap
from pegas_memory.db.tables.knowledge import pm_revision as pm_revision
from pegas_memory.db.tables.knowledge import pm_tenant as pm_tenant
from pegas_memory.db.tables.memories import pm_episodic_trace as pm_episodic_trace
from pegas_memory.db.tables.memories import pm_procedure as pm_procedure
from pegas_memory.db.tables.running import pm_activity as pm_activity
from pegas_memory.db.tables.running import pm_embedding as pm_embedding
from pegas_memory.db.tables.running import pm_instance as pm_instance
from pegas_memory.db.tables.running import pm_job as pm_job
from pegas_memory.db.tables.running import pm_outbox as pm_outbox
from pegas_memory.db.tables.running import pm_projection as pm_projection
from pegas_memory.db.tables.running import pm_projection_failure as pm_projection_failure

TENANT_TABLES = tuple(t.name for t in metadata.sorted_tables if "tenant" in t.c)
