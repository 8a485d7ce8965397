"""An owner in a process of its own: claims, says so, then appends and says what was acknowledged.

Arguments: endpoint, topic, how many frames there are, and what they begin with.
"""

from __future__ import annotations

import sys

from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from tests.faults.kafka.log_case import LINEAGE
from tests.support.services.kafka_services import CONTAINER, settings_of


def say(text: str) -> None:
    """Tell the parent of this process, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(endpoint: str, topic: str, kind: str, name: str) -> None:
    """Append until this process is killed."""
    log = KafkaFencedLog(settings_of(endpoint, topic), CONTAINER)
    log.claim(lineage=LINEAGE, new=kind == "new", above=0, takeover=False, owner=name)
    say(f"claimed {log.epoch} {log.end()}")
    count = 0
    while True:
        body = f"{name}-{count}"
        log.append([body.encode()], count=1)
        say(body)
        count += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
