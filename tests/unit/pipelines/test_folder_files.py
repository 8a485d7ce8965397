"""Drafts in a folder: those of dead writers go, those of living ones stay."""

from __future__ import annotations

import os
from pathlib import Path

from siltstone.pipelines.folder_files import draft_of, is_left, publish, remove_old_drafts


def left(path: Path) -> Path:
    """The draft that a killed writer of ``path`` on this machine leaves."""
    with draft_of(path) as draft:
        name = draft
    name.write_bytes(b"half")
    return name


def test_the_next_writer_of_a_file_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path, neighbour = tmp_path / "a[1]", tmp_path / "b"
    first, other = left(path), left(neighbour)
    with draft_of(path) as draft:
        assert not first.exists()
        assert other.exists()
        draft.write_bytes(b"whole")
        assert publish(draft, path)
    assert remove_old_drafts(tmp_path, 0.0) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["a[1]"]


def test_a_draft_of_a_living_writer_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with draft_of(path) as one, draft_of(path) as other:
        assert remove_old_drafts(tmp_path, 0.0) == 0
        assert one.exists()
        assert other.exists()
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_published_by_a_dead_writer_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"there before")
    left(path)
    assert not is_left(path)
    path.unlink()
    os.link(left(path), path)
    assert is_left(path)
