"""Tier 1 is freed after every flush of the table log, however old the last checkpoint is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.container.container_world import SETTINGS, world

pytestmark = pytest.mark.virtual_time

PATIENT = replace(SETTINGS, checkpoint_age_s=1e6)


async def test_the_log_is_freed_between_two_checkpoints_and_boots_again() -> None:
    async with world(settings=PATIENT) as made:
        owner = await made.open()
        await owner.container.create("a")
        written = b""
        for round_number in range(5):
            data = bytes([round_number]) * 1_000
            written += data
            await owner.container.append("a", data)
            await owner.container.flush()
            stats = owner.container.stats()
            assert stats.log_end - stats.log_first <= 4
            assert stats.exposed_bytes == 0
        assert owner.container.stats().checkpoint_version == 0
        await owner.container.append("a", b"tail")
        assert owner.container.stats().exposed_bytes == 4
        await owner.container.close()
        again = await made.open()
        assert await again.container.read("a", 0, 10_000) == written + b"tail"
        await again.container.close()
