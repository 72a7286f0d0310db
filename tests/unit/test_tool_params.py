from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from pegas_memory.errors import InvalidParameter
from pegas_memory.mcp_tools import TOOLS, tools_by_name
from pegas_memory.tool_params import ListOf, Text, When, parse_arguments

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def parse(tool: str, **given: Any) -> dict[str, Any]:
    return parse_arguments(tools_by_name()[tool].params, given)


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["a", "b"], ("a", "b")),
        ('["a","b"]', ("a", "b")),
        ("a,b", ("a", "b")),
        ("a, б ,", ("a", "б")),
        ("a", ("a",)),
        (None, ()),
        ("null", ()),
        ("", ()),
        ([], ()),
        ("[]", ()),
        ([2024, "a"], ("2024", "a")),
    ],
)
def test_every_list_parameter_takes_the_shapes_that_agents_send(given: Any, parsed: tuple[str, ...]) -> None:
    params = [(spec, param) for spec in TOOLS for param in spec.params if isinstance(param.type, ListOf)]
    texts = [(spec, param) for spec, param in params if isinstance(param.type.item, Text)]
    assert len(params) > 15
    assert texts
    for spec, param in texts:
        required = {p.name: "x" for p in spec.params if p.name in ("question", "query")}
        assert parse_arguments(spec.params, {**required, param.name: given})[param.name] == parsed


@pytest.mark.parametrize("nothing", [None, "", "null", "[]", []])
def test_nothing_means_the_default_for_every_list(nothing: Any) -> None:
    for spec in TOOLS:
        required = {p.name: "x" for p in spec.params if p.name in ("question", "query")}
        for param in spec.params:
            if isinstance(param.type, ListOf):
                assert parse_arguments(spec.params, {**required, param.name: nothing})[param.name] == param.default


@pytest.mark.parametrize("text", ['{"a":1}', "null", "[1,2]", "true", "", " ", "Привет, ёжик 🦔", "a,b", "\n"])
def test_text_is_taken_as_it_is(text: str) -> None:
    assert parse("memory_store", claim=text, content=text)["claim"] == text
    assert parse("memory_search", query=text)["query"] == text


def test_json_null_means_the_default() -> None:
    assert parse("memory_search", query=None, limit=None, mode=None, explain=None, ids=None, since=None) == parse(
        "memory_search"
    )


@pytest.mark.parametrize(("value", "parsed"), [("3", 3), (3.0, 3), (3, 3), ("3.0", 3), ("", 10)])
def test_whole_numbers(value: Any, parsed: int) -> None:
    limit = parse("memory_search", limit=value)["limit"]
    assert limit == parsed
    assert type(limit) is int


@pytest.mark.parametrize("value", [True, False, 3.5, "three", "nan", "inf", 0, 101, -1, 10**400, "9" * 5000, [3], {}])
def test_numbers_that_do_not_fit_say_the_range(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="limit") as caught:
        parse("memory_search", limit=value)
    assert "from 1 to 100" in caught.value.hint


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "x", 1.01, -0.01])
def test_confidence_is_from_zero_to_one(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="confidence") as caught:
        parse("memory_store", claim="a", confidence=value)
    assert "from 0 to 1" in caught.value.hint


@pytest.mark.parametrize(("value", "parsed"), [("0.5", 0.5), (1, 1.0), (0, 0.0)])
def test_confidence_is_a_float(value: Any, parsed: float) -> None:
    confidence = parse("memory_store", confidence=value)["confidence"]
    assert confidence == parsed
    assert type(confidence) is float


def test_unknown_names_are_told_the_nearest_right_one() -> None:
    for wrong, right in (("qury", "query"), ("limt", "limit"), ("tag", "tags"), ("min_conf", "min_confidence")):
        with pytest.raises(InvalidParameter, match=wrong) as caught:
            parse("memory_search", **{wrong: "x"})
        assert f"`{right}`" in caught.value.hint


