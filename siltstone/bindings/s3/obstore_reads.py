"""Small ranges and HEADs by obstore, which takes an eighth of the SDK's processor time for them.

It only reads, for the verbs that read: a change is the SDK's from its first request to its last.
What it raises is turned into what the SDK would have raised, so that one table says what an answer
means. Its errors are texts; of one that cannot be understood it is only known that there was no
answer, which is all that a read needs.

Each call ends in time for its caller, for the library may never answer (``obstore_runtime.py``). So
bytes come into the caller's buffer in the caller's thread alone, by one copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import obstore
from botocore.exceptions import ClientError, NoCredentialsError
from obstore.exceptions import BaseError
from obstore.store import S3Store

from siltstone.bindings.s3.obstore_calls import ObstoreCalls, Progress
from siltstone.bindings.s3.obstore_runtime import runtime
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.constants import MIB
from siltstone.core.remote.deadline import Deadline

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from obstore import Bytes, GetOptions, GetResult, ObjectMeta
    from obstore.store import S3Credential
    from types_boto3_s3 import S3Client

CREDENTIALS_S: Final = 60
"""They are used for this long before the SDK is asked again, which gets new ones in time."""
AMAZON: Final = ".amazonaws.com"
VERBS: Final = frozenset({"read_into", "stat"})
STATUS: Final = re.compile(r"status code: (\d{3})\b", re.ASCII)
CODE: Final = re.compile(r"<Code>([A-Za-z0-9.-]{1,64})</Code>", re.ASCII)
SIZE: Final = re.compile(r"<ActualObjectSize>(\d{1,16})</ActualObjectSize>", re.ASCII)
RANGE_BYTES_MAX: Final = MIB
"""More is read by the SDK, straight to where it is wanted: a copy of it takes longer than its call
is dearer."""
GRACE_S: Final = 5.0
OF_DEADLINE: Final = 0.9
"""The library's limits are shorter than ours; a call that reaches ours shows that it is deaf."""
DETAILS: Final = "Debug source"
"""From here on an error repeats itself."""
REDIRECT: Final = "Received redirect"
ANOTHER: Final = re.compile(r"Requested \d|content.range|non-partial", re.ASCII | re.IGNORECASE)
"""What it says of an answer that is not the range that was asked for."""
NO_DATE: Final = datetime.fromtimestamp(0, UTC)
"""What it says when the service told none."""
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
"""Keys with these are no keys to obstore."""


