"""The errors of keyspaces; all else that their verbs raise is in ``siltstone.core.errors``."""

from __future__ import annotations

from typing import Any

from siltstone.core.errors import LostDataError, SiltstoneError


class ObjectError(SiltstoneError):
    """A request does not fit the keyspace, or the object."""


class KeyspaceNotFoundError(ObjectError):
    """No keyspace has this name."""


class KeyspaceExistsError(ObjectError):
    """A keyspace of this name exists."""


class UnsupportedError(ObjectError):
    """The keyspace was made without what is asked for, such as a tag."""


class KeyspaceNameError(ObjectError, ValueError):
    """The name is empty, too long, or holds what no name of a keyspace may hold."""


class ObjectLimitError(ObjectError, ValueError):
    """A part of an object is too short or too long; nothing was changed."""


class CompactionBusyError(ObjectError):
    """A value compaction of this keyspace is running."""


class RebuildingError(ObjectError):
    """The ledger of the keyspace is being rebuilt, or a rebuild of it was not ended."""


class LostObjectError(LostDataError):
    """The value of an object is damaged or gone; its head is there.

    Attributes:
        bucket: of the object.
        key: its name in the bucket.
        sqn: number of the change whose value it was.
    """

    def __init__(
        self, message: str, *, where: str, bucket: str, key: str, sqn: int, **facts: Any
    ) -> None:
        super().__init__(message, where=where, bucket=bucket, key=key, sqn=sqn, **facts)
        self.bucket = bucket
        self.key = key
        self.sqn = sqn
