"""The two dialects of Cypher that are spoken: Memgraph's, and the one of servers that say they are like Neo4j
(among them ArcadeDB, which stands in for Memgraph in the tests)."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from importlib.resources import files


class Dialect(StrEnum):
    MEMGRAPH = "memgraph"
    NEO4J = "neo4j"


_SCHEMA: dict[Dialect, tuple[tuple[str, ...], ...]] = {
    Dialect.MEMGRAPH: (
        ("unique_node",),
        ("unique_fence",),
        ("node_index", "node_index_old"),
        ("edge_index", "edge_index_old"),
    ),
    Dialect.NEO4J: (("unique_node",), ("unique_fence",), ("edge_index",)),
}
"""What has to be there, each with the names of the statements that make it: the next is for a server that does
not understand the one before."""


def spoken_by(agent: str) -> Dialect:
    """By the name that a server gives at login: Memgraph's says that it is compatible with Neo4j, so does
    ArcadeDB's; only what names neither of the two others is taken for Memgraph (its name can be configured)."""
    if "memgraph" in agent.lower():
        return Dialect.MEMGRAPH
    return Dialect.NEO4J if re.search(r"arcadedb|^neo4j/", agent.lower()) else Dialect.MEMGRAPH


def schema_of(dialect: Dialect) -> tuple[tuple[str, ...], ...]:
    """For each index and constraint, the texts of the statements to be tried in turn."""
    return tuple(tuple(statement(name, dialect) for name in names) for names in _SCHEMA[dialect])


def statement(name: str, dialect: Dialect) -> str:
    found = all_statements()
    return found[f"{name}@{dialect}"] if f"{name}@{dialect}" in found else found[name]


@cache
def all_statements() -> dict[str, str]:
    """Every section of queries.cypher by its name, comments left out."""
    source = files("pegas_memory.memgraph_store").joinpath("queries.cypher").read_text(encoding="utf-8")
    name, _, sections = source.partition("\n// :: ")
    found: dict[str, str] = {}
    for section in sections.split("\n// :: "):
        name, _, body = section.partition("\n")
        lines = [line for line in body.splitlines() if line and not line.startswith("//")]
        found[name.strip()] = "\n".join(lines)
    return found
