"""Nodes and edges as they are read from the tables."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, text

from pegas_memory.db import graph, links
from pegas_memory.db.atoms import NewAtom, insert_many
from pegas_memory.db.session import Database
from pegas_memory.model import AtomType, NodeKind, NodeRef


@pytest.fixture
def db(migrated_url: str):  # type: ignore[no-untyped-def]
    database = Database(migrated_url)
    yield database
    database.close()


def symbol(conn: Connection, name: str, qualified: str) -> UUID:
    found = uuid4()
    conn.execute(
        text(
            "INSERT INTO pm_code_symbol (tenant, id, repo, path, language, name, qualified_name, kind, name_folded)"
            " VALUES ('t', :id, 'r', 'p', 'python', :name, :qualified, 'function', :folded)"
        ),
        {"id": found, "name": name, "qualified": qualified, "folded": name.casefold()},
    )
    return found


def test_nodes_of_all_five_kinds(db: Database) -> None:
    episode, procedure = uuid4(), uuid4()
    with db.tenant("t") as conn:
        (atom,) = insert_many(conn, "t", [NewAtom(AtomType.FACT, "ж" * 500)])
        entity = links.entity_named(conn, "t", "МегаФон")
        conn.execute(text("UPDATE pm_entity SET aliases = ARRAY['МФ', 'Ёж'] WHERE id = :id"), {"id": entity})
        code = symbol(conn, "RunAll", "Kiln.RunAll")
        conn.execute(
            text(
                "INSERT INTO pm_episodic_trace (tenant, id, kind, content, content_hash, retracted_at)"
                " VALUES ('t', :id, 'plan', 'Fire it', 'h', now())"
            ),
            {"id": episode},
        )
        conn.execute(
            text("INSERT INTO pm_procedure (tenant, id, content, content_hash) VALUES ('t', :id, 'Knead', 'h')"),
            {"id": procedure},
        )
        assert atom is not None
        found = graph.nodes(conn, "t", [atom, entity, code, episode, procedure, uuid4()])
    shown = {n.ref.kind.value: (n.type, n.shown_as, n.name, n.names, n.revision) for n in found.values()}
    assert shown == {
        "atom": ("fact", "candidate", "ж" * 200, (), 1),
        "episode": ("plan", "retracted", "Fire it", (), 1),
        "procedure": ("", "candidate", "Knead", (), 1),
        "entity": ("concept", "", "МегаФон", ("мегафон", "мф", "еж"), 1),
        "symbol": ("function", "", "Kiln.RunAll", ("runall", "kiln.runall"), 1),
    }


def test_edges_by_id_and_by_their_ends(db: Database) -> None:
    with db.tenant("t") as conn:
        a, b = symbol(conn, "a", "a"), symbol(conn, "b", "b")
        conn.execute(
            text(
                "INSERT INTO pm_code_dependency (tenant, id, repo, src_id, dst_id, dst_name, kind, certainty) VALUES"
                " ('t', :known, 'r', :a, :b, 'b', 'calls', 0.5), ('t', :unknown, 'r', :a, NULL, 'c', 'calls', 1)"
            ),
            {"known": UUID(int=7), "unknown": UUID(int=8), "a": a, "b": b},
        )
        far = uuid4()
        links.put(conn, "t", ("symbol", b), ("atom", far), "mentions", 0.75)
        dependency = graph.dependencies(conn, "t", [UUID(int=7), UUID(int=8)])
        every = graph.touching(conn, "t", [a, b, far], limit=10)
        first = graph.touching(conn, "t", [b], limit=1)
        rest = graph.touching(conn, "t", [b], after=next(iter(first)), limit=10)
        (link,) = graph.links(conn, "t", list(every)).values()
    assert list(dependency) == [UUID(int=7)]
    (calls,) = dependency.values()
    assert (calls.src.id, calls.dst.id, calls.kind, calls.confidence, calls.source) == (a, b, "calls", 0.5, "code")
    assert (link.src, link.dst) == (NodeRef(NodeKind.SYMBOL, b), NodeRef(NodeKind.ATOM, far))
    assert every == {**first, **rest}
    assert set(every.values()) == {calls, link}
    with db.tenant("other") as conn:
        assert graph.touching(conn, "other", [a, b, far], limit=10) == {}
