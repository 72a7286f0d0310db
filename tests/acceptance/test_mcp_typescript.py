"""The TypeScript SDK as second client: other code, other validators, another reading of the protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.homes import temporary_home
from tests.support.embedding_server import hashed_embedding_server
from tests.support.mcp_client import PRODUCT, server_environment

SDK = "@modelcontextprotocol/sdk@1.32"
SCRIPT = Path(__file__).with_name("mcp_client.mjs")


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the SDK installed, from npm."""
    if not shutil.which("node"):
        pytest.skip("node is not installed here")
    if not shutil.which("npm"):
        without_sdk("node is installed here, but npm is not")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"name": "client", "version": "1.0.0", "private": true}')
    try:
        installed = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", SDK],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=90,
        )
    except subprocess.TimeoutExpired:
        without_sdk("npm did not install the SDK in time")
    if installed.returncode:
        without_sdk(f"npm cannot install the SDK: {installed.stderr[-200:]}")
    shutil.copy(SCRIPT, folder)
    return folder


def without_sdk(reason: str) -> NoReturn:
    """A machine without a package index may leave this out; continuous integration may not."""
    if os.environ.get("CI", "").lower() in {"", "0", "false"}:
        pytest.skip(reason)
    pytest.fail(reason)


@pytest.mark.network
def test_the_typescript_client_drives_every_working_tool(node_folder: Path) -> None:
    with hashed_embedding_server(dimension=64) as embeddings, temporary_home() as home:
        ran = subprocess.run(
            ["node", SCRIPT.name, sys.executable, *PRODUCT],
            cwd=node_folder,
            capture_output=True,
            env=server_environment(
                PEGAS_HOME=str(home),
                PEGAS_EMBEDDER=f"openai:hashed@{embeddings.openai_url}",
                PEGAS_ENGINE_IDLE_SECONDS="30",
            ),
            timeout=100,
        )
    assert ran.returncode == 0, ran.stderr.decode()
    seen = json.loads(ran.stdout)
    assert seen["server"] == "pegas-memory"
    assert "memory_get_context" in seen["instructions"]
    assert len(seen["tools"]) == 13
    assert seen["failed"] == []
    assert seen["claim"] == seen["resource"] == "The TypeScript client saw a heron 🦔."
    assert seen["refused"].startswith("invalid_parameter: ")
    assert "`limit`" in seen["refused"]
    assert seen["later"].startswith("not_available_yet: ")
    assert seen["prompt"] == 1
