"""Bytes into text: byte order marks, declared charsets that lie, Cyrillic code pages, binary junk."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from pegas_memory.errors import UnreadableFile

SAMPLE = 200_000
"""Bytes looked at when the encoding must be guessed."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CYRILLIC_PAGES = ("cp1251", "koi8-r", "cp866", "iso8859-5", "mac-cyrillic")
_LATIN_PAGES = ["cp1252", "cp1250", "iso8859_15", "iso8859_2", "cp437", "cp1254", "cp1253", "cp1255", "cp1256"]
_ASIAN_PAGES = ["shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"]
_COMMON = frozenset("оеаинтсрвлкмдпу")
_CASE_FLIP = re.compile("[а-яё][А-ЯЁ]")
_JUNK = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_JUNK = 0.02
_CLOSE = 0.02


def decode(data: bytes, declared: tuple[str, ...] = ()) -> tuple[str, str]:
    """(text, encoding name). ``declared`` are charsets that the source names, most trusted first;
    one that does not fit the bytes is passed over.

    Raises ``UnreadableFile`` for what is not text.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), encoding
    wide = _wide_encoding(data)
    if wide:
        return _checked(data.decode(wide, "replace")), wide
    try:
        return _checked(data.decode("utf-8")), "utf-8"
    except UnicodeDecodeError as error:
        # One damaged byte (or a cut at the end) in a long UTF-8 text is not another encoding.
        if _nearly_utf8(data, error):
            return _checked(data.decode("utf-8", "replace")), "utf-8"
    for name in (*_fitting(data, declared), *_guesses(data[:SAMPLE])):
        try:
            return _checked(data.decode(name, "replace")), name
        except LookupError:
            continue
    raise UnreadableFile("The bytes are not text in any known encoding.")


def _checked(text: str) -> str:
    sample = text[:SAMPLE]
    if len(_JUNK.findall(sample)) > max(len(sample) * _MAX_JUNK, 3):
        raise UnreadableFile("The file is binary, not text.", "Give a text, Markdown, HTML, PDF or EPUB file.")
    return text


def _wide_encoding(data: bytes) -> str:
    """UTF-16 without a mark: every other byte of most text is zero or the same small number."""
    sample = data[:4000]
    if len(sample) < 4 or len(data) % 2:
        return ""
    for encoding, high in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[0::2])):
        low_share = sum(byte in (0x00, 0x04) for byte in high) / len(high)
        text = sample[: len(sample) // 2 * 2].decode(encoding, "replace")
        readable = sum(c.isprintable() or c.isspace() for c in text) / max(len(text), 1)
        if low_share > 0.9 and readable > 0.98:
            return encoding
    return ""


def _nearly_utf8(data: bytes, error: UnicodeDecodeError) -> bool:
    sample = data[:SAMPLE]
    text = sample.decode("utf-8", "replace")
    broken, whole = text.count("\ufffd"), sum(ord(c) > 127 for c in text)
    return whole - broken > 20 * broken or (broken <= 1 and error.start >= len(data) - 3 and error.start > 0)


def _fitting(data: bytes, declared: tuple[str, ...]) -> list[str]:
    """The declared charsets that decode the bytes and, for Cyrillic, give the likeliest letters."""
    best = max(_CYRILLIC_PAGES, key=lambda page: cyrillic_score(data, page))
    names: list[str] = []
    for label in declared:
        try:
            name = codecs.lookup(label.strip().strip("\"'")).name
            data[:SAMPLE].decode(name)
        except (LookupError, UnicodeDecodeError, ValueError):
            continue
        if name.startswith(("utf", "ascii")):
            continue
        if cyrillic_score(data, best) > 0.5 and cyrillic_score(data, name) < cyrillic_score(data, best) - 0.2:
            continue
        names.append(name)
    return names


def _guesses(sample: bytes) -> list[str]:
    best = max(_CYRILLIC_PAGES, key=lambda page: cyrillic_score(sample, page))
    if cyrillic_score(sample, best) > 0.5:
        return [best]
    matches = from_bytes(sample, cp_isolation=[*_LATIN_PAGES, *_ASIAN_PAGES, "cp1251", "koi8_r"])
    best_match = matches.best()
    if best_match is None:
        return ["cp1252"]
    # Among code pages that read about as well, the one that most western text is in.
    if any(m.encoding == "cp1252" and m.chaos <= best_match.chaos + _CLOSE for m in matches):
        return ["cp1252"]
    return [best_match.encoding]


def cyrillic_score(data: bytes, encoding: str) -> float:
    """How much of the non-ASCII part reads as Russian in ``encoding``; about 0.6–1 for Russian text.

    Frequent lower-case letters count, case changes inside words (KOI8-R read as windows-1251) and
    non-letters count against."""
    try:
        text = data[:SAMPLE].decode(encoding, "ignore")
    except LookupError:
        return 0.0
    high = [c for c in text if ord(c) > 127]
    if len(high) < 2:
        return 0.0
    common = sum(c in _COMMON for c in high)
    strange = sum(not ("А" <= c <= "я" or c in "ёЁ«»—–…№“”„ \u00a0©") for c in high)
    return (common - 2 * strange - 2 * len(_CASE_FLIP.findall(text))) / len(high)
