"""Bytes into text: byte order marks, declared charsets that lie, Cyrillic code pages, binary junk."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from pegas_memory.errors import UnreadableFile

SAMPLE = 200_000
"""Bytes looked at when the encoding must be guessed."""
_SMALL_SAMPLE = 20_000
"""The same for charset-normalizer, which takes a second for 100 kB of a bad guess."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CYRILLIC_PAGES = ("cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5", "mac-cyrillic")
_LATIN_PAGES = ["cp1252", "cp1250", "iso8859_15", "iso8859_2", "cp437", "cp1254", "cp1253", "cp1255", "cp1256"]
_ASIAN_PAGES = ["shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"]
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""What browsers read under these names: the larger page that writers of the smaller one use."""
_WESTERN = ("cp1252", "iso8859-15", "cp437", "cp850", "mac-roman")
_PAIRS = frozenset(
    group[0] + second
    for group in (
        "абвдезклмнпрстхчя баеилоры ваеилнорсы гаеилор даеиноу евгдезйклмнрст жаеи завино "
        "ивгдезийклмнорстхцчюя йс каеиорту лаеиоуья маеиопу надеиностуы обвгдежзийклмнпрст паеиору "
        "раеиностуыя савеиклнопстуья тавеинорсуыь убдлпрстчю хо цеи чаеи шеи ще ыейлмх ьн ют ят"
    ).split()
    for second in group[1:]
)
"""The 200 commonest pairs of letters of Russian: 85 % of all pairs in the Russian reference sets, where
the letters of a wrong code page meet 18 % of them by chance."""
_IS_RUSSIAN = 0.5
_RARE = {"mac-cyrillic": 0.05}
"""Taken off the score of a page that few texts are in and that shares most letters with a common one."""
_STRANGE = re.compile("[^\x00-\x7f\u00a0«»—–…№“”„’•°§©®·\u0400-\u045fҐґ]")
_MIXED = re.compile("[a-z][а-яё]|[а-яё][a-z]", re.IGNORECASE)
_UNLIKELY = re.compile("[ђѓљњќћџѕј®†]", re.IGNORECASE)
_CASE_FLIP = re.compile("[а-яё][А-ЯЁ]")
_CYRILLIC_PAIR = re.compile("(?=([а-яё][а-яё]))")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_HIGH_BYTES = bytes(range(128, 256))
_JUNK = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_JUNK_BYTES = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_JUNK = 0.02
_PDF_MARK = re.compile(
    rb"\d+ \d+ obj\b.*|endobj|stream|endstream|x?ref|startxref|trailer|%%EOF|\d{10} \d{5} [nf]", re.DOTALL
)
_PDF_LINE = re.compile(
    rb"<<.*|>>.*|/[A-Z].*|[\d .\]]+|.*[\s\])>](?:T[fjJdDm*]|BDC|EMC|cm|re)|BT|ET|BI|T\*|EMC", re.DOTALL
)
_PDF_SHARE = 0.6
"""Share of the lines of a text that are a PDF's syntax above which it is one; a text that quotes some says more
beside it."""
_CLOSE = 0.02
_DAMAGE = 0.1
"""Share of the bytes beyond ASCII in lines that do not read as UTF-8 below which a text is UTF-8 with damage."""
_ONE_PAGE = 0.8
"""The same, above which all of it is in another encoding; between the two it is put together of both. A line of
another encoding reads as UTF-8 only by an accident of two or three bytes."""


def decode(data: bytes, declared: tuple[str, ...] = ()) -> tuple[str, str]:
    """(text, encoding name). ``declared`` are charsets that the source names, most trusted first; one
    that does not fit the bytes is passed over, a byte order mark likewise. Bytes that are damaged
    become U+FFFD (see :func:`damage`).

    Raises ``UnreadableFile`` for what is not text.
    """
    _refuse_documents(data)
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            data = data[len(mark) :]
            if _agrees(data[:SAMPLE], encoding):
                return data.decode(encoding, "replace"), encoding
            break
    wide = _wide_encoding(data)
    if wide:
        return _checked(data.decode(wide, "replace")), wide
    if b"\x1b$" in data[:SAMPLE] and _fits(data[:SAMPLE], "iso2022_jp"):
        return data.decode("iso2022_jp", "replace"), "iso2022_jp"
    try:
        return _checked(data.decode("utf-8")), "utf-8"
    except UnicodeDecodeError as error:
        if error.start > 0 and error.start >= len(data) - 3 and error.reason == "unexpected end of data":
            return _checked(data.decode("utf-8", "replace")), "utf-8"
    return _by_lines(data, declared)


def damage(text: str) -> tuple[str, ...]:
    """A warning when bytes of the source could not be read."""
    count = text.count("\ufffd")
    return (f"{count:,} damaged character(s) could not be read; \ufffd stands for them.",) if count else ()


def _refuse_documents(data: bytes) -> None:
    """A PDF or an archive with its head lost must not be taken for text."""
    end = data[-70_000:]
    if b"PK\x05\x06" in end and b"PK\x01\x02" in end:
        raise UnreadableFile("The file is a damaged zip archive (an EPUB, perhaps), not text.")
    if data.count(b"endobj") > 2 and (b"%%EOF" in end or b"startxref" in end or b"endstream" in data):
        raise UnreadableFile("The file is a damaged PDF, not text.")
    lines = [line for part in data[:20_000].splitlines() if (line := part.strip())]
    marks = sum(_PDF_MARK.fullmatch(line) is not None for line in lines)
    if marks > 1 and b"```" not in data:
        syntax = marks + sum(_PDF_LINE.fullmatch(line) is not None for line in lines)
        if syntax >= _PDF_SHARE * len(lines):
            raise UnreadableFile("The file is a damaged PDF, not text.")


def _agrees(sample: bytes, encoding: str) -> bool:
    """False when what follows a byte order mark is plainly in another encoding."""
    if encoding == "utf-8":
        return _reads_as_utf8(sample)
    zeros = sample.count(0)
    if zeros * 10 < len(sample):
        # UTF-16 of Cyrillic is valid UTF-8 too, of which every other byte is a control character.
        bare = sample.replace(b"\0", b"")
        narrow = b"</" in bare or (len(bare) > 8 and _reads_as_utf8(bare))
        return not (narrow and len(_JUNK_BYTES.findall(bare)) < _MAX_JUNK * len(bare))
    if encoding.startswith("utf-32"):
        return sample.decode(encoding, "replace").count("\ufffd") * 10 < len(sample) // 4 + 10
    low, high = (0, 1) if encoding == "utf-16-le" else (1, 0)
    return sample[high::2].count(0) >= sample[low::2].count(0)


def _by_lines(data: bytes, declared: tuple[str, ...]) -> tuple[str, str]:
    """UTF-8 with damage, a text put together of UTF-8 and another encoding, or one in another encoding:
    the lines tell which."""
    lines = data.split(b"\n")
    ours = [_reads_as_utf8(line) for line in lines]
    foreign = sum(_high(line) for line, good in zip(lines, ours, strict=True) if not good)
    share = foreign / max(_high(data), 1)
    if share < _DAMAGE:
        return _checked(data.decode("utf-8", "replace")), "utf-8"
    if share > _ONE_PAGE:
        return _in_one_page(data, declared)
    rest = b"\n".join(line for line, good in zip(lines, ours, strict=True) if not good)
    _, page = _in_one_page(rest, declared)
    return _checked(
        "\n".join(line.decode("utf-8" if good else page, "replace") for line, good in zip(lines, ours, strict=True))
    ), "utf-8"


def _high(data: bytes) -> int:
    """How many bytes are beyond ASCII."""
    return len(data) - len(data.translate(None, _HIGH_BYTES))


def _reads_as_utf8(data: bytes) -> bool:
    """True for UTF-8 in which most of what is not ASCII is whole."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        text = data[:SAMPLE].decode("utf-8", "replace")
        broken, beyond = text.count("\ufffd"), len(text) - len(text.encode("ascii", "ignore"))
        return beyond > 3 * broken
    return True


