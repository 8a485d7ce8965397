"""What a topic must be so that nothing that was acknowledged can be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from siltstone.core.constants import FRAME_BYTES_MAX, KIB, MIB
from siltstone.tier1.kafka.partition import TopicView

FRAME_BYTES: Final = FRAME_BYTES_MAX - KIB
"""So that a record with its overhead is never above 8 MiB, which is the limit of some services."""
REPLICAS_MIN: Final = 3
IN_SYNC_MIN: Final = 2
SEGMENT_BYTES: Final = 128 * MIB
"""The broker frees room in steps of it."""

Rule = tuple[str, Callable[[str], bool], str, str]

_ALWAYS: Final[tuple[Rule, ...]] = (
    ("cleanup.policy", lambda value: value == "delete", "delete", "compaction drops frames"),
    ("retention.ms", lambda value: value == "-1", "-1", "frames would be dropped by their age"),
    ("retention.bytes", lambda value: value == "-1", "-1", "frames would be dropped by their size"),
    (
        "unclean.leader.election.enable",
        lambda value: value == "false",
        "false",
        "a replica that lags may become the leader",
    ),
    (
        "max.message.bytes",
        lambda value: int(value) >= FRAME_BYTES_MAX,
        f"{FRAME_BYTES_MAX} or more",
        "the largest frame does not fit",
    ),
)
_REPLICATED: Final[tuple[Rule, ...]] = (
    (
        "min.insync.replicas",
        lambda value: int(value) >= IN_SYNC_MIN,
        f"{IN_SYNC_MIN} or more",
        "one lost disk would lose what was acknowledged",
    ),
)
_SINGLE: Final[tuple[Rule, ...]] = (
    (
        "flush.messages",
        lambda value: value == "1",
        "1",
        "a power cut would lose what was acknowledged, for no other broker has it",
    ),
)


def broken_rules(view: TopicView, *, single_broker: bool) -> list[str]:
    """What has to be changed in a topic before it can carry a log; nothing, if all is well."""
    found = []
    if view.replicas < REPLICAS_MIN and not single_broker:
        found.append(
            f"the topic has {view.replicas} replicas and must have {REPLICAS_MIN} or more, or"
            " single_broker must be true in the settings"
        )
    for name, holds, wanted, why in (*_ALWAYS, *(_SINGLE if single_broker else _REPLICATED)):
        value = view.options.get(name)
        if value is None or not holds(value):
            found.append(f"{name} is {value} and must be {wanted}: {why}")
    return found


def options_of_new(*, single_broker: bool) -> dict[str, str]:
    """The settings that a new topic is made with: those that are asked for, all of them."""
    options = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
        "max.message.bytes": str(FRAME_BYTES_MAX),
        "message.timestamp.type": "LogAppendTime",
        "segment.bytes": str(SEGMENT_BYTES),
    }
    if single_broker:
        return options | {"flush.messages": "1"}
    return options | {"min.insync.replicas": str(IN_SYNC_MIN)}
