"""queries.cypher, and which dialect a server is spoken to in."""

from __future__ import annotations

import re

import pytest

from pegas_memory.memgraph_store.dialect import Dialect, all_statements, schema_of, spoken_by, statement
from pegas_memory.model import Direction, NodeKind
from tests.architecture.repository import PACKAGE


@pytest.mark.parametrize(
    ("agent", "dialect"),
    [
        ("Neo4j/v5.11.0 compatible graph database server - Memgraph", Dialect.MEMGRAPH),
        ("Neo4j/5.2.0", Dialect.NEO4J),
        ("Neo4j/5.26.0 compatible (ArcadeDB 26.10.2)", Dialect.NEO4J),
        ("my own name for it", Dialect.MEMGRAPH),
        ("", Dialect.MEMGRAPH),
    ],
)
def test_the_dialect_is_told_by_the_agent(agent: str, dialect: Dialect) -> None:
    assert spoken_by(agent) is dialect


@pytest.mark.parametrize("dialect", Dialect)
def test_every_statement_that_the_code_names_is_there(dialect: Dialect) -> None:
    source = "".join(path.read_text() for path in (PACKAGE / "memgraph_store").glob("*.py"))
    named = {name.partition("@")[0] for name in all_statements()}
    built = {f"create_{kind}" for kind in NodeKind} | {f"edges_{direction}" for direction in Direction}
    assert {name for name in named if f'"{name}"' not in source} <= built
    for name in built | {"take_fence", "known_edges", "delete_edges", "scan_nodes"}:
        assert statement(name, dialect)
    assert all(texts and all(texts) for texts in schema_of(dialect))


def test_labels_and_types_are_written_out() -> None:
    labels = {label for text in all_statements().values() for label in re.findall(r":([A-Z]\w+)", text)}
    assert labels == {
        "PegasMemory", "PegasInstance", "RELATES", "Atom", "CodeSymbol", "Episode", "Procedure", "Entity",
    }  # fmt: skip
    assert not any(mark in text for text in all_statements().values() for mark in ("%s", "{}{", "`"))