def test_unknown_names_inside_an_object_as_well() -> None:
    with pytest.raises(InvalidParameter, match="source") as caught:
        parse("memory_store", claim="a", source={"url": "https://example.org"})
    assert "`uri`" in caught.value.hint


def test_enums_list_their_values() -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse("memory_search", mode="fuzzy")
    assert "hybrid, dense, lexical" in caught.value.hint
    with pytest.raises(InvalidParameter) as caught:
        parse("memory_search", types="fact,opinion")
    assert "logical_rule" in caught.value.hint
    assert parse("memory_search", mode="Dense", types="FACT, code")["types"] == ("fact", "code")


@pytest.mark.parametrize("wrong", ["zzz", "1", ID[:-1], 5, {}, [ID, "x"]])
def test_ids_are_uuids(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="ids"):
        parse("memory_search", ids=wrong)
    assert parse("memory_search", ids=ID)["ids"] == (UUID(ID),)
    assert parse("memory_search", ids=f"{ID},{ID}")["ids"] == (UUID(ID), UUID(ID))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-05-01", datetime(2026, 5, 1, tzinfo=UTC)),
        ("2026-05-01T09:30:00", datetime(2026, 5, 1, 9, 30, tzinfo=UTC)),
        ("2026-05-01T09:30:00Z", datetime(2026, 5, 1, 9, 30, tzinfo=UTC)),
        ("2026-05-01T09:30:00+03:00", datetime(2026, 5, 1, 6, 30, tzinfo=UTC)),
        (" 2026-05-01 ", datetime(2026, 5, 1, tzinfo=UTC)),
    ],
)
def test_times_are_iso_8601_and_aware(text: str, moment: datetime) -> None:
    assert parse("memory_search", since=text)["since"] == moment
    assert parse("memory_search", since=text)["since"].tzinfo is UTC


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "0001-01-01T00:00:00+14:00", "5", "01.05.2026"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="until"):
        parse("memory_search", until=text)
    with pytest.raises(InvalidParameter):
        When().parse(7, "until")


@pytest.mark.parametrize(("value", "parsed"), [(True, True), ("true", True), ("False", False), ("", False)])
def test_booleans(value: Any, parsed: bool) -> None:
    assert parse("memory_search", explain=value)["explain"] is parsed


def test_objects_take_json_text_and_nothing() -> None:
    source = {"uri": "https://example.org", "title": "", "quote": "", "locator": "", "authority": 0.5}
    assert parse("memory_store", source='{"uri":"https://example.org","authority":"0.5"}')["source"] == source
    for nothing in (None, "", "null"):
        assert parse("memory_store", source=nothing, metadata=nothing)["source"] is None
    assert parse("memory_store", metadata='{"a":{"b":[1,null]}}')["metadata"] == {"a": {"b": [1, None]}}
    for wrong in ("text", [1], 5, "{broken", "[" * 100_000):
        with pytest.raises(InvalidParameter):
            parse("memory_store", metadata=wrong)


def test_lists_of_objects() -> None:
    link = {"dst": "Heron Point", "kind": "reference", "confidence": 1.0}
    given = {"dst": "Heron Point", "kind": "reference"}
    for shape in (
        [given],
        given,
        '[{"dst":"Heron Point","kind":"reference"}]',
        '{"dst":"Heron Point","kind":"reference"}',
    ):
        assert parse("memory_store", links=shape)["links"] == (link,)
    with pytest.raises(InvalidParameter, match=r"links\.kind"):
        parse("memory_store", links=[{"dst": "x"}])
    with pytest.raises(InvalidParameter):
        parse("memory_store", links="Heron Point")


def test_required_parameters() -> None:
    for given in ({}, {"question": None}):
        with pytest.raises(InvalidParameter, match="question"):
            parse("memory_get_context", **given)


def test_errors_do_not_echo_long_values() -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse("memory_search", mode="x" * 10_000)
    assert len(str(caught.value)) < 300
    with pytest.raises(InvalidParameter) as caught:
        parse("memory_search", **{"y" * 10_000: 1})
    assert len(str(caught.value)) < 600
