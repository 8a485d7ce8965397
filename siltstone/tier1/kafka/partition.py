"""One partition of a topic, mostly its only one: what is asked of it, and of the topic around it.

Every method ends by its deadline and raises errors of kafka-python or ``DeadlineError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kafka import errors as kafka_errors
from kafka.protocol.admin import CreateTopicsRequest, DeleteRecordsRequest, DescribeConfigsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record import MemoryRecords

from siltstone.core.constants import MIB, Buffer
from siltstone.core.errors import LogLostError
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.client import Client
from siltstone.tier1.kafka.line import Line
from siltstone.tier1.kafka.produce_message import VERSION_MIN, ProduceMessages

FETCH_BYTES: Final = 16 * MIB
EARLIEST: Final = -2
LATEST: Final = -1
TOPIC_RESOURCE: Final = 2
ALL_REPLICAS: Final = -1
PRODUCER_TIMEOUT_MS: Final = 60_000

# From the later versions on a topic is named by its id, so one that was made again is another.
FETCH_BY_NAME: Final = 11
FETCH_BY_ID: Final = 13
PRODUCE_MIN: Final = 5
PRODUCE_BY_NAME: Final = 9
PRODUCE_BY_ID: Final = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic as the cluster describes it.

    Attributes:
        topic_id: differs between a topic and another one of its name; ``None`` on old brokers.
        partitions: how many there are.
        replicas: copies of the one that was asked about.
        options: its settings, by their names.
    """

    topic_id: UUID | None
    partitions: int
    replicas: int
    options: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Some records, from the offset that was asked for.

    Attributes:
        records: offset and value of each; the values of what is no plain record are ``None``.
        next_offset: of the record after them; further than the one that was asked for although
            there are none, where records in the middle were deleted.
        high_watermark: records below it are on all replicas that count.
        start: offset of the first record that the log keeps.
    """

    records: list[tuple[int, bytes | None]]
    next_offset: int
    high_watermark: int
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedRecord:
    """Where a record landed, and the offset of the first one that the log keeps."""

    offset: int
    start: int


class Partition:
    """Thread-safe.

    Args:
        client: carries the requests.
        topic: its name.
        index: which of its partitions is meant; logs are in the first one.
    """

    def __init__(self, client: Client, topic: str, index: int = 0) -> None:
        self.client = client
        self.topic = topic
        self.index = index
        self._leader: int | None = None
        self._topic_id: UUID | None = None

    @property
    def topic_id(self) -> UUID | None:
        """That of the topic, once it was looked at; another topic of its name is refused then."""
        return self._topic_id

    # --- the topic ---

    def describe(self, deadline: Deadline) -> TopicView | None:
        """Look at the topic; ``None`` when there is none."""

        async def attempt() -> TopicView | None:
            found = await self._metadata(deadline)
            if found is None:
                return None
            request = DescribeConfigsRequest(resources=[(TOPIC_RESOURCE, self.topic, None)])
            answer = (await self.client.ask(request, None, deadline)).results[0]
            _check(answer.error_code)
            parts = found.partitions
            return TopicView(
                topic_id=found.topic_id,
                partitions=len(parts),
                replicas=next(
                    len(part.replica_nodes) for part in parts if part.partition_index == self.index
                ),
                options={option.name: option.value for option in answer.configs},
            )

        return self.client.run(lambda: self.client.repeat(attempt, deadline), deadline)

    def exists(self, deadline: Deadline) -> bool:
        """Whether there is such a topic."""

        async def attempt() -> bool:
            return await self._metadata(deadline) is not None

        return self.client.run(lambda: self.client.repeat(attempt, deadline), deadline)

    def create(self, replicas: int, options: Mapping[str, str], deadline: Deadline) -> None:
        """Make the topic, unless it is there, and wait until it can be used."""
        topic = CreateTopicsRequest.CreatableTopic
        option = topic.CreatableTopicConfig
        described = topic(
            name=self.topic,
            num_partitions=1,
            replication_factor=replicas,
            assignments=[],
            configs=[option(name=name, value=value) for name, value in options.items()],
        )

        async def attempt() -> None:
            request = CreateTopicsRequest(
                topics=[described],
                timeout_ms=int(deadline.left_s() * 1000),
                validate_only=False,
            )
            controller = await self._controller(deadline)
            answer = (await self.client.ask(request, controller, deadline)).topics[0]
            if answer.error_code != kafka_errors.TopicAlreadyExistsError.errno:
                _check(answer.error_code, answer.error_message)

        async def wait() -> None:
            if await self._metadata(deadline) is None:
                raise kafka_errors.LeaderNotAvailableError(self.topic)

        async def work() -> None:
            await self.client.repeat(attempt, deadline)
            await self.client.repeat(wait, deadline)

        self.client.run(work, deadline)

    async def _controller(self, deadline: Deadline) -> int | None:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer = await self.client.ask(request, None, deadline)
        self.client.manager.cluster.update_metadata(answer)
        return answer.controller_id if answer.controller_id >= 0 else None

    async def _metadata(self, deadline: Deadline) -> Any:
        """What the cluster says of the topic, with a leader; ``None`` when there is no topic."""
        asked = MetadataRequest.MetadataRequestTopic(name=self.topic)
        request = MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
        answer = await self.client.ask(request, None, deadline)
        self.client.manager.cluster.update_metadata(answer)
        found = answer.topics[0]
        if found.error_code == kafka_errors.UnknownTopicOrPartitionError.errno:
            return None
        _check(found.error_code)
        if self._topic_id is None:
            self._topic_id = found.topic_id
        elif found.topic_id != self._topic_id:
            raise LogLostError("the topic was deleted and made again", topic=self.topic)
        leaders = {part.partition_index: part.leader_id for part in found.partitions}
        if leaders.get(self.index, -1) < 0:
            raise kafka_errors.LeaderNotAvailableError(self.topic)
        self._leader = leaders[self.index]
        return found

    # --- records ---

    def bounds(self, deadline: Deadline) -> tuple[int, int]:
        """Offset of the first record, and one above that of the last which is safe."""
        return self._edge(EARLIEST, deadline), self._edge(LATEST, deadline)

    def high_watermark(self, deadline: Deadline) -> int:
        """One above the offset of the last record that is on all replicas that count."""
        return self._edge(LATEST, deadline)

    def _edge(self, which: int, deadline: Deadline) -> int:
        part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=self.index, current_leader_epoch=-1, timestamp=which
        )

        def request() -> Any:
            return ListOffsetsRequest(
                isolation_level=0, topics=[(self.topic, [part])], max_version=8
            )

        answer = self._at_leader(request, lambda found: found.topics[0].partitions[0], deadline)
        return int(answer.offset)

    def fetch(self, offset: int, deadline: Deadline) -> Fetched:
        """Return the records at ``offset`` and after it, a few MiB, or nothing at the end.

        Raises:
            OffsetOutOfRangeError: there is no such offset any more, or not yet.
        """
        topic = FetchRequest.FetchTopic

        def request() -> Any:
            part = topic.FetchPartition(
                partition=self.index,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                partition_max_bytes=FETCH_BYTES,
            )
            return FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=FETCH_BYTES,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=[topic(topic=self.topic, topic_id=self._topic_id, partitions=[part])],
                forgotten_topics_data=[],
                rack_id="",
                max_version=FETCH_BY_NAME if self._topic_id is None else FETCH_BY_ID,
            )

        answer = self._at_leader(request, lambda found: found.responses[0].partitions[0], deadline)
        records, next_offset = _records(bytes(answer.records or b""), offset)
        return Fetched(
            records=records,
            next_offset=next_offset,
            high_watermark=answer.high_watermark,
            start=answer.log_start_offset,
        )

    def new_producer(self, deadline: Deadline) -> tuple[int, int]:
        """A number and an epoch by which brokers know what is sent again."""

        async def attempt() -> tuple[int, int]:
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=PRODUCER_TIMEOUT_MS
            )
            answer = await self.client.ask(request, None, deadline)
            _check(answer.error_code)
            return answer.producer_id, answer.producer_epoch

        return self.client.run(lambda: self.client.repeat(attempt, deadline), deadline)

    def produce(self, batch: Sequence[Buffer], deadline: Deadline) -> AppendedRecord:
        """Append a batch to all replicas that count. The same bytes are sent until an answer comes.

        Whatever is raised, they may be there, or come later.
        """
        records = b"".join(batch)
        answer = self._at_leader(
            lambda: self._produce_request(records, int(deadline.left_s() * 1000)),
            lambda found: found.responses[0].partition_responses[0],
            deadline,
        )
        return AppendedRecord(offset=answer.base_offset, start=answer.log_start_offset)

    def _produce_request(self, records: bytes, timeout_ms: int) -> Any:
        topic = ProduceRequest.TopicProduceData
        part = topic.PartitionProduceData(index=self.index, records=records)
        return ProduceRequest(
            transactional_id=None,
            acks=ALL_REPLICAS,
            timeout_ms=max(1, timeout_ms),
            topic_data=[topic(name=self.topic, topic_id=self._topic_id, partition_data=[part])],
            min_version=PRODUCE_MIN,
            max_version=PRODUCE_BY_NAME if self._topic_id is None else PRODUCE_BY_ID,
        )

    def line(self, deadline: Deadline) -> Line | None:
        """Open a line to the leader; ``None`` where there can be none, or the leader is unknown.

        It goes with the client, and to the first partition.
        """
        leader = None if self.index else self._leader
        taken = None if leader is None else self.client.take_socket(leader, deadline)
        if taken is None:
            return None
        version = taken.versions.api_version(self._produce_request(b"", 0))
        if version < VERSION_MIN:
            taken.sock.close()
            return None
        messages = ProduceMessages(version=version, topic=self.topic, topic_id=self._topic_id)
        return Line(taken.sock, messages, taken.life_s)

    def delete_before(self, offset: int, deadline: Deadline) -> int:
        """Delete the records below ``offset``; return the offset of the first that is kept."""

        def request() -> Any:
            return DeleteRecordsRequest(
                topics=[(self.topic, [(self.index, offset)])],
                timeout_ms=max(1, int(deadline.left_s() * 1000)),
            )

        answer = self._at_leader(request, lambda found: found.topics[0].partitions[0], deadline)
        return int(answer.low_watermark)

    def _at_leader(
        self, request: Callable[[], Any], part_of: Callable[[Any], Any], deadline: Deadline
    ) -> Any:
        """Ask the leader, whichever broker it is by now; return what it says of the partition."""

        async def attempt() -> Any:
            if self._leader is None and await self._metadata(deadline) is None:
                raise kafka_errors.UnknownTopicOrPartitionError(self.topic)
            try:
                part = part_of(await self.client.ask(request(), self._leader, deadline))
                _check(part.error_code)
            except BaseException:
                self._leader = None
                raise
            return part

        return self.client.run(lambda: self.client.repeat(attempt, deadline), deadline)


def _check(code: int, message: str | None = None) -> None:
    """Raise the error that ``code`` stands for."""
    if code:
        error = kafka_errors.for_code(code)
        raise error(message) if message else error()


def _records(data: bytes, offset: int) -> tuple[list[tuple[int, bytes | None]], int]:
    """Offset and value of each record from ``offset`` on, and the offset after them.

    A last one may be cut off, and a batch may have none left.

    Raises:
        CorruptRecordError: what the broker sent is damaged.
    """
    found: list[tuple[int, bytes | None]] = []
    behind = offset
    records = MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise kafka_errors.CorruptRecordError("a batch does not have its own checksum")
        behind = max(behind, batch.next_offset)
        plain = batch.magic == 2 and not batch.is_control_batch and not batch.compression_type
        if not plain:
            found += [(each, None) for each in range(batch.base_offset, batch.next_offset)]
            continue
        found += [
            (record.offset, None if record.key is not None else record.value) for record in batch
        ]
    return [record for record in found if record[0] >= offset], behind
