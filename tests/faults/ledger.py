"""What was asked and what was acknowledged: one JSON line for each, on the disk before the client goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DONE, REFUSED, DOUBT = "done", "refused", "doubt"
"""Acknowledged; answered with an error of the caller's; no answer, or one that leaves the outcome open."""


class Ledger:
    """Append-only. One writer for each file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._calls = 0

    def begin(self, do: str, **what: Any) -> int:
        """Note a call that is about to be made; its number is for :meth:`end`."""
        self._calls += 1
        self._write({"call": self._calls, "pid": os.getpid(), "do": do, **what})
        return self._calls

    def end(self, call: int, how: str, **answer: Any) -> None:
        self._write({"call": call, "pid": os.getpid(), "end": how, "answer": answer})

    def died(self, said: str) -> None:
        """A server that nobody killed has ended."""
        self._write({"died": said})

    def _write(self, line: Mapping[str, Any]) -> None:
        os.write(self._file, json.dumps(line, ensure_ascii=False).encode() + b"\n")
        os.fsync(self._file)


@dataclass(slots=True)
class Call:
    """``how`` stays DOUBT when the client was killed before it could note the answer."""

    do: str
    what: Mapping[str, Any]
    how: str = DOUBT
    answer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    calls: tuple[Call, ...]
    deaths: tuple[str, ...]


def read(path: Path) -> Told:
    """The calls of one file in the order in which they were begun. Half a line at its end is no line."""
    calls: dict[tuple[int, int], Call] = {}
    deaths: list[str] = []
    for raw in path.read_bytes().split(b"\n"):
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if "died" in line:
            deaths.append(line["died"])
            continue
        key = line["pid"], line["call"]
        if "do" in line:
            calls[key] = Call(line["do"], line)
        elif key in calls:
            calls[key].how, calls[key].answer = line["end"], line["answer"]
    return Told(tuple(calls.values()), tuple(deaths))
