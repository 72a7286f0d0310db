"""The gate that every text passes, and the forms in which texts are compared, quoted and hashed."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from pegas_memory.errors import EmptyText, InvalidParameter, TextTooLong

CLAIM_LIMIT = 8_000
CONTENT_LIMIT = 200_000
DOCUMENT_LIMIT = 100_000_000
NAME_LIMIT = 500
TAG_LIMIT = 100
URI_LIMIT = 4_000
METADATA_LIMIT = 64_000

# C0 and C1 controls but tab and newline; U+FEFF (a byte order mark) inside a text is noise as well.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85]")
_SPACE = re.compile(r"\s+")


def clean_text(value: str, *, field: str, max_characters: int, multiline: bool = True) -> str:
    """The gate that every string passes on its way in: NFC, line ends as \\n, no control characters.

    Everything else comes back exactly as it was. Raises ``InvalidParameter`` for a lone surrogate
    (it cannot be stored as UTF-8) and ``TextTooLong``; the message names ``field``, not the text.
    """
    if len(value) > max_characters * 2:
        raise TextTooLong(f"`{field}` has {len(value):,} characters; at most {max_characters:,} fit.")
    text = _LINE_END.sub("\n", value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidParameter(
            f"`{field}` holds a lone surrogate at character {error.start}; it is not valid Unicode.",
            "Decode the text with its real encoding before sending it.",
        ) from error
    text = unicodedata.normalize("NFC", _CONTROL.sub("", text))
    if not multiline:
        text = _SPACE.sub(" ", text).strip()
    if len(text) > max_characters:
        raise TextTooLong(f"`{field}` has {len(text):,} characters; at most {max_characters:,} fit.")
    return text


def clean_name(value: str, *, field: str, max_characters: int = NAME_LIMIT) -> str:
    """A one-line string: white space collapsed, empty refused with ``EmptyText``."""
    text = clean_text(value, field=field, max_characters=max_characters, multiline=False)
    if not text:
        raise EmptyText(f"`{field}` is empty.")
    return text


def clean_tags(values: Iterable[str]) -> tuple[str, ...]:
    """Tags without empties and repeats, in the order given."""
    cleaned = (clean_text(v, field="tags", max_characters=TAG_LIMIT, multiline=False) for v in values)
    return tuple(dict.fromkeys(tag for tag in cleaned if tag))


def clean_json(value: Any, *, field: str, depth: int = 0) -> Any:
    """A JSON value with every string, keys included, passed through the gate."""
    if depth > 32:
        raise InvalidParameter(f"`{field}` is nested deeper than 32 levels.")
    if isinstance(value, str):
        return clean_text(value, field=field, max_characters=METADATA_LIMIT)
    if isinstance(value, Mapping):
        return {
            clean_text(str(k), field=field, max_characters=NAME_LIMIT): clean_json(v, field=field, depth=depth + 1)
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [clean_json(v, field=field, depth=depth + 1) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise InvalidParameter(f"`{field}` holds a number that JSON cannot carry (NaN or infinity).")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InvalidParameter(f"`{field}` holds a {type(value).__name__}; only JSON values are stored.")


def collapse(text: str) -> str:
    """NFC with white space collapsed: the form in which claims are compared."""
    return _SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip()


def fold(text: str) -> str:
    """Case folded, composed, ё as е: the form in which words and names are compared."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).replace("ё", "е")


def tail_of(text: str, max_characters: int) -> str:
    """The end of ``text``, marked when its beginning was left out; a locator says the most at its end."""
    return text if len(text) <= max_characters else "…" + text[1 - max_characters :]


# Direction marks and line separators would let a quoted text look like something else.
_DECEPTIVE = re.compile("[\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def quoted(text: str) -> str:
    """``text`` as one JSON string on one line: stored data that cannot end its own quotes or start a line."""
    return _DECEPTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def sha256(*parts: str) -> str:
    """Hex digest over parts that cannot run into each other."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


_CYRILLIC = re.compile("[\u0400-\u04ff]")
_LATIN = re.compile("[A-Za-z]")
_LETTER = re.compile(r"[^\W\d_]")


def language_of(text: str) -> str:
    """``"ru"``, ``"en"`` or ``""`` by the script that most letters are in (first 20,000 characters)."""
    sample = text[:20_000]
    cyrillic, latin = len(_CYRILLIC.findall(sample)), len(_LATIN.findall(sample))
    if cyrillic + latin < 3 or 2 * (cyrillic + latin) < len(_LETTER.findall(sample)):
        return ""
    return "ru" if cyrillic > latin * 0.6 else "en"
