"""What came of the command, run in the process of a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run of the command left.

    Attributes:
        code: its exit code.
        out: standard output.
        err: standard error.
    """

    code: int
    out: str
    err: str

    @property
    def values(self) -> list[Any]:
        """The lines of JSON of standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Ran]
