"""Ranges and HEADs by obstore, which takes a tenth of the SDK's processor time for small ones.

It only reads, for the verbs that read: a change is the SDK's from its first request to its last.
obstore follows redirects, which the SDK is kept from. What it raises is turned into what the SDK
would have raised, so that one table says what an answer means. Its errors are texts; of one that
can not be understood it is only known that there was no answer, which is all that a read needs.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import obstore
from botocore.exceptions import ClientError, NoCredentialsError
from obstore.exceptions import BaseError
from obstore.store import S3Store

from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.words import MIB

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import S3Credential
    from types_boto3_s3 import S3Client

CREDENTIALS_S: Final = 60
"""So long they are used before the SDK is asked again, which gets new ones in time."""
AMAZON: Final = ".amazonaws.com"
VERBS: Final = frozenset({"read_into", "stat"})
STATUS: Final = re.compile(r"status code: (\d{3})\b", re.ASCII)
CODE: Final = re.compile(r"<Code>([A-Za-z0-9.-]{1,64})</Code>", re.ASCII)
SIZE: Final = re.compile(r"<ActualObjectSize>(\d{1,16})</ActualObjectSize>", re.ASCII)
RANGE_BYTES_MAX: Final = 8 * MIB
"""More is read by the SDK, straight to where it is wanted; here it is copied once."""
DETAILS: Final = "Debug source"
"""From here on an error repeats itself."""
REDIRECT: Final = "Received redirect"
ANOTHER: Final = re.compile(r"Requested \d|content.range|non-partial", re.ASCII | re.IGNORECASE)
"""What it says of an answer that is not the range that was asked for."""
NO_DATE: Final = datetime.fromtimestamp(0, UTC)
"""What it says when the service told none."""
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
"""Keys with these are none to obstore."""


class ObstoreReads:
    """A second client of the same bucket, with the credentials of the first.

    Args:
        settings: those of the binding.
        client: of the SDK; says where the service is and whose credentials are used.
    """

    def __init__(self, settings: S3Settings, client: S3Client) -> None:
        endpoint, virtual = _address(settings, client)
        self._store = S3Store(
            settings.bucket,
            endpoint=endpoint,
            region=client.meta.region_name,
            virtual_hosted_style_request=virtual,
            skip_signature=False,
            s3_express=False,
            # No method of this object: the garbage collector would not see that ring of two.
            credential_provider=partial(_credentials, client),
            client_options={
                "allow_http": settings.insecure,
                "connect_timeout": timedelta(seconds=settings.connect_timeout_s),
                "read_timeout": timedelta(seconds=settings.read_timeout_s),
                "timeout": timedelta(seconds=settings.deadline_s + RANGE_BYTES_MAX // MIB),
                "pool_max_idle_per_host": str(settings.connections),
            },
            # Only the retrying wrapper repeats calls.
            retry_config={"max_retries": 0, "retry_timeout": timedelta(0)},
        )

    @staticmethod
    def can_take(operation: str, key: str, length: int) -> bool:
        """Whether so many bytes of such a key are read by obstore for this verb."""
        return operation in VERBS and length <= RANGE_BYTES_MAX and not CONTROL.search(key)

    def read(self, key: str, offset: int, buffer: memoryview, version: str | None) -> int | None:
        """Fill ``buffer`` from ``offset`` on; return how many bytes, fewer only at the end.

        Returns:
            The count; ``None`` when the answer is not the one to what was asked.

        Raises:
            ClientError: the service refused.
            BaseError: no answer.
        """
        options: GetOptions = {"range": (offset, offset + len(buffer))}
        if version is not None:
            options["if_match"] = version
        try:
            found = obstore.get(self._store, key, options=options)
            start, stop = found.range
            count = stop - start
            whole = count == len(buffer) or stop == found.meta["size"]
            if start != offset or not 0 < count <= len(buffer) or not whole:
                return None
            content = found.bytes()
        except (BaseError, FileNotFoundError) as error:
            text = _text(error)
            if ANOTHER.search(text) and not STATUS.search(text):
                return None
            raise _as_of_sdk(error, "GetObject") from error
        if len(content) != count:
            return None
        buffer[:count] = memoryview(content)
        return count

    def head(self, key: str) -> dict[str, Any]:
        """What the SDK's HEAD returns, as far as the binding uses it. Raises as ``read`` does."""
        try:
            found = obstore.head(self._store, key)
        except (BaseError, FileNotFoundError) as error:
            raise _as_of_sdk(error, "HeadObject") from error
        told = {
            "ContentLength": found["size"],
            "ETag": found["e_tag"],
            "LastModified": None if found["last_modified"] == NO_DATE else found["last_modified"],
        }
        return {name: value for name, value in told.items() if value is not None}


def _credentials(client: S3Client) -> S3Credential:
    held = client._get_credentials()  # type: ignore[attr-defined]
    if held is None:
        raise NoCredentialsError
    now = held.get_frozen_credentials()
    return {
        "access_key_id": now.access_key,
        "secret_access_key": now.secret_key,
        "token": now.token,
        "expires_at": datetime.now(UTC) + timedelta(seconds=CREDENTIALS_S),
    }


def _address(settings: S3Settings, client: S3Client) -> tuple[str, bool]:
    """The URL that keys are put behind, and whether the bucket is in its host already."""
    url = client.meta.endpoint_url
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
