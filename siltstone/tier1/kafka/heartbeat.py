"""How a holder shows others that it lives, wherever they are: by offsets committed to a group.

The consumer group has the topic's name. Nothing is read by these offsets; next to them is a text,
which names the claim and changes with every beat. The fence does not depend on it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.client import Client

BEAT_S: Final = 0.75
SILENCE_S: Final = 3.0
"""A holder without a beat for this long is taken for dead: some beats may be late."""
LOOKS: Final = 20
"""In that time."""
NO_GENERATION: Final = -1
GROUP_KEY: Final = 0

_log = logging.getLogger(__name__)


class Beats:
    """The text of the group. Thread-safe; raises like ``Partition``.

    Args:
        client: carries the requests.
        topic: whose name the group has.
    """

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic

    def show(self, text: str, end: int, deadline: Deadline) -> None:
        """Replace the text."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        part = topic.OffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=end,
            committed_leader_epoch=-1,
            committed_metadata=text,
        )
        request = OffsetCommitRequest(
            group_id=self._topic,
            generation_id_or_member_epoch=NO_GENERATION,
            member_id="",
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[topic(name=self._topic, partitions=[part])],
            max_version=8,
        )
        self._at_coordinator(request, lambda answer: answer.topics[0].partitions[0], deadline)

    def read(self, deadline: Deadline) -> str:
        """The text as it is now; empty when there is none."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic
        request = OffsetFetchRequest(
            group_id=self._topic,
            topics=[topic(name=self._topic, partition_indexes=[0])],
            max_version=7,
        )

        def part_of(answer: Any) -> Any:
            return answer if answer.error_code else answer.topics[0].partitions[0]

        answer = self._at_coordinator(request, part_of, deadline)
        return str(answer.metadata or "")

    def _at_coordinator(
        self, request: Any, part_of: Callable[[Any], Any], deadline: Deadline
    ) -> Any:
        client = self._client

        async def attempt() -> Any:
            asked = FindCoordinatorRequest(key=self._topic, key_type=GROUP_KEY, max_version=3)
            found = await client.ask(asked, None, deadline)
            if found.error_code:
                raise kafka_errors.for_code(found.error_code)()
            part = part_of(await client.ask(request, found.node_id, deadline))
            if part.error_code:
                raise kafka_errors.for_code(part.error_code)()
            return part

        return client.run(lambda: client.repeat(attempt, deadline), deadline)

    def hears(self, nonce: bytes, silence_s: float, deadline: Deadline) -> bool:
        """Whether the text names a claim and changes while one listens for ``silence_s``."""
        before = self.read(deadline)
        pause = threading.Event()
        for _ in range(LOOKS):
            pause.wait(silence_s / LOOKS)
            now = self.read(deadline)
            if now != before and now.startswith(nonce.hex()):
                return True
            before = now
        return False


class Heart:
    """Beats on a thread of its own until it is stopped, or its owner is not the newest any more.

    Args:
        beats: where it shows itself.
        nonce: of the claim.
        beat_s: seconds between beats.
        deadline_s: seconds that each may take.
        end: tells the end of the log, for people who look.
        is_newest: asks the log whether the claim is its newest.
    """

    def __init__(
        self,
        beats: Beats,
        nonce: bytes,
        *,
        beat_s: float,
        deadline_s: float,
        end: Callable[[], int],
        is_newest: Callable[[], bool],
    ) -> None:
        self._beats = beats
        self._nonce = nonce
        self._beat_s = beat_s
        self._deadline_s = deadline_s
        self._end = end
        self._is_newest = is_newest
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-log-heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop beating; a beat in progress is not waited for. Idempotent."""
        self._stopped.set()

    def _run(self) -> None:
        count = 0
        is_late = False
        while not self._stopped.is_set():
            try:
                if not self._is_newest():
                    return
                text = f"{self._nonce.hex()} {count}"
                self._beats.show(text, self._end(), Deadline(self._deadline_s))
                is_late = False
            except Exception as error:  # noqa: BLE001 - a courtesy; the log tells what matters
                if not is_late and not self._stopped.is_set():
                    _log.warning("others do not see that this owner lives: %s", error)
                is_late = True
            count += 1
            self._stopped.wait(self._beat_s)
