"""Three brokers of Kafka, which are their own controllers: one of them may die."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from services.free_port import free_port
from services.kafka import Kafka
from services.server import READY_S, StartError

BROKERS = 3


class ClusterBroker(Kafka):
    """One of the brokers.

    Args:
        program: the folder of jars.
        number: its number, from 1 on.
        voters: where the controllers of all of them listen, one for each.
        cluster_id: that of the first one, for the others.
    """

    def __init__(self, program: Path, number: int, voters: list[int], cluster_id: str = "") -> None:
        super().__init__(program)
        self.name = f"kafka-{number}"
        self._number = number
        self._voters = voters
        self.cluster_id = cluster_id or self.cluster_id

    def controller_port(self) -> int:
        """See ``Kafka``."""
        return self._voters[self._number - 1]

    def more(self) -> Mapping[str, Any]:
        """See ``Kafka``."""
        voters = (f"{place}@127.0.0.1:{port}" for place, port in enumerate(self._voters, 1))
        return {
            "node.id": self._number,
            "controller.quorum.voters": ",".join(voters),
            "offsets.topic.replication.factor": BROKERS,
            "default.replication.factor": BROKERS,
            # A killed broker is missed soon, by the others and by the controllers.
            "replica.lag.time.max.ms": 3000,
            "controller.quorum.election.timeout.ms": 500,
            "controller.quorum.fetch.timeout.ms": 1000,
        }

    def begin(self) -> None:
        """Start it without waiting: it is not ready before a second one runs."""
        self.port = self.port or free_port()
        self._spawn()


class KafkaCluster:
    """All of them, with small heaps. Use it as a context.

    Args:
        program: the folder of jars.

    Attributes:
        brokers: see ``ClusterBroker``.
    """

    def __init__(self, program: Path) -> None:
        voters = [free_port() for _ in range(BROKERS)]
        first = ClusterBroker(program, 1, voters)
        self.brokers = [first]
        for number in range(2, BROKERS + 1):
            self.brokers.append(ClusterBroker(program, number, voters, first.cluster_id))

    @property
    def endpoints(self) -> list[str]:
        """The addresses of the brokers, for people."""
        return [broker.endpoint for broker in self.brokers]

    def start(self) -> Self:
        """Start the brokers that do not run; wait until all serve.

        Raises:
            StartError: one did not come up.
        """
        for broker in self.brokers:
            if not broker.is_running:
                broker.begin()
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """Wait until all running brokers serve."""
        until = time.monotonic() + READY_S
        for broker in self.brokers:
            while broker.is_running and not broker.is_ready():
                if time.monotonic() > until:
                    raise StartError(f"{broker.name} was not ready\n{broker.log()}")
                time.sleep(0.02)
            if not broker.is_running:
                raise StartError(f"{broker.name} ended\n{broker.log()}")

    def close(self) -> None:
        """End them and remove all that they made."""
        for broker in self.brokers:
            broker.close()
