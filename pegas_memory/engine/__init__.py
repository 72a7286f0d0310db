"""The one process per PEGAS_HOME that holds what only one process may hold or should load once: the life
of the embedded PostgreSQL, Qdrant's embedded shard, the bundled model, the worker."""
