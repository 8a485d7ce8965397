"""A cut of the power of a disk of the model, before one of its calls."""

from __future__ import annotations

import errno
from collections.abc import Collection

from siltstone.testing.faults.file_layer import Call
from siltstone.testing.faults.power_cut import PowerCut

READS = ("close", "flock", "fstat", "identity", "links", "open", "preadv", "scandir", "stat")
"""Calls that leave what a cut may leave as it was. What opening makes is gone or empty."""


class Cut:
    """Cuts the power before one call, and counts how many calls there were.

    Args:
        disk: whose power goes.
        number: of the call, from 1.
        keep: the chance of what was not synced to be there afterwards.
        passed: kinds of calls that do not count.
    """

    def __init__(
        self, disk: PowerCut, number: int, keep: float, *, passed: Collection[str] = ()
    ) -> None:
        self.count = 0
        self._passed = passed
        self._disk = disk
        self._number = number
        self._keep = keep
        disk.before = self._before

    def _before(self, call: Call) -> None:
        if call.kind in self._passed:
            return
        self.count += 1
        if self.count == self._number:
            self._disk.before = lambda _: None
            self._disk.cut(keep=self._keep, seed=self._number)
            raise OSError(errno.EIO, "the power was cut")
