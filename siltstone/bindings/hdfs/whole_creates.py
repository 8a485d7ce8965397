"""Making a chunk that is seen with all its bytes or not at all: a closed draft gets the name.

A rename moves the draft, whose own name no other caller uses. So while the draft is there, its
rename did not take place; when it is gone, and the chunk has its bytes, it did. That matters where
the client sent the rename to a second NameNode, since the first one had not answered: the second
then says that the draft is missing, or that the name is taken, after this very rename.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from siltstone.bindings.hdfs.calls import Turn
from siltstone.bindings.hdfs.errors import translated
from siltstone.bindings.hdfs.service import Service
from siltstone.bindings.hdfs.writes import PAUSE_MAX_S, PAUSE_S, Hand, create
from siltstone.core.constants import Buffer
from siltstone.core.drafts import DRAFTS, draft_name, is_draft_below
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.remote.target import Target

RACES_MAX: Final = 16
"""How often a folder that others remove while we make it is made again."""
FOLDER_MODE: Final = 0o755
LOOKS_MAX: Final = 6
"""How often the chunk is looked at after a rename of doubtful end: once is not enough where a
DataNode is busy, and six times take less than a second more."""


def create_whole(service: Service, target: Target, buffers: Sequence[Buffer], length: int) -> None:
    """See ``WholeCreates``.

    Args:
        service: where.
        target: what is made.
        buffers: its bytes.
        length: of all of them.
    """
    draft = replace(target, key=f"{_folder(service)}/{draft_name(target.name)}")
    _write_draft(service, draft, buffers, length)
    service.run(
        lambda turn: _rename(turn, service, draft.key, target, buffers),
        target.deadline,
        target.name,
        "create",
        changes=True,
    )


def sweep_drafts(service: Service, prefix: str, before_s: float) -> int:
    """Remove drafts for chunks below ``prefix`` that were last written to before a time.

    Args:
        service: where.
        prefix: as of a listing.
        before_s: seconds since 1970.

    Returns:
        How many were removed.
    """
    left = service.run(
        lambda _: _left(service, prefix, before_s),
        service.deadline(0),
        prefix,
        "sweep_leftovers",
    )
    return sum(_is_removed(service, prefix, path) for path in left)


def _folder(service: Service) -> str:
    return f"{service.folder}{DRAFTS}"


def _write_draft(service: Service, draft: Target, buffers: Sequence[Buffer], length: int) -> None:
    """Make the draft, synced and closed. Whatever happens meanwhile, the chunk is not there."""
    hand = Hand(service, draft.key)
    try:
        service.run(
            lambda turn: create(turn, hand, service, draft, buffers, length),
            draft.deadline,
            draft.name,
            "create",
        )
    except BaseException as error:
        hand.leave()
        if not isinstance(error, ChunkError):
            raise
        if isinstance(
            error, ChunkAccessDeniedError | ChunkStorageFullError | ChunkUnavailableError
        ):
            error.outcome = Outcome.NOT_APPLIED
            raise
        # It is about the draft that a name is taken or missing.
        raise draft.error(
            ChunkUnavailableError, "the draft of the chunk could not be written"
        ) from error


def _rename(
    turn: Turn, service: Service, draft: str, target: Target, buffers: Sequence[Buffer]
) -> None:
    """Give the closed draft the name of the chunk, and make the folder for it if need be."""
    for _ in range(RACES_MAX):
        turn.check()
        try:
            with translated(target.name, "create", changes=True):
                service.client.rename(draft, target.key, False)
        except ChunkError as error:
            if _is_renamed(turn, service, draft, target, buffers, error):
                return
            if not isinstance(error, ChunkNotFoundError):
                _remove(service, draft, error)
                raise
        else:
            return
        turn.check()
        with translated(target.name, "create"):
            service.client.mkdirs(target.key.rpartition("/")[0], FOLDER_MODE, True)
    raise target.error(ChunkUnavailableError, "the folder is removed again and again")


def _is_renamed(
    turn: Turn,
    service: Service,
    draft: str,
    target: Target,
    buffers: Sequence[Buffer],
    error: ChunkError,
) -> bool:
    """Whether a rename took place although it failed; ``False`` means that it did not.

    Raises:
        ChunkUnavailableError: it may have.
    """
    try:
        with translated(target.name, "create"):
            service.info(draft)
    except ChunkNotFoundError:
        with suppress(ChunkError):
            if _holds(turn, service, target, b"".join(buffers)):
                return True
        # What the only NameNode refuses was not sent to another one before.
        is_refused = error.outcome is Outcome.NOT_APPLIED and service.settings.is_one_namenode
        raise target.error(
            ChunkUnavailableError,
            "the draft of the chunk is gone, by a sweep or by another call",
            outcome=Outcome.NOT_APPLIED if is_refused else Outcome.UNKNOWN,
        ) from error
    except ChunkError:
        if error.outcome is Outcome.NOT_APPLIED and service.settings.is_one_namenode:
            return False
        raise target.error(
            ChunkUnavailableError,
            "whether the draft of the chunk was renamed could not be seen",
            outcome=Outcome.UNKNOWN,
        ) from error
    return False


def _holds(turn: Turn, service: Service, target: Target, content: bytes) -> bool:
    """Whether the chunk has these bytes; looked at again where the service does not answer.

    Raises:
        ChunkError: it is not there, or does not answer.
    """
    pause_s = PAUSE_S
    for _ in range(LOOKS_MAX - 1):
        with suppress(ChunkUnavailableError):
            return _holds_now(service, target, content)
        turn.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
    return _holds_now(service, target, content)


def _holds_now(service: Service, target: Target, content: bytes) -> bool:
    with translated(target.name, "create"):
        reader = service.client.read(target.key)
        if reader.file_length() != len(content):
            return False
        return reader.read_range(0, len(content)) == content


def _remove(service: Service, draft: str, error: ChunkError) -> None:
    """Remove a draft that will not be renamed; one that stays is swept."""
    if error.outcome is Outcome.NOT_APPLIED:
        with suppress(ChunkError), translated(error.chunk, "create"):
            service.client.delete(draft, False)


def _left(service: Service, prefix: str, before_s: float) -> list[str]:
    """The paths of drafts that are old enough to be removed."""
    with translated(prefix, "sweep_leftovers"):
        try:
            listed = list(service.client.list_status(_folder(service), False))
        except FileNotFoundError:
            return []
    return [
        status.path
        for status in listed
        if not status.isdir
        and status.modification_time <= before_s * 1000
        and is_draft_below(status.path.rpartition("/")[2], prefix)
    ]


def _is_removed(service: Service, prefix: str, path: str) -> bool:
    """Remove one draft; ``False`` when its create has ended, or another sweep was faster."""

    def call(_: Turn) -> bool:
        with translated(prefix, "sweep_leftovers", changes=True):
            return bool(service.client.delete(path, False))

    return service.run(call, service.deadline(0), prefix, "sweep_leftovers", changes=True)
