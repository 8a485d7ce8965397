"""The exit code of every failure: one table, which ``docs/cli.md`` repeats.

Imported when something has failed: the classes that it names bring much with them.
"""

from __future__ import annotations

from typing import Final

from siltstone.cli.exit_codes import ExitCode
from siltstone.container.models.imports import AdoptionNotFoundError
from siltstone.core import errors
from siltstone.migration.legacy.imported import MigrationStateError
from siltstone.migration.legacy.names import LegacyLayoutError
from siltstone.objects import errors as object_errors
from siltstone.store.handles.arguments import SeveralContainersError
from siltstone.store.handles.streams import PartialAppendError
from siltstone.volumes import errors as volume_errors

EXIT_CODES: Final[tuple[tuple[type[BaseException], ExitCode], ...]] = (
    (errors.FencedError, ExitCode.NOT_OWNER),
    (errors.StoreInUseError, ExitCode.NOT_OWNER),
    (errors.CorruptDataError, ExitCode.DAMAGE),
    (errors.LogLostError, ExitCode.DAMAGE),
    (errors.SegmentNotFoundError, ExitCode.NOT_FOUND),
    (errors.TableNotFoundError, ExitCode.NOT_FOUND),
    (AdoptionNotFoundError, ExitCode.NOT_FOUND),
    (errors.CollectionNotFoundError, ExitCode.NOT_FOUND),
    (object_errors.KeyspaceNotFoundError, ExitCode.NOT_FOUND),
    (errors.SegmentExistsError, ExitCode.CONFLICT),
    (errors.TableExistsError, ExitCode.CONFLICT),
    (errors.StoreExistsError, ExitCode.CONFLICT),
    (errors.SegmentSealedError, ExitCode.CONFLICT),
    (errors.SegmentNotSealedError, ExitCode.CONFLICT),
    (errors.SegmentTruncatedError, ExitCode.CONFLICT),
    (errors.OffsetError, ExitCode.CONFLICT),
    (errors.NotFlushedError, ExitCode.CONFLICT),
    (errors.SequenceError, ExitCode.CONFLICT),
    (errors.TableTruncatedError, ExitCode.CONFLICT),
    (errors.ConditionFailedError, ExitCode.CONFLICT),
    (errors.CollectionExistsError, ExitCode.CONFLICT),
    (errors.CollectionDroppedError, ExitCode.CONFLICT),
    (errors.CollectionMovedError, ExitCode.CONFLICT),
    (errors.UpperMismatchError, ExitCode.CONFLICT),
    (errors.SinceError, ExitCode.CONFLICT),
    (errors.SinceHeldError, ExitCode.CONFLICT),
    (errors.BookmarkFencedError, ExitCode.CONFLICT),
    (errors.CollectionSequenceError, ExitCode.CONFLICT),
    (errors.NegativeCountError, ExitCode.CONFLICT),
    (errors.CollectionLimitError, ExitCode.CONFLICT),
    (object_errors.KeyspaceExistsError, ExitCode.CONFLICT),
    (object_errors.CompactionBusyError, ExitCode.CONFLICT),
    (object_errors.RebuildingError, ExitCode.CONFLICT),
    (volume_errors.VolumeNotFoundError, ExitCode.NOT_FOUND),
    (volume_errors.VolumeNameError, ExitCode.USAGE),
    (volume_errors.VolumeError, ExitCode.CONFLICT),
    (object_errors.KeyspaceNameError, ExitCode.USAGE),
    (object_errors.ObjectLimitError, ExitCode.USAGE),
    (object_errors.UnsupportedError, ExitCode.USAGE),
    (errors.SegmentNameError, ExitCode.USAGE),
    (errors.AttributeLimitError, ExitCode.USAGE),
    (errors.UpdateTimeError, ExitCode.USAGE),
    (errors.CollectionSchemaError, ExitCode.USAGE),
    (errors.CollectionSourceError, ExitCode.USAGE),
    (SeveralContainersError, ExitCode.USAGE),
    (errors.SettingsError, ExitCode.USAGE),
    (errors.StoreNotFoundError, ExitCode.USAGE),
    (errors.FormatError, ExitCode.USAGE),
    (LegacyLayoutError, ExitCode.USAGE),
    (MigrationStateError, ExitCode.CONFLICT),
    (errors.SiltstoneError, ExitCode.FAILED),
    (FileExistsError, ExitCode.CONFLICT),
    (OSError, ExitCode.FAILED),
    (ValueError, ExitCode.USAGE),
    (TypeError, ExitCode.USAGE),
)
"""The first class that fits decides. What is not here is a mistake of ours."""


def exit_code(error: BaseException) -> ExitCode | None:
    """Return the exit code of ``error``; ``None`` for an unforeseen one."""
    if isinstance(error, PartialAppendError) and error.__cause__ is not None:
        return exit_code(error.__cause__)
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), None)
