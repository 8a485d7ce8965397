"""Tiered storage: append to fast, fenced logs; keep the bytes in plain chunks on cheap storage.

``siltstone.open(path)`` opens a store for blocking callers, ``siltstone.open_async(path)`` for
asyncio, ``siltstone.init(folder)`` makes one. ``siltstone.open_collections(path)`` opens its
collections, and needs the extra of that name. Everything here is loaded when it is first used, so
that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from siltstone.moved_modules import find_moved_modules as _find_moved_modules

if TYPE_CHECKING:
    from siltstone.collections.async_bookmark import AsyncBookmark as AsyncBookmark
    from siltstone.collections.async_collection import AsyncCollection as AsyncCollection
    from siltstone.collections.async_collections import AsyncCollections as AsyncCollections
    from siltstone.collections.async_collections import (
        open_async_collections as open_collections_async,
    )
    from siltstone.collections.async_snapshot import (
        AsyncCollectionSnapshot as AsyncCollectionSnapshot,
    )
    from siltstone.collections.async_subscription import AsyncSubscription as AsyncSubscription
    from siltstone.collections.async_subscription import Changes as Changes
    from siltstone.collections.async_writer import AppendResult as AppendResult
    from siltstone.collections.async_writer import AsyncCollectionWriter as AsyncCollectionWriter
    from siltstone.collections.async_writer import CollectionBatchRows as CollectionBatchRows
    from siltstone.collections.blocking import Collection as Collection
    from siltstone.collections.blocking import CollectionBookmark as CollectionBookmark
    from siltstone.collections.blocking import Collections as Collections
    from siltstone.collections.blocking import CollectionSnapshot as CollectionSnapshot
    from siltstone.collections.blocking import CollectionWriter as CollectionWriter
    from siltstone.collections.blocking import Subscription as Subscription
    from siltstone.collections.blocking import open_collections as open_collections
    from siltstone.collections.collection_info import CollectionInfo as CollectionInfo
    from siltstone.collections.entry_view import CollectionEntry as CollectionEntry
    from siltstone.collections.row_imports import CollectionImport as CollectionImport
    from siltstone.collections.sources.any_source import table_source as table_source
    from siltstone.collections.sources.table_source import TableSource as TableSource
    from siltstone.collections.splits import CollectionSplit as CollectionSplit
    from siltstone.collections.splits import read_split as read_split
    from siltstone.container.health.monitor import ContainerHealth as ContainerHealth
    from siltstone.container.models.check import CheckProgress as CheckProgress
    from siltstone.container.models.check import ChunkState as ChunkState
    from siltstone.container.models.garbage import GarbageStatus as GarbageStatus
    from siltstone.container.models.garbage import SweepFinding as SweepFinding
    from siltstone.container.models.health import HealthReason as HealthReason
    from siltstone.container.models.health import HealthState as HealthState
    from siltstone.container.models.imports import Adoption as Adoption
    from siltstone.container.models.imports import AdoptionNotFoundError as AdoptionNotFoundError
    from siltstone.container.models.imports import ImportBatch as ImportBatch
    from siltstone.container.models.imports import ImportedChunk as ImportedChunk
    from siltstone.container.models.imports import ImportedSegment as ImportedSegment
    from siltstone.container.models.imports import ImportMode as ImportMode
    from siltstone.container.models.imports import ImportOutput as ImportOutput
    from siltstone.container.models.imports import ImportResult as ImportResult
    from siltstone.container.models.imports import ImportSessionError as ImportSessionError
    from siltstone.container.models.imports import ImportTicket as ImportTicket
    from siltstone.container.models.imports import ReleasedAdoption as ReleasedAdoption
    from siltstone.container.models.imports import ReplacedIs as ReplacedIs
    from siltstone.container.models.recovery_report import RecoveryReport as RecoveryReport
    from siltstone.container.models.recovery_report import RecoveryState as RecoveryState
    from siltstone.container.models.recovery_report import SegmentRecovery as SegmentRecovery
    from siltstone.container.models.segments import Append as Append
    from siltstone.container.models.segments import AttributeIs as AttributeIs
    from siltstone.container.models.segments import ChunkInfo as ChunkInfo
    from siltstone.container.models.segments import CommitResult as CommitResult
    from siltstone.container.models.segments import ContainerStats as ContainerStats
    from siltstone.container.models.segments import Finding as Finding
    from siltstone.container.models.segments import LengthIs as LengthIs
    from siltstone.container.models.segments import Put as Put
    from siltstone.container.models.segments import Remove as Remove
    from siltstone.container.models.segments import RemoveRange as RemoveRange
    from siltstone.container.models.segments import RetentionCut as RetentionCut
    from siltstone.container.models.segments import RetentionRule as RetentionRule
    from siltstone.container.models.segments import SegmentInfo as SegmentInfo
    from siltstone.container.models.segments import SetAttribute as SetAttribute
    from siltstone.container.models.segments import TableValue as TableValue
    from siltstone.container.models.segments import VersionIs as VersionIs
    from siltstone.container.models.segments import WriterInfo as WriterInfo
    from siltstone.container.models.tables import KeyChange as KeyChange
    from siltstone.container.models.tables import RangeRemoval as RangeRemoval
    from siltstone.container.models.tables import TableUpdate as TableUpdate
    from siltstone.core.errors import AppendTooLargeError as AppendTooLargeError
    from siltstone.core.errors import AttributeLimitError as AttributeLimitError
    from siltstone.core.errors import BackPressureError as BackPressureError
    from siltstone.core.errors import BatchExpiredError as BatchExpiredError
    from siltstone.core.errors import BookmarkFencedError as BookmarkFencedError
    from siltstone.core.errors import CapabilityError as CapabilityError
    from siltstone.core.errors import ChunkError as ChunkError
    from siltstone.core.errors import ClosedError as ClosedError
    from siltstone.core.errors import CollectionDroppedError as CollectionDroppedError
    from siltstone.core.errors import CollectionError as CollectionError
    from siltstone.core.errors import CollectionExistsError as CollectionExistsError
    from siltstone.core.errors import CollectionLimitError as CollectionLimitError
    from siltstone.core.errors import CollectionMovedError as CollectionMovedError
    from siltstone.core.errors import CollectionNotFoundError as CollectionNotFoundError
    from siltstone.core.errors import CollectionSchemaError as CollectionSchemaError
    from siltstone.core.errors import CollectionSequenceError as CollectionSequenceError
    from siltstone.core.errors import CollectionSourceError as CollectionSourceError
    from siltstone.core.errors import ConditionFailedError as ConditionFailedError
    from siltstone.core.errors import CorruptDataError as CorruptDataError
    from siltstone.core.errors import FencedError as FencedError
    from siltstone.core.errors import FormatError as FormatError
    from siltstone.core.errors import InlineLimitError as InlineLimitError
    from siltstone.core.errors import LeaseExpiredError as LeaseExpiredError
    from siltstone.core.errors import LogError as LogError
    from siltstone.core.errors import LogLostError as LogLostError
    from siltstone.core.errors import LostDataError as LostDataError
    from siltstone.core.errors import NegativeCountError as NegativeCountError
    from siltstone.core.errors import NotFlushedError as NotFlushedError
    from siltstone.core.errors import OffsetError as OffsetError
    from siltstone.core.errors import Outcome as Outcome
    from siltstone.core.errors import OutcomeUnknownError as OutcomeUnknownError
    from siltstone.core.errors import ReadOnlyError as ReadOnlyError
    from siltstone.core.errors import SafeModeError as SafeModeError
    from siltstone.core.errors import SegmentError as SegmentError
    from siltstone.core.errors import SegmentExistsError as SegmentExistsError
    from siltstone.core.errors import SegmentNameError as SegmentNameError
    from siltstone.core.errors import SegmentNotFoundError as SegmentNotFoundError
    from siltstone.core.errors import SegmentNotSealedError as SegmentNotSealedError
    from siltstone.core.errors import SegmentSealedError as SegmentSealedError
    from siltstone.core.errors import SegmentTruncatedError as SegmentTruncatedError
    from siltstone.core.errors import SequenceError as SequenceError
    from siltstone.core.errors import SettingsError as SettingsError
    from siltstone.core.errors import SiltstoneError as SiltstoneError
    from siltstone.core.errors import SinceError as SinceError
    from siltstone.core.errors import SinceHeldError as SinceHeldError
    from siltstone.core.errors import SnapshotExpiredError as SnapshotExpiredError
    from siltstone.core.errors import SnapshotLimitError as SnapshotLimitError
    from siltstone.core.errors import StorageFullError as StorageFullError
    from siltstone.core.errors import StorageSuspendedError as StorageSuspendedError
    from siltstone.core.errors import StoreError as StoreError
    from siltstone.core.errors import StoreExistsError as StoreExistsError
    from siltstone.core.errors import StoreInUseError as StoreInUseError
    from siltstone.core.errors import StoreNotFoundError as StoreNotFoundError
    from siltstone.core.errors import TableError as TableError
    from siltstone.core.errors import TableExistsError as TableExistsError
    from siltstone.core.errors import TableNotFoundError as TableNotFoundError
    from siltstone.core.errors import TableTruncatedError as TableTruncatedError
    from siltstone.core.errors import UpdateTimeError as UpdateTimeError
    from siltstone.core.errors import UpperMismatchError as UpperMismatchError
    from siltstone.core.errors import WriterExpiredError as WriterExpiredError
    from siltstone.core.records.import_row import ImportState as ImportState
    from siltstone.store.admin.init import init_store as init
    from siltstone.store.admin.recovery import recover_store as recover
    from siltstone.store.async_store import AsyncStore as AsyncStore
    from siltstone.store.blocking.segment import Segment as Segment
    from siltstone.store.blocking.table import Table as Table
    from siltstone.store.blocking.table import TableSnapshot as TableSnapshot
    from siltstone.store.blocking.writer import BufferedWriter as BufferedWriter
    from siltstone.store.blocking.writer import Writer as Writer
    from siltstone.store.handles.arguments import SeveralContainersError as SeveralContainersError
    from siltstone.store.handles.async_buffered_writer import (
        AsyncBufferedWriter as AsyncBufferedWriter,
    )
    from siltstone.store.handles.async_segment import AsyncSegment as AsyncSegment
    from siltstone.store.handles.async_table import AsyncTable as AsyncTable
    from siltstone.store.handles.async_table import (
        AsyncTableSnapshot as AsyncTableSnapshot,
    )
    from siltstone.store.handles.async_writer import AsyncWriter as AsyncWriter
    from siltstone.store.handles.event_buffer import BufferedWriteError as BufferedWriteError
    from siltstone.store.handles.event_buffer import DurableEvents as DurableEvents
    from siltstone.store.handles.import_writer import ImportWriter as ImportWriter
    from siltstone.store.handles.streams import PartialAppendError as PartialAppendError
    from siltstone.store.handles.streams import StreamProgress as StreamProgress
    from siltstone.store.opening import open_async_store as open_async
    from siltstone.store.store import Store as Store
    from siltstone.store.store import open_store as open

    __version__: str

_find_moved_modules()

_VIEWS = "siltstone.container.models.segments"
_ERRORS = "siltstone.core.errors"
_STORE = "siltstone.store"
_IMPORTS = "siltstone.container.models.imports"
_COLLECTIONS = "siltstone.collections"
_ROWS = f"{_COLLECTIONS}.rows"
"""The first module of collections to be imported: it says what to install."""

_PLACES = {
    "open": (f"{_STORE}.store", "open_store"),
    "open_async": (f"{_STORE}.opening", "open_async_store"),
    "init": (f"{_STORE}.admin.init", "init_store"),
    "recover": (f"{_STORE}.admin.recovery", "recover_store"),
    "RecoveryReport": ("siltstone.container.models.recovery_report", "RecoveryReport"),
    "RecoveryState": ("siltstone.container.models.recovery_report", "RecoveryState"),
    "SegmentRecovery": ("siltstone.container.models.recovery_report", "SegmentRecovery"),
    "Store": (f"{_STORE}.store", "Store"),
    "Segment": (f"{_STORE}.blocking.segment", "Segment"),
    "Table": (f"{_STORE}.blocking.table", "Table"),
    "Writer": (f"{_STORE}.blocking.writer", "Writer"),
    "AsyncStore": (f"{_STORE}.async_store", "AsyncStore"),
    "AsyncSegment": (f"{_STORE}.handles.async_segment", "AsyncSegment"),
    "AsyncTable": (f"{_STORE}.handles.async_table", "AsyncTable"),
    "AsyncWriter": (f"{_STORE}.handles.async_writer", "AsyncWriter"),
    "AsyncBufferedWriter": (f"{_STORE}.handles.async_buffered_writer", "AsyncBufferedWriter"),
    "BufferedWriter": (f"{_STORE}.blocking.writer", "BufferedWriter"),
    "BufferedWriteError": (f"{_STORE}.handles.event_buffer", "BufferedWriteError"),
    "DurableEvents": (f"{_STORE}.handles.event_buffer", "DurableEvents"),
    "CheckProgress": ("siltstone.container.models.check", "CheckProgress"),
    "ChunkState": ("siltstone.container.models.check", "ChunkState"),
    "GarbageStatus": ("siltstone.container.models.garbage", "GarbageStatus"),
    "SweepFinding": ("siltstone.container.models.garbage", "SweepFinding"),
    "RetentionCut": ("siltstone.container.models.segments", "RetentionCut"),
    "RetentionRule": ("siltstone.container.models.segments", "RetentionRule"),
    "ContainerHealth": ("siltstone.container.health.monitor", "ContainerHealth"),
    "HealthReason": ("siltstone.container.models.health", "HealthReason"),
    "HealthState": ("siltstone.container.models.health", "HealthState"),
    "PartialAppendError": (f"{_STORE}.handles.streams", "PartialAppendError"),
    "StreamProgress": (f"{_STORE}.handles.streams", "StreamProgress"),
    "KeyChange": ("siltstone.container.models.tables", "KeyChange"),
    "RangeRemoval": ("siltstone.container.models.tables", "RangeRemoval"),
    "TableUpdate": ("siltstone.container.models.tables", "TableUpdate"),
    "AsyncTableSnapshot": (f"{_STORE}.handles.async_table", "AsyncTableSnapshot"),
    "TableSnapshot": (f"{_STORE}.blocking.table", "TableSnapshot"),
    "Adoption": (_IMPORTS, "Adoption"),
    "AdoptionNotFoundError": (_IMPORTS, "AdoptionNotFoundError"),
    "ImportBatch": (_IMPORTS, "ImportBatch"),
    "ImportMode": (_IMPORTS, "ImportMode"),
    "ImportOutput": (_IMPORTS, "ImportOutput"),
    "ImportResult": (_IMPORTS, "ImportResult"),
    "ImportSessionError": (_IMPORTS, "ImportSessionError"),
    "ImportTicket": (_IMPORTS, "ImportTicket"),
    "ImportedChunk": (_IMPORTS, "ImportedChunk"),
    "ImportedSegment": (_IMPORTS, "ImportedSegment"),
    "ReplacedIs": (_IMPORTS, "ReplacedIs"),
    "ReleasedAdoption": (_IMPORTS, "ReleasedAdoption"),
    "ImportState": ("siltstone.core.records.import_row", "ImportState"),
    "ImportWriter": (f"{_STORE}.handles.import_writer", "ImportWriter"),
    "SeveralContainersError": (f"{_STORE}.handles.arguments", "SeveralContainersError"),
    "open_collections": (f"{_COLLECTIONS}.blocking", "open_collections"),
    "open_collections_async": (f"{_COLLECTIONS}.async_collections", "open_async_collections"),
    "Collections": (f"{_COLLECTIONS}.blocking", "Collections"),
    "Collection": (f"{_COLLECTIONS}.blocking", "Collection"),
    "CollectionBookmark": (f"{_COLLECTIONS}.blocking", "CollectionBookmark"),
    "CollectionSnapshot": (f"{_COLLECTIONS}.blocking", "CollectionSnapshot"),
    "CollectionImport": (f"{_COLLECTIONS}.row_imports", "CollectionImport"),
    "TableSource": (f"{_COLLECTIONS}.sources.table_source", "TableSource"),
    "table_source": (f"{_COLLECTIONS}.sources.any_source", "table_source"),
    "CollectionSplit": (f"{_COLLECTIONS}.splits", "CollectionSplit"),
    "CollectionWriter": (f"{_COLLECTIONS}.blocking", "CollectionWriter"),
    "read_split": (f"{_COLLECTIONS}.splits", "read_split"),
    "Subscription": (f"{_COLLECTIONS}.blocking", "Subscription"),
    "AsyncCollections": (f"{_COLLECTIONS}.async_collections", "AsyncCollections"),
    "AsyncCollection": (f"{_COLLECTIONS}.async_collection", "AsyncCollection"),
    "AsyncBookmark": (f"{_COLLECTIONS}.async_bookmark", "AsyncBookmark"),
    "AsyncCollectionSnapshot": (f"{_COLLECTIONS}.async_snapshot", "AsyncCollectionSnapshot"),
    "AsyncCollectionWriter": (f"{_COLLECTIONS}.async_writer", "AsyncCollectionWriter"),
    "AsyncSubscription": (f"{_COLLECTIONS}.async_subscription", "AsyncSubscription"),
    "AppendResult": (f"{_COLLECTIONS}.async_writer", "AppendResult"),
    "Changes": (f"{_COLLECTIONS}.async_subscription", "Changes"),
    "CollectionBatchRows": (f"{_COLLECTIONS}.async_writer", "CollectionBatchRows"),
    "CollectionEntry": (f"{_COLLECTIONS}.entry_view", "CollectionEntry"),
    "CollectionInfo": (f"{_COLLECTIONS}.collection_info", "CollectionInfo"),
}
"""Names that are elsewhere called otherwise, or that are no views or errors."""

__all__ = [
    "Adoption",
    "AdoptionNotFoundError",
    "Append",
    "AppendResult",
    "AppendTooLargeError",
    "AsyncBookmark",
    "AsyncBufferedWriter",
    "AsyncCollection",
    "AsyncCollectionSnapshot",
    "AsyncCollectionWriter",
    "AsyncCollections",
    "AsyncSegment",
    "AsyncStore",
    "AsyncSubscription",
    "AsyncTable",
    "AsyncTableSnapshot",
    "AsyncWriter",
    "AttributeIs",
    "AttributeLimitError",
    "BackPressureError",
    "BatchExpiredError",
    "BookmarkFencedError",
    "BufferedWriteError",
    "BufferedWriter",
    "CapabilityError",
    "Changes",
    "CheckProgress",
    "ChunkError",
    "ChunkInfo",
    "ChunkState",
    "ClosedError",
    "Collection",
    "CollectionBatchRows",
    "CollectionBookmark",
    "CollectionDroppedError",
    "CollectionEntry",
    "CollectionError",
    "CollectionExistsError",
    "CollectionImport",
    "CollectionInfo",
    "CollectionLimitError",
    "CollectionMovedError",
    "CollectionNotFoundError",
    "CollectionSchemaError",
    "CollectionSequenceError",
    "CollectionSnapshot",
    "CollectionSourceError",
    "CollectionSplit",
    "CollectionWriter",
    "Collections",
    "CommitResult",
    "ConditionFailedError",
    "ContainerHealth",
    "ContainerStats",
    "CorruptDataError",
    "DurableEvents",
    "FencedError",
    "Finding",
    "FormatError",
    "GarbageStatus",
    "HealthReason",
    "HealthState",
    "ImportBatch",
    "ImportMode",
    "ImportOutput",
    "ImportResult",
    "ImportSessionError",
    "ImportState",
    "ImportTicket",
    "ImportWriter",
    "ImportedChunk",
    "ImportedSegment",
    "InlineLimitError",
    "KeyChange",
    "LeaseExpiredError",
    "LengthIs",
    "LogError",
    "LogLostError",
    "LostDataError",
    "NegativeCountError",
    "NotFlushedError",
    "OffsetError",
    "Outcome",
    "OutcomeUnknownError",
    "PartialAppendError",
    "Put",
    "RangeRemoval",
    "ReadOnlyError",
    "RecoveryReport",
    "RecoveryState",
    "ReleasedAdoption",
    "Remove",
    "RemoveRange",
    "ReplacedIs",
    "RetentionCut",
    "RetentionRule",
    "SafeModeError",
    "Segment",
    "SegmentError",
    "SegmentExistsError",
    "SegmentInfo",
    "SegmentNameError",
    "SegmentNotFoundError",
    "SegmentNotSealedError",
    "SegmentRecovery",
    "SegmentSealedError",
    "SegmentTruncatedError",
    "SequenceError",
    "SetAttribute",
    "SettingsError",
    "SeveralContainersError",
    "SiltstoneError",
    "SinceError",
    "SinceHeldError",
    "SnapshotExpiredError",
    "SnapshotLimitError",
    "StorageFullError",
    "StorageSuspendedError",
    "Store",
    "StoreError",
    "StoreExistsError",
    "StoreInUseError",
    "StoreNotFoundError",
    "StreamProgress",
    "Subscription",
    "SweepFinding",
    "Table",
    "TableError",
    "TableExistsError",
    "TableNotFoundError",
    "TableSnapshot",
    "TableSource",
    "TableTruncatedError",
    "TableUpdate",
    "TableValue",
    "UpdateTimeError",
    "UpperMismatchError",
    "VersionIs",
    "Writer",
    "WriterExpiredError",
    "WriterInfo",
    "__version__",
    "init",
    "open",
    "open_async",
    "open_collections",
    "open_collections_async",
    "read_split",
    "recover",
    "table_source",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("siltstone")
    elif name in _PLACES:
        module, attribute = _PLACES[name]
        if module.startswith(_COLLECTIONS):
            import_module(_ROWS)
        value = getattr(import_module(module), attribute)
    elif name in __all__:
        module = _ERRORS if name.endswith("Error") or name == "Outcome" else _VIEWS
        value = getattr(import_module(module), name)
    else:
        raise AttributeError(f"module 'siltstone' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
