"""Spawn → answered `tools/list`, for our stdio server and for a bare SDK server, in one run.

    python benchmarks/startup.py [--runs 9] [--json]

The bare server is the SDK's MCPServer with thirteen one-line tools. Runs alternate, so that both see
the same load. The goal is a ratio of at most 1.3.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOAL = 1.3

BARE = """
from mcp.server import MCPServer
server = MCPServer("bare", log_level="WARNING")
def tool(query: str = "", limit: int = 10) -> str:
    "Answer nothing."
    return ""
for number in range(13):
    server.tool(name=f"tool_{number}")(tool)
server.run()
"""

MESSAGES = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def seconds_to_tools(command: list[str], environment: dict[str, str]) -> float:
    """Seconds from spawn until the thirteen tools are read from the pipe."""
    began = time.perf_counter()
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        server.stdin.write("".join(json.dumps(message) + "\n" for message in MESSAGES[:1]).encode())
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.stdin.write("".join(json.dumps(message) + "\n" for message in MESSAGES[1:]).encode())
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        taken = time.perf_counter() - began
        assert len(answer["result"]["tools"]) == 13
        server.stdin.close()
    return taken


def measure(runs: int) -> dict[str, object]:
    """Medians in seconds and their ratio; the first pair only warms the byte code."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "PEGAS_HOME": home, "PYTHONPATH": str(ROOT)}
        commands = {
            "pegas": [sys.executable, str(ROOT / "mcp_server.py")],
            "cli": [sys.executable, "-m", "pegas_memory.cli", "mcp"],
            "bare": [sys.executable, "-c", BARE],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for run in range(runs + 1):
            for name, command in commands.items():
                seconds = seconds_to_tools(command, environment)
                if run:
                    taken[name].append(seconds)
        assert not list(Path(home).iterdir()), "starting and listing must leave PEGAS_HOME untouched"
    medians = {name: statistics.median(values) for name, values in taken.items()}
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "runs": runs,
        "pegas_seconds": round(medians["pegas"], 3),
        "cli_mcp_seconds": round(medians["cli"], 3),
        "bare_sdk_seconds": round(medians["bare"], 3),
        "ratio": round(medians["pegas"] / medians["bare"], 3),
        "cli_ratio": round(medians["cli"] / medians["bare"], 3),
        "goal": GOAL,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = measure(arguments.runs)
    if arguments.json:
        print(json.dumps(figures))
    else:
        print("\n".join(f"{name:18} {value}" for name, value in figures.items()))
    return 0 if max(float(str(figures["ratio"])), float(str(figures["cli_ratio"]))) <= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main())
