"""A client that is made when it is needed and dropped after an error."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import Any

from siltstone.tier1.kafka.client import Client
from siltstone.tier1.kafka.partition import Partition


class Connection:
    """The client of one handle or reader, with which it goes. Thread-safe.

    Args:
        options: of ``Client``.
        topic: whose partition it is for.
    """

    def __init__(self, options: Mapping[str, Any], topic: str) -> None:
        self._options = options
        self._topic = topic
        self._lock = threading.Lock()
        self._partition: Partition | None = None
        self._clients: list[Client] = []
        weakref.finalize(self, _close, self._clients)

    def partition(self) -> Partition:
        """The partition, by the client that there is or by a new one."""
        with self._lock:
            if self._partition is None:
                client = Client(self._options)
                self._clients.append(client)
                self._partition = Partition(client, self._topic)
            return self._partition

    def client(self) -> Client:
        """The client itself."""
        return self.partition().client

    def drop(self) -> None:
        """Close the client; the next call gets another one. Idempotent."""
        with self._lock:
            self._partition = None
            clients = list(self._clients)
            self._clients.clear()
        _close(clients)


def _close(clients: list[Client]) -> None:
    while clients:
        clients.pop().close()
