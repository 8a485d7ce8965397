"""Taking the log over. The place of the claim among the records is what makes the fence hold.

1. The topic is looked at: whether it could lose anything, whether it is the right log, and whether
   a holder lives. Nothing is written, unless a topic is to be made.
2. A record with a nonce is appended, durably.
3. The log is read up to this record. What counts before it was perhaps acknowledged, so it is
   kept; a frame of an older owner after it is void, and that owner sees this record when it looks
   at what stands between its frames.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from siltstone.core.errors import CapabilityError, LogError, LogLostError, Outcome, StoreInUseError
from siltstone.core.fenced_log import LogCondition
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.claim_record import KIND_CLAIM, ClaimRecord, encode_claim_record
from siltstone.tier1.kafka.connection import Connection
from siltstone.tier1.kafka.errors import refusals
from siltstone.tier1.kafka.heartbeat import Beats
from siltstone.tier1.kafka.more_partitions import (
    refusal_of_known,
    refusal_of_new,
    warning_of_known,
)
from siltstone.tier1.kafka.partition import Partition, TopicView
from siltstone.tier1.kafka.presence import Presence, Process, presence
from siltstone.tier1.kafka.record_reads import catch_up, look
from siltstone.tier1.kafka.scan import PlacedClaim, Scan
from siltstone.tier1.kafka.sender import Sender
from siltstone.tier1.kafka.settings import KafkaLogSettings
from siltstone.tier1.kafka.shelf import SetAsideTopic
from siltstone.tier1.kafka.topic_rules import broken_rules, options_of_new

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """The process that would like to have the log.

    Attributes:
        settings: of the log.
        topic: its name.
        connection: carries the requests.
        here: this process.
        shelf: has what was found out before, maybe.
        silence_s: see ``heartbeat``.
    """

    settings: KafkaLogSettings
    topic: str
    connection: Connection
    here: Process
    shelf: SetAsideTopic
    silence_s: float

    def prepare(self, lineage: bytes, *, new: bool, above: int, takeover: bool) -> Scan:
        """Step 1; return the log as far as it was read. See ``FencedLog.claim``.

        Raises:
            CapabilityError: the topic could lose data or must not be used; it says what to change.
            LogLostError: it is not the log that the container means.
            StoreInUseError: a live holder has it and ``takeover`` is false.
        """
        deadline_s = self.settings.deadline_s
        partition = self.connection.partition()
        with refusals(self.topic, self.settings.servers_text):
            self._check_topic(partition, Deadline(deadline_s), new=new, first=new and not above)
            scan = look(partition, self.shelf, deadline_s)
            check_lineage(scan, self.topic, lineage, new=new)
            if not takeover and self.is_held(scan):
                owner = "" if scan.claim is None else scan.claim.record.owner
                raise StoreInUseError("the log is in use", owner=owner, topic=self.topic)
        return scan

    def record(self, lineage: bytes, nonce: bytes, *, above: int, owner: str) -> ClaimRecord:
        """What is to be appended."""
        return ClaimRecord(
            kind=KIND_CLAIM,
            lineage=lineage,
            nonce=nonce,
            above=above,
            host=self.here.host,
            pid=self.here.pid,
            started=self.here.started,
            owner=owner,
        )

    def send(self, scan: Scan, record: ClaimRecord, *, new: bool) -> tuple[PlacedClaim, Sender]:
        """Steps 2 and 3, from ``scan`` on; return the claim, and what sends frames after it.

        Raises:
            LogLostError: see ``prepare``; by now it is certain.
        """
        deadline_s = self.settings.deadline_s
        deadline = Deadline(deadline_s)
        partition = self.connection.partition()
        with refusals(self.topic, self.settings.servers_text):
            sender = Sender(partition, deadline)
        sent = sender.send([encode_claim_record(record)], deadline)
        catch_up(partition, scan, deadline_s, until=sent.offset - 1)
        check_lineage(scan, self.topic, record.lineage, new=new)
        catch_up(partition, scan, deadline_s, until=sent.offset)
        claim = scan.claim
        if claim is None or (claim.offset, claim.record.nonce) != (sent.offset, record.nonce):
            raise LogError("the claim is not where the broker said", topic=self.topic)
        return claim, sender

    def is_held(self, scan: Scan) -> bool:
        """Whether a live holder is known; one of another machine has to be listened for."""
        claim = scan.claim
        if claim is None or scan.has_ended:
            return False
        known = presence(claim.record, self.here)
        if known is not Presence.UNKNOWN:
            return known is Presence.HERE
        beats = Beats(self.connection.client(), self.topic)
        deadline = Deadline(self.settings.deadline_s + self.silence_s)
        return beats.hears(claim.record.nonce, self.silence_s, deadline)

    def condition(self, partition: Partition) -> LogCondition:
        """What a claim of a log that is there would refuse, or warn of."""
        deadline = Deadline(self.settings.deadline_s)
        view = partition.describe(deadline)
        if view is None:
            return LogCondition()
        where = f"topic {self.topic}: "
        refusals = self._broken(view, partition, deadline, first=False)
        return LogCondition(
            refusals=tuple(where + each for each in refusals),
            warnings=tuple(where + each for each in warning_of_known(view)),
        )

    def _broken(
        self, view: TopicView, partition: Partition, deadline: Deadline, *, first: bool
    ) -> list[str]:
        single = self.settings.single_broker
        more = refusal_of_new(view) if first else refusal_of_known(view, partition, deadline)
        return [*more, *broken_rules(view, single_broker=single)]

    def _check_topic(
        self, partition: Partition, deadline: Deadline, *, new: bool, first: bool
    ) -> None:
        """Check or make the topic; ``first``: no log of the container was there before."""
        settings = self.settings
        view = partition.describe(deadline)
        if view is None and not new:
            raise LogLostError(
                "the topic does not exist", topic=self.topic, servers=settings.servers_text
            )
        if view is None and not settings.create_topics:
            raise CapabilityError(
                "the topic does not exist: make it, or set create_topics; for a trial on one broker"
                " set single_broker, which makes it too",
                topic=self.topic,
                servers=settings.servers_text,
            )
        if view is None:
            options = options_of_new(single_broker=settings.single_broker)
            partition.create(settings.replication, options, deadline)
            view = partition.describe(deadline)
        if view is None:
            raise LogError("the topic vanished", topic=self.topic, outcome=Outcome.NOT_APPLIED)
        broken = self._broken(view, partition, deadline, first=first)
        if broken:
            raise CapabilityError(f"topic {self.topic} cannot keep a log: {'; '.join(broken)}")
        for warning in warning_of_known(view):
            _log.warning("topic %s: %s", self.topic, warning)
        if settings.single_broker:
            _log.warning(
                "single_broker is set: topic %s may be lost with one disk, replicas=%d",
                self.topic,
                view.replicas,
            )


def check_lineage(scan: Scan, topic: str, lineage: bytes, *, new: bool) -> None:
    """Check that this is the log that the container means.

    Raises:
        LogLostError: it is not.
    """
    if new:
        if scan.offsets:
            raise LogLostError("the log of a new container holds frames", topic=topic)
    elif lineage not in scan.lineages:
        message = "the log is of another lineage" if scan.lineages else "the log is empty"
        raise LogLostError(message, topic=topic)
    elif scan.offsets and scan.lineage != lineage:
        raise LogLostError("the newest frame is of another lineage", topic=topic)
