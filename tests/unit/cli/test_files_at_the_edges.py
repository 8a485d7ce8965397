"""Unusual files, in and out: links, times set back, empty files, long names, clashes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import MIB
from siltstone.migration.files import import_files
from siltstone.migration.files.copy_files import copy_group
from tests.support.command import Command

DONE, FAILED, USAGE, CONFLICT = 0, 1, 2, 4
LONG = ["x" * 216, "x" * 255, "\u6587" * 80]
"""Names that a file system accepts, near its limit of 255 bytes."""


def names(folder: Path) -> list[str]:
    with siltstone.open(folder, read_only=True) as store:
        return [info.name for info in store.list()]


@pytest.mark.slow
def test_a_file_that_is_written_again_with_its_time_set_back_is_noticed(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"a" * MIB)
    status = source.stat()

    def copied(*arguments: object) -> object:
        with source.open("r+b") as file:
            file.write(b"b" * MIB)
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
        return copy_group(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(import_files, "copy_group", copied)
    ran = command("import", "one", str(source))
    assert ran.code == FAILED
    assert "the file was changed during the import" in ran.err
    assert str(source) in ran.err
    assert names(folder) == []


@pytest.mark.slow
def test_a_link_to_a_folder_stands_for_its_files(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    for path in ("far/deep/b", "source/a"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(path.encode())
    (tmp_path / "source" / "link").symlink_to(tmp_path / "far")
    (tmp_path / "source" / "twice").symlink_to(tmp_path / "far" / "deep")
    assert command("import", "in/{path}", str(tmp_path / "source")).code == DONE
    assert names(folder) == ["in/a", "in/link/deep/b", "in/twice/b"]
    assert command("cat", "in/twice/b").out == "far/deep/b"


@pytest.mark.slow
@pytest.mark.parametrize("target", [".", "..", "../.."])
def test_a_link_to_a_folder_that_it_lies_in_is_refused_by_name(
    command: Command, folder: Path, tmp_path: Path, target: str
) -> None:
    deep = tmp_path / "source" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"x")
    (deep / "circle").symlink_to(target)
    ran = command("import", "in/{path}", str(tmp_path / "source"))
    assert ran.code == FAILED
    assert "a link leads to a folder that it lies in" in ran.err
    assert str(deep / "circle") in ran.err
    assert names(folder) == []


def test_a_file_that_says_it_is_empty_and_is_not_is_refused(command: Command, folder: Path) -> None:
    assert Path("/proc/version").stat().st_size == 0, "this is what the test is about"
    ran = command("import", "version", "/proc/version")
    assert ran.code == FAILED
    assert "file=/proc/version" in ran.err
    assert names(folder) == []


@pytest.mark.slow
def test_empty_files_are_part_of_their_adoption(command: Command, folder: Path) -> None:
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as settings:
        settings.write("\ngarbage:\n  delay: 0s\n")
    old = folder / "chunks" / "old"
    old.mkdir()
    files = {"full": b"bytes", "empty": b"", "void": b""}
    for name, data in files.items():
        (old / name).write_bytes(data)
    rule = ["import", "{tag}{name}", str(old), "--in-place"]
    assert command(*rule, "--no-verify").code == DONE
    assert command("cat", "{tag}empty").out == ""
    assert command(*rule, "--no-verify").code == DONE, "a repeat changes nothing"
    assert command("check", "--deep").code == DONE
    (adoption,) = command("adoption", "ls", "--json").values
    assert (adoption["chunks"], adoption["dropped"]) == (1, 2)
    with siltstone.open(folder) as store:
        store.segment("{tag}full").delete()
        store.segment("{tag}empty").delete()
        store.segment("{tag}void").delete()
        store.collect()
    assert {path.name for path in old.iterdir()} == set(files), "kept until it is finalised"
    assert command("adoption", "finalise", "files").code == DONE
    with siltstone.open(folder) as store:
        store.collect()
    assert list(old.glob("*")) == []


@pytest.mark.slow
def test_empty_files_that_are_released_may_come_again(command: Command, folder: Path) -> None:
    old = folder / "chunks" / "old"
    old.mkdir()
    (old / "empty").touch()
    assert command("import", "a", str(old), "--in-place").code == DONE
    assert command("rm", "a").code == DONE
    assert command("adoption", "release", "files").code == DONE
    assert (old / "empty").exists()
    assert command("import", "b", str(old), "--in-place").code == DONE
    assert names(folder) == ["b"]


@pytest.mark.slow
def test_names_near_the_limit_of_a_file_system_go_out_again(
    command: Command, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in LONG:
        (source / name).write_bytes(name.encode())
    assert command("import", "in/{path}", str(source)).code == DONE
    assert command("export", "in/{path}", str(target)).code == DONE
    assert {path.name: path.read_text() for path in target.iterdir()} == {n: n for n in LONG}
    assert command("export", "in/{path}", str(target), "--overwrite").code == DONE
    assert sorted(path.name for path in target.iterdir()) == sorted(LONG), "no draft is left"


@pytest.mark.slow
def test_a_file_that_would_be_the_folder_of_another_is_refused_before_any_is_written(
    command: Command, tmp_path: Path
) -> None:
    for name in ("q/0", "q/a", "q/a/b"):
        assert command("create", name).code == DONE
    target = tmp_path / "target"
    for segments in (["q/{path}"], ["q/0", "q/a", "q/a/b"]):
        ran = command("export", *segments, str(target))
        assert ran.code == USAGE
        assert "q/a" in ran.err
        assert "q/a/b" in ran.err
        assert not target.exists()


@pytest.mark.slow
def test_two_segments_that_would_be_one_file_are_refused_before_any_is_written(
    command: Command, tmp_path: Path
) -> None:
    for name in ("a/x", "b/x"):
        assert command("create", name).code == DONE
    ran = command("export", "a/{path}", "b/{path}", str(tmp_path / "target"), "--overwrite")
    assert ran.code == USAGE
    assert "a/x" in ran.err
    assert "b/x" in ran.err
    assert not (tmp_path / "target").exists()


@pytest.mark.slow
def test_a_file_in_the_place_of_a_folder_is_named_before_any_is_written(
    command: Command, tmp_path: Path
) -> None:
    for name in ("q/0", "q/a/b"):
        assert command("create", name).code == DONE
    target = tmp_path / "target"
    target.mkdir()
    (target / "a").write_bytes(b"mine")
    ran = command("export", "q/{path}", str(target))
    assert ran.code == FAILED
    assert str(target / "a") in ran.err
    assert [path.name for path in target.iterdir()] == ["a"]
