"""What a person can do about an error, told after it in the same line."""

from __future__ import annotations

from typing import Final

from siltstone.core import errors
from siltstone.core.open_files import ChunkOpenFilesError
from siltstone.objects import errors as object_errors
from siltstone.volumes import errors as volume_errors

WAYS_OUT: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (errors.SegmentNotFoundError, "ls lists segments; create, or append --create, makes one"),
    (errors.TableNotFoundError, "table ls lists tables; table create makes one"),
    (errors.SegmentExistsError, "create --exist-ok takes it as it is"),
    (errors.TableExistsError, "table create --exist-ok takes it as it is"),
    (
        errors.CollectionNotFoundError,
        "collection ls lists them; collection create makes one",
    ),
    (errors.CollectionExistsError, "collection create --exist-ok takes it as it is"),
    (errors.BookmarkFencedError, "collection bookmark set --takeover takes it over"),
    (errors.CollectionSequenceError, "collection writer ls shows the last sequence of each"),
    (errors.NegativeCountError, "collection read --diffs shows which"),
    (object_errors.KeyspaceNotFoundError, "objects ls lists them; objects create makes one"),
    (
        object_errors.KeyspaceExistsError,
        "objects create --exist-ok takes it as it is; objects restore needs a new name",
    ),
    (object_errors.RebuildingError, "objects rebuild, or the same objects restore, goes on"),
    (object_errors.UnsupportedError, "objects stat shows its tags"),
    (object_errors.LostObjectError, "objects check --deep finds all that is lost"),
    (volume_errors.VolumeNotFoundError, "volume ls lists them; volume create, clone make one"),
    (volume_errors.ConflictError, "volume reset gives up what was not pushed"),
    (volume_errors.RejectedCommitError, "volume reset gives up what was not pushed"),
    (errors.StoreInUseError, "end that process, or fence it by --takeover"),
    (errors.LogLostError, "do not remove anything; recover says what would be lost"),
    (errors.ChunkAccessDeniedError, "look at rights and credentials; doctor probes them"),
    (ChunkOpenFilesError, ""),  # The message has it.
    (errors.ChunkUnavailableError, "health and doctor tell more"),
    (errors.CorruptDataError, "check --deep finds all that is damaged"),
)
"""The first class that fits decides. Words such as ``ls`` are verbs of the command."""

_DOCUMENTED: Final = (
    errors.ChunkError,
    errors.LogError,
    errors.StoreError,
    errors.CorruptDataError,
    errors.BackPressureError,
    errors.SafeModeError,
    errors.OutcomeUnknownError,
)
"""Of these, docs/errors.md tells more than fits here: what is safe, and what to do."""


def way_out(error: BaseException) -> str:
    """Return what to add to the message of ``error``, in brackets; empty when there is nothing."""
    ways = [next((way for kind, way in WAYS_OUT if isinstance(error, kind)), "")]
    if isinstance(error, _DOCUMENTED) and type(error).__module__ == errors.__name__:
        ways.append(f"{type(error).__name__} in docs/errors.md")
    text = "; ".join(way for way in ways if way)
    return f" ({text})" if text else ""
