"""Putting a log aside that must not be continued: fence its writer, then copy and empty it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from siltstone.core.constants import LINEAGE_BYTES
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.claim_record import KIND_FENCE, ClaimRecord, encode_claim_record
from siltstone.tier1.kafka.client import Client
from siltstone.tier1.kafka.partition import Partition
from siltstone.tier1.kafka.presence import Process
from siltstone.tier1.kafka.sender import Sender

_log = logging.getLogger(__name__)


def fence(partition: Partition, nonce: bytes, here: Process, deadline: Deadline) -> None:
    """Let no handle acknowledge any more: a record of ours stands after whatever they wrote."""
    if not partition.exists(deadline):
        return
    record = ClaimRecord(
        kind=KIND_FENCE,
        lineage=bytes(LINEAGE_BYTES),
        nonce=nonce,
        above=0,
        host=here.host,
        pid=here.pid,
        started=here.started,
        owner="recovery",
    )
    Sender(partition, deadline).send([encode_claim_record(record)], deadline)


def copy_aside(
    client: Client,
    topic: str,
    *,
    replicas: int,
    options: Mapping[str, str],
    deadline_s: float,
) -> str | None:
    """Copy all records to a new topic, then delete them; return its name, ``None`` without any."""
    partition = Partition(client, topic)
    if not partition.exists(Deadline(deadline_s)):
        return None
    start, end = partition.bounds(Deadline(deadline_s))
    if start == end:
        return None
    number = 1
    while Partition(client, name := f"{topic}-aside-{number}").exists(Deadline(deadline_s)):
        number += 1
    aside = Partition(client, name)
    aside.create(replicas, options, Deadline(deadline_s))
    sender = Sender(aside, Deadline(deadline_s))
    where, skipped = start, 0
    while where < end:
        fetched = partition.fetch(where, Deadline(deadline_s))
        if fetched.next_offset <= where:
            break
        for _, value in fetched.records:
            if value is None:
                skipped += 1
            else:
                sender.send([value], Deadline(deadline_s))
        where = fetched.next_offset
    if skipped:
        _log.warning("%d records of others were not copied from topic %s", skipped, topic)
    partition.delete_before(where, Deadline(deadline_s))
    return name
