"""Expired pins and file manifests: when they go, and what is stated first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.garbage.sweeper import PIN_KEPT_MS
from siltstone.container.models.garbage import SweepFinding
from siltstone.core.errors import OutcomeUnknownError
from siltstone.core.records.file_manifest import (
    FileManifest,
    ManifestHead,
    encode_file_manifest,
)
from siltstone.core.records.pin import Pin, encode_pin
from tests.support.container.container_world import World, close_quietly, world
from tests.support.container.planted_garbage import now_ms
from tests.support.container.sweeps import DAY_S, SETTINGS, second_owner, swept, told

pytestmark = pytest.mark.virtual_time


def plant_pins(made: World, expiries_ms: Sequence[int]) -> list[str]:
    """Pins that were made a year ago."""
    names = [f"system/pins/0-{number:02}" for number in range(len(expiries_ms))]
    storage = aged(made, 365 * DAY_S)
    for name, expires_ms in zip(names, expiries_ms, strict=True):
        pin = Pin(lineage=bytes(16), version=1, expires_ms=expires_ms)
        storage.create(name, [encode_pin(pin)])
    return names


def aged(made: World, age_s: float) -> MemoryChunkStorage:
    """Storage on which everything that is made is already ``age_s`` old."""
    begun_s = made.environment.time() - age_s
    return MemoryChunkStorage(made.bucket, clock=partial(float, begun_s))


async def test_a_pin_goes_a_week_after_its_expiry_and_not_before() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        limit_ms = now_ms(made) - PIN_KEPT_MS
        assert PIN_KEPT_MS == 7 * DAY_S * 1000
        expired, *kept = plant_pins(made, [limit_ms - 1, limit_ms, limit_ms + 1])
        found = await told(owner, False)
        length = made.new_storage().stat(expired).length
        assert found == [
            SweepFinding(
                kind="pin",
                name=expired,
                length=length,
                modified_ms=0,
                reason="it expired more than 7 days ago",
            )
        ]
        assert expired in made.names()
        assert await told(owner) == found
        assert made.names("system/pins/") == kept
        await close_quietly(owner)


async def test_a_pin_that_was_never_finished_goes_a_week_after_its_beginning() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        week_ago_s = made.environment.time() - PIN_KEPT_MS / 1000
        beginning = encode_pin(Pin(lineage=bytes(16), version=1, expires_ms=0))[:9]
        for name, begun_s in {"0-x": week_ago_s - 1, "0-y": week_ago_s + 1}.items():
            storage = MemoryChunkStorage(made.bucket, clock=partial(float, begun_s))
            storage.create(f"system/pins/{name}", [beginning])
        assert await swept(owner) == ["pin system/pins/0-x"]
        assert made.names("system/pins/") == ["system/pins/0-y"]
        await close_quietly(owner)


def plant_manifest(made: World, name: str, age_ms: int, *, ahead_ms: int = 0) -> None:
    """A manifest for a day, made ``age_ms`` ago by a clock that was ahead."""
    made_ms = now_ms(made) - age_ms + ahead_ms
    head = ManifestHead(
        container=0,
        expires_ms=made_ms + int(DAY_S * 1000),
        made_ms=made_ms,
        store_id=bytes(16),
        verify=True,
    )
    manifest = FileManifest(head=head, pins=(), chunks=(), files=())
    aged(made, age_ms / 1000).create(name, [encode_file_manifest(manifest)])


async def test_so_does_a_file_manifest_and_one_that_cannot_be_read_stays() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        kept_ms = PIN_KEPT_MS + int(DAY_S * 1000)
        plant_manifest(made, "system/files/0-a.silt", kept_ms + 1_000)
        plant_manifest(made, "system/files/0-b.silt", kept_ms - 1_000)
        plant_manifest(made, "system/files/1-other.silt", 10 * kept_ms)
        made.new_storage().create("system/files/0-damaged.silt", [b"SLTS"])
        wanted = ["manifest system/files/0-a.silt"]
        assert await swept(owner, delete=False) == wanted
        assert await swept(owner) == wanted
        assert made.names("system/files/") == [
            "system/files/0-b.silt",
            "system/files/0-damaged.silt",
            "system/files/1-other.silt",
        ]
        await close_quietly(owner)


@pytest.mark.parametrize("ahead_s", [3e8, -1e9, 0.0])
async def test_what_a_wrong_clock_made_goes_no_earlier_and_no_later(ahead_s: float) -> None:
    """By the clock of storage; the clock of the maker or of the owner is years ahead or behind."""
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        ttl_ms = int(DAY_S * 1000)
        for name, age_ms in (
            ("young", PIN_KEPT_MS),
            ("old", PIN_KEPT_MS + ttl_ms + 1_000),
        ):
            made_ms = now_ms(made) - age_ms + int(ahead_s * 1000)
            pin = Pin(lineage=bytes(16), version=1, expires_ms=made_ms + ttl_ms, ttl_ms=ttl_ms)
            aged(made, age_ms / 1000).create(f"system/pins/0-{name}", [encode_pin(pin)])
            plant_manifest(
                made, f"system/files/0-{name}.silt", age_ms, ahead_ms=int(ahead_s * 1000)
            )
        right = made.environment.time
        for clock_s in (0.0, 1e9):
            made.environment.time = lambda by=clock_s: right() + by  # type: ignore[method-assign, misc]
            found = await swept(owner, delete=not clock_s)
            gone = ["pin system/pins/0-old", "manifest system/files/0-old.silt"]
            assert found == ([] if clock_s else gone)
        await close_quietly(owner)


async def test_the_names_of_pins_are_in_the_log_before_they_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("siltstone.container.garbage.sweeper.PAGE", 2)
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        names = plant_pins(made, [0, 0, 0, 0, 0])
        begin = made.shared_log.frames[-1].index
        stated: list[str] = []

        def deleting(operation: str, name: str) -> None:
            if operation == "delete":
                frames = [frame for frame in made.shared_log.frames if frame.index > begin]
                body = b"".join(frame.body for frame in frames)
                assert name.encode() in body
                stated.append(name)
                if name == names[2]:
                    made.new_storage().delete(name)

        owner.storage.before = deleting
        assert await swept(owner) == [f"pin {name}" for name in names]
        assert stated == names
        assert made.names("system/pins/") == []
        await close_quietly(owner)


async def test_pins_whose_deletion_was_not_acknowledged_stay() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        await swept(owner)
        names = plant_pins(made, [0, 0])
        # The first frame is the row of the epoch, the second one states the deletion.
        owner.log.plan.fail("append", 2, applied=False)
        with pytest.raises(OutcomeUnknownError, match="injected"):
            await swept(owner)
        assert made.names("system/pins/") == names
        await close_quietly(owner)
