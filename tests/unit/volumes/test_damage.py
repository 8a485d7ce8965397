"""Damage of a place is told, and never read as pages."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import CorruptDataError, FormatError, LostDataError
from siltstone.volumes import RemoteMismatchError, VolumeClient, VolumeNotFoundError
from siltstone.volumes.object_names import PLACE, commit_name
from siltstone.volumes.settings import ClientSettings, Durability
from tests.support.volumes.counted_place import CountedPlace
from tests.support.volumes.page_model import PAGE_BYTES

SETTINGS = ClientSettings(place="memory", durability=Durability.PROCESS)
PAGES = [Random(number).randbytes(PAGE_BYTES) for number in range(3)]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


def client_of(bucket: Bucket, folder: Path) -> VolumeClient:
    return VolumeClient(folder, SETTINGS, lambda: CountedPlace(bucket), SystemEnvironment())


@pytest.fixture
def client(bucket: Bucket, tmp_path: Path) -> Iterator[VolumeClient]:
    with client_of(bucket, tmp_path / "a") as client:
        volume = client.create("v")
        for number in (1, 2):
            with volume.writer() as writer:
                for index, page in enumerate(PAGES, number):
                    writer.write(index, page)
                writer.commit()
            volume.push()
        yield client


def names(bucket: Bucket, part: str) -> list[bytes]:
    return [key for key in bucket.keys if part.encode() in key]


def flip(bucket: Bucket, key: bytes, byte: int) -> None:
    bucket.chunks[key].content[byte] ^= 0x10


def test_no_flipped_byte_of_a_bundle_is_read(
    client: VolumeClient, bucket: Bucket, tmp_path: Path
) -> None:
    key = names(bucket, "/bundles/")[0]
    for number, byte in enumerate(range(0, len(bucket.chunks[key].content), 401)):
        with client_of(bucket, tmp_path / f"b{number}") as other:
            clone = other.clone("v", client.volume("v").log)
            for each in names(bucket, "/bundles/"):
                flip(bucket, each, byte)
            with clone.reader() as reader, pytest.raises(CorruptDataError):
                reader.read(2)
            for each in names(bucket, "/bundles/"):
                flip(bucket, each, byte)
            with clone.reader() as reader:
                assert reader.read(2) == PAGES[0]


def test_a_cut_bundle_and_one_that_is_gone_are_told(
    client: VolumeClient, bucket: Bucket, tmp_path: Path
) -> None:
    with client_of(bucket, tmp_path / "b") as other:
        clone = other.clone("v", client.volume("v").log)
        for key in names(bucket, "/bundles/"):
            del bucket.chunks[key].content[-1:]
        with clone.reader() as reader, pytest.raises(CorruptDataError, match="cut"):
            reader.read(2)
        for key in names(bucket, "/bundles/"):
            del bucket.chunks[key]
            bucket.keys.remove(key)
        with clone.reader() as reader, pytest.raises(LostDataError, match="bundle"):
            reader.read(2)


def test_a_bundle_that_is_cut_before_a_page_is_told(
    client: VolumeClient, bucket: Bucket, tmp_path: Path
) -> None:
    volume = client.volume("v")
    with volume.writer() as writer:
        for index in range(1, 100):
            writer.write(index, Random(index).randbytes(PAGE_BYTES))
        writer.commit()
    volume.push()
    with client_of(bucket, tmp_path / "b") as other:
        clone = other.clone("v", volume.log)
        for key in names(bucket, "/bundles/"):
            del bucket.chunks[key].content[100:]
        with clone.reader() as reader, pytest.raises(CorruptDataError, match="cut"):
            reader.read(99)


@pytest.mark.parametrize("name", ["", ".nfs0001", ".DS_Store", "0000", "zz"])
def test_what_is_no_record_is_passed_over(
    client: VolumeClient, bucket: Bucket, tmp_path: Path, name: str
) -> None:
    log = client.volume("v").log
    key = f"volumes/{log}/commits/{name}".encode()
    bucket.chunks[key] = bucket.chunks[names(bucket, "/bundles/")[0]]
    bisect.insort(bucket.keys, key)
    with client_of(bucket, tmp_path / "b") as other:
        clone = other.clone("v", log)
        assert clone.info().remote == 2


def test_no_flipped_byte_of_a_record_is_followed(
    client: VolumeClient, bucket: Bucket, tmp_path: Path
) -> None:
    log = client.volume("v").log
    key = commit_name(bytes.fromhex(log), 2).encode()
    for number, byte in enumerate(range(0, len(bucket.chunks[key].content), 29)):
        flip(bucket, key, byte)
        with client_of(bucket, tmp_path / f"b{number}") as other:
            with pytest.raises((CorruptDataError, FormatError)):
                other.clone("v", log)
            assert other.names() == [], "nothing is half made"
        flip(bucket, key, byte)


def test_a_damaged_record_that_a_trail_has_too_is_not_needed(
    client: VolumeClient, bucket: Bucket, tmp_path: Path
) -> None:
    log = client.volume("v").log
    flip(bucket, commit_name(bytes.fromhex(log), 1).encode(), 40)
    with client_of(bucket, tmp_path / "b") as other, other.clone("v", log).reader() as reader:
        assert [reader.read(index) for index in (1, 2, 3, 4)] == [PAGES[0], *PAGES]


def test_a_log_that_lost_a_commit_is_not_continued(
    client: VolumeClient, bucket: Bucket, tmp_path: Path
) -> None:
    """As after a restore of an older backup of the place."""
    volume = client.volume("v")
    key = commit_name(bytes.fromhex(volume.log), 2).encode()
    client.close()
    del bucket.chunks[key]
    bucket.keys.remove(key)
    with client_of(bucket, tmp_path / "a") as again:
        volume = again.volume("v")
        with volume.writer() as writer:
            writer.write(1, PAGES[2])
            writer.commit()
        for verb in (volume.push, volume.pull, volume.fetch, volume.sync, volume.reset):
            with pytest.raises(RemoteMismatchError, match="restored from a backup"):
                verb()
        with volume.reader() as reader:
            assert reader.read(1) == PAGES[2]
    assert key not in bucket.chunks


def test_another_place_is_not_taken_for_the_one_that_was_synced_with(
    client: VolumeClient, bucket: Bucket, tmp_path: Path
) -> None:
    other = Bucket()
    with client_of(other, tmp_path / "b") as stranger:
        stranger.create("w")
        stranger.volume("w").sync()
        stranger.volume("w").fetch()
    client.close()
    assert PLACE.encode() in other.chunks
    with client_of(other, tmp_path / "a") as again:
        with pytest.raises(RemoteMismatchError, match="another place"):
            again.volume("v").push()
        with pytest.raises(RemoteMismatchError, match="another place"):
            again.volume("v").pull()


@pytest.mark.parametrize("log", ["", "xyz", "00" * 15, "00" * 16])
def test_a_log_that_the_place_has_not_cannot_be_cloned(client: VolumeClient, log: str) -> None:
    with pytest.raises(VolumeNotFoundError):
        client.clone("w", log)
    assert client.names() == ["v"]
