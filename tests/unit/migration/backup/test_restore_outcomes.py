"""Backups and restores without an answer for a chunk, and restores with a damaged chunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError, LostDataError
from siltstone.core.hooks import load_chunk_storage
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.migration.backup.admin import list_backups
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import PipelineError
from siltstone.store.admin import place_settings
from tests.support.migration.backups import Seen, content, content_of, damage, noise, silent
from tests.support.migration.backups import tmp_path as tmp_path
from tests.support.stores import make_store

NAMES = ("a", "b", "c")
Case = tuple[Path, dict[str, Seen]]


@pytest.fixture
def backed_up(tmp_path: Path) -> Case:
    """A place with three chunks, and their content."""
    folder = make_store(tmp_path / "store", chunk_bytes=64 * KIB, containers=1)
    with siltstone.open(folder) as store:
        for name in NAMES:
            store.create(name).append(noise(50_000))
        store.flush()
        expected = content(store)
    create_backup(folder, tmp_path / "place")
    return tmp_path / "place", expected


class _Silent(WrappedChunkStorage):
    """Never answers reads of one segment's chunk."""

    def __init__(self, inner: ChunkStorage, segment: str) -> None:
        super().__init__(inner)
        self.segment = segment

    def _call(self, operation: str, name: str, action: Any) -> Any:
        if operation == "read_into" and "/chunks/" in name and f"/{self.segment}/" in name:
            raise ChunkUnavailableError("no answer", chunk=name, operation=operation)
        return action()


@pytest.mark.slow
@pytest.mark.parametrize("allow_missing", [False, True])
@pytest.mark.parametrize("segment", NAMES)
def test_a_place_that_does_not_answer_makes_no_store_without_the_chunk(
    backed_up: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    segment: str,
    allow_missing: bool,
) -> None:
    place, expected = backed_up
    with monkeypatch.context() as patch:
        patch.setattr(
            place_settings,
            "load_chunk_storage",
            lambda *args: _Silent(load_chunk_storage(*args), segment),
        )
        with pytest.raises(PipelineError, match=rf"the place did not answer: .*/{segment}/"):
            restore_backup(place, tmp_path / "new", allow_missing=allow_missing)
    assert not (tmp_path / "new" / "siltstone.yaml").exists()
    # The chunks of the first attempt stay, and the next one continues with the whole ones.
    came = (tmp_path / "new" / "chunks" / "data").rglob("*.chunk")
    damage(next(chunk for chunk in came if chunk.stat().st_size == 50_000), 40_000)
    report = restore_backup(place, tmp_path / "new")
    assert (report.chunks + report.found, report.missing) == (len(NAMES), {})
    assert content_of(tmp_path / "new") == expected


@pytest.mark.slow
def test_a_store_that_does_not_answer_makes_no_backup_without_the_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_store(tmp_path / "store", chunk_bytes=64 * KIB, containers=1)
    place = tmp_path / "place"
    with siltstone.open(folder) as store:
        for name in NAMES:
            store.create(name).append(noise(50_000))
        store.flush()
        expected = content(store)
    for allow_missing in (False, True):
        with (
            silent(monkeypatch, "b"),
            pytest.raises(PipelineError, match=r"the store did not answer: .*/b/"),
        ):
            create_backup(folder, place, allow_missing=allow_missing)
        assert list_backups(place) == []
    # Copied fragments stay, and the next backup continues with the whole ones.
    came = place.rglob("*.chunk.*")
    damage(next(chunk for chunk in came if chunk.stat().st_size == 50_000), 40_000)
    report = create_backup(folder, place)
    assert (report.found_fragments, report.copied_fragments) == (1, 2)
    restore_backup(place, tmp_path / "new")
    assert content_of(tmp_path / "new") == expected


@pytest.mark.slow
def test_a_damaged_chunk_is_left_out_only_if_that_is_wanted(
    backed_up: Case, tmp_path: Path
) -> None:
    place, expected = backed_up
    (fragment,) = place.rglob("b/*.0-50000")
    damage(fragment, 40_000)
    with pytest.raises(CorruptDataError, match="the backup is damaged"):
        restore_backup(place, tmp_path / "new")
    assert not (tmp_path / "new" / "siltstone.yaml").exists()
    report = restore_backup(place, tmp_path / "new", allow_missing=True)
    assert [Path(name).parent.name for name in report.missing] == ["b"]
    with siltstone.open(tmp_path / "new") as store:
        for name in ("a", "c"):
            assert store.segment(name).read(0, MIB) == expected[name].data
        with pytest.raises(LostDataError):
            store.segment("b").read(0, 100)


@pytest.mark.slow
def test_what_a_try_brought_whole_is_not_brought_again_and_what_is_longer_is(
    backed_up: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, expected = backed_up
    new = tmp_path / "new"
    with monkeypatch.context() as patch:
        patch.setattr(
            place_settings,
            "load_chunk_storage",
            lambda *args: _Silent(load_chunk_storage(*args), "c"),
        )
        with pytest.raises(PipelineError):
            restore_backup(place, new, executor=LocalExecutor(1))
    whole = sorted((new / "chunks" / "data").rglob("*.chunk"))
    # The third one was only begun.
    assert [path.stat().st_size for path in whole] == [50_000, 50_000, 0]
    with whole[0].open("ab") as file:
        file.write(b"more")
    report = restore_backup(place, new)
    assert (report.chunks, report.found) == (2, 1)
    assert whole[0].stat().st_size == 50_000
    assert content_of(new) == expected
