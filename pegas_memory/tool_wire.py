"""Structured answers fitted to what clients can carry: bounded size, valid Unicode."""

from __future__ import annotations

import json
from typing import Any

STRUCTURE_LIMIT_BYTES = 512_000
"""Python clients on HTTP give up above 1 MiB a message; text and envelope need their room too."""
CUTS = (50_000, 8_000, 1_000, 200)


def fitted_structure(value: dict[str, Any]) -> dict[str, Any]:
    """``value`` as it is when it fits; else with its long texts cut, and saying so in ``degraded``.

    Raises ``ValueError`` when even the shortest cut does not fit.
    """
    if _fits(value):
        return value
    for limit in CUTS:
        cut: dict[str, Any] = _cut(value, limit)
        note = {"part": "answer", "reason": f"texts over {limit} characters are cut; fetch ids one by one"}
        cut["degraded"] = [*cut.get("degraded", []), note]
        if _fits(cut):
            return cut
    raise ValueError("the answer does not fit into one message")


def _fits(value: Any) -> bool:
    try:
        return len(json.dumps(value, ensure_ascii=False).encode("utf-8")) <= STRUCTURE_LIMIT_BYTES
    except UnicodeEncodeError:
        return False


def _cut(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        text = value if len(value) <= limit else value[: limit - 1] + "…"
        return text.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {name: _cut(item, limit) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, limit) for item in value]
    return value
