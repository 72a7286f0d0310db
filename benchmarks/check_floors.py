"""Run the benchmarks of floors.toml and compare. Exits 1 when a limit is crossed twice in a row.

A second try is allowed, because another program may have had the machine during the first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def measured(command: list[str]) -> dict[str, Any]:
    """The JSON object that the benchmark prints last; its exit code may say that a goal was missed."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if "{" not in done.stdout:
        raise SystemExit(f"{command[0]} ended with {done.returncode} and no figures")
    figures: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return figures


def crossed(figures: dict[str, Any], limits: dict[str, dict[str, float]]) -> list[str]:
    over = [f"{n} = {figures[n]:.3f}, at most {x}" for n, x in limits.get("at_most", {}).items() if figures[n] > x]
    under = [f"{n} = {figures[n]:.3f}, at least {x}" for n, x in limits.get("at_least", {}).items() if figures[n] < x]
    return over + under


def main() -> int:
    floors = tomllib.loads((ROOT / "benchmarks" / "floors.toml").read_text())
    failed = False
    for name, floor in floors.items():
        for attempt in (1, 2):
            figures = measured(floor["command"])
            found = crossed(figures, floor)
            print(f"{name} (try {attempt}): {json.dumps(figures)}")
            if not found:
                break
        else:
            failed = True
            print(f"{name}: " + "; ".join(found), file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
