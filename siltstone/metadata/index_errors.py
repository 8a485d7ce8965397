"""What the messages of the index's library mean, as errors of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import rocksdict

from siltstone.core.errors import (
    ClosedError,
    CorruptDataError,
    SiltstoneError,
    StoreError,
    StoreInUseError,
)
from siltstone.core.open_files import is_lack, way_out, with_descriptor

T = TypeVar("T")


def translated(
    folder: Path, call: Callable[[], T], *, again: bool = True, what: str = "index"
) -> T:
    """Call, and raise an error of ours if that fails.

    If there was no descriptor the call is made again, see ``open_files``; unless there is no
    ``again``, as for a close, which takes effect although it failed. Errors say ``what`` failed.
    """
    try:
        return with_descriptor(call) if again else call()
    except Exception as error:  # the library has no class of its own
        raise translation(error, folder, what) from error


def translation(error: Exception, folder: Path, what: str = "index") -> Exception:
    """Return the error of ours that says what the library's message means."""
    message = str(error)
    if is_lack(error):  # of what is damaged, or locked by another, it says nothing
        return StoreError(f"too many open files; {way_out()}", folder=folder, reason=message)
    if "Is a directory" in message:  # in the place of one of its files, so it is no longer a cache
        return CorruptDataError(f"{what} is damaged", where=str(folder), reason=message)
    if isinstance(error, SiltstoneError | OSError):
        return error
    # The second is what other threads are told while it is being closed.
    if isinstance(error, rocksdict.DbClosedError) or message == "Already mutably borrowed":
        return ClosedError(f"{what} is closed", folder=folder)
    if "/LOCK: " in message:
        return StoreInUseError(f"{what} is open elsewhere", owner="unknown", folder=folder)
    if message.startswith(("Corruption", "IO error: No such file", "Invalid argument")):
        return CorruptDataError(f"{what} is damaged", where=str(folder), reason=message)
    return StoreError(f"{what} failed", folder=folder, reason=message)
