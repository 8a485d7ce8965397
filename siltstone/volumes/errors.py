"""The errors of volumes; all else that their verbs raise is in ``siltstone.core.errors``."""

from __future__ import annotations

from siltstone.core.errors import SiltstoneError


class VolumeError(SiltstoneError):
    """A request does not fit the volume as it is."""


class VolumeNotFoundError(VolumeError):
    """The client has no volume of this name, or the place has no log of this id."""


class VolumeExistsError(VolumeError):
    """The client has a volume of this name."""


class VolumeNameError(VolumeError, ValueError):
    """The name is empty, too long, or holds what no name of a volume may hold."""


class ConcurrentWriteError(VolumeError):
    """Another commit came since the writer's snapshot: read again and retry; nothing changed."""


class ConflictError(VolumeError):
    """The place and this client both have commits that the other has not: reset the volume."""


class RejectedCommitError(VolumeError):
    """Another client's commit has the place that a push wanted; nothing was published."""


class NeedsRecoveryError(VolumeError):
    """A push was interrupted, and its outcome is not known yet: push, pull or recover again."""


class RemoteMismatchError(VolumeError):
    """The place is another one, or its log is not the one that this volume followed."""
