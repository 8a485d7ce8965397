"""Long-term storage is away for an hour while tier 1 is on a broker: virtual time, real requests.

A server of S3 that does not answer for a real minute is in the soak.

What must hold: appends continue up to the bound, then wait, then fail by their deadline with
nothing appended; when storage is back all of it drains, exactly, and the topic gets short again. An
owner that dies meanwhile leaves the same.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

import siltstone
from services.kafka import Kafka
from siltstone.core.errors import BackPressureError
from siltstone.core.fenced_log import FencedLog
from siltstone.testing.faults.faulty_chunk_storage import Fate
from tests.conftest import NewVersitygw
from tests.faults.kafka.log_case import KafkaCase
from tests.support.container.container_world import Owner, World, pattern, with_settings, world
from tests.support.services.kafka_services import new_topic, options_of
from tests.support.services.s3_services import new_bucket
from tests.support.services.s3_services import options_of as s3_options

pytestmark = pytest.mark.virtual_time

PIECE_BYTES = 40_000
BOUND_BYTES = 1_000_000
HOURS = 1
DEADLINE_S = 30.0
SETTINGS = with_settings(
    unflushed_bytes_max=BOUND_BYTES, append_deadline_s=DEADLINE_S, storage_deadline_s=20.0
)


async def fill(made: World, owner: Owner) -> bytes:
    """Append until nothing more is taken; return what was."""
    taken = bytearray()
    for number in range(2 * BOUND_BYTES // PIECE_BYTES):
        piece = pattern(number, PIECE_BYTES)
        begun_s = made.environment.monotonic()
        try:
            assert await owner.container.append("a", piece) == len(taken)
        except BackPressureError:
            waited_s = made.environment.monotonic() - begun_s
            assert waited_s == pytest.approx(DEADLINE_S, abs=1)
            break
        taken += piece
    assert BOUND_BYTES - PIECE_BYTES <= len(taken) <= BOUND_BYTES + PIECE_BYTES
    return bytes(taken)


class TestOutages(KafkaCase):
    @pytest.mark.parametrize("dies", [False, True])
    async def test_what_an_outage_holds_back_drains_exactly(self, dies: bool) -> None:
        async with world(settings=SETTINGS, new_log=self.log_of_world) as made:
            owner = await made.open()
            await owner.container.create("a")
            await made.environment.sleep(60)
            owner.storage.plan = lambda call: Fate.LOST_CALL
            sent = await fill(made, owner)
            await made.environment.sleep(HOURS * 3600)
            with pytest.raises(BackPressureError):
                await owner.container.append("a", b"no")
            assert len(self.outside.values()) > len(sent) // PIECE_BYTES
            if dies:
                await made.crash(owner)
                owner = await made.open()
            else:
                waiting = asyncio.create_task(_appended(owner, b"late"))
                await made.environment.sleep(1)
                owner.storage.plan = lambda call: Fate.DONE
                assert await waiting == len(sent)
                sent += b"late"
            await made.environment.sleep(120)
            assert not owner.container.stats().unflushed_bytes
            assert (await owner.container.info("a")).length == len(sent)
            assert await owner.container.read("a", 0, len(sent) + 1) == sent
            assert await owner.container.append("a", b"more") == len(sent)
            await made.check(owner)
            await owner.container.close()
            assert sum(len(value or b"") for value in self.outside.values()) < BOUND_BYTES // 10

    def log_of_world(self) -> FencedLog:
        return self.handle()


STILL_S = 60.0
KNOBS = """
back_pressure: {bytes: 16MiB}
flush: {bytes: 1MiB, age: 1s}
deadlines: {append: 3s, storage: 10s}
"""


@pytest.mark.soak
@pytest.mark.usefixtures("s3_plugin", "kafka_plugin")
def test_a_minute_without_an_answer_from_storage(
    kafka: Kafka, new_versitygw: NewVersitygw, tmp_path: Path
) -> None:
    server = new_versitygw()
    bucket, _ = new_bucket(server)
    file = siltstone.init(
        tmp_path / "store",
        binding="s3",
        options=s3_options(server, bucket),
        log="kafka",
        log_options=options_of(kafka.endpoint, new_topic(), servers=kafka.endpoint),
    )
    with file.open("a", encoding="utf-8") as text:
        text.write(KNOBS)
    sent = bytearray()
    refused = 0
    with siltstone.open(file) as store:
        segment = store.create("a")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            end_s = time.monotonic() + STILL_S
            while time.monotonic() < end_s:
                piece = pattern(len(sent), 1 << 20)
                try:
                    assert segment.append(piece) == len(sent)
                    sent += piece
                except BackPressureError:
                    refused += 1
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert 15 <= len(sent) >> 20 <= 24
        assert refused >= 10
        assert segment.append(b"late") == len(sent)
        sent += b"late"
        store.flush()
        assert segment.read(0, len(sent) + 1) == sent
    with siltstone.open(file, read_only=True) as store:
        assert store.segment("a").read(0, len(sent) + 1) == sent


async def _appended(owner: Owner, data: bytes) -> int:
    return int(await owner.container.append("a", data))
