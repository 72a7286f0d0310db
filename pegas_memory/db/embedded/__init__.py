"""The embedded PostgreSQL of one ``PEGAS_HOME``: made, started, adopted, stopped.

``server`` is the whole of it; ``place`` says where files live, ``cluster`` makes the data folder,
``postmaster`` looks at and speaks to the running process, ``binaries`` finds the executables,
``child`` runs them, ``account`` names the user they run as, ``locks`` keeps the order.
"""

from pegas_memory.db.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres"]
