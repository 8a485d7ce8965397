"""Ports of the loopback that no process uses."""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 10_000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
TRIES = 100


def free_port() -> int:
    """Return a port that was free a moment ago, and that no outgoing connection gets.

    So a server that was killed finds its port free when it comes back.
    """
    highest = int(RANGE.read_text(encoding="ascii").split()[0])
    chance = random.SystemRandom()
    for _ in range(TRIES):
        port = chance.randrange(LOWEST, max(highest, LOWEST + 1_000))
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                place.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port after {TRIES} tries")
