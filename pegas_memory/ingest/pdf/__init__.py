"""PDF documents."""

from pegas_memory.ingest.pdf.reader import page_list, read_pdf

__all__ = ["page_list", "read_pdf"]
