"""What the memory binding adds to the contract: sharing, latency, a bound on its room."""

from __future__ import annotations

from dataclasses import fields

import pytest

from siltstone.bindings.memory.bucket import Bucket, forget_bucket, shared_bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.bindings.memory.settings import MemorySettings
from siltstone.core.errors import ChunkExistsError, ChunkStorageFullError, Outcome
from siltstone.core.storage.optional_verbs import WHOLE_CREATE_BYTES_MAX, create_whole


def test_settings_and_profile_agree() -> None:
    settings = MemorySettings().model_dump(exclude={"name"})
    assert settings == {field.name: field.default for field in fields(Profile)}


def test_a_named_bucket_outlives_its_clients_and_can_be_forgotten() -> None:
    MemoryChunkStorage(shared_bucket("one")).create("a", [b"x"])
    assert MemoryChunkStorage(shared_bucket("one")).stat("a").length == 1
    assert list(MemoryChunkStorage(shared_bucket("two")).list()) == []
    forget_bucket("one")
    forget_bucket("one")
    assert list(MemoryChunkStorage(shared_bucket("one")).list()) == []


def test_a_change_is_visible_before_its_caller_knows() -> None:
    bucket = Bucket()
    seen: list[int] = []
    slow = MemoryChunkStorage(
        bucket, Profile(latency_s=8.0), sleep=lambda seconds: seen.append(len(bucket.chunks))
    )
    slow.create("a", [b"x"])
    assert seen == [0, 1]


def test_latency_is_spent_around_the_moment() -> None:
    slept: list[float] = []
    slow = MemoryChunkStorage(profile=Profile(latency_s=0.5), sleep=slept.append)
    slow.create("a", [b"x"])
    assert slept == [0.25, 0.25]


def test_a_full_service_refuses_and_nothing_changes() -> None:
    storage = MemoryChunkStorage(profile=Profile(capacity_bytes=10))
    storage.create("a", [b"12345678"])
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.create("b", [b"123"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    with pytest.raises(ChunkStorageFullError):
        storage.write("a", 8, [b"123"])
    storage.write("a", 8, [b"12"])
    assert storage.used_space() == 10


def test_the_clock_is_asked_for_the_time_of_a_change() -> None:
    times = iter([5.0, 7.0])
    storage = MemoryChunkStorage(clock=lambda: next(times))
    storage.create("a", [b"x"])
    assert storage.stat("a").modified_s == 5.0
    storage.write("a", 1, [b"y"])
    assert storage.stat("a").modified_s == 7.0


def test_a_whole_create_takes_the_name_once_and_has_a_bound() -> None:
    storage = MemoryChunkStorage()
    create_whole(storage, "a", [b"fi", b"rst"])
    with pytest.raises(ChunkExistsError) as caught:
        create_whole(storage, "a", [b"second"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    with pytest.raises(ValueError, match="too large for a whole create"):
        create_whole(storage, "b", [bytes(WHOLE_CREATE_BYTES_MAX), b"x"])
    content = bytearray(6)
    assert storage.read_into("a", 0, content) == 5
    assert content[:5] == b"first"
    assert [found.name for found in storage.list()] == ["a"]
