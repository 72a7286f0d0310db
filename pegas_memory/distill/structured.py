"""Tables, code blocks and rules to what their atoms say and hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pegas_memory.text import collapse, first_sentence, language_of

MAX_PART = 100_000
"""Characters of content in one atom; a longer table or program gives several, cut at line ends."""

_FENCE = re.compile(r"\A\s*(?:```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:\n[ \t]*(?:```+|~~~+)[ \t]*)?\s*\Z", re.DOTALL)
_RULE_LINE = re.compile(r"^[\s|:+=-]+$")
_SIGNATURE = re.compile(
    r"^\s*(?:export |public |async |static |pub )*(?:def|class|function|func|fn|struct|interface|impl|create|select)\b",
    re.I,
)
_COMMENT = re.compile(r"^\s*(?:#(?!!|include)|//|--|/\*|\*|<!--|;|rem )", re.IGNORECASE)
_WIDE_GAP = re.compile(r"\t+| {2,}")
_CAPTION = re.compile(r"^(?:\*\*|_|\s)*(?:table|tab\.|таблица|табл\.)\s*[\dA-ZА-Я.]*", re.IGNORECASE)


def unfenced(text: str) -> tuple[str, str]:
    """(code, language) of a code block whose fence lines may or may not be part of its text."""
    match = _FENCE.match(text)
    return (match.group(2), match.group(1)) if match else (text.strip("\n"), "")


def rules_of(code: str) -> list[str]:
    """``{"if": kind or [kinds], "then": kind}`` objects as normal JSON (keys sorted, ``if`` a list);
    empty when ``code`` is anything else."""
    if '"if"' not in code or '"then"' not in code:
        return []
    try:
        value = json.loads(code)
    except ValueError:
        return []
    found = [_normal_rule(one) for one in (value if isinstance(value, list) else [value])]
    return [rule for rule in found if rule] if all(found) else []


def _normal_rule(value: object) -> str:
    if not isinstance(value, dict) or not {"if", "then"} <= value.keys():
        return ""
    premises = value["if"] if isinstance(value["if"], list) else [value["if"]]
    if not premises or not value["then"]:
        return ""
    return json.dumps({**value, "if": premises}, ensure_ascii=False, sort_keys=True)


def telling_line(code: str) -> str:
    """The line that best names a piece of code: its first signature, else its first line that is no comment."""
    lines = [line for line in code.splitlines() if sum(c.isalnum() for c in line) >= 3]
    signature = next((line for line in lines if _SIGNATURE.match(line)), "")
    plain = next((line for line in lines if not _COMMENT.match(line)), "")
    return collapse(signature or plain or (lines[0] if lines else ""))[:160]


_DEFINITION = re.compile(
    rf"(?:{_SIGNATURE.pattern})|^\s*(?:[\w<>:*&\[\],]+\s+)+[\w:~]+\s*\([^;]*$"
    r"|^\s*(?:export )?(?:const|let|var) \w+ = .*(?:=>|function)",
    re.IGNORECASE,
)
_DOCSTRING = re.compile(r"(?:[rbuRBU]?)(\"\"\"|''')(.+?)\1", re.DOTALL)
_COMMENT_MARK = re.compile(r"^\s*(?:///?!?|#+|/?\*+/?|--+|;+|<!--)\s?|\s*\*/\s*$")
MAX_SIGNATURE = 300


def source_claim(path: str, code: str) -> str:
    """What a piece of a source file is, in one line: its file, its signature, what its author says of it."""
    lines = code.splitlines()
    defining = (n for n, line in enumerate(lines) if _DEFINITION.match(line[:MAX_SIGNATURE]))
    at = next((n for n in defining if not _COMMENT.match(lines[n])), None)
    said = _said_of(lines[:at], code)
    if at is None:
        named = "" if said and code.lstrip()[:3] in ('"""', "'''") else telling_line(code)
    else:
        named = _signature(lines[at:])
    told = " — ".join(part for part in (named, said) if part)
    return f"`{path}`: {told}" if told else ""


def _signature(lines: list[str]) -> str:
    """The first line, and the next ones while its brackets are open."""
    taken = ""
    for line in lines[:20]:
        taken = collapse(f"{taken} {line}")
        if taken.count("(") <= taken.count(")") or len(taken) > MAX_SIGNATURE:
            break
    return taken.replace("( ", "(").replace(", )", ")").replace(" )", ")").rstrip(" {:")[:MAX_SIGNATURE]


def _said_of(above: list[str], code: str) -> str:
    """The first sentence of the docstring, else of the comment above the definition."""
    found = _DOCSTRING.search(code[:4_000])
    if found and code[: found.start()].rstrip()[-1:] in ("", ":"):
        return first_sentence(found.group(2), 200)
    comment = [_COMMENT_MARK.sub("", line) for line in above if _COMMENT.match(line)]
    return first_sentence("\n".join(comment), 200)


def parts(text: str, limit: int = MAX_PART) -> Iterator[tuple[int, int]]:
    """Spans of at most ``limit`` characters, cut after a line end where there is one."""
    start = 0
    while len(text) - start > limit:
        cut = text.rfind("\n", start + 1, start + limit) + 1 or start + limit
        yield start, cut
        start = cut
    yield start, len(text)


def is_caption(text: str) -> bool:
    return bool(_CAPTION.match(text)) and len(text) <= 400


def columns(table: str) -> list[str]:
    """The header cells: of a Markdown table, else of the first line by tabs or wide gaps. A heading over several
    columns is set before those of the row below it."""
    lines = (line for line in table.splitlines() if line.strip() and not _RULE_LINE.match(line))
    first, second = _cells(next(lines, "")), _cells(next(lines, ""))
    if 2 * len(first) <= len(second) and not any(cell[0].isdecimal() for cell in second):
        return [f"{' '.join(first)}: {second[0]}", *second[1:]]
    return first


def _cells(line: str) -> list[str]:
    cells = line.strip().strip("|").split("|") if "|" in line else _WIDE_GAP.split(line.strip())
    return [collapse(cell).strip("*_` ") for cell in cells if cell.strip(" *_`")]


def as_markdown(table: str) -> str:
    """The table as Markdown; tab-separated rows are given pipes, a table that has them comes back as it is."""
    lines = [line for line in table.splitlines() if line.strip()]
    if any("|" in line for line in lines) or not any("\t" in line for line in lines):
        return table.strip("\n")
    rows = [[cell.strip().replace("|", "\\|") for cell in line.split("\t")] for line in lines]
    width = max(len(row) for row in rows)
    drawn = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    return "\n".join([drawn[0], "|" + " --- |" * width, *drawn[1:]])


def table_claim(subject: str, header: list[str], sample: str) -> str:
    """What a table shows, in its own words: caption or heading, then the names of its columns."""
    names = ", ".join(header[:12])
    if not subject:
        return names
    word = "столбцы" if language_of(subject + sample) == "ru" else "columns"
    return f"{subject.rstrip(' .:')} ({word}: {names})" if names else subject
