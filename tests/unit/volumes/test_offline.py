"""A client whose place does not answer commits and reads what it has, and says what it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkUnavailableError
from siltstone.volumes import SyncAction, VolumeClient, VolumeStatus
from siltstone.volumes.settings import ClientSettings
from tests.support.volumes.counted_place import CountedPlace
from tests.support.volumes.page_model import PAGE_BYTES

PAGE = b"p" * PAGE_BYTES


@pytest.fixture
def place() -> CountedPlace:
    return CountedPlace(Bucket())


@pytest.fixture
def client(tmp_path: Path, place: CountedPlace) -> Iterator[VolumeClient]:
    settings = ClientSettings(place="memory")
    with VolumeClient(tmp_path / "a", settings, lambda: place, SystemEnvironment()) as client:
        yield client


def commit(client: VolumeClient, name: str, index: int, page: bytes = PAGE) -> None:
    with client.volume(name).writer() as writer:
        writer.write(index, page)
        writer.commit()


def test_a_volume_is_made_written_and_read_offline_and_pushed_later(
    client: VolumeClient, place: CountedPlace
) -> None:
    place.is_cut_off = True
    volume = client.create("notes")
    for index in (1, 2, 3):
        commit(client, "notes", index)
    with volume.reader() as reader:
        assert (reader.read(3), reader.read(4), reader.page_count) == (PAGE, bytes(PAGE_BYTES), 3)
    with pytest.raises(ChunkUnavailableError):
        volume.push()
    assert volume.info().line == "3 +3 r_"
    assert volume.info().status is VolumeStatus.OK
    place.is_cut_off = False
    assert volume.push()
    assert volume.info().line == "3 r1"


def test_a_sync_tells_of_each_volume_what_it_did_or_why_not(
    client: VolumeClient, place: CountedPlace
) -> None:
    client.create("b", sync="push")
    client.create("a", sync="disabled")
    client.create("c", sync="pull")
    for name in "abc":
        commit(client, name, 1)
    place.is_cut_off = True
    failed = client.sync()
    assert [(each.name, each.action) for each in failed] == [
        ("a", SyncAction.SKIPPED),
        ("b", None),
        ("c", None),
    ]
    assert isinstance(failed[1].error, ChunkUnavailableError)
    place.is_cut_off = False
    assert [(each.name, each.action, each.error) for each in client.sync()] == [
        ("a", SyncAction.SKIPPED, None),
        ("b", SyncAction.PUSHED, None),
        ("c", SyncAction.NOTHING, None),
    ]
    client.volume("c").set_sync("both")
    assert client.volume("c").sync() is SyncAction.PUSHED
    with pytest.raises(ValueError, match="sideways"):
        client.volume("c").set_sync("sideways")


def test_a_hundred_commits_of_an_offline_client_become_one(
    client: VolumeClient, place: CountedPlace, tmp_path: Path
) -> None:
    place.is_cut_off = True
    volume = client.create("notes")
    for number in range(100):
        commit(client, "notes", 1 + number % 7, bytes([number]) * PAGE_BYTES)
        assert client.sync()[0].error is not None
    place.is_cut_off = False
    assert client.sync()[0].action is SyncAction.PUSHED
    assert client.sync()[0].action is SyncAction.NOTHING
    assert volume.info().line == "100 r1"


def test_a_page_that_is_only_in_the_place_cannot_be_read_offline(
    client: VolumeClient, place: CountedPlace, tmp_path: Path
) -> None:
    commit_to = client.create("notes")
    commit(client, "notes", 1)
    commit_to.push()
    settings = ClientSettings(place="memory")
    with VolumeClient(tmp_path / "b", settings, lambda: place, SystemEnvironment()) as other:
        clone = other.clone("notes", commit_to.log)
        place.is_cut_off = True
        with clone.reader() as reader:
            with pytest.raises(ChunkUnavailableError):
                reader.read(1)
            place.is_cut_off = False
            assert reader.read(1) == PAGE
            place.is_cut_off = True
            assert reader.read(1) == PAGE
