"""A model of a broker of Kafka: topics of one partition, in memory, and how it may fail a client.

It takes the requests that the log makes, as objects, and gives answers that have the same fields.
What it knows: the order of a partition decides; a batch that a producer sends again is taken once;
records below an offset are deleted for good.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafka import errors as kafka_errors

from siltstone.tier1.kafka.partition import EARLIEST

_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43
"""Of a batch in format 2; after them comes the count of its records."""
_OFFSET = struct.Struct(">q")
REMEMBERED = 5
"""Batches of a producer that are known again."""
NODE = 1


@dataclass(slots=True)
class Topic:
    """One partition.

    Attributes:
        topic_id: see ``TopicView``.
        options: its settings.
        start: offset of the first record that is kept.
        end: one above the last.
        offsets: of the first record of each batch that is kept.
        batches: their bytes.
        producers: sequence and offset of the newest batches of each.
    """

    topic_id: UUID
    options: Mapping[str, str]
    start: int = 0
    end: int = 0
    offsets: list[int] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)
    producers: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


class Broker:
    """What is asked of it has its effect at once.

    Attributes:
        topics: by their names.

    Args:
        chance: where ids come from, and how much it gives at a time.
        note: told what happens.
    """

    def __init__(self, chance: Random, note: Callable[[str], None]) -> None:
        self.topics: dict[str, Topic] = {}
        self._chance = chance
        self._note = note
        self._producers = 0
        self._answers: dict[str, Callable[[Any], Any]] = {
            "MetadataRequest": self._metadata,
            "DescribeConfigsRequest": self._configs,
            "CreateTopicsRequest": self._create,
            "ListOffsetsRequest": self._edge,
            "FetchRequest": self._fetch,
            "InitProducerIdRequest": self._producer,
            "ProduceRequest": self._produce,
            "DeleteRecordsRequest": self._delete,
        }

    def answer(self, request: Any) -> Any:
        """Carry a request out, and return the answer."""
        return self._answers[type(request).__name__](request)

    def forget_producers(self) -> None:
        """Take again what was sent before, as a broker does that lost its record of it."""
        for topic in self.topics.values():
            topic.producers.clear()

    # --- the topic ---

    def _metadata(self, request: Any) -> Any:
        return SimpleNamespace(
            controller_id=NODE, topics=[self._described(asked.name) for asked in request.topics]
        )

    def _described(self, name: str) -> Any:
        topic = self.topics.get(name)
        if topic is None:
            return SimpleNamespace(
                error_code=kafka_errors.UnknownTopicOrPartitionError.errno, topic_id=None
            )
        part = SimpleNamespace(partition_index=0, leader_id=NODE, replica_nodes=[NODE])
        return SimpleNamespace(error_code=0, topic_id=topic.topic_id, partitions=[part])

    def _configs(self, request: Any) -> Any:
        _, name, _ = request.resources[0]
        options = self.topics[name].options.items()
        found = [SimpleNamespace(name=key, value=value) for key, value in options]
        return SimpleNamespace(results=[SimpleNamespace(error_code=0, configs=found)])

    def _create(self, request: Any) -> Any:
        asked = request.topics[0]
        code = kafka_errors.TopicAlreadyExistsError.errno
        if asked.name not in self.topics:
            code = 0
            self.topics[asked.name] = Topic(
                topic_id=UUID(bytes=self._chance.randbytes(16)),
                options={option.name: option.value for option in asked.configs},
            )
        return SimpleNamespace(topics=[SimpleNamespace(error_code=code, error_message=None)])

    # --- records ---

    def _edge(self, request: Any) -> Any:
        name, parts = request.topics[0]
        topic = self.topics[name]
        offset = topic.start if parts[0].timestamp == EARLIEST else topic.end
        part = SimpleNamespace(error_code=0, offset=offset)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])

    def _fetch(self, request: Any) -> Any:
        asked = request.topics[0]
        topic = self.topics[asked.topic]
        offset = asked.partitions[0].fetch_offset
        part = SimpleNamespace(
            error_code=0, high_watermark=topic.end, log_start_offset=topic.start, records=b""
        )
        if topic.start <= offset <= topic.end:
            first = max(0, bisect_right(topic.offsets, offset) - 1)
            part.records = b"".join(topic.batches[first : first + self._chance.choice((1, 9, 99))])
        else:
            part.error_code = kafka_errors.OffsetOutOfRangeError.errno
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[part])])

    def _producer(self, request: Any) -> Any:
        self._producers += 1
        return SimpleNamespace(error_code=0, producer_id=self._producers, producer_epoch=0)

    def _produce(self, request: Any) -> Any:
        asked = request.topic_data[0]
        topic = self.topics[asked.name]
        part = SimpleNamespace(error_code=0, base_offset=-1, log_start_offset=topic.start)
        try:
            part.base_offset = self._append(topic, bytes(asked.partition_data[0].records))
        except kafka_errors.KafkaError as error:
            part.error_code = error.errno
        self._note(f"produced {asked.name} {part.base_offset} {part.error_code}")
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[part])])

    def _append(self, topic: Topic, batch: bytes) -> int:
        producer, _, sequence = _PRODUCER.unpack_from(batch, _PRODUCER_AT)
        (count,) = struct.unpack_from(">i", batch, _PRODUCER_AT + _PRODUCER.size)
        known = topic.producers.setdefault(producer, [])
        for before, offset in known:
            if before == sequence:
                return offset
        if known and sequence < known[0][0]:
            raise kafka_errors.DuplicateSequenceNumberError
        if known and sequence != known[-1][0] + 1:
            raise kafka_errors.OutOfOrderSequenceNumberError
        # One record has one sequence; a batch of several ends higher.
        known.append((sequence + count - 1, topic.end))
        del known[:-REMEMBERED]
        topic.offsets.append(topic.end)
        topic.batches.append(_OFFSET.pack(topic.end) + batch[_OFFSET.size :])
        topic.end += count
        return topic.offsets[-1]

    def _delete(self, request: Any) -> Any:
        name, parts = request.topics[0]
        topic, (_, offset) = self.topics[name], parts[0]
        code = 0
        if offset > topic.end:
            code = kafka_errors.OffsetOutOfRangeError.errno
        elif offset > topic.start:
            topic.start = offset
            gone = max(0, bisect_right(topic.offsets, offset) - 1)
            if offset == topic.end:
                gone = len(topic.offsets)
            del topic.offsets[:gone], topic.batches[:gone]
        self._note(f"deleted {name} {offset} {code}")
        part = SimpleNamespace(error_code=code, low_watermark=topic.start)
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[part])])
