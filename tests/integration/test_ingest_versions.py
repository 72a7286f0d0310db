"""A source that is ingested again: new bytes, known bytes, a page that did not change, one that cannot be read."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sqlalchemy import text

from pegas_memory.db import documents
from pegas_memory.db.documents import DocumentRow
from pegas_memory.model import (
    DocumentKind,
    IngestAnswer,
    IngestRequest,
    JobState,
    SearchRequest,
    SearchResult,
    ShownAs,
    SourceRef,
    StoreRequest,
    Verdict,
    VerifyRequest,
)
from tests.support.local_memory import LocalMemory

ONE = "The weir of Norden was built in 1931."
TWO = "The lock of Emden has two gates of oak."
THREE = "The ferry to Juist leaves at noon."
_numbers = itertools.count()


def ingest(memory: LocalMemory, **request: object) -> IngestAnswer:
    answer = memory.ingest(IngestRequest(**request))  # type: ignore[arg-type]
    assert answer.state is JobState.DONE, answer.error
    return answer


def written(ingest_root: Path, *sentences: str) -> Path:
    path = ingest_root / f"version{next(_numbers)}.txt"
    path.write_text("\n\n".join(sentences), encoding="utf-8")
    return path


def atom(memory: LocalMemory, claim: str) -> SearchResult:
    found = memory.search(SearchRequest(limit=50, statuses=frozenset(ShownAs))).results
    return next(one for one in found if one.claim == claim)


def row(memory: LocalMemory, uri: str) -> DocumentRow:
    with memory.rooms.db.tenant(memory.tenant) as conn:
        found = documents.by_uri(conn, memory.tenant, uri)
    assert found is not None
    return found


def judge(memory: LocalMemory, verdict: Verdict, **named: object) -> None:
    memory.verify(VerifyRequest(verdict, "because", **named))  # type: ignore[arg-type]


def test_what_is_still_said_keeps_its_id_and_what_is_not_becomes_stale(memory: LocalMemory, ingest_root: Path) -> None:
    memory.store(StoreRequest(claim=THREE))
    path = written(ingest_root, ONE, TWO, THREE)
    other = written(ingest_root, ONE)
    first = ingest(memory, source=str(path))
    ingest(memory, source=str(other))
    kept, shared, lost = atom(memory, TWO), atom(memory, ONE), atom(memory, THREE)
    judge(memory, Verdict.VERIFIED, atom_ids=(shared.atom_id,))
    path.write_text(TWO, encoding="utf-8")
    assert ingest(memory, source=str(path)).doc_id == first.doc_id
    assert row(memory, path.as_uri()).revision == 2
    assert (atom(memory, TWO).atom_id, atom(memory, TWO).status) == (kept.atom_id, "candidate")
    assert atom(memory, ONE).status == "verified", "another document says it"
    assert [c.uri for c in atom(memory, ONE).citations] == [other.as_uri()]
    assert atom(memory, THREE).status == "candidate", "it was stored without a source"
    assert atom(memory, THREE).atom_id == lost.atom_id
    other.write_text(TWO, encoding="utf-8")
    ingest(memory, source=str(other))
    assert atom(memory, ONE).status == "stale", "a verified one as well, once nothing says it any more"
    path.write_text(ONE, encoding="utf-8")
    ingest(memory, source=str(path))
    assert (atom(memory, ONE).atom_id, atom(memory, ONE).status) == (shared.atom_id, "candidate")


def test_known_bytes_take_what_the_call_says_of_them(memory: LocalMemory, ingest_root: Path) -> None:
    path = written(ingest_root, ONE, TWO)
    ingest(memory, source=str(path))
    before = atom(memory, ONE)
    answer = ingest(memory, source=str(path), title="Works", tags=("water",), metadata={"year": 1931}, authority=0.9)
    assert answer.document is not None
    assert answer.document.title == "Works"
    assert answer.atoms.created == 0
    assert any("applied" in warning for warning in answer.warnings)
    after = atom(memory, ONE)
    assert after.atom_id == before.atom_id
    assert (after.tags, after.metadata["year"], after.citations[0].title) == (("water",), 1931, "Works")
    assert row(memory, path.as_uri()).authority == 0.9
    found = memory.search(SearchRequest(query="weir", tags=frozenset({"water"}))).results
    assert [one.claim for one in found][:1] == [ONE]
    same = ingest(memory, source=str(path), title="Works", tags=("water",))
    assert not any("applied" in warning for warning in same.warnings)
    assert row(memory, path.as_uri()).title == "Works"


def test_the_same_bytes_under_two_names_are_two_documents(memory: LocalMemory, ingest_root: Path) -> None:
    path = written(ingest_root, ONE)
    ingest(memory, source=str(path))
    renamed = path.rename(path.with_name(f"renamed{next(_numbers)}.txt"))
    answer = ingest(memory, source=str(renamed))
    assert (answer.atoms.created, memory.stats().documents) == (0, 2)
    assert len(atom(memory, ONE).citations) == 2


def test_a_version_that_cannot_be_read_leaves_the_old_one(memory: LocalMemory, ingest_root: Path) -> None:
    path = written(ingest_root, ONE)
    first = ingest(memory, source=str(path))
    for broken in (b"%PDF-1.7 not really", b"", b"\x00\x01\x02" * 900):
        path.write_bytes(broken)
        failed = memory.ingest(IngestRequest(source=str(path)))
        assert failed.state is JobState.FAILED
        assert (row(memory, path.as_uri()).id, row(memory, path.as_uri()).revision) == (first.doc_id, 1)
        assert atom(memory, ONE).status == "candidate"


def test_a_retracted_document_stays_hidden_and_a_purged_one_is_new(memory: LocalMemory, ingest_root: Path) -> None:
    path = written(ingest_root, ONE)
    first = ingest(memory, source=str(path))
    judge(memory, Verdict.RETRACT, doc_id=first.doc_id)
    again = ingest(memory, source=str(path))
    assert any("retracted" in warning for warning in again.warnings)
    assert memory.search(SearchRequest(limit=50)).results == ()
    path.write_text(f"{ONE}\n\n{TWO}", encoding="utf-8")
    more = ingest(memory, source=str(path))
    assert any("1 of its claims were retracted" in warning for warning in more.warnings)
    assert [one.claim for one in memory.search(SearchRequest(limit=50)).results] == [TWO]
    judge(memory, Verdict.PURGE, doc_id=first.doc_id)
    fresh = ingest(memory, source=str(path))
    assert fresh.doc_id != first.doc_id
    assert fresh.atoms.created == 2


def test_a_source_that_was_only_named_becomes_the_document(memory: LocalMemory, ingest_root: Path) -> None:
    path = written(ingest_root, ONE)
    memory.store(StoreRequest(claim=TWO, source=SourceRef(uri=path.as_uri(), quote=TWO, authority=0.8)))
    answer = ingest(memory, source=str(path))
    assert memory.stats().documents == 1
    assert row(memory, path.as_uri()).authority == 0.8
    assert answer.atoms.created == 1
    assert atom(memory, TWO).citations[0].doc_id == answer.doc_id


def test_another_kind_reads_the_same_bytes_anew(memory: LocalMemory, ingest_root: Path) -> None:
    path = written(ingest_root, f"# Works\n\n{ONE}")
    ingest(memory, source=str(path))
    assert ingest(memory, source=str(path), kind=DocumentKind.MARKDOWN).document.title == "Works"  # type: ignore[union-attr]
    assert "nothing changed" in ingest(memory, source=str(path), kind=DocumentKind.MARKDOWN).warnings[0]


# --- pages --------------------------------------------------------------------------------------------


class Site(BaseHTTPRequestHandler):
    page, etag, status, asked = "", "", 200, 0

    def do_GET(self) -> None:
        kind = type(self)
        kind.asked += 1
        known = bool(kind.etag) and self.headers.get("If-None-Match") == kind.etag
        if self.path == "/old":
            self.send_response(301)
            self.send_header("Location", "/page")
            self.end_headers()
            return
        body = b"" if known else kind.page.encode()
        self.send_response(304 if known else kind.status)
        if kind.etag:
            self.send_header("ETag", kind.etag)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


def page(*sentences: str) -> str:
    told = "".join(
        f"<p>{sentence} {'It is told at length in the annals of the coast. ' * 4}</p>" for sentence in sentences
    )
    return f"<!doctype html><title>Works</title><body><article><h1>Works</h1>{told}</article></body>"


@pytest.fixture
def site(memory: LocalMemory) -> Iterator[str]:
    Site.page, Site.etag, Site.status, Site.asked = page(ONE, TWO), '"one"', 200, 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    memory.rooms.settings = memory.rooms.settings.model_copy(update={"allow_private_urls": True})
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()
    server.server_close()


def test_a_page_is_asked_for_conditionally(memory: LocalMemory, site: str) -> None:
    first = ingest(memory, source=f"{site}/page")
    assert row(memory, f"{site}/page").fetch_etag == '"one"'
    Site.page = "would be an error to read"
    again = ingest(memory, source=f"{site}/page")
    assert (Site.asked, again.doc_id, again.atoms.created) == (2, first.doc_id, 0)
    assert "nothing changed" in again.warnings[0]
    Site.page, Site.etag = page(ONE, THREE), '"two"'
    ingest(memory, source=f"{site}/page")
    assert row(memory, f"{site}/page").fetch_etag == '"two"'
    assert row(memory, f"{site}/page").revision == 2


def test_a_redirected_page_keeps_the_address_it_was_asked_by(memory: LocalMemory, site: str) -> None:
    answer = ingest(memory, source=f"{site}/old")
    assert answer.document is not None
    assert answer.document.uri == f"{site}/old"
    assert row(memory, f"{site}/old").metadata["fetched_from"] == f"{site}/page"


def test_a_snippet_stands_in_until_the_page_is_read(memory: LocalMemory, site: str) -> None:
    Site.status = 503
    told = {"source": f"{site}/page", "snippet": ONE, "authority": 0.7}
    ingest(memory, **told)
    stood = row(memory, f"{site}/page")
    assert (stood.authority, stood.metadata["snippet"]) == (0.2, True)
    assert "snippet" in ingest(memory, **told).warnings[0]
    Site.status = 200
    ingest(memory, source=f"{site}/page")
    whole = row(memory, f"{site}/page")
    assert whole.id == stood.id
    assert whole.authority == 0.7
    assert "snippet" not in whole.metadata
    Site.status, Site.etag = 503, ""
    kept = ingest(memory, **told)
    assert "what was read of it before stands" in kept.warnings[0]
    assert row(memory, f"{site}/page").content_hash == whole.content_hash
    with memory.rooms.db.tenant(memory.tenant) as conn:
        assert conn.execute(text("SELECT count(*) FROM pm_document")).scalar_one() == 1
