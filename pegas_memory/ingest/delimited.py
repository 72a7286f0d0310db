"""Comma- and tab-separated values into tables."""

from __future__ import annotations

import csv
import io

from pegas_memory.errors import NoUsableText
from pegas_memory.ingest.blocks import BlockWriter, tidy, tidy_line
from pegas_memory.model import BlockKind, DocumentKind, Extracted

_SAMPLE = 20_000
_DELIMITERS = ",;\t|"
MAX_CELL = 100_000


def read_delimited(text: str, title: str = "") -> Extracted:
    """One table, its cells parted by tabs. A text that has no columns is refused.

    Raises ``NoUsableText``.
    """
    text = tidy(text)
    header = text[:_SAMPLE].partition("\n")[0]
    delimiter = max(_DELIMITERS, key=header.count)
    rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    csv.field_size_limit(MAX_CELL)
    try:
        lines = ["\t".join(tidy_line(cell) for cell in row) for row in rows if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise NoUsableText("The file cannot be read as separated values.", 'Use kind="text".') from error
    writer = BlockWriter()
    writer.add(BlockKind.TABLE, "\n".join(lines))
    return writer.finish(DocumentKind.TEXT, title=title)
