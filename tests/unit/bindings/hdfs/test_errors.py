"""The table of errors: what each answer means, and whether it may have had its effect."""

from __future__ import annotations

import pytest

from siltstone.bindings.hdfs.errors import chunk_error, is_held, translated
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
    Outcome,
)

NOT_APPLIED, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN


def java(name: str, text: str = "a text of the service") -> RuntimeError:
    return RuntimeError(f'RPCError("{name}", "{text}\\n\\tat org.apache.hadoop.Some.java:1")')


HELD = FileExistsError(
    "Failed to APPEND_FILE /a for b on c because this file lease is currently owned by d."
)
PROTOCOL = "org.apache.hadoop.hdfs.protocol"
DENIED = "org.apache.hadoop.security.AccessControlException"
TOO_LONG = f"{PROTOCOL}.FSLimitException$PathComponentTooLongException"
SAFE = "org.apache.hadoop.hdfs.server.namenode.SafeModeException"
EXPIRED = "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"
PIPELINE = 'DataTransferError("All nodes failed for write")'
CASES = [
    (FileNotFoundError("/a"), ChunkNotFoundError, NOT_APPLIED),
    (FileExistsError("/a for client b already exists"), ChunkExistsError, NOT_APPLIED),
    (HELD, ChunkUnavailableError, NOT_APPLIED),
    (PermissionError("no"), ChunkAccessDeniedError, NOT_APPLIED),
    (java(DENIED), ChunkAccessDeniedError, NOT_APPLIED),
    (java("javax.security.sasl.SaslException"), ChunkAccessDeniedError, NOT_APPLIED),
    (java(f"{PROTOCOL}.DSQuotaExceededException"), ChunkStorageFullError, NOT_APPLIED),
    (java(f"{PROTOCOL}.NSQuotaExceededException"), ChunkStorageFullError, NOT_APPLIED),
    (java(TOO_LONG), ChunkNameError, NOT_APPLIED),
    (java("org.apache.hadoop.fs.InvalidPathException"), ChunkNameError, NOT_APPLIED),
    (java("org.apache.hadoop.fs.ParentNotDirectoryException"), ChunkNameError, NOT_APPLIED),
    (java(SAFE), ChunkUnavailableError, NOT_APPLIED),
    (java("org.apache.hadoop.ipc.StandbyException"), ChunkUnavailableError, NOT_APPLIED),
    (java("org.apache.hadoop.ipc.RetriableException"), ChunkThrottledError, NOT_APPLIED),
    (java(EXPIRED), ChunkUnavailableError, UNKNOWN),
    (java("java.io.IOException"), ChunkUnavailableError, UNKNOWN),
    (RuntimeError("NoSASLMechanism"), ChunkAccessDeniedError, NOT_APPLIED),
    (RuntimeError('SASLError("a text")'), ChunkAccessDeniedError, UNKNOWN),
    (RuntimeError("GSSAPIError(Error { code: 1 })"), ChunkAccessDeniedError, UNKNOWN),
    (RuntimeError(PIPELINE), ChunkUnavailableError, UNKNOWN),
    (OSError("Connection refused (os error 111)"), ChunkUnavailableError, UNKNOWN),
    (ValueError("anything"), ChunkUnavailableError, UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("error", "kind", "outcome"), CASES, ids=lambda case: str(case)[:60])
def test_an_answer(error: Exception, kind: type[ChunkError], outcome: Outcome) -> None:
    found = chunk_error(error, "a", "write", changes=True)
    assert isinstance(found, ChunkError)
    assert type(found) is kind
    assert (found.outcome, found.chunk, found.operation) == (outcome, "a", "write")
    assert chunk_error(error, "a", "stat", changes=False).outcome is NOT_APPLIED
    shown = str(found)
    assert "a text of the service" not in shown
    assert shown.isprintable()


@pytest.mark.parametrize(("error", "kind", "_"), CASES, ids=lambda case: str(case)[:60])
def test_after_a_change_nothing_is_certain(
    error: Exception, kind: type[ChunkError], _: Outcome
) -> None:
    found = chunk_error(error, "a", "write", changes=True, is_begun=True)
    assert found.outcome is UNKNOWN
    if issubclass(kind, ChunkNotFoundError | ChunkExistsError | ChunkNameError):
        assert type(found) is ChunkUnavailableError


def test_the_holder_of_a_chunk_may_let_it_go() -> None:
    assert is_held(HELD)
    assert is_held(FileExistsError("because x is already the current lease holder."))
    assert not is_held(FileExistsError("/a for client b already exists"))


def test_erasure_coding_is_named() -> None:
    error = RuntimeError('UnsupportedFeature("hsync of erasure coded files")')
    assert isinstance(chunk_error(error, "a", "create", changes=True), CapabilityError)


def test_a_panic_of_the_sdk_is_an_error_like_others() -> None:
    panic = type("PanicException", (BaseException,), {})
    with (
        pytest.raises(ChunkUnavailableError) as caught,
        translated("a", "write", changes=True),
    ):
        raise panic("index out of range")
    assert caught.value.outcome is UNKNOWN
    with pytest.raises(KeyboardInterrupt), translated("a", "write", changes=True):
        raise KeyboardInterrupt
