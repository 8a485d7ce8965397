"""What an answer of HDFS, or none, means for a chunk, and whether a call had its effect.

The SDK raises few classes of Python and puts Java's into the text, so the text is searched for the
name of a class and for a few words. Nothing else of it is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkStorageFullError,
    ChunkUnavailableError,
    SiltstoneError,
)
from siltstone.core.open_files import chunk_lack, is_lack
from siltstone.core.remote import meanings as m
from siltstone.core.remote.answers import NOT_APPLIED, UNKNOWN, Meaning

JAVA: Final = re.compile(r'RPCError\("([A-Za-z0-9_.$]{1,200})"')
"""How the SDK tells what class of Java the NameNode raised."""
PANIC: Final = "PanicException"
"""What a mistake within the SDK is; no ``Exception``."""
LEASED: Final = (
    "lease holder",
    "this file lease is currently owned by",
    "is being recovered",
    "is being truncated",
    "not sufficiently replicated yet",
    "not yet COMPLETE",
    "waiting to be minimally replicated",
    "is under recovery",
)
"""The caller may ask again: the chunk is open, or just being closed."""


_NO_TERMS: Final = Meaning(
    ChunkAccessDeniedError, "the client and the service agree on no credentials"
)
_FULL: Final = Meaning(ChunkStorageFullError, "the quota is used up")
_HELD: Final = Meaning(ChunkUnavailableError, "another client holds the chunk open")
_SAFE: Final = Meaning(ChunkUnavailableError, "the NameNode takes no changes now")
_STANDBY: Final = Meaning(ChunkUnavailableError, "the NameNode is not the active one")
_LOST: Final = Meaning(ChunkUnavailableError, "another client took the chunk over", UNKNOWN)
_REFUSED: Final = m.REFUSED._replace(outcome=UNKNOWN)
_PIPELINE: Final = Meaning(ChunkUnavailableError, "the DataNodes failed", UNKNOWN)
_SILENT: Final = Meaning(ChunkUnavailableError, "no whole answer of the service", UNKNOWN)

BY_CLASS: Final[dict[str, Meaning]] = {
    "AccessControlException": m.DENIED,
    "AuthorizationException": m.DENIED,
    "SecurityException": m.CREDENTIALS,
    "SaslException": m.CREDENTIALS,
    "InvalidToken": m.CREDENTIALS,
    "AlreadyBeingCreatedException": _HELD,
    "RecoveryInProgressException": _HELD,
    "DSQuotaExceededException": _FULL,
    "NSQuotaExceededException": _FULL,
    "QuotaByStorageTypeExceededException": _FULL,
    "FSLimitException$PathComponentTooLongException": m.NAME,
    "FSLimitException$MaxDirectoryItemsExceededException": _FULL,
    "HadoopIllegalArgumentException": m.NAME,
    "InvalidPathException": m.NAME,
    "ParentNotDirectoryException": m.NAME,
    "FileNotFoundException": m.NO_CHUNK,
    "FileAlreadyExistsException": m.EXISTS,
    "PathIsNotEmptyDirectoryException": m.NO_CHUNK,
    "LeaseExpiredException": _LOST,
    "SafeModeException": _SAFE,
    "StandbyException": _STANDBY,
    "RetriableException": m.THROTTLED,
    "RpcNoSuchMethodException": m.REFUSED,
}
"""By the last part of a class's name. All others may have had their effect."""
BY_WORDS: Final = (
    (re.compile(".*DataTransferError", re.DOTALL), _PIPELINE),
    (re.compile("NoSASLMechanism"), _NO_TERMS),
    # These also are what breaks within an answer.
    (re.compile("SASLError|GSSAPIError"), _NO_TERMS._replace(outcome=UNKNOWN)),
)
"""By how the text begins of what the SDK itself found."""


def is_held(error: BaseException) -> bool:
    """Whether a chunk could not be opened, or closed, because another writer still has it open."""
    return any(words in str(error) for words in LEASED)


def meaning(error: BaseException) -> Meaning:
    """Return what an error of the SDK means."""
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return m.NO_CHUNK
    if is_held(error):
        return _HELD
    if isinstance(error, FileExistsError):
        return m.EXISTS
    if isinstance(error, PermissionError):
        return m.DENIED
    found = JAVA.search(text)
    if found is not None:
        name = found[1].rpartition(".")[2]
        if name == "RemoteException" or "Server too busy" in text:
            return m.THROTTLED
        return BY_CLASS.get(name, _REFUSED)
    return next((answer for begin, answer in BY_WORDS if begin.match(text)), _SILENT)


def chunk_error(
    error: BaseException, chunk: str, operation: str, *, changes: bool, is_begun: bool = False
) -> SiltstoneError:
    """Return the error of the contract for what the SDK raised.

    Args:
        error: of the SDK.
        chunk: the name.
        operation: the verb.
        changes: whether the call that failed may change what others see.
        is_begun: whether an earlier one has changed it already.
    """
    if "erasure" in str(error).lower() and "RPCError" not in str(error):
        return CapabilityError("the folder is erasure coded, which cannot be synced", chunk=chunk)
    answer = meaning(error)
    kind, outcome = answer.kind, answer.outcome if changes else NOT_APPLIED
    if is_begun:
        outcome = UNKNOWN
        if not issubclass(kind, ChunkStorageFullError | ChunkAccessDeniedError):
            # "No such chunk" and "exists" are statements of fact that only a refused call can make.
            kind = ChunkUnavailableError
    found = JAVA.search(str(error))
    told = found[1].rpartition(".")[2] if found else type(error).__name__
    if answer is _SILENT and is_lack(error):
        return chunk_lack(chunk=chunk, operation=operation, outcome=outcome, error=told)
    return kind(answer.reason, chunk=chunk, operation=operation, outcome=outcome, error=told)


@contextmanager
def translated(
    chunk: str, operation: str, *, changes: bool = False, is_begun: bool = False
) -> Iterator[None]:
    """Turn what the SDK raises in the block into a ``ChunkError``; see ``chunk_error``."""
    try:
        yield
    except SiltstoneError:
        raise
    except Exception as error:
        raise chunk_error(error, chunk, operation, changes=changes, is_begun=is_begun) from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise chunk_error(error, chunk, operation, changes=changes, is_begun=is_begun) from error
