"""Documents are read in child processes: what a hostile file does there, and what becomes of the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pegas_memory.errors import (
    Cancelled,
    InputError,
    NoUsableText,
    ParserFailed,
    ParserTimeout,
    PasswordNeeded,
    Unavailable,
    UnreadableFile,
)
from pegas_memory.model import Distill, DocumentKind
from pegas_memory.reading import Reader, Reading, Source, process, work
from tests.support import hostile_files, pdf_files
from tests.support.engines import eventually, gone
from tests.support.readers import children

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
SMALL = Source("Пегас — крылатый конь. Он живёт на горе Геликон.".encode(), name="Пегас.txt")
LONG = Source(b"The horse number 17 of the king flew over the mountain in the year 1912.\n\n" * 30_000, name="long.txt")
"""Some seconds of work, of which the first word comes soon."""
PDF = pdf_files.pdf([[pdf_files.Text("Pegasus flies over the mountain of the muses.", y=700)]])


@pytest.fixture
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.close()
    assert children() == []


def read(reader: Reader, source: Source) -> Reading:
    return reader.read(source, stop=threading.Event())


def begun(reader: Reader, source: Source, stop: threading.Event, pool: ThreadPoolExecutor):  # type: ignore[no-untyped-def]
    """A reading under way in another thread, of which the first word has been heard."""
    heard = threading.Event()
    running = pool.submit(reader.read, source, stop=stop, progress=lambda *_: heard.set())
    assert heard.wait(60)
    return running


# --- what is read is what is read at home ------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        SMALL,
        replace(SMALL, distill=Distill.OFF, title="Мой заголовок"),
        Source("# Кони\n\nПегас летает. 🐎\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode(), kind=DocumentKind.MARKDOWN),
        Source("Текст, который держит зовущий.".encode(), decoded=True, title="Свой"),
        Source(PDF, name="horse.pdf"),
        Source(hostile_files.epub_with_page(hostile_files.BILLION_LAUGHS), name="book.epub"),
    ],
    ids=["text", "off", "markdown", "decoded", "pdf", "epub"],
)
def test_a_reading_arrives_as_it_was_made(reader: Reader, source: Source) -> None:
    assert read(reader, source) == without_blocks(work.read(source))


@pytest.mark.skipif(not DATA.is_dir(), reason="the reference sets (../shared/data) are not on this machine")
def test_the_reference_sets_arrive_as_they_were_made(reader: Reader) -> None:
    files = [*(DATA / "pdf").glob("*.pdf"), *(DATA / "epub").glob("pkg-*.epub"), DATA / "epub" / "wasteland.epub"]
    assert len(files) > 10
    for file in files:
        source = Source(file.read_bytes(), name=file.name)
        assert outcome(lambda source=source: without_blocks(work.read(source))) == outcome(
            lambda source=source: read(reader, source)
        )
    assert len(children()) == 1


def outcome(reading: Callable[[], Reading]) -> Reading | tuple[type[InputError], str]:
    try:
        return reading()
    except InputError as error:
        return type(error), str(error)


def without_blocks(reading: Reading) -> Reading:
    chunks = [replace(chunk, blocks=()) for chunk in reading.chunks]
    return Reading(replace(reading.document, blocks=()), chunks, reading.drafts)


def test_a_child_is_kept_and_an_unreadable_source_does_not_cost_it(reader: Reader) -> None:
    read(reader, SMALL)
    first = children()
    with pytest.raises(UnreadableFile):
        read(reader, Source(b"%PDF-1.7 nothing more", name="a.pdf"))
    with pytest.raises(PasswordNeeded):
        read(reader, Source(pdf_files.locked(PDF, "user", "owner"), name="a.pdf"))
    with pytest.raises(NoUsableText):
        read(reader, Source(b"  ", name="a.txt"))
    read(reader, SMALL)
    assert children() == first
    assert len(first) == 1


def test_a_child_that_served_long_enough_or_died_at_rest_is_replaced(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MAX_SERVED", 2)
    read(reader, SMALL)
    first = children()
    read(reader, SMALL)
    assert children() == []
    read(reader, SMALL)
    second = children()
    assert second != first
    os.kill(second[0], signal.SIGKILL)
    eventually(lambda: gone(second[0]), "the child is gone")
    assert read(reader, SMALL).chunks


def test_a_source_that_meets_a_child_on_its_way_out_goes_to_another(reader: Reader) -> None:
    read(reader, SMALL)
    (leaving,) = children()
    os.kill(leaving, signal.SIGSTOP)
    stdin, _, _ = reader._idle[0]._pipes()
    os.dup2(os.open(os.devnull, os.O_WRONLY), stdin.fileno())  # it sees the end, as after an idle minute
    with ThreadPoolExecutor() as pool:
        running = pool.submit(read, reader, SMALL)
        time.sleep(0.3)
        os.kill(leaving, signal.SIGCONT)
        assert running.result(30).chunks
    assert children() != [leaving]


def test_progress_is_told(reader: Reader) -> None:
    told: list[tuple[str, int, int]] = []
    reading = reader.read(LONG, stop=threading.Event(), progress=lambda *said: told.append(said))
    assert len(told) > 3
    assert {what for what, _, _ in told} == {"characters"}
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert {of for _, _, of in told} == {len(reading.document.text)}


# --- what hostile files do ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "errors"),
    [
        (Source(hostile_files.pdf_with_content(hostile_files.deflated(2_000, b" ")), name="a.pdf"), InputError),
        (
            Source(
                hostile_files.pdf_with_content(
                    zlib.compress(hostile_files.deflated(2_000, b" "), 9), "[/FlateDecode /FlateDecode]"
                ),
                name="a.pdf",
            ),
            InputError,
        ),
        (Source(hostile_files.epub_with_page(b" " * 400_000_000), name="a.epub"), UnreadableFile),
        (Source(b"<html><body>" + b"<div>" * 1_000_000 + b"end", name="a.html"), InputError),
    ],
    ids=["pdf-stream", "pdf-stream-twice", "zip", "depth"],
)
def test_a_bomb_ends_its_own_reading_only(reader: Reader, source: Source, errors: type[InputError]) -> None:
    began = time.monotonic()
    with pytest.raises(errors):
        read(reader, source)
    assert time.monotonic() - began < 20
    assert read(reader, SMALL).document.text


def test_entities_are_not_unfolded(reader: Reader) -> None:
    for source in (
        Source(hostile_files.epub_with_page(hostile_files.BILLION_LAUGHS), name="a.epub"),
        Source(hostile_files.BILLION_LAUGHS.encode(), name="a.xhtml"),
        Source(
            hostile_files.BILLION_LAUGHS.encode(), name="https://example.org/", content_type="application/xhtml+xml"
        ),
    ):
        text = read(reader, source).document.text
        assert "Pegasus is a horse that flies." in text
        assert len(text) < 1_000


@pytest.mark.parametrize(
    "text", ["(" * 200_000, ". " * 100_000, "1." * 100_000, "A. B. " * 50_000, "*a **b " * 30_000, "[" * 100_000]
)
@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_text_that_is_hard_on_patterns_comes_to_an_end(reader: Reader, text: str, name: str) -> None:
    began = time.monotonic()
    try:
        read(reader, Source(f"{text} Pegasus flies.".encode(), name=name))
    except InputError:
        pass
    assert time.monotonic() - began < 20


# --- what becomes of a child that crashes, hangs, or is stopped ------------------------------------------


def test_a_child_that_is_killed_in_the_middle_fails_its_source_only(reader: Reader) -> None:
    with ThreadPoolExecutor() as pool:
        running = begun(reader, LONG, threading.Event(), pool)
        os.kill(children()[0], signal.SIGKILL)
        with pytest.raises(ParserFailed):
            running.result(30)
    assert read(reader, SMALL).chunks


def test_a_child_that_hangs_is_ended(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = process.limits_for
    monkeypatch.setattr(process, "limits_for", lambda size: replace(limits(size), silence=3.0))
    with ThreadPoolExecutor() as pool:
        running = begun(reader, LONG, threading.Event(), pool)
        (child,) = children()
        os.kill(child, signal.SIGSTOP)
        with pytest.raises(ParserTimeout):
            running.result(30)
    eventually(lambda: gone(child), "the child is gone")
    assert read(reader, SMALL).chunks


def test_a_reading_that_goes_on_too_long_is_ended(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = process.limits_for
    monkeypatch.setattr(process, "limits_for", lambda size: replace(limits(size), wall=1.0))
    with pytest.raises(ParserTimeout):
        read(reader, LONG)


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("Budget(Limits(10**9, 1, 9, 9, 9))\nwhile True: pass", -signal.SIGXCPU),
        ("b = Budget(Limits(10**9, 9, 2, 9, 9))\nwhile True: b.step()", -signal.SIGXCPU),
        ("Budget(Limits(10**8, 9, 9, 9, 9))\ntry: bytes(2 * 10**8)\nexcept MemoryError: raise SystemExit(7)", 7),
        ("import os\ntry: open('written', 'wb').write(b'x' * 10_000)\nexcept OSError: raise SystemExit(7)", 7),
    ],
    ids=["a step", "in all", "memory", "files"],
)
def test_the_kernel_holds_a_child_to_its_limits(tmp_path: Path, code: str, ends: int) -> None:
    script = f"from pegas_memory.reading.limits import Budget, Limits, confine\nconfine()\n{code}"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, timeout=60)
    assert done.returncode == ends


def test_what_a_stop_asks_for_happens_at_once(reader: Reader) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        running = begun(reader, LONG, stop, pool)
        (child,) = children()
        began = time.monotonic()
        stop.set()
        with pytest.raises(Cancelled):
            running.result(30)
        assert time.monotonic() - began < 2
    assert gone(child)


def test_what_progress_raises_ends_the_reading(reader: Reader) -> None:
    def refuse(*_: object) -> None:
        raise Cancelled("Not any more.")

    with pytest.raises(Cancelled):
        reader.read(LONG, stop=threading.Event(), progress=refuse)
    assert children() == []


def test_a_reader_that_is_closed_ends_what_is_under_way() -> None:
    reader = Reader()
    with ThreadPoolExecutor() as pool:
        running = begun(reader, LONG, threading.Event(), pool)
        reader.close()
        with pytest.raises(Cancelled):
            running.result(30)
    with pytest.raises(Cancelled):
        read(reader, SMALL)
    assert children() == []


def test_a_child_does_not_outlive_a_parent_that_is_killed() -> None:
    script = (
        "import threading\nfrom pegas_memory.reading import Reader, Source\n"
        "text = b'The horse number 17 of the king flew over the mountain.\\n\\n' * 200_000\n"
        "Reader().read(Source(text, name='a.txt'), stop=threading.Event(), progress=lambda *_: print('on', flush=True))"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, env={})
    assert parent.stdout is not None
    with parent, parent.stdout:
        assert parent.stdout.readline() == b"on\n"
        (child,) = children(parent.pid)
        parent.kill()
        eventually(lambda: gone(child), "the child is gone")


# --- several at a time, and what a child holds ---------------------------------------------------------------


def test_two_are_read_at_a_time_and_a_third_waits_for_its_turn(reader: Reader) -> None:
    with ThreadPoolExecutor() as pool:
        stops = [threading.Event(), threading.Event()]
        running = [begun(reader, LONG, stop, pool) for stop in stops]
        assert len(children()) == 2
        third = pool.submit(read, reader, SMALL)
        time.sleep(0.3)
        assert not third.done()
        stops[0].set()
        assert third.result(30).document.title == "Пегас"
        assert len(children()) == 2
        stops[1].set()
        assert all(isinstance(one.exception(30), Cancelled) for one in running)


def test_a_child_holds_nothing_of_its_parent(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEGAS_OPENAI_API_KEY", "a key")
    monkeypatch.setenv("SOME_TOKEN", "a token")
    with (ROOT / "README.md").open("rb") as file:
        os.set_inheritable(file.fileno(), True)
        read(reader, SMALL)
    (child,) = children()
    proc = Path(f"/proc/{child}")
    names = {entry.partition(b"=")[0].decode() for entry in (proc / "environ").read_bytes().split(b"\0") if entry}
    assert names - {"LD_LIBRARY_PATH", "TZ"} == {"PYTHONPATH"}
    held = [os.readlink(link) for link in (proc / "fd").iterdir()]
    assert [link for link in held if not link.startswith("pipe:") and link != "/dev/null"] == []
    limits = {line[:26].strip(): line[26:].split()[:2] for line in (proc / "limits").read_text().splitlines()}
    assert limits["Max core file size"] == limits["Max file size"] == ["0", "0"]
    assert int(limits["Max address space"][0]) < 1_100_000_000
    assert os.getpriority(os.PRIO_PROCESS, child) > os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false"])
def test_no_process_to_be_had_is_nobody_s_fault(reader: Reader, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(Unavailable) as raised:
        read(reader, SMALL)
    assert not isinstance(raised.value, InputError)
    monkeypatch.undo()
    assert read(reader, SMALL).chunks
