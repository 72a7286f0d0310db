"""Long documents from the reference sets: PDFs of many pages, texts of many bytes."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

from pypdf import PdfReader, PdfWriter


def long_pdf(data: Path, pages: int) -> bytes:
    """A PDF of so many pages: those of the Debian manuals, over and over (291 of them differ)."""
    sources = [PdfReader(path).pages for path in sorted(data.glob("docs-ru-en/*/*.pdf"))]
    target = io.BytesIO()
    with PdfWriter() as writer:
        for page in itertools.islice(itertools.cycle([*itertools.chain(*sources)]), pages):
            writer.add_page(page)
        writer.write(target)
    return target.getvalue()


def long_text(data: Path, size: int) -> bytes:
    """About ``size`` bytes of UTF-8 text in English and Russian: the manuals and the books, each time numbered."""
    texts = [p.read_bytes() for p in sorted([*data.glob("docs-ru-en/*/truth.txt"), *data.glob("epub/*.spine.txt")])]
    parts: list[bytes] = []
    total = 0
    for number, text in enumerate(itertools.cycle(texts), 1):
        if total >= size:
            return b"".join(parts)
        parts.append(b"Volume %d\n\n%b\n\n" % (number, text))
        total += len(parts[-1])
    raise AssertionError("unreachable")