class ObstoreReads:
    """A second client of the same bucket, with the credentials of the first.

    Args:
        settings: those of the binding.
        client: of the SDK; says where the service is.
        credentials: gives those of the SDK, which may ask for new ones; ``None`` without any.
    """

    def __init__(
        self,
        settings: S3Settings,
        client: S3Client,
        credentials: Callable[[], Credentials | None],
    ) -> None:
        silence_s = max(settings.connect_timeout_s, settings.read_timeout_s) + GRACE_S
        self._calls = ObstoreCalls(f"s3-obstore-{id(self):x}", silence_s)
        self._credentials = partial(_credentials, credentials)
        endpoint, virtual = _address(settings, client.meta.endpoint_url)
        self._store = S3Store(
            settings.bucket,
            endpoint=endpoint,
            region=client.meta.region_name,
            virtual_hosted_style_request=virtual,
            skip_signature=False,
            s3_express=False,
            # No method of this object: the garbage collector would not see that ring of two.
            credential_provider=self._credentials,
            client_options={
                "allow_http": settings.insecure,
                "connect_timeout": timedelta(seconds=settings.connect_timeout_s),
                "read_timeout": timedelta(seconds=settings.read_timeout_s),
                "timeout": timedelta(seconds=settings.deadline_s * OF_DEADLINE),
                "pool_max_idle_per_host": str(settings.connections),
            },
            # Only the retrying wrapper repeats calls.
            retry_config={"max_retries": 0, "retry_timeout": timedelta(0)},
        )

    def can_take(self, operation: str, key: str, length: int) -> bool:
        """Whether obstore reads this many bytes of such a key for this verb, now."""
        return (
            operation in VERBS
            and length <= RANGE_BYTES_MAX
            and not CONTROL.search(key)
            and runtime().is_usable()
        )

    def read(self, key: str, offset: int, buffer: memoryview, deadline: Deadline) -> int | None:
        """Fill ``buffer`` from ``offset`` on; return how many bytes, fewer only at the end.

        Returns:
            The count; ``None`` when the answer is not the one to what was asked.

        Raises:
            ClientError: the service refused.
            BaseError, DeadlineError, BotoCoreError: no answer.
        """
        wanted, store = len(buffer), self._store

        async def get(progress: Progress) -> Bytes | None:
            asked: GetOptions = {"range": (offset, offset + wanted)}
            found = await obstore.get_async(store, key, options=asked)
            progress.has_begun = True
            if not _is_wanted(found, offset, wanted):
                return None
            content, (start, stop) = await found.bytes_async(), found.range
            return content if len(content) == stop - start else None

        self._credentials()
        try:
            content = self._calls.run(get, deadline)
        except (BaseError, FileNotFoundError) as error:
            text = _text(error)
            if ANOTHER.search(text) and not STATUS.search(text):
                return None
            raise _as_of_sdk(error, "GetObject") from error
        if content is None:
            return None
        buffer[: len(content)] = memoryview(content)
        return len(content)

    def head(self, key: str, deadline: Deadline) -> dict[str, Any]:
        """What the SDK's HEAD returns, as far as the binding uses it. Raises as ``read`` does."""
        store = self._store

        async def ask(_: Progress) -> ObjectMeta:
            return await obstore.head_async(store, key)

        self._credentials()
        try:
            found = self._calls.run(ask, deadline)
        except (BaseError, FileNotFoundError) as error:
            raise _as_of_sdk(error, "HeadObject") from error
        told = {
            "ContentLength": found["size"],
            "ETag": found["e_tag"],
            "LastModified": None if found["last_modified"] == NO_DATE else found["last_modified"],
        }
        return {name: value for name, value in told.items() if value is not None}

    def close(self) -> None:
        """End its thread; the connections go with the object."""
        self._calls.close()


def _is_wanted(found: GetResult, offset: int, wanted: int) -> bool:
    """Whether an answer is the range that was asked for, or what there is of it at the end."""
    start, stop = found.range
    is_whole = stop - start == wanted or stop == found.meta["size"]
    return start == offset and 0 < stop - start <= wanted and is_whole


def _credentials(held: Callable[[], Credentials | None]) -> S3Credential:
    found = held()
    if found is None:
        raise NoCredentialsError
    now = found.get_frozen_credentials()
    return {
        "access_key_id": str(now.access_key),
        "secret_access_key": str(now.secret_key),
        "token": now.token,
        "expires_at": datetime.now(UTC) + timedelta(seconds=CREDENTIALS_S),
    }


def _address(settings: S3Settings, url: str) -> tuple[str, bool]:
    """The URL that keys are put after, and whether the bucket is in its host already."""
    # The name of a certificate covers one label in front of Amazon's host.
    virtual = settings.path_style is False or (
        settings.path_style is None and url.endswith(AMAZON) and "." not in settings.bucket
    )
    scheme, _, host = url.partition("://")
    return (f"{scheme}://{settings.bucket}.{host}" if virtual else url), virtual


def _text(error: Exception) -> str:
    return str(error).partition(DETAILS)[0]


def _as_of_sdk(error: Exception, operation: str) -> Exception:
    text = _text(error)
    status = STATUS.search(text)
    if status is not None:
        number = status[1]
    elif REDIRECT in text:
        number = "301"
    else:
        return error
    code, size = CODE.search(text), SIZE.search(text)
    told = {"Code": code[1] if code else number}
    if size:
        told["ActualObjectSize"] = size[1]
    return ClientError(
        {
            "Error": told,  # type: ignore[typeddict-item]
            "ResponseMetadata": {"HTTPStatusCode": int(number), "HTTPHeaders": {}},  # type: ignore[typeddict-item]
        },
        operation,
    )
