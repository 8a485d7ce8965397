"""A checkpoint made of local copies: whole or not at all, and no way back into the copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.core.records.checkpoint import IndexFile
from siltstone.metadata.checkpoint import link_index

CONTENTS = {"000012.sst": b"rows of a table", "CURRENT": b"MANIFEST-000005\n", "MANIFEST": b"m"}


def listed(contents: dict[str, bytes]) -> list[IndexFile]:
    return [
        IndexFile(file_name=name, chunk_name=f"chunk of {name}", length=len(data), crc=0)
        for name, data in contents.items()
    ]


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    folder = tmp_path / "copies"
    folder.mkdir()
    for name, data in {**CONTENTS, "000099.sst": b"of a later checkpoint"}.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("parents", ["", "not/there/"])
def test_all_files_are_there_and_no_others(copies: Path, tmp_path: Path, parents: str) -> None:
    folder = tmp_path / f"{parents}linked"
    assert link_index(listed(CONTENTS), copies, folder) is True
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENTS


def test_what_was_there_goes(copies: Path, tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    folder.mkdir()
    (folder / "000077.sst").write_bytes(b"of an older index")
    (folder / "CURRENT").write_bytes(b"older")
    assert link_index(listed(CONTENTS), copies, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENTS


def test_only_files_that_never_change_are_linked(copies: Path, tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    assert link_index(listed(CONTENTS), copies, folder)
    assert (folder / "000012.sst").samefile(copies / "000012.sst")
    for name in ("CURRENT", "MANIFEST"):
        (folder / name).write_bytes(b"rewritten")
        assert (copies / name).read_bytes() == CONTENTS[name]


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("way", ["missing", "shorter", "longer", "a folder"])
def test_one_wrong_copy_is_no_checkpoint(copies: Path, tmp_path: Path, name: str, way: str) -> None:
    path = copies / name
    data = path.read_bytes()
    path.unlink()
    if way == "a folder":
        path.mkdir()
    elif way != "missing":
        path.write_bytes(data[:-1] if way == "shorter" else data + b"!")
    folder = tmp_path / "linked"
    folder.mkdir()
    (folder / "000077.sst").write_bytes(b"of an older index")
    assert link_index(listed(CONTENTS), copies, folder) is False
    assert not folder.exists() or list(folder.iterdir()) == []


def test_what_was_begun_is_taken_away(copies: Path, tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    contents = {**CONTENTS, "no/folder": b"x"}
    (copies / "no").mkdir()
    (copies / "no" / "folder").write_bytes(b"x")
    assert link_index(listed(contents), copies, folder) is False
    assert not folder.exists()
