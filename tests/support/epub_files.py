"""EPUBs written by hand for the tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">
<rootfiles>{}</rootfiles></container>"""
ROOT_FILE = '<rootfile full-path="{}" media-type="application/oebps-package+xml"/>'


def archive(files: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


def container(*packages: str) -> str:
    return CONTAINER.format("".join(ROOT_FILE.format(package) for package in packages))


def package(
    spine: Sequence[str], *, title: str = "Книга", manifest: Sequence[str] | None = None, apart: Sequence[str] = ()
) -> str:
    """An OPF whose spine names files of its own folder; ``apart`` lists those out of the linear order."""
    items = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in manifest or spine
    )
    marks = dict.fromkeys(apart, ' linear="no"')
    refs = "".join(f'<itemref idref="{name}"{marks.get(name, "")}/>' for name in spine)
    return f"""<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="2.0" unique-identifier="id">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title><dc:creator>А. Автор</dc:creator>
<dc:language>ru</dc:language><dc:identifier id="id">x</dc:identifier></metadata>
<manifest><item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>{items}</manifest>
<spine toc="ncx">{refs}</spine></package>"""


def ncx(points: Mapping[str, str]) -> str:
    rows = "".join(
        f'<navPoint id="n{n}"><navLabel><text>{name}</text></navLabel><content src="{path}"/></navPoint>'
        for n, (path, name) in enumerate(points.items())
    )
    return f'<?xml version="1.0"?><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{rows}</navMap></ncx>'


def opf(manifest: str, spine: str, *, metadata: str = "", attributes: str = "") -> str:
    """An OPF from the inside of its ``<manifest>`` and ``<spine>``; ``attributes`` are the spine's."""
    return f"""<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:opf="http://www.idpf.org/2007/opf">{metadata}</metadata>
<manifest>{manifest}</manifest><spine {attributes}>{spine}</spine></package>"""


def item(path: str, *, kind: str = "application/xhtml+xml", more: str = "", name: str = "") -> str:
    return f'<item id="{name or path}" href="{path}" media-type="{kind}" {more}/>'


def refs(*names: str) -> str:
    return "".join(f'<itemref idref="{name}"/>' for name in names)


def nav(rows: str) -> str:
    """A nav document from the ``<li>`` elements of its contents."""
    return f"""<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title/></head>
<body><nav epub:type="toc"><ol>{rows}</ol></nav></body></html>"""


def chapter(body: str) -> str:
    return (
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title>x</title>'
        f"</head><body>{body}</body></html>"
    )
