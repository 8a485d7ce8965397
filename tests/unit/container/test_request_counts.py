"""The exact number of requests of each operation to long-term storage; none without need.

Besides requests for chunks of segments, a flush writes the table log, and a journal batch that
names it; and a listing shows that no newer epoch exists before frames of tier 1 go.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.changes import concat
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.constants import KIB, MIB
from tests.support.container.container_world import Owner, pattern
from tests.support.container.request_counts import QUIET, WRITE_ONCE, counted

pytestmark = pytest.mark.virtual_time

PROFILES = pytest.mark.parametrize("profile", [WRITE_ONCE, Profile()], ids=["once", "append"])
ROOMY = replace(QUIET, chunk_bytes=16 * MIB)
SOURCES = 1_000


async def filled(owner: Owner, name: str, mib: int) -> None:
    await owner.container.create(name, exist_ok=True)
    for _ in range(mib):
        await owner.container.append(name, bytes(MIB))


@PROFILES
async def test_a_flush_is_one_request_for_the_segment(profile: Profile) -> None:
    async with counted(profile, ROOMY) as (_, owner, requests):
        await filled(owner, "a", 8)
        requests.clear()
        await owner.container.flush("a")
        assert requests.data == {"create": 1}
        assert requests.system == {"create": 2, "list": 1}
        requests.clear()
        await filled(owner, "a", 1)
        await owner.container.flush("a")
        again = "write" if profile.append else "create"
        assert requests.data == {again: 1}
        assert requests.system == {again: 2, "list": 1}
        requests.clear()
        await owner.container.flush("a")
        assert not requests.data


@PROFILES
async def test_reads_ask_once_for_each_8_mib_of_a_chunk(profile: Profile) -> None:
    async with counted(profile, ROOMY) as (_, owner, requests):
        await filled(owner, "a", 16)
        await owner.container.flush("a")
        requests.clear()
        await owner.container.read("a", 0, 100)
        # A block is remembered as verified while ``stat`` shows that the file is unchanged; in a
        # bucket it is read and compared each time instead.
        assert requests.all == ({"stat": 1} if profile.append else {}) | {"read_into": 1}
        requests.clear()
        # A rest of less than 8 MiB is read with the last 8 MiB.
        for length, count in ((8, 1), (9, 1), (15, 1), (16, 2)):
            await owner.container.read("a", 0, length * MIB)
            assert requests.all == {"read_into": count}, length
            requests.clear()
        await owner.container.append("a", b"only in tier 1")
        assert await owner.container.read("a", 16 * MIB, 99) == b"only in tier 1"
        assert not requests.all


@PROFILES
async def test_verbs_and_looks_ask_for_nothing(profile: Profile) -> None:
    async with counted(profile, ROOMY) as (_, owner, requests):
        container = owner.container
        await filled(owner, "a", 1)
        await container.flush()
        requests.clear()
        await container.create("b")
        await container.append("b", b"some")
        await container.truncate("a", 1_000)
        await container.seal("a")
        await container.info("a")
        await container.chunks("a")
        assert await container.list_segments()
        await container.delete("a")
        assert not requests.all


@pytest.mark.slow
@PROFILES
async def test_the_deletion_of_a_chunk_is_one_request(profile: Profile) -> None:
    async with counted(profile, ROOMY) as (made, owner, requests):
        container = owner.container
        for number in range(50):
            await filled(owner, f"s{number}", 1)
            await container.flush(f"s{number}")
        for number in range(50):
            await container.delete(f"s{number}")
        await container.collect()
        await container.flush()
        await made.environment.sleep(60)
        requests.clear()
        assert await container.collect() == 50
        assert requests.data == {"delete": 50}
        # One listing for pins and one for newer epochs, however many chunks go.
        assert requests.system == {"list": 2}


@pytest.mark.slow
async def test_a_concat_of_a_thousand_sources_moves_no_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(concat, "SMALL_BYTES", 0)  # otherwise small sources are appended again
    async with counted() as (_, owner, requests):
        container = owner.container
        await container.create("target")
        whole = b""
        for number in range(SOURCES):
            await container.create(f"s{number}")
            await container.append(f"s{number}", pattern(number, 20))
            await container.seal(f"s{number}")
            whole += pattern(number, 20)
        await container.flush()
        requests.clear()
        for number in range(SOURCES):
            assert await container.concat("target", f"s{number}") == 20 * number
        assert not requests.all
        assert await container.read("target", 0, len(whole) + 1) == whole


@PROFILES
async def test_a_checkpoint_touches_no_data(profile: Profile) -> None:
    async with counted(profile, ROOMY) as (_, owner, requests):
        await filled(owner, "a", 1)
        await owner.container.flush()
        requests.clear()
        await owner.container.checkpoint()
        assert not requests.data
        assert sum(requests.system.values()) <= 20


@pytest.mark.slow
@PROFILES
async def test_an_idle_container_asks_for_almost_nothing(profile: Profile) -> None:
    async with counted(profile, ContainerSettings(index_cache_bytes=MIB)) as (
        made,
        owner,
        requests,
    ):
        for number in range(30):
            await owner.container.create(f"s{number}")
            await owner.container.append(f"s{number}", pattern(number, 10))
        await owner.container.delete("s0")
        hours = []
        for _ in range(3):
            requests.clear()
            await made.environment.sleep(3_600)
            hours.append(sum(requests.all.values()))
        assert hours[0] < 100, "what was written is flushed, and its garbage collected"
        assert hours[1:] == [0, 0]


async def test_a_write_once_chunk_is_filled_by_one_write() -> None:
    async with counted(WRITE_ONCE, replace(QUIET, chunk_bytes=64 * MIB)) as (_, owner, requests):
        await filled(owner, "a", 40)
        await owner.container.flush("a")
        assert requests.data == {"create": 1}


@pytest.mark.slow
async def test_a_thousand_chunks_go_by_a_thousand_requests_and_few_transactions() -> None:
    """Truncation and deletion of many chunks, as the container carries them out."""
    async with counted(WRITE_ONCE, replace(QUIET, chunk_bytes=2 * KIB, garbage_delay_s=1.0)) as (
        made,
        owner,
        requests,
    ):
        container, count = owner.container, 2_000
        await container.create("a")
        await container.append("a", bytes(count * 2 * KIB))
        await container.flush()
        frames = len(made.shared_log.frames)
        await container.truncate("a", count // 2 * 2 * KIB)
        await container.collect()
        await container.delete("a")
        await container.collect()
        slices = 2 * (count // 2) // 500
        assert len(made.shared_log.frames) - frames <= slices + 8
        await container.flush()
        await made.environment.sleep(60)
        requests.clear()
        assert await container.collect() == count
        assert requests.data == {"delete": count}
        assert requests.system["list"] <= 2 * (count // 1_000 + 1)
