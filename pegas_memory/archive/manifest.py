"""What an archive says about itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeGuard

from pegas_memory.db.archive import TABLES
from pegas_memory.db.migrate import HEAD
from pegas_memory.errors import ArchiveDamaged, ArchiveTooNew
from pegas_memory.version import VERSION

FORMAT = 1
"""Raised when a reader of the older format would misread a newer archive; a new column or table does not."""
NAME = "manifest.json"
LONGEST = 16_000_000
_TENANT = re.compile(r"[^\x00-\x1f\x7f]{1,64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REVISION = re.compile(r"[0-9]{4}")
_TABLES = frozenset(table.name for table in TABLES)


@dataclass(frozen=True, slots=True)
class Member:
    table: str
    rows: int
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.table}.jsonl"


@dataclass(frozen=True, slots=True)
class Manifest:
    tenants: tuple[str, ...]
    vectors: bool
    members: tuple[Member, ...]
    created_at: str
    schema: str = HEAD
    version: str = VERSION
    format: int = FORMAT

    @property
    def rows(self) -> int:
        return sum(member.rows for member in self.members)

    def to_json(self) -> bytes:
        return json.dumps({"product": "pegas-memory", **asdict(self)}, ensure_ascii=False, indent=1).encode()


def manifest_of(data: bytes) -> Manifest:
    """Raises ``ArchiveDamaged`` for what is no manifest, ``ArchiveTooNew`` for one of a newer version."""
    try:
        said = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ArchiveDamaged("Its manifest is not JSON.") from error
    if not isinstance(said, dict) or said.get("product") != "pegas-memory" or not _whole(said.get("format")):
        raise ArchiveDamaged("Its manifest is not one of Pegas Memory.")
    if said["format"] > FORMAT:
        raise ArchiveTooNew(f"The archive has format {said['format']}; this version reads up to format {FORMAT}.")
    schema = said.get("schema")
    if not isinstance(schema, str) or not _REVISION.fullmatch(schema):
        raise ArchiveDamaged("Its manifest names no schema.")
    if schema > HEAD:
        raise ArchiveTooNew(f"The archive has schema {schema}; this version knows those up to {HEAD}.")
    tenants, members = said.get("tenants"), said.get("members")
    if not isinstance(tenants, list) or not tenants or not all(is_tenant(name) for name in tenants):
        raise ArchiveDamaged("Its manifest names no tenant, or one that has no valid name.")
    if not isinstance(members, list):
        raise ArchiveDamaged("Its manifest lists no members.")
    listed = tuple(map(_member, members))
    if len({member.table for member in listed}) < len(listed) or len(set(tenants)) < len(tenants):
        raise ArchiveDamaged("Its manifest lists something twice.")
    return Manifest(
        tenants=tuple(tenants),
        vectors=said.get("vectors") is True,
        members=listed,
        created_at=str(said.get("created_at", "")),
        schema=schema,
        version=str(said.get("version", "")),
        format=said["format"],
    )


def _member(said: Any) -> Member:
    if not isinstance(said, Mapping) or str(said.get("table")) not in _TABLES:
        raise ArchiveDamaged("Its manifest lists a table that this schema does not have.")
    rows, size, digest = said.get("rows"), said.get("bytes"), said.get("sha256")
    if not (_whole(rows) and _whole(size) and isinstance(digest, str) and _SHA256.fullmatch(digest)):
        raise ArchiveDamaged(f"Its manifest does not describe {said['table']} rightly.")
    return Member(said["table"], rows, size, digest)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_tenant(name: object) -> bool:
    return isinstance(name, str) and bool(_TENANT.fullmatch(name))
