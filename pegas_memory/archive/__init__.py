"""The portable archive: a zip of one JSON-lines member for each table, and ``manifest.json`` after them."""

from pegas_memory.archive.manifest import Manifest as Manifest
from pegas_memory.archive.manifest import Member as Member
from pegas_memory.archive.reading import ArchiveReader as ArchiveReader
from pegas_memory.archive.rows import checked as checked
from pegas_memory.archive.writing import ArchiveWriter as ArchiveWriter
