"""Processes that work at the same time, each of which is followed by another one when it dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.support.kill.nursery import Nursery, Process

OPENS_WITHIN_S = 60.0
WORKS_WITHIN_S = 120.0


class Slots:
    """The processes of one test.

    Args:
        nursery: starts them.
        request: what the next process of a slot is told.
        take: learns what a process reports: a kind and facts.
    """

    def __init__(
        self,
        nursery: Nursery,
        request: Callable[[int], bytes],
        take: Callable[[str, list[Any]], None],
    ) -> None:
        self._nursery = nursery
        self._request = request
        self._take_one = take
        self._processes: dict[int, Process] = {}

    def start(self, slot: int) -> None:
        self._processes[slot] = self._nursery.start(self._request(slot))

    def start_all(self, count: int) -> None:
        """Start so many, and wait until all work."""
        for slot in range(count):
            self.start(slot)
        for slot in range(count):
            self.wait_until_open(slot)

    def kill(self, slot: int) -> None:
        process = self._processes.pop(slot)
        with process:
            process.kill()
            self._take(process.reports())

    def wait_until_open(self, slot: int) -> None:
        self._take(self._processes[slot].until("o", OPENS_WITHIN_S))

    def work_until(self, enough: Callable[[], bool]) -> None:
        """Let them work until it is enough."""
        end = time.monotonic() + WORKS_WITHIN_S
        while not enough():
            assert time.monotonic() < end, "nothing is done"
            for process in self._processes.values():
                self._take(process.reports(0.01))

    def end(self) -> None:
        """Kill all of them."""
        for slot in list(self._processes):
            self.kill(slot)

    def _take(self, reports: list[list[Any]]) -> None:
        for kind, *facts in reports:
            self._take_one(kind, facts)
