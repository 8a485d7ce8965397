"""A topic that has more partitions than the one that its log is in.

Partitions may be added to a topic, and they cannot be taken away again. Records of a log are
sent to the first partition and to no other, and brokers move none between partitions. So the log is
whole as long as the others hold nothing: what a tool had copied into several would be there.
"""

from __future__ import annotations

from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.partition import Partition, TopicView


def refusal_of_new(view: TopicView) -> list[str]:
    """Why no log is begun in a topic with several partitions; nothing, if it has one."""
    if view.partitions == 1:
        return []
    return [
        f"the topic has {view.partitions} partitions and must have 1: "
        "make it again with one, or set another topic"
    ]


def refusal_of_known(view: TopicView, first: Partition, deadline: Deadline) -> list[str]:
    """Why no owner continues a log whose topic gained partitions; nothing, if they are empty."""
    more = [Partition(first.client, first.topic, index) for index in range(1, view.partitions)]
    holding = [part.index for part in more if len(set(part.bounds(deadline))) > 1]
    if not holding:
        return []
    named = ", ".join(map(str, holding))
    return [
        f"the topic has {view.partitions} partitions and must have 1; the log is in partition 0,"
        f" and there are records in partition {named}, which no owner wrote: if they are not"
        " copies of this log, delete them by kafka-delete-records.sh and open again; if they are,"
        " copy all records in the order of their frames to a topic of one partition"
    ]


def warning_of_known(view: TopicView) -> list[str]:
    """What to know of a topic that gained partitions."""
    if view.partitions == 1:
        return []
    return [
        f"the topic has {view.partitions} partitions: the log is in partition 0 alone, let no"
        " program write to the others"
    ]
