"""What may happen to a request on its way, and a script of what happens to which."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The client's connection is reset.

    Attributes:
        after_effect: the server has answered before, and its answer is dropped; else it never sees
            the request.
    """

    after_effect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfRequest:
    """The server gets one half of the request and then the end; the client's side is reset.

    Without a body it is one half of the head.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfAnswer:
    """The server's answer ends in its middle: in that of its body, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The client gets this answer instead of the server's.

    Attributes:
        status: of HTTP.
        headers: such as ``Retry-After``; the length of the body is added.
        body: what the service would say.
        after_effect: the server did what it was asked before; else it never sees the request.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    after_effect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """No answer comes, until the client gives up.

    Attributes:
        after_effect: the server did what it was asked.
    """

    after_effect: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedRequest:
    """One bit of the request's body arrives changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedAnswer:
    """One bit of the answer's body arrives changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """The answer comes in small blocks, with pauses between them.

    Attributes:
        block_bytes: size of a block.
        pause_s: seconds before each block.
    """

    block_bytes: int
    pause_s: float


Fault: TypeAlias = (
    Reset | HalfRequest | HalfAnswer | Answer | Hang | FlippedRequest | FlippedAnswer | Trickle
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which requests have a fault.

    Attributes:
        fault: what happens to them.
        method: their method; empty for any.
        target: a pattern to be found in their path and query.
        skip: how many of these pass before the first one with the fault.
        times: how many have the fault then.
    """

    fault: Fault
    method: str = ""
    target: str = ""
    skip: int = 0
    times: int = 1

    def fits(self, method: str, target: str) -> bool:
        """Whether the rule is about such a request."""
        return self.method in ("", method) and re.search(self.target, target) is not None


class Plan:
    """Rules in order, each with a count of its own. Thread-safe.

    Args:
        rules: of those about a request, the first that is not used up says what happens to it.
    """

    def __init__(self, *rules: Rule) -> None:
        self._lock = threading.Lock()
        self._rules = rules
        self._seen = [0] * len(rules)

    @property
    def is_used_up(self) -> bool:
        """Whether every fault has happened as often as it should."""
        with self._lock:
            return all(
                seen >= rule.skip + rule.times
                for seen, rule in zip(self._seen, self._rules, strict=True)
            )

    def next_fault(self, method: str, target: str) -> Fault | None:
        """What happens to this request, which is counted."""
        with self._lock:
            for index, rule in enumerate(self._rules):
                if not rule.fits(method, target) or self._seen[index] >= rule.skip + rule.times:
                    continue
                self._seen[index] += 1
                if self._seen[index] > rule.skip:
                    return rule.fault
        return None
