"""The exit codes of the command; ``error_codes`` says which error has which."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the command tells its caller. Numbers never change."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_OWNER = 5
    DAMAGE = 6
    DEGRADED = 7
    UNAVAILABLE = 8
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143
