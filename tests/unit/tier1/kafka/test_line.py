"""What a line sends, checked by the codecs of kafka-python; a frame whose line ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from siltstone.core.constants import Buffer
from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.tier1.kafka.client import CLIENT_ID
from siltstone.tier1.kafka.line import ANSWER_BYTES_MAX, Line, LineError
from siltstone.tier1.kafka.partition import AppendedRecord
from siltstone.tier1.kafka.produce_message import ProduceMessages, UnexpectedAnswerError
from siltstone.tier1.kafka.sender import Sender

TOPIC = "t" * 130
ID = UUID(bytes=bytes(range(16)))
VERSIONS = [9, 10, 11, 12, 13]


def messages_of(version: int) -> ProduceMessages:
    return ProduceMessages(version=version, topic=TOPIC, topic_id=ID if version >= 13 else None)


def answer_of(
    version: int, number: int = 7, *, code: int = 0, topic: str = TOPIC, topic_id: UUID = ID,
    partitions: Sequence[int] = (0,), offset: int = 1 << 33, message: str | None = None,
) -> bytes:  # fmt: skip
    """The answer of a broker as kafka-python encodes it, without the length."""
    topics = ProduceResponse.TopicProduceResponse
    parts = [
        topics.PartitionProduceResponse(
            index=index, error_code=code, base_offset=offset,
            log_append_time_ms=5, log_start_offset=1 << 32, record_errors=[],
            error_message=message,
        )
        for index in partitions
    ]  # fmt: skip
    answer = ProduceResponse(
        responses=[topics(name=topic, topic_id=topic_id, partition_responses=parts)],
        throttle_time_ms=3,
    )
    answer.API_VERSION = version
    answer.with_header(correlation_id=number)
    return bytes(answer.encode(framed=False, header=True))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 16_382, 16_383, 100_000])
def test_a_request_is_that_of_kafka_python(version: int, length: int) -> None:
    batch = bytes(length)
    topics = ProduceRequest.TopicProduceData
    part = topics.PartitionProduceData(index=0, records=batch)
    wanted = ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=1234,
        topic_data=[topics(name=TOPIC, topic_id=ID, partition_data=[part])],
    )  # fmt: skip
    wanted.API_VERSION = version
    wanted.with_header(correlation_id=77, client_id=CLIENT_ID)
    parts = messages_of(version).encode([batch[:5], batch[5:]], 77, 1234)
    assert b"".join(parts) == bytes(wanted.encode(framed=True, header=True))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_is_that_of_kafka_python(version: int) -> None:
    messages = messages_of(version)
    assert messages.decode(answer_of(version), 7) == (1 << 33, 1 << 32)
    assert messages.decode(memoryview(answer_of(version, message="why")), 7) == (1 << 33, 1 << 32)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"number": 8},
        {"code": 6},
        {"offset": -1},
        {"topic": "u" * 130, "topic_id": UUID(int=1)},
        {"topic": "t" * 129, "topic_id": UUID(int=2)},
        {"partitions": (1,)},
        {"partitions": ()},
        {"partitions": (0, 1)},
    ],
)
def test_any_other_answer_is_no_success(version: int, wrong: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedAnswerError):
        messages_of(version).decode(answer_of(version, **wrong), 7)


def test_a_part_of_an_answer_is_none() -> None:
    whole = answer_of(13)
    for length in range(len(whole) - 16):
        with pytest.raises(UnexpectedAnswerError):
            messages_of(13).decode(whole[:length], 7)


class Broker:
    """The other end of a line; it answers what a test sets."""

    def __init__(self) -> None:
        self.sock, self.ours = socket.socketpair()
        self.requests: list[bytes] = []
        self._thread: threading.Thread | None = None

    def says(self, *answers: bytes, end: bool = False) -> None:
        """Answer the next request with these pieces, and hang up if ``end``."""

        def serve() -> None:
            self.requests.append(self.ours.recv(1 << 16))
            for each in answers:
                self.ours.sendall(each)
            if end:
                self.ours.close()

        self._thread = threading.Thread(target=serve)
        self._thread.start()

    def line(self, life_s: float | None = None) -> Line:
        return Line(self.sock, messages_of(13), life_s)

    def close(self) -> None:
        self.sock.close()
        if self._thread is not None:
            self._thread.join(120)
        self.ours.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.close()


def framed(answer: bytes, more: int = 0) -> bytes:
    return (len(answer) + more).to_bytes(4, "big") + answer


def test_answers_come_in_any_pieces(broker: Broker) -> None:
    line = broker.line()
    whole = framed(answer_of(13, 1))
    broker.says(*(whole[at : at + 1] for at in range(len(whole))))
    assert line.produce([b"a", b"b"], Deadline(10)) == (1 << 33, 1 << 32)
    broker.says(framed(answer_of(13, 2)))
    assert line.produce([b"c"], Deadline(10)) == (1 << 33, 1 << 32)
    assert broker.requests[1] == b"".join(messages_of(13).encode([b"c"], 2, 9999))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0",
        framed(answer_of(13, 1)[:-1], 1),
        framed(answer_of(13, 1, code=6)),
        framed(answer_of(13, 0)),
        framed(answer_of(13, 1)) + b"\0",
        b"\xff\xff\xff\xff" + answer_of(13, 1),
    ],
)
def test_whatever_else_comes_ends_the_line(broker: Broker, answer: bytes) -> None:
    line = broker.line()
    broker.says(answer, end=True)
    with pytest.raises(LineError):
        line.produce([b"a"], Deadline(10))
    assert broker.sock.fileno() == -1
    with pytest.raises(LineError):
        line.produce([b"b"], Deadline(10))
    assert len(broker.requests) == 1


@pytest.mark.parametrize("size", [ANSWER_BYTES_MAX + 1, 2**31, 2**32 - 1])
def test_an_answer_that_is_too_large_is_not_waited_for(broker: Broker, size: int) -> None:
    broker.says(size.to_bytes(4, "big"))
    with pytest.raises(LineError, match="cannot have"):
        broker.line().produce([b"a"], Deadline(10))


def test_a_silent_broker_ends_the_line(broker: Broker) -> None:
    with pytest.raises(LineError):
        broker.line().produce([b"a"], Deadline(0.05))
    assert broker.sock.fileno() == -1


def test_nothing_is_sent_when_there_is_no_time(broker: Broker) -> None:
    line = broker.line()
    with pytest.raises(DeadlineError):
        line.produce([b"a"], Deadline(0))
    broker.says(framed(answer_of(13, 1)))
    assert line.produce([b"b"], Deadline(10)) == (1 << 33, 1 << 32)


def test_nothing_is_sent_when_the_signing_on_has_ended(broker: Broker) -> None:
    with pytest.raises(LineError):
        broker.line(0).produce([b"a"], Deadline(10))
    assert broker.ours.recv(1) == b""


class StubPartition:
    """Records which way each batch went, and can refuse and break lines."""

    topic = TOPIC

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self.is_broken = False
        self.has_lines = True

    def new_producer(self, deadline: Deadline) -> tuple[int, int]:
        return 9, 0

    def line(self, deadline: Deadline) -> StubLine:
        if not self.has_lines:
            raise OSError("refused")
        self.sent.append(("open", b""))
        return StubLine(self)

    def produce(self, batch: Sequence[Buffer], deadline: Deadline) -> AppendedRecord:
        self.sent.append(("client", b"".join(batch)))
        return AppendedRecord(offset=len(self.sent), start=0)


class StubLine:
    def __init__(self, partition: StubPartition) -> None:
        self._partition = partition

    def produce(self, batch: Sequence[Buffer], deadline: Deadline) -> tuple[int, int]:
        sent = self._partition.sent
        sent.append(("line", b"".join(batch)))
        if self._partition.is_broken:
            raise LineError("broken")
        return len(sent), 0


def test_the_bytes_of_a_line_that_ended_are_sent_again_before_anything_else() -> None:
    stub = StubPartition()
    sender = Sender(stub, Deadline(10))  # type: ignore[arg-type]

    def send() -> list[str]:
        stub.sent.clear()
        sender.send([b"a"], Deadline(10))
        return [way for way, _ in stub.sent]

    assert send() == ["client"]
    assert send() == ["open", "line"]
    assert send() == ["line"]
    stub.is_broken = True
    assert send() == ["line", "client"]
    (_, first), (_, again) = stub.sent
    assert first == again
    stub.is_broken = False
    assert send() == ["open", "line"]
    assert stub.sent[1][1] != first


def test_a_line_that_is_not_to_be_had_is_not_asked_for_each_time() -> None:
    stub = StubPartition()
    stub.has_lines = False
    sender = Sender(stub, Deadline(10))  # type: ignore[arg-type]
    sender.send([b"a"], Deadline(10))
    sender.send([b"b"], Deadline(10))
    stub.has_lines = True
    sender.send([b"c"], Deadline(10))
    assert [way for way, _ in stub.sent] == ["client"] * 3
