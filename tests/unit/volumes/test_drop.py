"""A volume that is dropped while it is in use: no verb takes its missing rows for pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.core.environment import SystemEnvironment
from siltstone.volumes import Volume, VolumeClient, VolumeNotFoundError
from siltstone.volumes.pages import PageReads
from siltstone.volumes.partitions import VolumePartition
from siltstone.volumes.place_calls import CreateBundle, CreateRecord, PlaceCall
from siltstone.volumes.settings import ClientSettings, Durability
from siltstone.volumes.volume_rows import VolumeRows
from tests.support.volumes.counted_place import CountedPlace
from tests.support.volumes.page_model import PAGE_BYTES

PAGE = b"p" * PAGE_BYTES


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def client(bucket: Bucket, tmp_path: Path) -> Iterator[VolumeClient]:
    settings = ClientSettings(place="memory", durability=Durability.PROCESS)
    place = CountedPlace(bucket)
    with VolumeClient(tmp_path, settings, lambda: place, SystemEnvironment()) as client:
        yield client


@pytest.fixture
def volume(client: VolumeClient) -> Volume:
    volume = client.create("v")
    with volume.writer() as writer:
        writer.write(1, PAGE)
        writer.commit()
    return volume


def rows_of(client: VolumeClient, volume: Volume) -> list[bytes]:
    """Keys of the rows that are left of a volume."""
    partitions, own = client._partitions, volume._local.rows.volume
    return [
        key
        for partition in VolumePartition
        if partition is not VolumePartition.RECORDS
        for key, _ in partitions.scan(partition, own, own)
    ]


def test_a_push_does_not_publish_zeros_for_pages_that_are_dropped_meanwhile(
    client: VolumeClient, volume: Volume, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = VolumeRows.changes_after

    def dropped_then(self: VolumeRows, *args: Any) -> Any:
        found = changes(self, *args)
        client.drop("v")
        return found

    monkeypatch.setattr(VolumeRows, "changes_after", dropped_then)
    with pytest.raises(VolumeNotFoundError):
        volume.push()
    assert not [key for key in bucket.keys if b"/commits/" in key]
    assert rows_of(client, volume) == []


@pytest.mark.parametrize("call", [CreateBundle, CreateRecord])
def test_a_push_leaves_no_row_of_a_volume_that_is_dropped_meanwhile(
    client: VolumeClient, volume: Volume, call: type[PlaceCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = call.perform

    def performed(self: PlaceCall, storage: Any) -> Any:
        if "/commits/" in self.name or call is CreateBundle:  # type: ignore[attr-defined]
            client.drop("v")
        return perform(self, storage)

    monkeypatch.setattr(call, "perform", performed)
    with pytest.raises(VolumeNotFoundError):
        volume.push()
    assert rows_of(client, volume) == []


def test_a_read_does_not_take_a_page_that_is_dropped_meanwhile_for_zeros(
    client: VolumeClient, volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_hand = PageReads.at_hand

    def dropped_before(self: PageReads, *args: Any) -> Any:
        client.drop("v")
        return at_hand(self, *args)

    monkeypatch.setattr(PageReads, "at_hand", dropped_before)
    with volume.reader() as reader, pytest.raises(VolumeNotFoundError):
        reader.read(1)


def test_a_dropped_volume_has_no_direction(client: VolumeClient, volume: Volume) -> None:
    client.drop("v")
    with pytest.raises(VolumeNotFoundError):
        volume.set_sync("pull")
    assert rows_of(client, volume) == []


def test_a_second_drop_leaves_the_next_volume_of_that_name(
    client: VolumeClient, volume: Volume, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = client.volume

    def replaced_then(name: str) -> Volume:
        found = find(name)
        monkeypatch.undo()
        client.drop(name)
        client.create(name)
        return found

    monkeypatch.setattr(client, "volume", replaced_then)
    with pytest.raises(VolumeNotFoundError):
        client.drop("v")
    assert client.names() == ["v"]
