"""Every error this product raises on purpose.

    PegasError
    ├── InputError            the caller can mend it
    │   ├── InvalidParameter      invalid_parameter
    │   ├── EmptyText             empty_text
    │   ├── TextTooLong           text_too_long
    │   ├── NotFound              not_found
    │   ├── PathNotAllowed        path_not_allowed
    │   ├── UrlNotAllowed         url_not_allowed
    │   ├── UnreadableFile        unreadable_file
    │   ├── UnsupportedKind       unsupported_kind
    │   ├── NoUsableText          no_usable_text
    │   ├── NoTextLayer           no_text_layer
    │   ├── GarbledText           garbled_text
    │   ├── PasswordNeeded        password_needed
    │   ├── ParserFailed          parser_failed
    │   ├── ParserTimeout         parser_timeout
    │   ├── FetchFailed           fetch_failed
    │   ├── FetchTimeout          fetch_timeout
    │   ├── InvalidVector         invalid_vector
    │   ├── NotAvailableYet       not_available_yet
    │   ├── BadCursor             bad_cursor
    │   ├── ArchiveDamaged        archive_damaged
    │   ├── ArchiveTooNew         archive_too_new
    │   └── TenantNotEmpty        tenant_not_empty
    ├── SetupError            the operator can mend it
    │   ├── BadSettings           bad_settings
    │   ├── HomeNotWritable       home_not_writable
    │   ├── ForeignSchema         foreign_schema
    │   ├── ForeignCollection     foreign_collection
    │   ├── SchemaTooNew          schema_too_new
    │   ├── WrongPostgresVersion  wrong_postgres_version
    │   └── WrongDimension        wrong_dimension
    └── Unavailable           a part is down; trying later may help
        ├── DatabaseUnavailable   database_unavailable
        ├── DiskFull              disk_full
        ├── EngineUnavailable     engine_unavailable
        ├── VectorsUnavailable    vectors_unavailable
        │   └── ShardDamaged          shard_damaged
        ├── GraphUnavailable      graph_unavailable
        │   └── GraphFenced           graph_fenced
        ├── EmbedderUnavailable   embedder_unavailable
        ├── EmbedderMisbehaved    embedder_misbehaved
        ├── RebuildRunning        rebuild_running
        └── Cancelled             cancelled

Each carries a stable ``code``, a message that says what was wrong, and a ``hint`` that says what
to do next. Messages hold no machine path, no SQL and no stored text.
"""

from __future__ import annotations

from typing import ClassVar


class PegasError(Exception):
    code: ClassVar[str] = "internal_error"
    default_hint: ClassVar[str] = "Run `pegas-memory doctor` and report the output."

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint

    def __str__(self) -> str:
        return f"{self.code}: {self.message} {self.hint}".strip()


class InputError(PegasError):
    code = "invalid_input"
    default_hint = "Correct the call and send it again."


class InvalidParameter(InputError):
    code = "invalid_parameter"


class EmptyText(InputError):
    code = "empty_text"
    default_hint = "Give at least one word of text."


class TextTooLong(InputError):
    code = "text_too_long"
    default_hint = "Shorten the text, or use memory_ingest for whole documents."


class NotFound(InputError):
    code = "not_found"
    default_hint = "Use memory_search to find valid ids."


class PathNotAllowed(InputError):
    code = "path_not_allowed"
    default_hint = "Only files below PEGAS_INGEST_ROOTS, once links are followed, can be read; add the folder there."


class UrlNotAllowed(InputError):
    code = "url_not_allowed"
    default_hint = "Only public http(s) addresses are fetched; set PEGAS_ALLOW_PRIVATE_URLS=1 for local ones."


class UnreadableFile(InputError):
    code = "unreadable_file"
    default_hint = "Check that the file exists, can be read and is not damaged."


class UnsupportedKind(InputError):
    code = "unsupported_kind"
    default_hint = "Unpack an archive and ingest its folder, run OCR on an image, save an Office file as PDF or HTML."


class NoUsableText(InputError):
    code = "no_usable_text"
    default_hint = "Give another source; for a web page, its text as `snippet`."


class NoTextLayer(InputError):
    code = "no_text_layer"
    default_hint = "The pages are images: run OCR on the file first."


class GarbledText(InputError):
    code = "garbled_text"
    default_hint = "Its fonts do not say which letters they show: run OCR on the file, or find another copy."


class PasswordNeeded(InputError):
    code = "password_needed"
    default_hint = "Save a copy of the file without its password and ingest that."


