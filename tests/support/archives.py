"""Tenants full of everything, and archives that were tampered with."""

from __future__ import annotations

import hashlib
import json
import random
import struct
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as insert_into

from pegas_memory.db.archive import LEFT_OUT
from pegas_memory.db.tables import NODE_KINDS, metadata
from pegas_memory.db.types import Xid8

ODD_TEXTS = (
    "",
    " ",
    "plain",
    "Ёжик в тумане",
    "e\u0301 и\u0306 (combining)",
    "👩\u200d👩\u200d👧\u200d👦 🏴\u200d☠️",
    "שלום עולם",
    "\u2028\u2029\x85",
    "a\nb\r\n\tc",
    'quote " and \\ and \\u0041 and \\n',
    "\x01\x1f\x7f",
    "'); DROP TABLE pm_atom; --",
    "%s :x {}",
    "\U0010ffff\ufffe",
    "NaN",
    "null",
)
ALLOWED: dict[str, tuple[str, ...]] = {
    "pm_document.kind": ("text", "markdown", "html", "pdf", "epub", "web", "code_repo"),
    "pm_atom.type": ("text", "definition", "logical_rule", "code", "table", "fact"),
    "pm_atom.status": ("candidate", "verified", "stale", "contested"),
    "pm_atom_link.src_kind": NODE_KINDS,
    "pm_atom_link.dst_kind": NODE_KINDS,
    "pm_episodic_trace.kind": ("plan", "action", "observation", "reflection"),
    "pm_code_dependency.kind": ("calls", "imports", "inherits"),
    "pm_research_gap.status": ("open", "researching", "closed"),
}
UNIQUE = {"uri", "content_hash", "normal_form", "citation_hash", "text_hash", "dst_name"}


def odd_text(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(ODD_TEXTS)
    points = (rng.randrange(1, 0x110000) for _ in range(rng.randrange(60)))
    return "".join(chr(point) for point in points if not 0xD800 <= point <= 0xDFFF)


def odd_json(rng: random.Random, depth: int = 0) -> Any:
    match rng.randrange(8 if depth < 3 else 6):
        case 0:
            return None
        case 1:
            return rng.choice([0, -1, 2**63, 10**30, 1.5, 1e-300, 0.1, True, False])
        case 2 | 3 | 4 | 5:
            return odd_text(rng)
        case 6:
            return [odd_json(rng, depth + 1) for _ in range(rng.randrange(4))]
        case _:
            return odd_object(rng, depth + 1)


def odd_object(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    return {odd_text(rng): odd_json(rng, depth) for _ in range(rng.randrange(4))}


def fill(conn: Connection, tenant: str, seed: int, rows: int = 12) -> None:
    """Random rows in every table that travels, its foreign keys whole."""
    rng = random.Random(seed)
    made: dict[str, list[UUID]] = {}
    for table in metadata.sorted_tables:
        if table.name in LEFT_OUT:
            continue
        parents = {
            element.parent.name: element.column.table.name
            for key in table.foreign_key_constraints
            for element in key.elements
            if element.parent.name != "tenant"
        }
        batch = []
        for _ in range(1 if table.name == "pm_tenant" else rows):
            row = {c.name: _value(rng, table.name, c) for c in table.columns if not isinstance(c.type, Xid8)}
            for column, parent in parents.items():
                nullable = table.c[column].nullable
                row[column] = None if nullable and rng.random() < 0.3 else rng.choice(made[parent])
            if table.name == "pm_tenant":
                row |= {"id": tenant, "token_hash": "a secret", "deleted_at": None}
            else:
                row["tenant"] = tenant
            if table.name == "pm_embedding":
                row["dimension"] = rng.randrange(1, 50)
                row["vector"] = struct.pack(
                    f"<{row['dimension']}f", *(rng.gauss(0, 1) for _ in range(row["dimension"]))
                )
            batch.append(row)
        conn.execute(insert_into(table), batch)
        made[table.name] = [row["id"] for row in batch if "id" in row]


def _value(rng: random.Random, table: str, column: Any) -> Any:
    if column.nullable and rng.random() < 0.5:
        return None
    if allowed := ALLOWED.get(f"{table}.{column.name}"):
        return rng.choice(allowed)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(10**16))
    if isinstance(column.type, JSONB):
        huge = {"огромное": "ж" * 100_000} if rng.random() < 0.005 else {}
        return odd_object(rng) | huge
    match column.type.compile(dialect=postgresql.dialect()):
        case "TEXT":
            return str(uuid4()) if column.name in UNIQUE else odd_text(rng)
        case "UUID":
            return UUID(int=rng.getrandbits(128))
        case "INTEGER" | "BIGINT":
            return rng.randrange(2**31)
        case "FLOAT":
            return rng.random()
        case "BOOLEAN":
            return rng.random() < 0.5
        case "TIMESTAMP WITH TIME ZONE":
            return moment
        case "TEXT[]":
            return [odd_text(rng) for _ in range(rng.randrange(4))]
        case "UUID[]":
            return [UUID(int=rng.getrandbits(128)) for _ in range(rng.randrange(3))]
        case "BYTEA":
            return b""
        case other:
            raise AssertionError(f"{table}.{column.name}: no value for {other}")


def contents(conn: Connection, tenant: str, *, vectors: bool = True) -> dict[str, list[str]]:
    """Every row that must travel, as text, without the tenant's name."""
    found = {}
    for table in metadata.sorted_tables:
        if table.name in LEFT_OUT or (table.name == "pm_embedding" and not vectors):
            continue
        name = "id" if table.name == "pm_tenant" else "tenant"
        hidden = f"'{name}' - 'xid'" if table.name != "pm_tenant" else "'id' - 'token_hash' - 'deleted_at'"
        sql = text(f"SELECT (to_jsonb(t) - {hidden})::text FROM {table.name} t WHERE {name} = :t ORDER BY 1")
        found[table.name] = list(conn.execute(sql, {"t": tenant}).scalars())
    return found


Members = dict[str, bytes]


def unpacked(path: Path) -> tuple[dict[str, Any], Members]:
    with zipfile.ZipFile(path) as zipped:
        members = {info.filename: zipped.read(info) for info in zipped.infolist()}
    return json.loads(members.pop("manifest.json")), members


def pack(path: Path, manifest: dict[str, Any], members: Members, *, seal: bool = True) -> Path:
    """Write it back; ``seal`` makes the manifest agree with the members, as an attacker would."""
    if seal:
        manifest["members"] = [
            {
                "table": name.removesuffix(".jsonl"),
                "rows": data.count(b"\n"),
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            for name, data in members.items()
        ]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in members.items():
            zipped.writestr(name, data)
        zipped.writestr("manifest.json", json.dumps(manifest))
    return path


def with_row(members: Members, table: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the first row of a member."""
    first, _, rest = members[f"{table}.jsonl"].partition(b"\n")
    row = json.loads(first)
    members[f"{table}.jsonl"] = json.dumps(change(row) or row).encode() + b"\n" + rest
