"""The verbs of a person, run as a person runs them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.homes import temporary_home
from tests.support.embedding_server import hashed_embedding_server
from tests.support.mcp_client import server_environment

VERBS = (
    "init status doctor store search context ingest open documents verify tenants export import mcp worker demo".split()
)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    roots = tmp_path_factory.mktemp("roots")
    (roots / "one.md").write_text("# One\n\nThe tower was lit in 1871. The lens weighs 640 kilograms.\n")
    (roots / "два.txt").write_text("Мельница построена в 1893 году. Она стоит у ручья.\n", encoding="utf-8")
    (roots / "empty.txt").write_text("\n")
    with hashed_embedding_server(dimension=64) as embeddings, temporary_home() as home:
        yield {
            "PEGAS_HOME": str(home),
            "PEGAS_EMBEDDER": f"openai:hashed@{embeddings.openai_url}",
            "PEGAS_INGEST_ROOTS": str(roots),
            "PEGAS_ENGINE_IDLE_SECONDS": "60",
        }


def run(
    settings: dict[str, str], *arguments: str, stdin: bytes = b"", code: int = 0
) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [sys.executable, "-m", "pegas_memory.cli", *arguments],
        input=stdin,
        capture_output=True,
        env=server_environment(**settings),
        timeout=100,
    )
    said = subprocess.CompletedProcess(ended.args, ended.returncode, ended.stdout.decode(), ended.stderr.decode())
    assert said.returncode == code, said
    assert "Traceback" not in said.stderr
    return said


def run_json(settings: dict[str, str], *arguments: str, stdin: bytes = b"", code: int = 0) -> Any:
    return json.loads(run(settings, *arguments, "--json", stdin=stdin, code=code).stdout)


def test_help_names_every_verb_and_needs_no_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = run({"PEGAS_HOME": str(home), "COLUMNS": "120", "TERM": "dumb"}, "--help").stdout
    for verb in VERBS:
        assert verb in said
    assert not home.exists()


def test_init_says_where_things_are(settings: dict[str, str]) -> None:
    said = run(settings, "init").stdout
    assert settings["PEGAS_HOME"] in said
    assert settings["PEGAS_INGEST_ROOTS"] in said
    assert run_json(settings, "init")["home"] == settings["PEGAS_HOME"]


def test_store_search_context_status(settings: dict[str, str]) -> None:
    stored = run_json(
        settings, "store", "The heron nests on the tower.", "--source", "https://example.org/log", "--quote", "a heron",
        "--tag", "birds", "--type", "fact",
    )  # fmt: skip
    assert stored["created"] is True
    found = run_json(settings, "search", "heron", "--tag", "birds", "--limit", "3")
    assert [result["atom_id"] for result in found["results"]] == [stored["atom_id"]]
    assert found["results"][0]["citations"][0]["quote"] == "a heron"
    assert "heron nests" in run(settings, "search", "--id", stored["atom_id"]).stdout
    assert "heron nests" in run_json(settings, "context", "The heron nests on the tower.")["context"]
    assert run_json(settings, "status")["atoms"]["total"] >= 1
    piped = run_json(settings, "store", "-", stdin="Строка из канала про чайку.".encode())
    assert piped["created"] is True
    assert "чайку" in run(settings, "search", "чайка").stdout


def test_ingest_files_a_pipe_and_a_broken_one(settings: dict[str, str]) -> None:
    roots = Path(settings["PEGAS_INGEST_ROOTS"])
    said = run(settings, "ingest", str(roots / "one.md"), str(roots / "два.txt"))
    assert said.stdout.count(": done") == 2
    assert said.stderr == ""
    piped = run_json(settings, "ingest", "-", "--title", "Канал", stdin="Пасека основана в 1966 году.".encode())
    assert piped["document"]["title"] == "Канал"
    failed = run(settings, "ingest", str(roots / "empty.txt"), str(roots / "one.md"), code=1)
    assert ": done" in failed.stdout
    assert ": failed" in failed.stdout
    page = b"<!doctype html><title>P</title><p>The pier of Norden was rebuilt in 1971 after the storm."
    assert run_json(settings, "ingest", "-", stdin=page)["document"]["kind"] == "html"
    binary = run_json(settings, "ingest", "-", stdin=bytes(range(256)) * 20, code=1)
    assert binary["error"]["code"] == "unreadable_file"
    assert "stdin is empty" in run(settings, "ingest", "-", code=1).stderr
    assert "A source is empty" in run(settings, "ingest", "", code=2).stderr


def test_a_job_is_asked_about_by_its_id(settings: dict[str, str]) -> None:
    read = run_json(settings, "ingest", "-", stdin=b"The quay of Norden was rebuilt in 1972 after the flood.")
    assert run_json(settings, "ingest", "--job", read["job_id"])["doc_id"] == read["doc_id"]
    assert (
        "only a failed or cancelled one"
        in run(settings, "ingest", "--job", read["job_id"], "--action", "retry", code=2).stderr
    )
    run(settings, "ingest", "--action", "cancel", code=2)
    run(settings, "ingest", code=2)


def test_ingest_shows_progress_on_a_terminal_only(settings: dict[str, str]) -> None:
    reading, terminal = pty.openpty()
    ended = subprocess.run(
        [sys.executable, "-m", "pegas_memory.cli", "ingest", str(Path(settings["PEGAS_INGEST_ROOTS"]) / "one.md")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=server_environment(**settings, TERM="xterm"),
        timeout=60,
    )
    os.close(terminal)
    shown = os.read(reading, 100_000).decode()
    os.close(reading)
    assert ended.returncode == 0
    assert "100%" in shown
    assert "\x1b" not in ended.stdout.decode()


def test_export_and_import(settings: dict[str, str], tmp_path: Path) -> None:
    mine = {**settings, "PEGAS_TENANT": "moving"}
    run(mine, "store", "The ferry leaves at noon.", "--source", "https://example.org/ferry")
    file = str(tmp_path / "memory.zip")
    written = run_json(mine, "export", file, "--vectors")
    assert (written["tenants"], written["rows"]["pm_atom"], written["vectors"]) == (["moving"], 1, True)
    assert "already" in run(mine, "export", file, code=2).stderr
    assert "without vectors" in run(mine, "export", file, "--force").stdout
    run(mine, "export", str(tmp_path / "all.zip"), "--all-tenants")
    assert "exclude each other" in run(mine, "export", file, "--tenant", "a", "--all-tenants", code=2).stderr
    assert "[not_found]" in run(mine, "export", str(tmp_path / "none.zip"), "--tenant", "nobody", code=1).stderr
    assert run_json(mine, "import", file, code=1)["error"]["code"] == "tenant_not_empty"
    assert "set PEGAS_TENANT" in run(mine, "import", file, "--tenant", "moved").stdout
    moved = {**settings, "PEGAS_TENANT": "moved"}
    assert [r["claim"] for r in run_json(moved, "search", "ferry")["results"]] == ["The ferry leaves at noon."]
    (tmp_path / "half.zip").write_bytes(Path(file).read_bytes()[:-10])
    assert run_json(moved, "import", str(tmp_path / "half.zip"), code=1)["error"]["code"] == "archive_damaged"
    assert run_json(moved, "import", str(tmp_path / "missing.zip"), code=1)["error"]["code"] == "unreadable_file"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.zip", "half.zip", "memory.zip"]


def test_export_shows_progress_on_a_terminal_only(settings: dict[str, str], tmp_path: Path) -> None:
    mine = {**settings, "PEGAS_TENANT": "shown"}
    run(mine, "store", "The ferry leaves at noon.")
    assert run(mine, "export", str(tmp_path / "quiet.zip")).stderr == ""
    reading, terminal = pty.openpty()
    ended = subprocess.run(
        [sys.executable, "-m", "pegas_memory.cli", "export", str(tmp_path / "shown.zip")],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=server_environment(**mine, TERM="xterm"),
        timeout=100,
    )
    os.close(terminal)
    shown = os.read(reading, 100_000).decode()
    assert ended.returncode == 0
    assert "shown.zip" in ended.stdout.decode()
    assert "pm_" in shown
    os.close(reading)


def test_doctor_checks_every_part(settings: dict[str, str]) -> None:
    checks = run_json(settings, "doctor")["checks"]
    assert {check["state"] for check in checks} <= {"ok", "warn"}
    assert {"database", "embedder", "vector index", "projections"} <= {check["name"] for check in checks}
    assert "  ok  database" in run(settings, "doctor").stdout


def test_doctor_says_how_to_mend(settings: dict[str, str]) -> None:
    with temporary_home() as home:
        dead = {**settings, "PEGAS_HOME": str(home), "PEGAS_DATABASE_URL": "postgresql+psycopg://a:b@127.0.0.1:1/none"}
        said = run(dead, "doctor", code=1).stdout
        assert "fail" in said
        assert "database_unavailable" in said
        assert "→" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["store", ""], 1, "empty_text"),
        (["search", "x", "--mode", "fuzzy"], 2, "hybrid, dense, lexical"),
        (["search", "--limit", "0"], 2, "from 1 to 100"),
        (["search", "--id", "zzz"], 2, "UUID"),
        (["ingest", "/etc/passwd"], 1, "path_not_allowed"),
        (["serch"], 2, "search"),
        (["search", "--colour"], 2, "colour"),
        ([], 2, "Usage"),
    ],
)
def test_errors_have_exit_codes_and_hints(settings: dict[str, str], arguments: list[str], code: int, said: str) -> None:
    ended = run({**settings, "TERM": "dumb", "COLUMNS": "200"}, *arguments, code=code)
    assert said in ended.stderr + ended.stdout


def test_errors_as_json(settings: dict[str, str]) -> None:
    assert run_json(settings, "store", "", code=1)["error"]["code"] == "empty_text"
    assert run_json({**settings, "PEGAS_PORT": "many"}, "status", code=1)["error"]["code"] == "bad_settings"


def test_a_worker_in_the_embedded_profile_keeps_the_engine(settings: dict[str, str]) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "pegas_memory.cli", "worker"],
        stderr=subprocess.PIPE,
        env=server_environment(**settings),
    )
    assert worker.stderr is not None
    with worker:
        assert b"engine process" in worker.stderr.readline()
        worker.terminate()
        assert worker.wait(20) == 0


@pytest.mark.bundled_model
@pytest.mark.slow
def test_the_demonstration() -> None:
    with temporary_home() as home:
        answers = run_json({"PEGAS_HOME": "/nonexistent"}, "demo", "--keep", str(home))
        assert answers["ok"] is True, answers
        assert answers["quotes_checked"] >= 5
        assert all(answer["answer"] for answer in answers["answers"])