class ParserFailed(InputError):
    code = "parser_failed"
    default_hint = "The file is damaged or made to do harm; nothing of it was stored. Try another copy or a part of it."


class ParserTimeout(InputError):
    code = "parser_timeout"
    default_hint = (
        "Nothing of it was stored. It is damaged, or made to do harm, or the machine is too busy: try a part, or later."
    )


class FetchFailed(InputError):
    code = "fetch_failed"
    default_hint = "Check the address, or pass `snippet` with the text you have."


class FetchTimeout(InputError):
    code = "fetch_timeout"
    default_hint = "The server was too slow; try later, or pass `snippet`."


class InvalidVector(InputError):
    code = "invalid_vector"
    default_hint = "The vector or its payload is not storable; embed the text again."


class NotAvailableYet(InputError):
    code = "not_available_yet"
    default_hint = "This tool arrives in a later version; see CHANGELOG.md."


class BadCursor(InputError):
    code = "bad_cursor"
    default_hint = "Drop `cursor` to start from the first page."


class ArchiveDamaged(InputError):
    code = "archive_damaged"
    default_hint = "Nothing was imported; use another copy of the archive, or export again."


class ArchiveTooNew(InputError):
    code = "archive_too_new"
    default_hint = "Nothing was imported; update pegas-memory on this machine."


class TenantNotEmpty(InputError):
    code = "tenant_not_empty"
    default_hint = "Nothing was imported; give an unused name with --tenant, or purge that tenant first."


class SetupError(PegasError):
    code = "setup_error"
    default_hint = "Run `pegas-memory doctor`."


class BadSettings(SetupError):
    code = "bad_settings"


class HomeNotWritable(SetupError):
    code = "home_not_writable"
    default_hint = "Set PEGAS_HOME to a folder that you can write to."


class ForeignSchema(SetupError):
    code = "foreign_schema"
    default_hint = "The database holds pm_* tables of another program; use an empty database."


class ForeignCollection(SetupError):
    code = "foreign_collection"
    default_hint = "A Qdrant collection of another program has the name; set PEGAS_QDRANT_COLLECTION to another one."


class SchemaTooNew(SetupError):
    code = "schema_too_new"
    default_hint = "The database was made by a newer version; update pegas-memory."


class WrongPostgresVersion(SetupError):
    code = "wrong_postgres_version"
    default_hint = "Use PostgreSQL 15 or newer, or the version that made the data folder."


class WrongDimension(SetupError):
    code = "wrong_dimension"
    default_hint = "The embedder's vectors do not fit its collection; check PEGAS_EMBEDDER."


class Unavailable(PegasError):
    code = "unavailable"
    default_hint = "Try again in a moment; `pegas-memory doctor` says which part is down."


class DatabaseUnavailable(Unavailable):
    code = "database_unavailable"


class DiskFull(Unavailable):
    code = "disk_full"
    default_hint = "Free some disk space, then try again; nothing acknowledged was lost."


class EngineUnavailable(Unavailable):
    code = "engine_unavailable"


class VectorsUnavailable(Unavailable):
    code = "vectors_unavailable"


class ShardDamaged(VectorsUnavailable):
    code = "shard_damaged"
    default_hint = "The embedded vectors are rebuilt from PostgreSQL by themselves; `pegas-memory rebuild` forces it."


class GraphUnavailable(Unavailable):
    code = "graph_unavailable"


class GraphFenced(GraphUnavailable):
    code = "graph_fenced"
    default_hint = "Another worker has taken the graph server over; this one starts again by itself."


class EmbedderUnavailable(Unavailable):
    code = "embedder_unavailable"


class EmbedderMisbehaved(Unavailable):
    code = "embedder_misbehaved"
    default_hint = "The embedding endpoint answered wrongly; check PEGAS_EMBEDDER and its model."


class RebuildRunning(Unavailable):
    code = "rebuild_running"
    default_hint = "Wait until it is over; when its process was killed, the next run goes on from where it stood."


class Cancelled(Unavailable):
    code = "cancelled"
    default_hint = "What was stored before stays; nothing stands half written."


def error_of(code: str, message: str, hint: str = "") -> PegasError:
    """The error as the class that owns ``code``, so that it can be caught as if it had been raised here."""
    rank = [PegasError]
    while rank:  # by generation, so that a code shared with a subclass belongs to the elder
        for kind in rank:
            if kind.code == code:
                return kind(message, hint)
        rank = [child for kind in rank for child in kind.__subclasses__()]
    return PegasError(message, hint)
