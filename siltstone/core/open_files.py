"""Open files, of which a process may have a limited number, and what is done at that limit.

That a process has no descriptor left says nothing of the disk or the service that it wanted one
for. So what is only kept open to save time is given back, and the call is made again. What still
fails names the limit and how to raise it, and counts as no failure of the service.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from errno import EMFILE, ENFILE
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakSet

from siltstone.core.errors import ChunkUnavailableError, Outcome, StorageFullError

T = TypeVar("T")

LACK: Final = frozenset({EMFILE, ENFILE})
"""What the operating system answers when there is no descriptor left: to this process, to any."""

_TEXTS: Final = ("os error 24)", "os error 23)", "Too many open files")
"""How libraries that are not Python's tell the same; RocksDB says it as ``strerror`` does."""

_CAUSES_MAX: Final = 16
"""Errors of one chain that are looked at; no library wraps this many."""


class ChunkOpenFilesError(ChunkUnavailableError):
    """This process had no descriptor left for the call, which says nothing of the service."""


class LogOpenFilesError(StorageFullError):
    """This process had no descriptor left for tier 1; nothing was written, the handle is usable."""


class KeepsOpen(Protocol):
    """Keeps files open only to save time."""

    def give_back(self) -> None:
        """Close what is kept. Thread-safe, and called while any other method may run."""
        ...


_keepers: Final[WeakSet[KeepsOpen]] = WeakSet()
_lock: Final = threading.Lock()


def may_give_back(keeper: KeepsOpen) -> None:
    """Ask ``keeper``, as long as it lives, whenever this process has no descriptor left."""
    with _lock:
        _keepers.add(keeper)


def gave_back(error: BaseException) -> bool:
    """Whether ``error`` is a lack of descriptors, and so what was kept open has been given back.

    The call may then be made again: if not here, another thread gave some back meanwhile.
    """
    if not is_lack(error):
        return False
    with _lock:
        keepers = list(_keepers)
    for keeper in keepers:
        keeper.give_back()
    return True


def with_descriptor(call: Callable[[], T]) -> T:
    """Make a call that opens something; repeat it if descriptors had to be given back first."""
    try:
        return call()
    except Exception as error:
        if not gave_back(error):
            raise
    return call()


def is_lack(error: BaseException | None) -> bool:
    """Whether ``error``, or what it was raised from, says that there was no descriptor left."""
    for _ in range(_CAUSES_MAX):
        if error is None:
            return False
        if isinstance(error, OSError) and error.errno in LACK:
            return True
        if isinstance(error, ChunkOpenFilesError | LogOpenFilesError) or _says_so(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_lack_now(error: BaseException) -> bool:
    """``is_lack`` for calls to other machines, which may fail in another way because of it.

    The resolver, for example, tells only that a name could not be looked up. So this tries whether
    there is a descriptor now.
    """
    if is_lack(error):
        return True
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as found:
        return found.errno in LACK
    return False


def files_max() -> int | None:
    """How many files this process may have open; ``None`` where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def way_out() -> str:
    """The limit, and how it is raised, for an error whose reason is a lack of descriptors."""
    limit = files_max()
    if limit is None:
        return "this machine has no more: see fs.file-max of sysctl"
    return (
        f"this process may have {limit}: raise that with ulimit -n, or LimitNOFILE= of its service"
    )


def chunk_lack(
    *, chunk: str, operation: str, outcome: Outcome, **facts: Any
) -> ChunkOpenFilesError:
    """The error of a call to long-term storage that there was no descriptor for."""
    return ChunkOpenFilesError(
        f"too many open files; {way_out()}",
        chunk=chunk,
        operation=operation,
        outcome=outcome,
        **facts,
    )


def log_lack(operation: str, path: str) -> LogOpenFilesError:
    """The error of tier 1 that there was no descriptor for; nothing was changed."""
    return LogOpenFilesError(f"too many open files; {way_out()}", operation=operation, path=path)


def _says_so(text: str) -> bool:
    return any(words in text for words in _TEXTS)
