"""Which files may be read, and what is no file at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pegas_memory.errors import NoUsableText, PathNotAllowed, UnreadableFile
from pegas_memory.ingest import allowed_path, read_file
from pegas_memory.model import DocumentKind


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "note.txt").write_text("Заметка о кассе.", encoding="utf-8")
    (tmp_path / "outside.txt").write_text("чужое", encoding="utf-8")
    return folder


def test_files_below_a_root_are_allowed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert allowed_path(str(root / "note.txt"), [root]) == root / "note.txt"
    assert allowed_path("note.txt", [root]) == root / "note.txt"
    assert allowed_path(str(root), [root]) == root
    assert allowed_path("missing.txt", [root]).name == "missing.txt"
    monkeypatch.chdir(root)
    assert allowed_path("./note.txt", [root]) == root / "note.txt"
    (root / "link.txt").symlink_to("note.txt")
    assert allowed_path("link.txt", [root]) == root / "note.txt"


def test_links_and_dots_do_not_lead_out(root: Path) -> None:
    (root / "link.txt").symlink_to(root.parent / "outside.txt")
    (root / "folder").symlink_to(root.parent)
    (root / "loop").symlink_to(root / "loop")
    for source in (
        "link.txt",
        "folder/outside.txt",
        "../outside.txt",
        "/etc/passwd",
        "/",
        "",
        "a\x00b",
        "docs/../../outside.txt",
    ):
        with pytest.raises(PathNotAllowed) as refused:
            allowed_path(source, [root])
        assert "outside" not in str(refused.value).replace("lies outside", "")
        assert str(root) not in str(refused.value)
    sibling = root.parent / "docs-other"
    sibling.mkdir()
    with pytest.raises(PathNotAllowed):
        allowed_path(str(sibling / "x.txt"), [root])
    with pytest.raises(PathNotAllowed):
        allowed_path("note.txt", [])


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".ssh/config",
        "sub/.git/config",
        "id_rsa",
        "id_ed25519.pub",
        "server.pem",
        "tls.KEY",
        "credentials.json",
        "x.kdbx",
    ],
)
def test_hidden_and_key_files_are_refused(root: Path, name: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("secret", encoding="utf-8")
    for source in (name, str(path)):
        with pytest.raises(PathNotAllowed):
            allowed_path(source, [root])
    plain = root / "plain.txt"
    plain.symlink_to(path)
    with pytest.raises(PathNotAllowed):
        allowed_path("plain.txt", [root])


def test_a_root_below_a_hidden_folder_is_the_operators_choice(tmp_path: Path) -> None:
    root = tmp_path / ".notes" / "library"
    root.mkdir(parents=True)
    (root / "a.txt").write_text("текст", encoding="utf-8")
    assert allowed_path(str(root / "a.txt"), [root]) == root / "a.txt"


def test_what_is_not_a_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero"), tmp_path / "missing.txt", tmp_path / ("x" * 300)):
        with pytest.raises(UnreadableFile) as refused:
            read_file(path)
        assert str(tmp_path) not in str(refused.value)


def test_empty_and_enormous_files(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.touch()
    with pytest.raises(NoUsableText):
        read_file(empty)
    sparse = tmp_path / "sparse.txt"
    with sparse.open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(UnreadableFile):
        read_file(sparse)


def test_kind_by_content_and_title_by_name(tmp_path: Path) -> None:
    for name, content, kind in (
        ("Отчёт за март.txt", "Прибыль выросла.", DocumentKind.TEXT),
        ("readme.MD", "Просто текст.", DocumentKind.MARKDOWN),
        ("page", "<!doctype html>\n<p>Слово и дело</p>", DocumentKind.HTML),
        ("page.html", "<p>Слово и дело</p>", DocumentKind.HTML),
    ):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        document = read_file(path)
        assert document.kind is kind
        assert document.title == path.stem
    assert read_file(tmp_path / "page.html", DocumentKind.TEXT).text == "<p>Слово и дело</p>"
