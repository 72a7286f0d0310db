"""Documents to typed claims."""

from pegas_memory.distill.extractive import chunk_atoms, distill_extractive

__all__ = ["chunk_atoms", "distill_extractive"]
