"""Each command block of the README runs, or says why continuous integration cannot run it.

Above a ```bash block stands one of

    <!-- ci: run -->                        it runs, from the checkout, and must exit 0
    <!-- ci: run, expect: some words -->    and its output must contain these words
    <!-- ci: skip: the reason -->

Blocks run in the order of the page in one PEGAS_HOME, so that a later one may use what an earlier
one stored. The environment's programs come first in PATH.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.repository import ROOT
from tests.homes import temporary_home

BLOCK = re.compile(r"^(?:<!-- ci: (?P<order>.+?) -->\n)?```(?:bash|sh|shell|console)\n(?P<body>.*?)^```", re.M | re.S)
SECONDS = 240


@dataclass(frozen=True)
class Block:
    line: int
    order: str
    body: str

    @property
    def runs(self) -> bool:
        return self.order == "run" or self.order.startswith("run, expect: ")

    @property
    def expected(self) -> str:
        return self.order.partition("expect: ")[2]


def blocks() -> list[Block]:
    page = (ROOT / "README.md").read_text()
    return [Block(page.count("\n", 0, m.start()) + 1, m["order"] or "", m["body"]) for m in BLOCK.finditer(page)]


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    with temporary_home() as folder:
        yield folder


def test_every_block_says_what_ci_does_with_it() -> None:
    unclear = [f"README.md:{b.line}" for b in blocks() if not b.runs and not re.fullmatch(r"skip: .{10,}", b.order)]
    assert unclear == []


def test_no_block_is_written_in_a_way_that_hides_it() -> None:
    page = (ROOT / "README.md").read_text()
    assert len(re.findall(r"^\s*```(?:bash|sh|shell|console)\b", page, re.M)) == len(blocks())


@pytest.mark.readme
@pytest.mark.timeout(SECONDS + 30)
@pytest.mark.parametrize("block", [b for b in blocks() if b.runs], ids=lambda b: f"line{b.line}")
def test_block_runs(block: Block, shared_home: Path) -> None:
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PEGAS_HOME": str(shared_home), "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.body],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"README.md:{block.line}\n{done.stdout}\n{done.stderr}"
    assert block.expected in done.stdout
