"""Expired pins and file manifests: when they go, and what is stated first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.garbage_views import SweepFinding
from siltstone.container.sweeper import PIN_KEPT_MS
from siltstone.core.errors import OutcomeUnknownError
from siltstone.core.records.file_manifest import (
    FileManifest,
    ManifestHead,
    encode_file_manifest,
)
from siltstone.core.records.pin import Pin, encode_pin
from tests.unit.container.collecting import now_ms
from tests.unit.container.container_world import World, close_quietly, world
from tests.unit.container.sweeping import DAY_S, SETTINGS, second_owner, swept, told


def plant_pins(made: World, expiries_ms: Sequence[int]) -> list[str]:
    names = [f"system/pins/0-{number:02}" for number in range(len(expiries_ms))]
    for name, expires_ms in zip(names, expiries_ms, strict=True):
        pin = Pin(lineage=bytes(16), version=1, expires_ms=expires_ms)
        made.new_storage().create(name, [encode_pin(pin)])
    return names


def test_a_pin_goes_a_week_behind_its_expiry_and_not_before() -> None:
    async def story(made: World) -> None:
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

    with world(settings=SETTINGS) as made:
        made.run(story(made))


def test_a_pin_that_was_never_finished_goes_a_week_behind_its_beginning() -> None:
    async def story(made: World) -> None:
        owner = await second_owner(made)
        week_ago_s = made.environment.time() - PIN_KEPT_MS / 1000
        beginning = encode_pin(Pin(lineage=bytes(16), version=1, expires_ms=0))[:9]
        for name, begun_s in {"0-x": week_ago_s - 1, "0-y": week_ago_s + 1}.items():
            storage = MemoryChunkStorage(made.bucket, clock=partial(float, begun_s))
            storage.create(f"system/pins/{name}", [beginning])
        assert await swept(owner) == ["pin system/pins/0-x"]
        assert made.names("system/pins/") == ["system/pins/0-y"]
        await close_quietly(owner)

    with world(settings=SETTINGS) as made:
        made.run(story(made))


def plant_manifest(made: World, name: str, expires_ms: int) -> None:
    head = ManifestHead(
        container=0, expires_ms=expires_ms, made_ms=0, store_id=bytes(16), verify=True
    )
    manifest = FileManifest(head=head, pins=(), chunks=(), files=())
    made.new_storage().create(name, [encode_file_manifest(manifest)])


def test_so_does_a_file_manifest_and_one_that_can_not_be_read_stays() -> None:
    async def story(made: World) -> None:
        owner = await second_owner(made)
        limit_ms = now_ms(made) - PIN_KEPT_MS
        plant_manifest(made, "system/files/0-a.silt", limit_ms - 1)
        plant_manifest(made, "system/files/0-b.silt", limit_ms)
        plant_manifest(made, "system/files/1-other.silt", 0)
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

    with world(settings=SETTINGS) as made:
        made.run(story(made))


def test_the_names_of_pins_are_in_the_log_before_they_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("siltstone.container.sweeper.PAGE", 2)

    async def story(made: World) -> None:
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

    with world(settings=SETTINGS) as made:
        made.run(story(made))


def test_pins_whose_deletion_was_not_acknowledged_stay() -> None:
    async def story(made: World) -> None:
        owner = await second_owner(made)
        await swept(owner)
        names = plant_pins(made, [0, 0])
        # The first frame is the row of the epoch, the second one states the deletion.
        owner.log.plan.fail("append", 2, applied=False)
        with pytest.raises(OutcomeUnknownError, match="injected"):
            await swept(owner)
        assert made.names("system/pins/") == names
        await close_quietly(owner)

    with world(settings=SETTINGS) as made:
        made.run(story(made))
