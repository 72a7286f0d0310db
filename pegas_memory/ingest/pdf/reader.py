"""PDF into blocks. PDFium reads text, outline, metadata and encryption in one pass; pypdf is asked only about
pages that show nothing or whose streams are broken (a second parser over all of a hostile file would double
the risk).

PDFium is not safe in threads, so every call into it holds one lock, page by page.
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from pegas_memory.errors import GarbledText, NoTextLayer, NoUsableText, PasswordNeeded, UnreadableFile
from pegas_memory.ingest.blocks import BlockWriter, has_words
from pegas_memory.ingest.pdf import about, damage
from pegas_memory.ingest.pdf.aligned import aligned_tables
from pegas_memory.ingest.pdf.characters import read_lines
from pegas_memory.ingest.pdf.garbled import Findings, mend
from pegas_memory.ingest.pdf.grids import ruled_tables
from pegas_memory.ingest.pdf.lines import Line, Rule
from pegas_memory.ingest.pdf.order import regions
from pegas_memory.ingest.pdf.paragraphs import joined_rows
from pegas_memory.ingest.pdf.rules import look
from pegas_memory.ingest.pdf.write import write
from pegas_memory.model import DocumentKind, Extracted
from pegas_memory.progress import tell

_PDFIUM = threading.RLock()
_PASSWORD_ERROR = 4
_SECURITY_ERROR = 5
_WRITTEN_ON = (pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_FREETEXT, pdfium.FPDF_ANNOT_STAMP)
"""Annotations whose text is printed on the page."""
_MAX_ANNOTATIONS = 500
_GIVE_UP = 200
"""Broken pages in a row after which no more are looked for: a damaged count may claim millions."""
_MAX_DECRYPTED = 50_000_000
"""Bytes of an encrypted file that is looked through for damage; it takes a copy of it."""


@dataclass(slots=True)
class _Scan:
    """What reading the pages found; page numbers from 1."""

    pages: list[list[Line]] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    images: list[int] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    """Pages on which nothing at all is drawn."""
    missing: int = 0
    """Pages that the file claims to have after the last that was looked for."""
    cut: list[int] | None = field(default_factory=list)
    """Pages of which a part may be missing; None when there are such and nobody can say which."""


def read_pdf(data: bytes, title: str = "") -> Extracted:
    """Blocks with pages and, from the outline or from type sizes, headings. A block never spans pages.

    Raises ``PasswordNeeded`` (a password to open it; one for the owner only is no obstacle),
    ``NoTextLayer`` (naming the pages), ``GarbledText`` (nothing but signs that are no letters),
    ``UnreadableFile`` (no page can be read). Pages that are broken, images or noise among others become warnings.
    """
    with _PDFIUM:
        document = _open(data)
    try:
        with _PDFIUM:
            count = len(document)
            known = about.metadata(document, data)
            outline = about.outline(document)
            plain = _decrypted(document, data)
        scan = _scan(document, count)
    finally:
        with _PDFIUM:
            document.close()
    scan.missing = count - len(scan.pages)
    count = len(scan.pages)
    scan.broken = sorted([*scan.broken, *damage.lost_pages(data, scan.bare)])
    scan.cut = damage.cut_pages(plain) if plain else []
    _refuse_empty(scan, count)
    found = mend(scan.pages)
    writer = BlockWriter()
    write(writer, found.pages, outline)
    try:
        return writer.finish(
            DocumentKind.PDF,
            title=title or str(known.pop("title", "")),
            pages=count,
            metadata=known,
            warnings=_warnings(scan, found, known.get("attachments")),
        )
    except NoUsableText as error:
        if not found.garbled:
            raise
        raise GarbledText(
            f"The text is noise: its fonts do not say which letters they show ({count} pages)."
        ) from error


def _open(data: bytes) -> Any:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise PasswordNeeded("The PDF opens only with a password.") from error
        if getattr(error, "err_code", None) == _SECURITY_ERROR:
            how = "for a certificate" if b"/Adobe.PubSec" in data else "in a way that only its maker's program knows"
            raise PasswordNeeded(f"The PDF is encrypted {how}; it opens only with the key.") from error
        raise UnreadableFile("The PDF is damaged: its structure cannot be read.") from error


def _decrypted(document: Any, data: bytes) -> bytes:
    """The file without its encryption; empty when it is too large for a copy, or none can be made."""
    if pdfium.FPDF_GetSecurityHandlerRevision(document.raw) < 0:
        return data
    if len(data) > _MAX_DECRYPTED:
        return b""
    copy = io.BytesIO()
    try:
        document.save(copy, flags=pdfium.FPDF_REMOVE_SECURITY)
    except pypdfium2.PdfiumError:
        return b""
    return copy.getvalue()


# --- pages ------------------------------------------------------------------------------------------


def _scan(document: Any, count: int) -> _Scan:
    scan = _Scan()
    for index in range(count):
        tell("pages", index, count)
        if scan.broken[-_GIVE_UP:] == list(range(index - _GIVE_UP + 1, index + 1)) and index >= _GIVE_UP:
            break
        lines: list[Line] = []
        shown: Counter[int] = Counter()
        try:
            with _PDFIUM:
                lines, shown = _read_page(document, index)
        except pypdfium2.PdfiumError:
            scan.broken.append(index + 1)
        if shown.get(pdfium.FPDF_PAGEOBJ_IMAGE) and not any(has_words(line.text) for line in lines):
            scan.images.append(index + 1)
        if not lines and not shown and index + 1 not in scan.broken[-1:]:
            scan.bare.append(index + 1)
        scan.pages.append(lines)
    return scan


def _read_page(document: Any, index: int) -> tuple[list[Line], Counter[int]]:
    """Lines of a page in reading order, tables as one line each, and the kinds of objects that it shows."""
    page = document[index]
    try:
        seen = _look_at(page)
        written_on = _is_written_on(page)
        flat = written_on and pdfium.FPDFPage_Flatten(page.raw, pdfium.FLAT_NORMALDISPLAY) == pdfium.FLATTEN_SUCCESS
    finally:
        page.close()
    if flat:
        page = document[index]
        try:
            flattened = _look_at(page)
        finally:
            page.close()
        # Flattening may confuse the fonts of the page with those of its forms.
        lost = Counter(_words(seen.pieces)) - Counter(_words(flattened.pieces))
        seen = seen if lost.total() > 0.5 * len(_words(seen.pieces)) else flattened
    pieces, rules, shown = seen
    upright = [line for line in pieces if not line.aside]
    lines = [line for part in regions(ruled_tables(upright, rules)) for line in joined_rows(aligned_tables(part))]
    return [replace(line, words=()) for line in [*lines, *(n for n in pieces if n.aside)]], shown


class _Seen(NamedTuple):
    pieces: list[Line]
    rules: list[Rule]
    shown: Counter[int]


def _look_at(page: Any) -> _Seen:
    width, height = _paper(page)
    text_page = page.get_textpage()
    try:
        pieces, turn = read_lines(text_page, width, height)
    finally:
        text_page.close()
    return _Seen(pieces, *look(page, turn, width, height))


def _words(lines: Sequence[Line]) -> list[str]:
    return [word for line in lines for word in line.text.split()]


def _paper(page: Any) -> tuple[float, float]:
    """Width and height of the page before it is turned."""
    width, height = page.get_size()
    return (height, width) if page.get_rotation() % 180 else (width, height)


def _is_written_on(page: Any) -> bool:
    for n in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), _MAX_ANNOTATIONS)):
        note = pdfium.FPDFPage_GetAnnot(page.raw, n)
        kind = pdfium.FPDFAnnot_GetSubtype(note)
        pdfium.FPDFPage_CloseAnnot(note)
        if kind in _WRITTEN_ON:
            return True
    return False


# --- what is said of the pages ------------------------------------------------------------------------


def _refuse_empty(scan: _Scan, count: int) -> None:
    if any(line.text.strip() for lines in scan.pages for line in lines):
        return
    if count == 0 or len(scan.broken) == count:
        raise UnreadableFile("No page of the PDF can be read: the file is damaged.")
    broken = set(scan.broken)
    empty = [n for n in range(1, count + 1) if n not in broken]
    raise NoTextLayer(f"The PDF has no text layer ({page_list(empty)} of {count}).")


def _warnings(scan: _Scan, found: Findings, attachments: int | None) -> tuple[str, ...]:
    broken = set(scan.broken)
    cut = [page for page in scan.cut or [] if page not in broken]
    said = [
        (scan.broken, "Damaged and left out: {}."),
        (cut, "Damaged and read only in part: {}."),
        (scan.images, "Without a text layer (images only): {}."),
        (found.garbled, "Fonts without a Unicode map, the text there is noise and gives no claims: {}."),
        (found.repaired, "Cyrillic letters that the file takes for Latin ones were put right: {}."),
    ]
    warnings = [text.format(page_list(pages)) for pages, text in said if pages]
    if scan.cut is None:
        warnings.append("Parts of the file are damaged: text may be missing.")
    if scan.missing:
        warnings.append(f"The file claims {scan.missing} more pages, none of which was found.")
    if attachments:
        warnings.append(f"Files attached to the PDF are not read: {attachments}.")
    return tuple(warnings)


def page_list(pages: Sequence[int]) -> str:
    """``page 3`` or ``pages 1–4, 7``."""
    runs: list[list[int]] = []
    for page in pages:
        if runs and page == runs[-1][1] + 1:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    shown = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs[:20]) + (", …" if len(runs) > 20 else "")
    return f"{'page' if len(pages) == 1 else 'pages'} {shown}"
