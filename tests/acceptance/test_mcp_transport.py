"""The stdio server around a recorded memory: protocol, purity of stdout, load, errors and every way to end."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError

from pegas_memory import mcp_server_stdio
from pegas_memory.mcp_app import error_result
from tests.support.mcp_client import (
    CONSOLE,
    HANDSHAKE,
    PRODUCT,
    RECORDING,
    RawClient,
    raw_client,
    sdk_client,
    server_environment,
    text_of,
)
from tests.support.recording_memory import ATOM

PROMPT_EXIT = 5.0
"""Far more than the two seconds that an exit may take, far less than the calls that run meanwhile."""


@pytest.fixture
def raw() -> Iterator[RawClient]:
    """A server of the test's own."""
    with raw_client(RECORDING) as client:
        client.handshake()
        yield client


@pytest.fixture(scope="module")
def shared() -> Iterator[RawClient]:
    """One server for the tests that leave it as they found it."""
    with raw_client(RECORDING) as client:
        client.handshake()
        yield client
        assert client.close() == 0


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
def test_both_eras_of_the_protocol(mode: str) -> None:
    async def drive() -> None:
        async with sdk_client(RECORDING, mode) as client:
            assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
            if mode != "2026-07-28":  # pinned to it, the client asks the server nothing about itself
                assert client.server_info is not None
                assert client.server_info.name == "pegas-memory"
                assert "memory_get_context" in (client.instructions or "")
            assert len((await client.list_tools()).tools) == 13
            answer = await client.call_tool("memory_search", {"query": "echo Привет, ёжик 🦔", "limit": 1})
            assert answer.structured_content is not None
            assert answer.structured_content["results"][0]["claim"] == "Привет, ёжик 🦔"
            assert answer.structured_content["results"][0]["occurred_at"] is None
            refused = await client.call_tool("memory_search", {"qury": "x"})
            assert refused.is_error
            assert refused.structured_content is None
            with pytest.raises(MCPError, match="memory_search"):
                await client.call_tool("memory_serch", {})
            await resources(client)
            prompt = await client.get_prompt("answer_with_memory", {"question": 'What "is" it?'})
            assert '"What \\"is\\" it?"' in prompt.messages[0].content.text  # type: ignore[union-attr]

    async def resources(client: Any) -> None:
        assert [r.uri for r in (await client.list_resources()).resources] == ["pegas://stats"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [t.uri_template for t in templates] == [f"pegas://{kind}/{{id}}" for kind in ("atom", "document", "gap")]
        for uri in ("pegas://stats", f"pegas://atom/{ATOM}", f"pegas://document/{ATOM}", f"pegas://gap/{ATOM}"):
            assert json.loads((await client.read_resource(uri)).contents[0].text)
        atom = json.loads((await client.read_resource(f"pegas://atom/{ATOM}")).contents[0].text)
        assert (atom["atom_id"], atom["passages"]) == (str(ATOM), [])
        for uri in ("pegas://atom/01890a5d-ac96-774b-bcce-b302099a8058", "pegas://other/1", "pegas://atom/x"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.code == -32602
            assert caught.value.data == {"uri": uri}

    anyio.run(drive)


def test_nothing_but_json_rpc_reaches_stdout(raw: RawClient) -> None:
    assert not raw.call("memory_search", query="print").get("isError")
    assert raw.close() == 0
    assert "STRAY PRINT" in raw.stderr
    assert "STRAY CHILD" in raw.stderr


def test_an_unplanned_failure_shows_nothing_of_the_inside(raw: RawClient) -> None:
    result = raw.call("memory_search", query="crash")
    assert result["isError"]
    assert text_of(result).startswith("internal_error: ")
    for secret in ("SELECT", "/home", "Traceback", "RuntimeError"):
        assert secret not in text_of(result)
        assert secret not in raw.stderr
    number = text_of(result).split("incident ")[1].split(")")[0]
    raw.close()
    assert number in raw.stderr


def test_stderr_that_nobody_reads_does_not_stop_the_server(raw: RawClient) -> None:
    for _ in range(400):
        assert raw.call("memory_search", query="crash")["isError"]
    assert raw.close() == 0
    assert len(raw.stderr) < 40_000


@pytest.mark.parametrize("number", [40, 60])
def test_slow_calls_leave_the_transport_alive(shared: RawClient, number: int, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow = [shared.start_call("memory_search", query=f"gate {gate}", limit=1) for _ in range(number)]
    listed = shared.ask("tools/list")
    pinged = shared.ask("ping")
    refused = shared.start_call("memory_search", limit=0)
    for quick in (listed, pinged, refused):
        shared.reply(quick, 30)
    assert not shared.kept, "the quick requests were answered while every slow call still ran"
    gate.touch()
    for request in slow:
        shared.reply(request, 30)


def test_a_cancelled_ingest_stops_its_thread() -> None:
    async def drive() -> None:
        async with sdk_client(RECORDING) as client:
            with anyio.move_on_after(0.5):
                await client.call_tool("memory_ingest", {"text": "slow 60"})
            with anyio.fail_after(20):
                while True:
                    answer = await client.call_tool("memory_search", {"query": "stopped", "limit": 1})
                    assert answer.structured_content is not None
                    if answer.structured_content["results"][0]["claim"] == "stopped 1":
                        return
                    await anyio.sleep(0.05)

    anyio.run(drive)


def test_a_memory_that_does_not_open_is_tried_again(tmp_path: Path) -> None:
    down = tmp_path / "down"
    down.touch()
    with raw_client(RECORDING, PEGAS_TEST_DOWN=str(down)) as raw:
        raw.handshake()
        assert len(raw.request("tools/list")["result"]["tools"]) == 13
        for _ in range(2):
            result = raw.call("memory_stats")
            assert result["isError"]
            assert text_of(result).startswith("database_unavailable: ")
        down.unlink()
        assert not raw.call("memory_stats").get("isError")
        assert raw.close() == 0


def test_a_failed_ingest_is_an_error_with_its_job(shared: RawClient) -> None:
    result = shared.call("memory_ingest", source="broken.pdf")
    assert result["isError"]
    assert text_of(result).startswith("no_text_layer: ")
    assert result["structuredContent"]["job_id"] == str(ATOM)
    assert result["structuredContent"]["error"]["code"] == "no_text_layer"


@pytest.mark.fault(12)
@pytest.mark.parametrize("size", [100_000, 5_000_000])
def test_large_texts_pass_and_large_answers_are_cut(shared: RawClient, size: int) -> None:
    assert not shared.call("memory_store", claim="я" * size).get("isError")
    result = shared.call("memory_search", query=f"long {size}")
    assert len(text_of(result).encode()) <= 20_000
    assert len(json.dumps(result["structuredContent"], ensure_ascii=False)) < 600_000
    assert len(result["structuredContent"]["results"]) == 10


def test_a_lone_surrogate_is_answered(shared: RawClient) -> None:
    for text in ("lone \udcff", "\ud83e", "pair \U0001f994 and \ud800 lone"):
        answer = shared.reply(shared.start_call("memory_store", claim=text), 20)
        assert "invalid_parameter" in answer["error"]["message"]
    for text in ("\U0001f994", "\\ud800", "\\\\udc00"):
        found = shared.call("memory_search", query=f"echo {text}", limit=1)
        assert found["structuredContent"]["results"][0]["claim"] == text


@pytest.mark.parametrize(
    "locale",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1251"},
        {"LANG": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
    ],
)
def test_the_locale_does_not_matter(locale: dict[str, str]) -> None:
    with raw_client(RECORDING, **locale) as raw:
        raw.handshake()
        found = raw.call("memory_search", query="echo Привет, ёжик 🦔 й", limit=1)
        assert found["structuredContent"]["results"][0]["claim"] == "Привет, ёжик 🦔 й"
        assert not raw.call("memory_search", query="print").get("isError")
        assert raw.close() == 0


def write_lines(client: RawClient, *lines: bytes) -> None:
    assert client.process.stdin is not None
    for line in lines:
        client.process.stdin.write(line + b"\n")
    client.process.stdin.flush()


def tool_call(number: int, arguments: str) -> str:
    params = f'{{"name":"memory_search","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}'


DEEP = "[" * 210 + "]" * 210
UNANSWERABLE = [
    (tool_call(9001, f'{{"query":{DEEP}}}'), 9001, -32602),
    (tool_call(9002, '{"query":' + "[" * 5000 + "]" * 5000 + "}"), 9002, -32602),
    (tool_call(9003, '{"limit":' + "9" * 5000 + "}"), 9003, -32602),
    (f'{{"method":"ping","params":{{"id":8,"a":{DEEP}}},"jsonrpc":"2.0","id":9004}}', 9004, -32602),
    (f'{{"method":"ping","params":{{"x":"{"y" * 70_000}","a":{DEEP}}},"jsonrpc":"2.0","id":9005}}', 9005, -32602),
    (tool_call(9006, '{"limit":1},}'), 9006, -32700),
    (tool_call(9007, '{"query":"not closed}'), 9007, -32700),
    ('{"jsonrpc":"2.0","id":"quo\\"ted","method":"ping"', 'quo"ted', -32700),
    ('{"method":"a"b","params":{"id":7},"jsonrpc":"2.0","id":9008}', 9008, -32700),
    ('{"jsonrpc":"2.0,"id":9009,"method":"ping"}', 9009, -32700),
    ("hello", None, -32700),
    ('{"jsonrpc":"2.0","method":"ping","params":{"id":7},}', None, -32700),
    ('{"jsonrpc":"2.0","id":' + "9" * 5000 + ',"method":"ping"}', None, -32602),
    ('{"jsonrpc":"2.0","id":9010,"method":5}', 9010, -32600),
    ('{"jsonrpc":"2.0","id":9011}', 9011, -32600),
    ('{"jsonrpc":"1.0","id":9012,"method":"ping"}', 9012, -32600),
    ('{"id":9013,"method":"ping"}', 9013, -32600),
    ('{"jsonrpc":"2.0","id":"nine","method":"tools/list","params":[]}', "nine", -32600),
    ('{"jsonrpc":"2.0","id":9014.5,"method":"ping"}', 9014.5, -32600),
    ('{"jsonrpc":"2.0","id":9015,"method":"ping","error":{"code":1,"message":"x"}}', 9015, -32600),
    ('{"jsonrpc":"2.0","id":NaN,"method":"ping"}', None, -32600),
    ('{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
    ('{"jsonrpc":"2.0","id":9016,"result":5}', None, -32600),
    ('[{"jsonrpc":"2.0","id":9017,"method":"ping"}]', 9017, -32600),
    ("[]", None, -32600),
    ("5", None, -32600),
    ("{}", None, -32600),
]


@pytest.mark.parametrize(("line", "number", "code"), UNANSWERABLE, ids=range(len(UNANSWERABLE)))
def test_what_is_no_request_is_answered_all_the_same(shared: RawClient, line: str, number: Any, code: int) -> None:
    write_lines(shared, line.encode())
    error = shared.reply(number, 20)["error"]
    assert error["code"] == code
    assert error["message"]
    assert not shared.kept


def test_each_request_of_a_batch_is_refused(shared: RawClient) -> None:
    write_lines(shared, b'[{"jsonrpc":"2.0","id":9101,"method":"ping"},{"method":"x"},7,{"id":"nine two"}]')
    numbers: list[Any] = [9101, "nine two"]
    for number in numbers:
        assert shared.reply(number, 20)["error"]["code"] == -32600
    assert not shared.kept


def test_notifications_and_empty_lines_are_not_answered(shared: RawClient) -> None:
    write_lines(
        shared,
        b"",
        b" \t\r",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\r',
        b'{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":123456}}',
    )
    assert shared.request("ping")["result"] == {}
    assert not shared.kept


@pytest.mark.parametrize("last", [False, True])
def test_a_line_of_endless_length_is_refused_in_bounded_memory(raw: RawClient, last: bool) -> None:
    assert raw.process.stdin is not None
    raw.process.stdin.write(
        b'{"jsonrpc":"2.0",' + (b"" if last else b'"id":9201,') + b'"method":"tools/call","params":"'
    )
    for _ in range(300):
        raw.process.stdin.write(b"x" * 2**20)
    raw.process.stdin.write(b'"' + (b',"id":9201' if last else b"") + b"}\n")
    raw.process.stdin.flush()
    error = raw.reply(9201, 60)["error"]
    assert (error["code"], "64 MiB" in error["message"]) == (-32602, True)
    assert raw.request("ping")["result"] == {}
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{raw.process.pid}/status").read_text())
    assert peak is not None
    assert int(peak[1]) < 280 * 1024
    assert raw.close() == 0


def mutated(chance: random.Random, line: bytes) -> bytes:
    """``line`` with one to four places changed, still one line."""
    changed = bytearray(line)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        start = chance.randrange(len(changed))
        end = start + chance.choice((0, 1, 2, 9))
        changed[start:end] = chance.choice(
            (
                b"",
                bytes([chance.randrange(256)]),
                changed[end : end + 9],
                b'"',
                b"\\",
                b"{",
                b"]",
                b"\\ud800",
                b"9" * 5000,
            )
        )
        changed = changed or bytearray(b"x")
    return bytes(changed.replace(b"\n", b" "))


def test_two_thousand_mutated_lines_are_answered_each(raw: RawClient) -> None:
    chance = random.Random(20_26)
    lines = []
    for number in range(100_000, 102_000):
        request = tool_call(number, '{"query":"echo Привет","limit":1}')
        if number % 2:
            request = f'{{"method":"ping","params":{{"_meta":{{"a":[1.5,true,null]}}}},"jsonrpc":"2.0","id":{number}}}'
        lines.append(mutated(chance, request.encode()))
    write_lines(raw, *lines)
    assert raw.request("ping")["result"] == {}
    messages = [json_or_none(line) for line in lines]
    numbers = {message["id"] for message in messages if message and isinstance(message.get("id"), int)}
    silent = sum(is_notification(message) for message in messages)
    assert len(numbers) > 300
    assert sum(message is None for message in messages) > 500
    for number in numbers:
        assert raw.reply(number, 30)
    assert raw.close() == 0
    assert len(raw.lines) == len(["initialize", "ping"]) + len(lines) - silent


def json_or_none(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def is_notification(message: dict[str, Any] | None) -> bool:
    if message is None or "id" in message or message.get("jsonrpc") != "2.0":
        return False
    if re.search("[\ud800-\udfff]", json.dumps(message, ensure_ascii=False)):
        return False
    return isinstance(message.get("method"), str) and isinstance(message.get("params", {}), dict)


def test_a_failure_while_a_line_is_judged_costs_only_that_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(line: str) -> None:
        if "boom" in line:
            raise MemoryError

    monkeypatch.setattr(mcp_server_stdio, "refusals", fails)
    reading, writing = os.pipe()
    answers, out = os.pipe()
    try:
        os.write(writing, b'{"id":5,"method":"boom"}\n{"id":6}\n')
        wire = mcp_server_stdio.WireIn(reading, mcp_server_stdio.WireOut(out))
        assert wire.readline() == '{"id":6}\n'
        answer = json.loads(os.read(answers, 4096))
        assert (answer["id"], answer["error"]["code"]) == (5, -32603)
    finally:
        for descriptor in (reading, writing, answers, out):
            os.close(descriptor)


def test_a_reader_that_fails_ends_the_process_with_an_error() -> None:
    broken = (
        "from pegas_memory import mcp_server_stdio as server\n"
        "def fails(*_): raise ValueError('secret')\n"
        "server.WireIn.readline = fails\n"
        "server.main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", broken],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=server_environment(),
    ) as process:
        assert process.stderr is not None
        assert process.wait(30) == 1
        said = process.stderr.read()
    assert b"incident=" in said
    assert b"Traceback" not in said
    assert b"secret" not in said


def test_an_error_that_is_no_unicode_can_be_sent() -> None:
    assert r"file \\udcff.pdf" in error_result("file \udcff.pdf").model_dump_json()


@pytest.mark.parametrize(
    "line",
    [
        '"id":"' * 20_000,
        '"id":1' + " " * 100_000,
        '"' + '\\"' * 60_000,
        '"id"' + " " * 100_000,
        '{"id":"' + "\\" * 99_999,
    ],
)
def test_looking_for_an_id_takes_no_time(line: str) -> None:
    """Patterns with nested repeats would take minutes for these, and the reader with them."""
    assert mcp_server_stdio.find_id(line[: mcp_server_stdio.EDGE], line[-mcp_server_stdio.EDGE :]) in (None, 1)


# --- ends ----------------------------------------------------------------------------------------


@pytest.mark.fault(5)
@pytest.mark.parametrize("command", [PRODUCT, CONSOLE], ids=["file", "console"])
def test_no_input_ends_it_at_once(command: tuple[str, ...], tmp_path: Path) -> None:
    home = tmp_path / "home"
    ended = subprocess.run(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=server_environment(PEGAS_HOME=str(home)),
        timeout=30,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert not home.exists()


@pytest.mark.parametrize(
    ("how", "busy"),
    [
        (signal.SIGTERM, False),
        (signal.SIGTERM, True),
        (signal.SIGINT, False),
        (signal.SIGINT, True),
        (signal.SIGHUP, True),
        (None, False),
        (None, True),
    ],
)
def test_clean_ends(raw: RawClient, how: signal.Signals | None, busy: bool) -> None:
    if busy:
        raw.start_call("memory_search", query="sleep 60")
        raw.start_call("memory_ingest", text="slow 60")
        assert raw.request("ping")["result"] == {}
    began = time.monotonic()
    if how is None:
        assert raw.close(20) == 0
    else:
        raw.process.send_signal(how)
        assert raw.ended(20) == 0
    assert time.monotonic() - began < PROMPT_EXIT
    assert "Traceback" not in raw.stderr


def test_requests_before_the_end_of_input_are_answered() -> None:
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "memory_stats", "arguments": {}}},
    ]
    ended = subprocess.run(
        [sys.executable, *RECORDING],
        input="".join(json.dumps(message) + "\n" for message in messages).encode(),
        capture_output=True,
        env=server_environment(),
        timeout=30,
    )
    assert sorted(json.loads(line)["id"] for line in ended.stdout.splitlines()) == [1, 2, 3]
    assert ended.returncode == 0


@pytest.mark.fault(5)
def test_a_dead_parent_ends_it_though_the_pipe_stays_open() -> None:
    parent = (
        "import os, signal, subprocess, sys\n"
        "server = subprocess.Popen([sys.executable, *sys.argv[2:]], stdin=int(sys.argv[1]), stdout=subprocess.PIPE)\n"
        "server.stdout.readline()\n"
        "print(server.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    reading, writing = os.pipe()
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}
    os.write(writing, json.dumps(message).encode() + b"\n")
    try:
        killed = subprocess.run(
            [sys.executable, "-c", parent, str(reading), *RECORDING],
            pass_fds=[reading],
            capture_output=True,
            env=server_environment(),
            timeout=30,
        )
        server = int(killed.stdout)
        until = time.monotonic() + 20
        while _runs(server) and time.monotonic() < until:
            time.sleep(0.05)
        assert not _runs(server)
    finally:
        os.close(reading)
        os.close(writing)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
