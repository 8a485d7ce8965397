"""The bytes that a broker gets, by the decoder of kafka-python; and claims by presence."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import pytest
from kafka.record import MemoryRecords

from siltstone.tier1.kafka.claim_record import KIND_CLAIM, ClaimRecord
from siltstone.tier1.kafka.presence import HOLDERS, Presence, Process, presence, this_process
from siltstone.tier1.kafka.record_batch import encode_batch
from siltstone.tier1.kafka.topic_rules import FRAME_BYTES, options_of_new


@pytest.mark.parametrize("length", [0, 1, 50, 63, 64, 8191, 8192, 1_100_000, FRAME_BYTES])
def test_a_batch_is_one_record(length: int) -> None:
    value = bytes(length)
    parts = [value[: length // 3], value[length // 3 :]]
    data = b"".join(encode_batch(parts, producer=7, producer_epoch=2, sequence=5))
    assert len(data) <= int(options_of_new(single_broker=True)["max.message.bytes"])
    records = MemoryRecords(data)
    batch = records.next_batch()
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 2, 5)
    assert [(record.key, record.value) for record in batch] == [(None, value)]
    assert not records.has_next()


def claim_of(process: Process) -> ClaimRecord:
    return ClaimRecord(
        kind=KIND_CLAIM,
        lineage=bytes(16),
        nonce=os.urandom(16),
        above=0,
        host=process.host,
        pid=process.pid,
        started=process.started,
        owner="",
    )


def test_a_handle_of_this_process_is_here_until_it_is_gone() -> None:
    class Handle:
        pass

    here = this_process()
    record = claim_of(here)
    assert presence(record, here) is Presence.GONE
    handle = Handle()
    HOLDERS.add(record.nonce, handle)
    assert presence(record, here) is Presence.HERE
    del handle
    assert presence(record, here) is Presence.GONE


def test_a_process_of_this_machine_is_gone_when_it_has_ended() -> None:
    here = this_process()
    with subprocess.Popen(["sleep", "60"]) as child:
        with open(f"/proc/{child.pid}/stat", "rb") as file:
            started = int(file.read().rpartition(b")")[2].split()[19])
        record = claim_of(replace(here, pid=child.pid, started=started))
        assert presence(record, here) is Presence.UNKNOWN, "it lives, but may not hold the log"
        assert presence(replace(record, started=started - 1), here) is Presence.GONE
        child.kill()
    assert presence(record, here) is Presence.GONE


def test_nothing_is_known_of_another_machine() -> None:
    here = this_process()
    record = claim_of(replace(here, host=bytes(16)))
    assert presence(record, here) is Presence.UNKNOWN
