"""The bytes of a request that appends a batch to the one partition of a topic, and of its answer.

A request goes through no codec of kafka-python, whose cost is that of many small appends. Versions
9 to 13 are known, which differ in how they name the topic.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from siltstone.core.constants import Buffer
from siltstone.tier1.kafka.client import CLIENT_ID
from siltstone.tier1.kafka.record_batch import varint

PRODUCE_KEY: Final = 0
VERSION_MIN: Final = 9
VERSION_BY_ID: Final = 13

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")
_BODY = struct.Struct(">BhiB")
_PARTITION = struct.Struct(">Bi")
_ANSWER = struct.Struct(">iBB")
_PLACE = struct.Struct(">Bihqqq")
_NO_TAGS: Final = b"\0"
_NO_TRANSACTION: Final = 0
_ALL_REPLICAS: Final = -1
_ONE: Final = 2
"""How an array of one begins: its count and one more."""


class UnexpectedAnswerError(Exception):
    """The answer says no, or belongs to another request, or is none. It settles nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceMessages:
    """Requests for one topic.

    Attributes:
        version: of the request, from ``VERSION_MIN`` to ``VERSION_BY_ID``.
        topic: its name.
        topic_id: its id, which later versions go by.
    """

    version: int
    topic: str
    topic_id: UUID | None

    def encode(self, batch: Sequence[Buffer], number: int, timeout_ms: int) -> list[Buffer]:
        """Return the request ``number`` that appends ``batch``, with its length before it."""
        client = CLIENT_ID.encode()
        size = sum(map(len, batch))
        head = b"".join(
            (
                _HEAD.pack(PRODUCE_KEY, self.version, number),
                struct.pack(">h", len(client)),
                client,
                _NO_TAGS,
                _BODY.pack(_NO_TRANSACTION, _ALL_REPLICAS, timeout_ms, _ONE),
                self._name(),
                _PARTITION.pack(_ONE, 0),
                varint(size + 1),
            )
        )
        tail = 3 * _NO_TAGS
        return [_LENGTH.pack(len(head) + size + len(tail)), head, *batch, tail]

    def decode(self, answer: Buffer, number: int) -> tuple[int, int]:
        """Return the offset of the batch, and that of the first record that the log keeps.

        Args:
            answer: without its length.
            number: of the request.

        Raises:
            UnexpectedAnswerError: it is anything but the answer to this request that took effect.
        """
        name = self._name()
        name_at = _ANSWER.size
        place_at = name_at + len(name)
        if len(answer) < place_at + _PLACE.size:
            raise UnexpectedAnswerError("the answer is too short")
        head = _ANSWER.unpack_from(answer)
        count, index, code, offset, _, start = _PLACE.unpack_from(answer, place_at)
        fits = bytes(answer[name_at:place_at]) == name and (count, index) == (_ONE, 0)
        if head != (number, 0, _ONE) or not fits or code or offset < 0:
            raise UnexpectedAnswerError(f"the answer is no success: code={code}")
        return offset, start

    def _name(self) -> bytes:
        if self.version >= VERSION_BY_ID:
            assert self.topic_id is not None, "later versions need the id"
            return self.topic_id.bytes
        text = self.topic.encode()
        return varint(len(text) + 1) + text
