"""Run the benchmarks of floors.toml and compare. Exits 1 when a limit is crossed twice in a row.

A second try is allowed, because another program may have had the machine during the first (``tries = 1`` where the
figures are the same on every run). What could not be
measured because its data is absent is named at the end; a benchmark that leaves out a figure without saying
``skipped`` has failed.
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
    most, least = limits.get("at_most", {}), limits.get("at_least", {})
    over = [f"{n} = {figures[n]:.4f}, at most {x}" for n, x in most.items() if n in figures and figures[n] > x]
    under = [f"{n} = {figures[n]:.4f}, at least {x}" for n, x in least.items() if n in figures and figures[n] < x]
    gone = [] if "skipped" in figures else [f"{n} was not measured" for n in {**most, **least} if n not in figures]
    return over + under + gone


def main() -> int:
    floors = tomllib.loads((ROOT / "benchmarks" / "floors.toml").read_text())
    failed, skipped = False, []
    for name, floor in floors.items():
        for attempt in range(1, floor.get("tries", 2) + 1):
            figures = measured(floor["command"])
            found = crossed(figures, floor)
            figures.pop("rows", None)
            print(f"{name} (try {attempt}): {json.dumps(figures)}", flush=True)
            if not found:
                break
        else:
            failed = True
            print(f"{name}: " + "; ".join(found), file=sys.stderr)
        skipped += [f"{name}: {figures['skipped']}"] if "skipped" in figures else []
    for reason in skipped:
        print(f"NOT CHECKED, {reason}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
