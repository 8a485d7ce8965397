"""What holds back the truncation of tier 1, how much it keeps, and what a container measures."""

from __future__ import annotations

from contextlib import suppress

import pytest

from siltstone.container.health.metrics_reporter import (
    HELD_BY,
    LogByteCounter,
    LogNeeds,
    Measuring,
    held_by,
)
from siltstone.core.errors import ChunkError
from siltstone.testing.faults.faulty_chunk_storage import Fate
from tests.support import inside
from tests.support.container.container_world import pattern, with_settings, world
from tests.support.recorder import Recorder

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(
    ("user", "table", "stated", "checkpoint", "reason"),
    [
        (None, None, 100, 99, "nothing"),
        (None, None, 92, 92, "nothing"),
        (40, 60, 40, 90, "user_bytes"),
        (60, 40, 40, 90, "table_log"),
        (40, 40, 40, 90, "user_bytes"),
        (None, None, 40, 90, "journal"),
        (None, None, 91, 91, "journal"),
        (60, 70, 50, 90, "user_bytes"),
        (None, 70, 50, 90, "table_log"),
        (None, None, 100, 40, "checkpoint"),
        (60, None, 60, 40, "user_bytes"),
        (None, None, 100, None, "nothing"),
    ],
)
def test_what_holds_the_log(
    user: int | None, table: int | None, stated: int, checkpoint: int | None, reason: str
) -> None:
    needs = LogNeeds(next_index=100, user=user, table=table, stated=stated, checkpoint=checkpoint)
    assert held_by(needs) == reason
    assert reason in HELD_BY


def test_kept_bytes_go_with_their_frames() -> None:
    kept = LogByteCounter()
    for index in range(5_000):
        kept.add(index, 10)
    assert kept.size == 50_000
    kept.drop_below(999)
    assert kept.size == 50_000
    kept.drop_below(2_500)
    assert kept.size == 30_000, "an upper bound, by less than a thousand frames"
    kept.drop_below(10_000)
    assert kept.size == 0


@pytest.mark.slow
async def test_what_becomes_of_garbage_and_of_waiting_appends() -> None:
    settings = with_settings(garbage_delay_s=0.0, garbage_interval_s=1e6, garbage_attempts=2)
    async with world(settings=settings) as made:
        recorder = Recorder()
        owner = await made.open(metrics=recorder)
        container, parts = owner.container, inside.parts(owner.container)
        measuring = Measuring(parts, parts._frames)
        await container.create("a")
        await container.append("a", pattern(1, 40_000))
        await container.flush()
        await container.truncate("a", 40_000)
        await container.collect()
        await container.flush()
        measuring.measure()
        assert recorder.now[("siltstone_garbage_tasks",)] == 3
        owner.storage.plan = lambda call: Fate.REFUSED if call.operation == "delete" else Fate.DONE
        for _ in range(2):
            with suppress(ChunkError):
                await container.collect()
            await made.environment.sleep(200)
        owner.storage.plan = lambda call: Fate.DONE
        await container.garbage.replay()
        await container.collect()
        outcomes = {name[1]: count for name, count in recorder.sums.items() if "garbage" in name[0]}
        assert outcomes == {"retried": 3, "set_aside": 3, "deleted": 3}
        parts.pressure.throttle(0.5)
        await container.append("a", b"x")
        assert recorder.values["siltstone_append_wait_seconds"] == [0.5]
        assert recorder.sums["siltstone_log_bytes_total", "user"] == 40_001
        measuring.measure()
        assert recorder.now["siltstone_unflushed_bytes", "user"] == 1
        assert recorder.now[("siltstone_table_log_bytes",)] > 0
        assert recorder.now[("siltstone_table_log_chunks",)] >= 1
        await container.close()
