"""Faults that other memory servers were reported to have: each number that applies here has a test."""

from __future__ import annotations

import ast

from tests.architecture.repository import ROOT

COVERED = {
    1, 2, 4, 5, 7, 9, 10, 12, 14, 18, 19, 21, 23, 25, 27, 28, 30, 33, 34, 35,
    36, 38, 39, 41, 43, 44, 49, 50, 51, 52, 57, 65, 67, 68, 69, 71,
}  # fmt: skip


def marked() -> dict[int, list[str]]:
    """Number → the tests that carry ``@pytest.mark.fault(number)``."""
    found: dict[int, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
                    (number,) = mark.args
                    found.setdefault(ast.literal_eval(number), []).append(f"{path.name}::{node.name}")
    return found


def test_every_reported_fault_has_a_test() -> None:
    assert set(marked()) == COVERED
