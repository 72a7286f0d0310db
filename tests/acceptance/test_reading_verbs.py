"""`pegas-memory open` and `documents`, run as a person runs them: every locator opens its source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text

from pegas_memory import PegasMemory
from pegas_memory.config import load_settings
from tests.acceptance.test_cli import run, run_json
from tests.homes import temporary_home
from tests.support.embedding_server import hashed_embedding_server
from tests.support.pdf_files import Text, pdf


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    roots = tmp_path_factory.mktemp("roots")
    (roots / "tower.md").write_text("# The tower\n\nThe tower was lit in 1871. The lens weighs 640 kilograms.\n")
    (roots / "kiln.pdf").write_bytes(
        pdf([[Text("The first page is about the builders of the kiln.", 700)],
             [Text("The glaze melts at 1180 degrees in the kiln.", 700)]])
    )  # fmt: skip
    with hashed_embedding_server(dimension=64) as embeddings, temporary_home() as home:
        mine = {
            "PEGAS_HOME": str(home),
            "PEGAS_EMBEDDER": f"openai:hashed@{embeddings.openai_url}",
            "PEGAS_INGEST_ROOTS": str(roots),
            "PEGAS_ENGINE_IDLE_SECONDS": "60",
        }
        run(mine, "ingest", str(roots / "tower.md"), str(roots / "kiln.pdf"))
        yield mine


def atom_of(settings: dict[str, str], words: str) -> str:
    return str(run_json(settings, "search", words)["results"][0]["atom_id"])


def test_open_shows_the_passage_and_says_what_became_of_the_file(settings: dict[str, str]) -> None:
    atom_id = atom_of(settings, "lens weighs 640 kilograms")
    said = run(settings, "open", atom_id).stdout
    assert "The tower was lit in 1871. ⟦The lens weighs 640 kilograms.⟧" in said
    assert "the quote stands where it was read; the file is unchanged" in said
    (passage,) = run_json(settings, "open", atom_id)["passages"]
    assert (passage["quote"], passage["standing"]) == ("The lens weighs 640 kilograms.", "at_locator")
    file = Path(settings["PEGAS_INGEST_ROOTS"]) / "tower.md"
    file.write_text(file.read_text() + "\nMore.\n")
    assert "the file has changed since" in run(settings, "open", atom_id).stdout
    elsewhere = {**settings, "PEGAS_INGEST_ROOTS": settings["PEGAS_HOME"]}
    assert "was not looked at" in run(elsewhere, "open", atom_id).stdout


def test_open_links_the_page_of_a_pdf_and_the_words_of_a_page(settings: dict[str, str]) -> None:
    (passage,) = run_json(settings, "open", atom_of(settings, "glaze melts at 1180 degrees"))["passages"]
    assert passage["link"].endswith("kiln.pdf#page=2")
    stored = run_json(
        settings, "store", "The heron nests.", "--source", "https://example.org/log", "--quote", "a heron nests"
    )
    said = run(settings, "open", stored["atom_id"]).stdout
    assert "https://example.org/log#:~:text=a%20heron%20nests" in said
    assert "never read" in said


def test_what_cannot_be_opened_is_said(settings: dict[str, str]) -> None:
    assert run_json(settings, "open", str(uuid4()), code=1)["error"]["code"] == "not_found"
    assert run_json(settings, "open", "nonsense", code=2)["error"]["code"] == "invalid_parameter"
    document = run_json(settings, "documents")["documents"][0]["doc_id"]
    assert "is of kind document" in run(settings, "open", document).stdout
    stored = run_json(settings, "store", "The mill stands by the brook.")["atom_id"]
    assert "without a source" in run(settings, "open", stored).stdout
    run(settings, "verify", stored, "--verdict", "retract", "--reason", "wrong")
    assert "[fact, retracted, " in run(settings, "open", stored).stdout


def test_documents_are_listed(settings: dict[str, str]) -> None:
    page = run_json(settings, "documents", "--limit", "1")
    rest = run_json(settings, "documents", "--cursor", page["next_cursor"])["documents"]
    assert {"tower.md", "kiln.pdf"} <= {one["uri"].rsplit("/", 1)[-1] for one in [*page["documents"], *rest]}
    (kiln,) = run_json(settings, "documents", "--kind", "pdf")["documents"]
    assert (kiln["state"], kiln["pages"]) == ("read", 2)
    assert kiln["atoms"] >= 1
    assert "2 pages" in run(settings, "documents", "--kind", "pdf").stdout
    assert "No document" in run(settings, "documents", "--tag", "nothing").stdout
    assert "no kind of document" in run(settings, "documents", "--kind", "scroll", code=2).stderr
    assert "bad_cursor" in run(settings, "documents", "--cursor", "x", code=1).stderr
    assert "all documents" in run(settings, "documents", "--check", "--kind", "pdf", code=2).stderr


def test_check_passes_and_names_what_does_not_stand(settings: dict[str, str]) -> None:
    checked = run_json(settings, "documents", "--check")
    assert (checked["faulty"], checked["documents"] >= 2, checked["held"] >= 2) == (0, True, True)
    assert "quotes stand where they were read, 0 do not" in run(settings, "documents", "--check").stdout
    mine = load_settings(home=settings["PEGAS_HOME"], embedder=settings["PEGAS_EMBEDDER"])
    with PegasMemory.open(mine) as memory, memory.rooms.db.tenant(memory.tenant) as conn:
        spoilt = conn.execute(
            text(
                "UPDATE pm_citation SET quote = 'The lens weighs 650 kilograms.' WHERE quote LIKE '%640%' RETURNING id"
            )
        ).scalar_one()
    said = run(settings, "documents", "--check", code=1).stdout
    assert f"citation {spoilt} of atom" in said
    (fault,) = run_json(settings, "documents", "--check", code=1)["faults"]
    assert fault["citation_id"] == str(spoilt)
