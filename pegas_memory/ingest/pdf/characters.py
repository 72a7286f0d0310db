"""The characters of a page as PDFium finds them, into lines with places. Every function runs under the
lock of the room (``reader``)."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pypdfium2.raw as pdfium

from pegas_memory.ingest.pdf.lines import Line, Word

_MONO = re.compile(rb"mono|courier|consol|typewriter|cmtt|menlo|fixed|lettergothic|inconsol|sourcecode", re.IGNORECASE)
_BOLD = re.compile(rb"bold|black|heavy|cmbx|demi", re.IGNORECASE)
_HYPHENS = "\ufffe\x02"
_LINE = re.compile(f"[^\r\n{_HYPHENS}]+[{_HYPHENS}]?")
_WORD = re.compile(r"[^\s\x00]+")
_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u00ad": "", "\u00a0": " "}
)
_PRIVATE = re.compile("[\uf020-\uf0ff\uf761-\uf77a]")
_SMALL_CAPITAL = 0xF761
_SYMBOL = dict(
    zip(
        [*range(0xF020, 0xF07F), *range(0xF0A0, 0xF0F0), *range(0xF0F1, 0xF0FF)],
        " !∀#∃%&∍()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
        "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
        strict=True,
    )
)
"""Codes of the Symbol font, as its own encoding has them."""
GAP = 0.8
"""Widths of a character box that may part columns or cells; justified prose mostly stays below, and is put
together again where nothing speaks for a column."""
_MAX_MARKS = 16


class _Box(NamedTuple):
    x0: float
    y0: float
    x1: float
    y1: float


class _View(NamedTuple):
    """How text that runs at ``turn`` quarters (counter-clockwise) is turned upright."""

    turn: int
    width: float
    height: float

    def box(self, box: _Box) -> _Box:
        match self.turn:
            case 1:
                return _Box(box.y0, self.width - box.x1, box.y1, self.width - box.x0)
            case 2:
                return _Box(self.width - box.x1, self.height - box.y1, self.width - box.x0, self.height - box.y0)
            case 3:
                return _Box(self.height - box.y1, box.x0, self.height - box.y0, box.x1)
            case _:
                return box


def read_lines(text_page: Any, width: float, height: float) -> tuple[list[Line], int]:
    """The lines of a page in the order of its content, parted at wide gaps, and the quarters
    (counter-clockwise) by which most of them are turned. Lines that run otherwise (stamps, labels of axes)
    come last."""
    count = text_page.count_chars()
    if count <= 0:
        return [], 0
    text = _text(text_page, count)
    spans = [m.span() for m in _LINE.finditer(text) if m.group().strip(f" \t\x00{_HYPHENS}")]
    turns = [_turn(text_page.raw, text, start, end) for start, end in spans]
    weights: dict[int, int] = {}
    for (start, end), turn in zip(spans, turns, strict=True):
        weights[turn] = weights.get(turn, 0) + end - start
    main = max((turn for turn in weights if turn >= 0), key=lambda turn: weights[turn], default=0)
    found: list[Line] = []
    aside: list[Line] = []
    for number, ((start, end), turn) in enumerate(zip(spans, turns, strict=True)):
        view = _View(max(turn, 0), width, height)
        lines = _pieces(text_page.raw, text, start, end, view, number)
        if turn == main:
            found += lines
        else:
            aside += [replace(line, aside=True) for line in lines]
    return found + aside, main


def _text(text_page: Any, count: int) -> str:
    """One character an index; halves of astral ones stay apart until words are cut."""
    text: str = text_page.get_text_range()
    if len(text) == count:
        return _PRIVATE.sub(lambda match: _public(text_page.raw, match), text)
    codes = (pdfium.FPDFText_GetUnicode(text_page.raw, n) for n in range(count))
    text = "".join(chr(code) if 0 < code < 0x110000 else "\ufffd" for code in codes)
    return _PRIVATE.sub(lambda match: _public(text_page.raw, match), text)


def _public(raw: Any, match: re.Match[str]) -> str:
    """The character that a private code certainly stands for, else the code itself."""
    code = ord(match.group())
    if code >= _SMALL_CAPITAL:
        return chr(code - _SMALL_CAPITAL + ord("A"))
    return _SYMBOL.get(code, match.group()) if b"symbol" in _font(raw, match.start()).lower() else match.group()


def _turn(raw: Any, text: str, start: int, end: int) -> int:
    """0–3 quarters counter-clockwise (PDFium counts clockwise), or -1 for a slanted line."""
    for index in range(start, end):
        if not text[index].isspace():
            angle = pdfium.FPDFText_GetCharAngle(raw, index)
            quarters = round(angle / (math.pi / 2))
            return -quarters % 4 if angle >= 0 and abs(angle - quarters * math.pi / 2) < 0.12 else -1
    return 0


def _pieces(raw: Any, text: str, start: int, end: int, view: _View, row: int) -> Iterator[Line]:
    hyphen = text[end - 1] in _HYPHENS
    end -= hyphen
    words = [(m.span(), _place(raw, m.start(), m.end(), view)) for m in _WORD.finditer(text, start, end)]
    if not words:
        return
    rtl = _RTL.search(text, start, end) is not None and words[0][1].x0 > words[-1][1].x0
    first = 0
    for n in range(1, len(words) + 1):
        if n < len(words):
            left, right = words[n - 1][1], words[n][1]
            gap = left.x0 - right.x1 if rtl else right.x0 - left.x1
            size = max(left.y1 - left.y0, 1.0)
            if gap <= GAP * size or (rtl and gap <= 2 * size):
                continue
        yield _line(raw, text, words[first:n], view, row, rtl=rtl, hyphen=hyphen and n == len(words))
        first = n


def _line(
    raw: Any, text: str, words: list[tuple[tuple[int, int], _Box]], view: _View, row: int, *, rtl: bool, hyphen: bool
) -> Line:
    start, end = words[0][0][0], words[-1][0][1]
    sampled = (start, (start + end) // 2, end - 1)
    fonts = [_font(raw, n) for n in sampled]
    heights = sorted(box.y1 - box.y0 for box in (words[0][1], words[len(words) // 2][1], words[-1][1]))
    return Line(
        text=plain(" ".join(text[left:right] for (left, right), _ in words)),
        x0=min(box.x0 for _, box in words),
        x1=max(box.x1 for _, box in words),
        y=_baseline(raw, start, view),
        size=max(heights[1], 1.0),
        mono=all(_MONO.search(font) for font in fonts),
        bold=all(_BOLD.search(font) for font in fonts),
        hyphen=hyphen,
        font=fonts[1].decode("latin-1"),
        row=row,
        rtl=rtl,
        artifact=_is_artifact(raw, start),
        unmapped=sum(pdfium.FPDFText_HasUnicodeMapError(raw, left) == 1 for (left, _), _ in words),
        words=tuple(Word(plain(text[left:right]), box.x0, box.x1) for (left, right), box in words),
    )


def plain(text: str) -> str:
    """Ligatures as letters, soft hyphens gone, no-break spaces as spaces, halves of characters whole."""
    if text.isascii():
        return text
    text = text.translate(_LIGATURES)
    if any("\ud800" <= c <= "\udfff" for c in text):
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _place(raw: Any, start: int, end: int, view: _View) -> _Box:
    first = view.box(_box(raw, start))
    if end - start == 1:
        return first
    last = view.box(_box(raw, end - 1))
    return _Box(min(first.x0, last.x0), min(first.y0, last.y0), max(first.x1, last.x1), max(first.y1, last.y1))


def _box(raw: Any, index: int) -> _Box:
    box = pdfium.FS_RECTF()
    if not pdfium.FPDFText_GetLooseCharBox(raw, index, box):
        return _Box(0.0, 0.0, 0.0, 0.0)
    return _Box(box.left, min(box.bottom, box.top), box.right, max(box.bottom, box.top))


def _baseline(raw: Any, index: int, view: _View) -> float:
    x, y = ctypes.c_double(), ctypes.c_double()
    if not pdfium.FPDFText_GetCharOrigin(raw, index, x, y):
        return view.box(_box(raw, index)).y0
    return view.box(_Box(x.value, y.value, x.value, y.value)).y0


def _font(raw: Any, index: int) -> bytes:
    name = ctypes.create_string_buffer(128)
    flags = ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(raw, index, name, 128, flags)
    return name.value


def _is_artifact(raw: Any, index: int) -> bool:
    """True when a tagged PDF says that the text is no part of the content (a running head, a page number)."""
    thing = pdfium.FPDFText_GetTextObject(raw, index)
    for n in range(min(pdfium.FPDFPageObj_CountMarks(thing), _MAX_MARKS) if thing else 0):
        name = (ctypes.c_ushort * 10)()
        length = ctypes.c_ulong()
        mark = pdfium.FPDFPageObj_GetMark(thing, n)
        pdfium.FPDFPageObjMark_GetName(mark, name, ctypes.sizeof(name), length)
        if bytes(name)[:16] == "Artifact".encode("utf-16-le"):
            return True
    return False
