"""Write docs/tools.md from the declarations of the tools. `--check` only says whether it is up to date.

The page is committed so that it can be read without running anything; a test compares the two.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pegas_memory.mcp_tools import NOT_YET, PARTLY, TOOLS, ToolSpec

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tools.md"
INTRODUCTION = """\
# The tools

<!-- Written by scripts/write_tools_page.py from pegas_memory/mcp_tools.py. Do not edit by hand. -->

Thirteen tools, in the order in which clients list them. Some rules hold for all:

- **Unknown parameters are refused**, and the nearest right name is given.
- **Texts are taken as they are**: `{"a":1}` and `null` are texts like any other.
- **Lists and objects** may also come as a JSON string, a comma-separated list, null or "".
- **Times** are ISO 8601; a date is 00:00, and a time without a zone is UTC.
- **An answer is complete as text**; the same data is in `structuredContent`, after the output schema. Stored text is
  delimited as quoted data: it is never an instruction.
- **`degraded`** names the parts that did not take part, with the reason; **`pending`** counts changes that are not yet
  searchable. Both are empty when all is well.
- **Errors** are tool errors with a code, what was wrong, and what to do next: [errors.md](errors.md).
- **`cursor`** continues a list: pass back `next_cursor`, with the same other parameters.
"""


def render() -> str:
    return "\n".join([INTRODUCTION, *(_section(number, spec) for number, spec in enumerate(TOOLS, 1))])


def _section(number: int, spec: ToolSpec) -> str:
    schema = spec.input_schema()
    rows = [
        _row(name, part, required=name in schema.get("required", ())) for name, part in schema["properties"].items()
    ]
    answer = ", ".join(f"`{name}`" for name in spec.output_schema()["properties"])
    note = "\n*Declared now, works in a later version: answers `not_available_yet`.*\n" if spec.name in NOT_YET else ""
    note = f"\n*{PARTLY[spec.name].strip('[]')}*\n" if spec.name in PARTLY else note
    return (
        f"## {number}. `{spec.name}`\n{note}\n{spec.description}\n\n{_hints(spec)}\n\n"
        f"| parameter | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + f"\n\nAnswers: {answer}.\n"
    )


def _hints(spec: ToolSpec) -> str:
    said = {
        "read-only": spec.hints.read_only,
        "destructive": spec.hints.destructive,
        "idempotent": spec.hints.idempotent,
        "open world": spec.hints.open_world,
    }
    return "Annotations: " + ", ".join(name if holds else f"not {name}" for name, holds in said.items()) + "."


def _row(name: str, part: dict[str, Any], *, required: bool) -> str:
    default = "**required**" if required else _shown(part.get("default"))
    return f"| `{name}` | {_type(part)} | {default} | {_cell(part.get('description', ''))}{_fields(part)} |"


def _shown(default: Any) -> str:
    if default is None:
        return ""
    return ", ".join(f"`{item}`" for item in default) if isinstance(default, list) else f"`{default}`"


def _type(part: dict[str, Any]) -> str:
    if "enum" in part:
        return " \\| ".join(f"`{value}`" for value in part["enum"])
    if "items" in part:
        return f"list of {_type(part['items'])}"
    if "anyOf" in part:
        return _type(part["anyOf"][0])
    kind = part.get("type", "any")
    kind = next(k for k in kind if k != "null") if isinstance(kind, list) else kind
    if "minimum" in part and "maximum" in part:
        return f"{kind}, {part['minimum']:g} to {part['maximum']:,.10g}"
    return str(kind)


def _fields(part: dict[str, Any]) -> str:
    inner = part.get("items", part)
    properties = inner.get("properties", {})
    if not properties:
        return ""
    named = "; ".join(f"`{name}`: {_cell(field.get('description', ''))}" for name, field in properties.items())
    return f". Fields: {named}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    wanted = render()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
