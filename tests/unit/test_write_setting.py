"""One setting written into config.toml: whole or not at all, and nothing else of the file is touched."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pegas_memory.config import write_setting
from pegas_memory.errors import BadSettings, HomeNotWritable


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, 'embedder = "new"\n'),
        ("", 'embedder = "new"\n'),
        ('# mine\nembedder = "old"  # why\ntenant = "t"\n', '# mine\nembedder = "new"\ntenant = "t"\n'),
        ('# embedder = "no"\ntenant = "t"', 'embedder = "new"\n# embedder = "no"\ntenant = "t"'),
        ('[other]\nembedder = "theirs"\n', 'embedder = "new"\n[other]\nembedder = "theirs"\n'),
        ('embedder = "old"', 'embedder = "new"\n'),
        ('embedder_more = "x"\n', 'embedder = "new"\nembedder_more = "x"\n'),
    ],
)
def test_the_rest_of_the_file_stays(tmp_path: Path, before: str | None, after: str) -> None:
    file = tmp_path / "config.toml"
    if before is not None:
        file.write_text(before, encoding="utf-8")
    write_setting(tmp_path, "embedder", "new")
    assert file.read_text(encoding="utf-8") == after
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    "before",
    [b'tenant = "t\n', b"embedder = '''\nold\n'''\n", b'tenant = "\xff"\n'],
    ids=["broken", "several lines", "not utf-8"],
)
def test_what_cannot_be_changed_is_refused_untouched(tmp_path: Path, before: bytes) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(before)
    with pytest.raises(BadSettings, match="cannot be changed"):
        write_setting(tmp_path, "embedder", "new")
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_home_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(HomeNotWritable):
        write_setting(tmp_path / "none", "embedder", "new")
