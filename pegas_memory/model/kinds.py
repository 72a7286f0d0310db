"""Ids and closed enums."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NewType
from uuid import UUID

AtomId = NewType("AtomId", UUID)
DocumentId = NewType("DocumentId", UUID)
JobId = NewType("JobId", UUID)
GapId = NewType("GapId", UUID)
Metadata = Mapping[str, Any]


class AtomType(StrEnum):
    TEXT = "text"
    DEFINITION = "definition"
    LOGICAL_RULE = "logical_rule"
    CODE = "code"
    TABLE = "table"
    FACT = "fact"


class AtomStatus(StrEnum):
    CANDIDATE = "candidate"
    VERIFIED = "verified"
    STALE = "stale"
    CONTESTED = "contested"


class ShownAs(StrEnum):
    """An atom's status as a search filters it: the design's four, and the two that hide it."""

    CANDIDATE = "candidate"
    VERIFIED = "verified"
    STALE = "stale"
    CONTESTED = "contested"
    RETRACTED = "retracted"
    SUPERSEDED = "superseded"


VISIBLE = frozenset({ShownAs.CANDIDATE, ShownAs.VERIFIED, ShownAs.CONTESTED})


class MemoryKind(StrEnum):
    KNOWLEDGE = "knowledge"
    EPISODE = "episode"
    PROCEDURE = "procedure"


class DocumentKind(StrEnum):
    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    PDF = "pdf"
    EPUB = "epub"
    WEB = "web"
    CODE_REPO = "code_repo"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class GapStatus(StrEnum):
    OPEN = "open"
    RESEARCHING = "researching"
    CLOSED = "closed"


class Verdict(StrEnum):
    """What a caller says of an atom or a document: four that show or hide it, ``restore`` that undoes the last
    of them, and ``purge`` that deletes for good."""

    VERIFIED = "verified"
    CONTESTED = "contested"
    STALE = "stale"
    RETRACT = "retract"
    RESTORE = "restore"
    PURGE = "purge"


class SearchMode(StrEnum):
    HYBRID = "hybrid"
    DENSE = "dense"
    LEXICAL = "lexical"


class Distill(StrEnum):
    AUTO = "auto"
    LLM = "llm"
    EXTRACTIVE = "extractive"
    OFF = "off"


class Role(StrEnum):
    """Which side of retrieval a text is on; embedding models prompt the two differently."""

    DOCUMENT = "document"
    QUERY = "query"
