"""Local indexes that change only when their owner changes them, so that a run can be repeated."""

from __future__ import annotations

from typing import Any

import pytest
import rocksdict


def keep_indexes_still(patch: pytest.MonkeyPatch) -> None:
    """Let no index opened from here on compact its files by itself, at a time that no seed tells.

    How many files a checkpoint uploads would depend on it.
    """
    plain = rocksdict.Options

    def options(*arguments: Any, **choices: Any) -> Any:
        made = plain(*arguments, **choices)
        made.set_disable_auto_compactions(True)
        return made

    patch.setattr(rocksdict, "Options", options)
