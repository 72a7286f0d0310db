"""Bytes → document, chunks and drafts, in a child process with limits of memory and time."""

from pegas_memory.reading.process import Progress
from pegas_memory.reading.reader import Reader
from pegas_memory.reading.source import Reading, Source

__all__ = ["Progress", "Reader", "Reading", "Source"]
