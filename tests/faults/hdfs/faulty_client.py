"""A client of the SDK that lets one of its calls go wrong, before or after its effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from siltstone.bindings.hdfs.clients import Clients, FileWriter

OPENING = ("create", "append")
FAULTS = ("fails before", "fails after", "hangs before", "hangs after", "panics")


class Panic(BaseException):
    """What the SDK raises for its own mistakes; it is no ``Exception`` either."""


Panic.__name__ = "PanicException"


@dataclass(kw_only=True)
class Plan:
    """Which call goes wrong, and how.

    Attributes:
        call: its name; ``""`` for none.
        fault: one of ``FAULTS``.
        made: the names of all calls, in order.
        happened: whether the fault happened.
    """

    call: str = ""
    fault: str = ""
    made: list[str] = field(default_factory=list)
    happened: bool = False

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        self.made.append(name)
        if name != self.call or self.happened:
            return call()
        self.happened = True
        match self.fault:
            case "fails before":
                raise OSError("Connection reset by peer")
            case "hangs before":
                time.sleep(3600)
            case "panics":
                raise Panic("index out of bounds")
        found = call()
        if self.fault == "hangs after":
            time.sleep(3600)
        del found
        raise OSError("Connection reset by peer")


class FaultyClient:
    """Passes all calls on, by the plan. What it opens does so too."""

    def __init__(self, real: Any, plan: Plan) -> None:
        self._real = real
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name == "list_status":
            return real

        def call(*arguments: Any) -> Any:
            found = self._plan.run(name, lambda: real(*arguments))
            return FaultyClient(found, self._plan) if name in OPENING else found

        return call


class FaultyClients:
    """Lets each client of a process go wrong, by one plan."""

    def __init__(self, real: Clients, plan: Plan) -> None:
        self._real = real
        self._plan = plan

    def reader(self) -> FaultyClient:
        return FaultyClient(self._real.reader(), self._plan)

    def writer(self, path: str) -> FileWriter:
        found = self._real.writer(path)
        client: Any = FaultyClient(found.client, self._plan)
        return FileWriter(found.number, client)

    def closer(self, path: str) -> FaultyClient:
        return FaultyClient(self._real.closer(path), self._plan)

    def leave(self, path: str, number: int | None = None) -> None:
        self._real.leave(path, number)