def _in_one_page(data: bytes, declared: tuple[str, ...]) -> tuple[str, str]:
    first = _NOT_ASCII.search(data)
    # The bytes that tell are those beyond ASCII: a page may hold a lot of markup before the first.
    start = max((first.start() if first else 0) - 1_000, 0)
    sample = data[start : start + SAMPLE]
    for name in (*_fitting(sample, declared), *_guesses(sample)):
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


def _fits(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start > len(data) - 4
    return True


def _wide_encoding(data: bytes) -> str:
    """UTF-16 without a mark: every other byte of most text is one of a few small numbers, those of the
    Latin, Greek, Cyrillic, Hebrew and Arabic blocks."""
    sample = data[:4000]
    sample = sample[: len(sample) // 2 * 2]
    if len(sample) < 4:
        return ""
    for encoding, high in (("utf-16-le", sample[1::2]), ("utf-16-be", sample[0::2])):
        if sum(map(high.count, b"\x00\x03\x04\x05\x06")) <= 0.9 * len(high):
            continue
        text = sample.decode(encoding, "replace")
        if sum(c.isprintable() or c.isspace() for c in text) > 0.98 * len(text):
            return encoding
    return ""


def _fitting(sample: bytes, declared: tuple[str, ...]) -> list[str]:
    """The declared charsets that decode the bytes; a Cyrillic or western one only where no other
    Cyrillic page reads clearly better as Russian."""
    best = max(cyrillic_score(sample, page) for page in _CYRILLIC_PAGES)
    names: list[str] = []
    for label in declared:
        try:
            name = codecs.lookup(label.strip().strip("\"'")).name
            name = _MEANT.get(name, name)
            fits = _fits(sample, name) or name in _WESTERN
        except (LookupError, ValueError):
            continue
        if not fits or name.startswith("utf"):
            continue
        doubtful = name in _WESTERN or name in _CYRILLIC_PAGES
        if doubtful and best > _IS_RUSSIAN and cyrillic_score(sample, name) < best - 0.2:
            continue
        names.append(name)
    return names


def _guesses(sample: bytes) -> list[str]:
    scored = {page: cyrillic_score(sample, page) for page in _CYRILLIC_PAGES}
    best = max(scored, key=lambda page: scored[page])
    if scored[best] > _IS_RUSSIAN:
        return [best]
    matches = from_bytes(sample[:_SMALL_SAMPLE], cp_isolation=[*_LATIN_PAGES, *_ASIAN_PAGES, "cp1251", "koi8_r"])
    best_match = matches.best()
    if best_match is None:
        return ["cp1252"]
    # Among code pages that read about as well, the one that most western text is in.
    if any(m.encoding == "cp1252" and m.chaos <= best_match.chaos + _CLOSE for m in matches):
        return ["cp1252"]
    return [best_match.encoding]


def cyrillic_score(data: bytes, encoding: str) -> float:
    """How much of the part beyond ASCII reads as Russian in ``encoding``: 0.7–1 for Russian text, around
    0 for another page or another script.

    Common pairs of letters count, in capitals too; signs that no Russian text holds, words of two
    alphabets and small letters before capitals (KOI8-R read as windows-1251) count against."""
    try:
        text = data[:SAMPLE].decode(encoding, "ignore")
    except LookupError:
        return 0.0
    found = _CYRILLIC_PAIR.findall(text.lower().replace("ё", "е"))
    strange = len(_STRANGE.findall(text)) + len(_MIXED.findall(text)) + len(_CASE_FLIP.findall(text))
    common = sum(pair in _PAIRS for pair in found) - len(_UNLIKELY.findall(text))
    return (common - 2 * strange) / max(len(found) + strange, 1) - _RARE.get(encoding, 0.0)
