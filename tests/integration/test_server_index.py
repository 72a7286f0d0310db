"""How ``ServerIndex`` speaks over HTTP and names what goes wrong. The loopback peer is no Qdrant: it
records requests and answers what a test tells it. Search itself is the contract suite's."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from pegas_memory.errors import (
    BadSettings,
    ForeignCollection,
    InvalidVector,
    PegasError,
    VectorsUnavailable,
    WrongDimension,
)
from pegas_memory.model import EmbeddingModel
from pegas_memory.qdrant_store import ServerIndex
from tests.contract.vector_points import MODEL, direction, everything, point

pytestmark = pytest.mark.filterwarnings(
    "ignore:Payload indexes have no effect:UserWarning",
    "ignore:Api key is used with an insecure connection:UserWarning",
)

ALIAS = "atoms__test-hashed__16"
KEY = "secret-key-9f3c"


@dataclass
class Peer:
    port: int = 0
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    points: int = 0


@pytest.fixture
def peer() -> Iterator[Peer]:
    state = Peer()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.sizes.append(len(data))
            state.keys.add(self.headers.get("api-key", ""))
            if self.path.startswith("/collections/") and "/points" in self.path and state.status == 200:
                state.points += len(json.loads(data).get("points", []))
            self.send_response(state.status)
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(state.body)))
            self.end_headers()
            self.wfile.write(state.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = answer

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def connected(port: int, model: EmbeddingModel = MODEL) -> ServerIndex:
    return ServerIndex(f"http://127.0.0.1:{port}", KEY, model, "atoms", timeout=5)


@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (500, b'{"status":{"error":"boom"}}', {}, VectorsUnavailable),
        (503, b"", {}, VectorsUnavailable),
        (413, b"too large", {}, VectorsUnavailable),
        (429, b'{"status":{"error":"slow down"}}', {"Retry-After": "3"}, VectorsUnavailable),
        (429, b'{"status":{"error":"slow down"}}', {"Retry-After": "soon"}, VectorsUnavailable),
        (200, b"<html>not qdrant</html>", {}, VectorsUnavailable),
        (200, b'{"result": 7}', {}, VectorsUnavailable),
        (200, b"", {}, VectorsUnavailable),
        (404, b'{"status":{"error":"Not found: Collection"}}', {}, VectorsUnavailable),
        (400, b'{"status":{"error":"Vector dimension error: expected dim: 16, got 8"}}', {}, WrongDimension),
        (401, b"Must provide an API key", {}, BadSettings),
        (403, b"forbidden", {}, BadSettings),
    ],
)
def test_every_failure_is_named_without_address_or_key(
    peer: Peer, status: int, body: bytes, headers: dict[str, str], expected: type[PegasError]
) -> None:
    peer.status, peer.body, peer.headers = status, body, headers
    index = connected(peer.port)
    for call in (
        index.ensure,
        index.count,
        lambda: index.upsert([point(1)]),
        lambda: index.scan(None, 5),
        lambda: index.search(everything(), dense=direction(1), sparse=None, limit=3),
        lambda: index.delete_tenant("default"),
    ):
        with pytest.raises(PegasError) as caught:
            call()
        assert type(caught.value) is expected
        assert not any(secret in str(caught.value) for secret in (KEY, "127.0.0.1", str(peer.port)))
    assert peer.keys == {KEY}
    index.close()


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    index = connected(port)
    with pytest.raises(VectorsUnavailable, match="did not answer"):
        index.ensure()
    index.close()


def test_a_server_that_never_answers_times_out() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        index = ServerIndex(f"http://127.0.0.1:{silent.getsockname()[1]}", "", MODEL, "atoms", timeout=1)
        with pytest.raises(VectorsUnavailable, match="did not answer"):
            index.ensure()
        index.close()


@pytest.mark.parametrize("url", ["http://host:port", "localhost", "ftp://x", "http://"])
def test_a_url_that_cannot_be_one_is_a_setting_to_mend(url: str) -> None:
    with pytest.raises((BadSettings, VectorsUnavailable)) as caught:
        ServerIndex(url, "", MODEL, "atoms", timeout=1).ensure()
    assert url not in str(caught.value) or url == "http://"


def test_an_upsert_stays_below_the_server_s_limit(peer: Peer) -> None:
    wide = EmbeddingModel("test:wide", 1024, 1000)
    index = connected(peer.port, wide)
    index._ready = index._stood = True  # the peer knows no collections; only what is sent matters here
    peer.body = b'{"result":{"operation_id":1,"status":"completed"},"status":"ok","time":0.1}'
    row = direction(1, 1024)
    tags = tuple(f"длинная метка {n}" * 20 for n in range(20))
    index.upsert([point(n, "слово", dense=np.roll(row, n), tags=tags) for n in range(1200)])
    assert peer.points == 1200
    assert len(peer.sizes) >= 3
    assert max(peer.sizes) < 10 * 2**20
    peer.sizes.clear()
    index.upsert([point(1, dense=row, tags=("ж" * 3_000_000,)), point(2, dense=row, tags=("ж" * 3_000_000,))])
    assert len(peer.sizes) == 2
    index.close()


@pytest.fixture
def local() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    yield client
    client.close()


def shape(size: int = 16) -> dict[str, models.VectorParams]:
    return {"dense": models.VectorParams(size=size, distance=models.Distance.COSINE)}


BM25 = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}


def test_the_collection_stands_behind_its_alias(local: QdrantClient) -> None:
    ServerIndex("", "", MODEL, "atoms", client=local).ensure()
    ServerIndex("", "", MODEL, "atoms", client=local).ensure()
    assert [c.name for c in local.get_collections().collections] == [f"{ALIAS}__1"]
    assert [(a.alias_name, a.collection_name) for a in local.get_aliases().aliases] == [(ALIAS, f"{ALIAS}__1")]


def test_a_real_collection_with_the_alias_s_name_is_left_alone(local: QdrantClient) -> None:
    local.create_collection(ALIAS, vectors_config=shape(), sparse_vectors_config=BM25)
    index = ServerIndex("", "", MODEL, "atoms", client=local)
    with pytest.raises(ForeignCollection):
        index.ensure()
    with pytest.raises(ForeignCollection):
        index.upsert([point(1)])
    assert [c.name for c in local.get_collections().collections] == [ALIAS]
    assert local.count(ALIAS).count == 0


def test_a_collection_left_without_its_alias_is_taken_up(local: QdrantClient) -> None:
    local.create_collection(f"{ALIAS}__1", vectors_config=shape(), sparse_vectors_config=BM25)
    index = ServerIndex("", "", MODEL, "atoms", client=local)
    index.upsert([point(1)])
    assert local.count(ALIAS).count == 1
    assert len(local.get_collections().collections) == 1


def test_a_collection_of_another_installation_is_refused_and_stays(local: QdrantClient) -> None:
    ServerIndex("", "", MODEL, "atoms", instance="theirs", client=local).upsert([point(1)])
    writer = ServerIndex("", "", MODEL, "atoms", instance="ours", client=local)
    with pytest.raises(ForeignCollection, match="another installation"):
        writer.ensure()
    reader = ServerIndex("", "", MODEL, "atoms", generation=None, instance="ours", client=local)
    with pytest.raises(VectorsUnavailable, match="another installation"):  # a search goes on without
        reader.search(everything(), dense=direction(1), sparse=None, limit=3)
    assert local.count(f"{ALIAS}__1").count == 1


def test_an_alias_that_leads_to_no_generation_is_refused(local: QdrantClient) -> None:
    local.create_collection("elsewhere", vectors_config=shape(), sparse_vectors_config=BM25)
    link = models.CreateAlias(collection_name="elsewhere", alias_name=ALIAS)
    local.update_collection_aliases([models.CreateAliasOperation(create_alias=link)])
    with pytest.raises(ForeignCollection, match="not one of ours"):
        ServerIndex("", "", MODEL, "atoms", client=local).ensure()


def test_a_search_asks_the_old_generation_until_the_switch(local: QdrantClient) -> None:
    old, new = (ServerIndex("", "", MODEL, "atoms", generation=n, instance="a", client=local) for n in (1, 2))
    foreign = ServerIndex("", "", MODEL, "atoms", generation=3, instance="b", client=local)
    old.upsert([point(1), point(2)])
    new.upsert([point(1)])
    local.create_collection(f"{ALIAS}__0", vectors_config=shape(), metadata={"pegas_instance": "b"})
    reader = ServerIndex("", "", MODEL, "atoms", generation=None, instance="a", client=local)
    assert reader.count() == 2
    new.switch()
    new.switch()
    assert reader.count() == 1
    new.drop_older()
    assert {c.name for c in local.get_collections().collections} == {f"{ALIAS}__0", f"{ALIAS}__2"}
    with pytest.raises(VectorsUnavailable):
        old.upsert([point(3)])
    with pytest.raises(VectorsUnavailable, match="gone"):  # it is not made again behind the worker's back
        old.upsert([point(3)])
    assert not old.stands()
    with pytest.raises(ForeignCollection):
        foreign.ensure()


def test_an_older_revision_does_not_replace_a_newer_one(local: QdrantClient) -> None:
    index = ServerIndex("", "", MODEL, "atoms", client=local)
    index.upsert([point(1, revision=5), point(2, revision=1)])
    index.upsert([point(1, revision=4), point(2, revision=2), point(3, revision=1)])
    assert sorted((row.entity_id, row.revision) for row in index.scan(None, 10)) == [
        (point(1).payload.entity_id, 5),
        (point(2).payload.entity_id, 2),
        (point(3).payload.entity_id, 1),
    ]


@pytest.mark.fault(38)
def test_twenty_thousand_large_chunks_stay_below_the_server_s_limit(peer: Peer) -> None:
    wide = EmbeddingModel("test:wide", 1024, 1000)
    index = connected(peer.port, wide)
    index._ready = index._stood = True
    peer.body = b'{"result":{"operation_id":1,"status":"completed"},"status":"ok","time":0.1}'
    row, tags = direction(1, 1024), tuple(f"длинная метка {n}" * 8 for n in range(20))
    for first in range(0, 20_000, 2_000):
        index.upsert([point(n, "слово", dense=row, tags=tags) for n in range(first, first + 2_000)])
    assert peer.points == 20_000
    assert max(peer.sizes) < 32 * 2**20
    index.close()


@pytest.mark.parametrize(
    ("vectors", "sparse", "metadata"),
    [
        (shape(8), BM25, None),
        (shape(), {}, None),
        ({"": models.VectorParams(size=16, distance=models.Distance.COSINE)}, BM25, None),
        ({"dense": models.VectorParams(size=16, distance=models.Distance.DOT)}, BM25, None),
        (shape(), BM25, {"pegas_model": "test-hashed"}),
    ],
    ids=["dimension", "no sparse part", "unnamed", "distance", "model"],
)
def test_an_alias_that_leads_elsewhere_is_refused(
    local: QdrantClient,
    vectors: dict[str, models.VectorParams],
    sparse: dict[str, models.SparseVectorParams],
    metadata: dict[str, str] | None,
) -> None:
    local.create_collection("elsewhere", vectors_config=vectors, sparse_vectors_config=sparse, metadata=metadata)
    link = models.CreateAlias(collection_name="elsewhere", alias_name=ALIAS)
    local.update_collection_aliases([models.CreateAliasOperation(create_alias=link)])
    with pytest.raises(WrongDimension):
        ServerIndex("", "", MODEL, "atoms", client=local).ensure()
    assert local.count("elsewhere").count == 0


def test_each_model_has_its_own_collection(local: QdrantClient) -> None:
    other = EmbeddingModel("ollama:embeddinggemma", 16, 1000)
    for model in (MODEL, other):
        index = ServerIndex("", "", model, "atoms", client=local)
        index.upsert([point(1)])
        assert index.count() == 1
    names = {c.name for c in local.get_collections().collections}
    assert names == {f"{ALIAS}__1", "atoms__ollama-embeddinggemma__16__1"}


def test_points_that_the_server_refuses_are_to_blame_themselves(peer: Peer) -> None:
    index = connected(peer.port)
    index._ready = index._stood = True
    for status in (400, 413, 422):
        peer.status, peer.body = status, b"{}"
        with pytest.raises(InvalidVector):
            index.upsert([point(1)])
