"""What the code knows, the documentation says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from typer.main import get_group

from pegas_memory import errors
from pegas_memory.cli.verbs import app
from pegas_memory.config import Settings
from pegas_memory.errors import PegasError
from pegas_memory.mcp_tools import TOOLS
from tests.architecture.repository import ROOT, files, text_of

DOCS = ROOT / "docs"
VERBS = {
    name: {option for parameter in command.params for option in parameter.opts if option.startswith("--")} - {"--help"}
    for name, command in get_group(app).commands.items()
}


def error_classes() -> list[type[PegasError]]:
    return [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, PegasError)]


def test_every_setting_is_documented() -> None:
    page = (DOCS / "configuration.md").read_text()
    missing = [name for name in Settings.model_fields if f"`PEGAS_{name.upper()}`" not in page]
    assert missing == []


def test_documented_settings_exist() -> None:
    known = {f"PEGAS_{name.upper()}" for name in Settings.model_fields}
    named = set(
        re.findall(r"\bPEGAS_[A-Z_]+\b", "".join(p.read_text() for p in [*DOCS.rglob("*.md"), ROOT / "README.md"]))
    )
    assert named - known == set()


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.code)
def test_every_error_code_is_documented(error: type[PegasError]) -> None:
    assert f"\n#### `{error.code}`\n" in (DOCS / "errors.md").read_text()


def test_documented_error_codes_exist() -> None:
    headings = re.findall(r"^#### `(\w+)`$", (DOCS / "errors.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted({error.code for error in error_classes()})


def test_error_codes_are_unique_and_in_the_drawn_tree() -> None:
    classes = error_classes()
    assert len({error.code for error in classes}) == len(classes)
    assert errors.__doc__
    leaves = [error for error in classes if not error.__subclasses__()]
    missing = [e.__name__ for e in leaves if not re.search(rf"\b{e.__name__}\s+{e.code}\b", errors.__doc__)]
    assert missing == []


def test_every_tool_and_parameter_is_documented() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "write_tools_page.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        f"run scripts/write_tools_page.py: docs/tools.md is older than the tools\n{done.stderr}"
    )


def test_every_verb_and_option_is_documented() -> None:
    rows = {m[1]: m[0] for m in re.finditer(r"^\| `([\w-]+)[^\n]*$", (DOCS / "cli.md").read_text(), re.MULTILINE)}
    assert rows.keys() == VERBS.keys()
    for verb, options in VERBS.items():
        assert {option for option in options if f"`{option}" not in rows[verb]} == set(), verb
        assert set(re.findall(r"--[\w-]+", rows[verb])) - options == set(), verb


def test_commands_shown_in_the_docs_exist() -> None:
    shown = re.compile(r"^pegas-memory ([\w-]+)(.*)$", re.MULTILINE)
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for verb, rest in shown.findall(page.read_text()):
            assert verb in VERBS, f"{page.name}: {verb}"
            assert set(re.findall(r"(?<=\s)--[\w-]+", rest)) <= VERBS[verb], f"{page.name}: {verb}{rest}"


def test_readme_lists_the_thirteen_tools() -> None:
    page = (ROOT / "README.md").read_text()
    assert len(TOOLS) == 13
    assert [spec.name for spec in TOOLS if f"`{spec.name}`" not in page] == []


def test_relative_links_lead_somewhere() -> None:
    broken = []
    for page in (path for path in files() if path.suffix == ".md" and not path.is_relative_to(ROOT / "tests")):
        for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page) or ""):
            name, _, anchor = target.partition("#")
            if "://" in name or name.startswith("mailto:"):
                continue
            aim = (page.parent / name).resolve() if name else page
            if not aim.exists():
                broken.append(f"{page.name}: {target}")
            elif anchor and anchor not in anchors(aim.read_text()):
                broken.append(f"{page.name}: {target} (no such heading)")
    assert broken == []


def anchors(markdown: str) -> set[str]:
    """Heading anchors as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
