"""A response's bytes out of their compression, never more of them than are kept."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable

from pegas_memory.errors import FetchFailed

MAX_BYTES = 50_000_000
MAX_LAYERS = 3
TOO_LARGE = f"The file is larger than {MAX_BYTES // 1_000_000} MB."
_STEP = 1_000_000
_GZIP = b"\x1f\x8b\x08"


def inflated(data: bytes, encodings: str, content_type: str, tick: Callable[[], object]) -> bytes:
    """``data`` without the layers of ``Content-Encoding``; each layer gives at most 50 MB, by steps, and
    ``tick`` may raise between them. A header that the bytes contradict is passed over: named gzip but
    plain, and text that is gzip without saying so. Raises ``FetchFailed``."""
    layers = [name for part in encodings.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    if len(layers) > MAX_LAYERS:
        raise FetchFailed(f"The answer is compressed {len(layers)} times over.")
    for name in reversed(layers):
        match name:
            case "gzip" | "x-gzip":
                data = _gunzipped(data, tick) if data.startswith(_GZIP) else data
            case "deflate":
                data = _inflated(data, tick)
            case _:
                raise FetchFailed("The answer is compressed in a way that was not asked for.")
    if not layers and data.startswith(_GZIP) and content_type.lower().startswith("text/"):
        return _gunzipped(data, tick)
    return data


def _gunzipped(data: bytes, tick: Callable[[], object]) -> bytes:
    out = bytearray()
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while True:
            try:
                part = file.read1(_STEP)
            except (OSError, EOFError, zlib.error) as error:
                # What some servers put after the end (padding, a stray line) costs nothing.
                if out and isinstance(error, gzip.BadGzipFile):
                    return bytes(out)
                raise FetchFailed("The compressed answer is cut off or damaged.") from error
            if not part:
                return bytes(out)
            out += part
            _check(out, tick)


def _inflated(data: bytes, tick: Callable[[], object]) -> bytes:
    """zlib's format, else the bare stream that some servers call deflate; else ``data`` as it is."""
    for bits in (zlib.MAX_WBITS, -zlib.MAX_WBITS):
        stream = zlib.decompressobj(bits)
        out, rest = bytearray(), data
        try:
            while rest and not stream.eof:
                out += stream.decompress(rest, _STEP)
                rest = stream.unconsumed_tail
                _check(out, tick)
        except zlib.error:
            continue
        if not stream.eof:
            raise FetchFailed("The compressed answer is cut off or damaged.")
        return bytes(out)
    return data


def _check(out: bytearray, tick: Callable[[], object]) -> None:
    tick()
    if len(out) > MAX_BYTES:
        raise FetchFailed(TOO_LARGE)
