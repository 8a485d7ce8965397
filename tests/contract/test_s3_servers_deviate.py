"""What the service documents of S3, asked of the servers that stand in for it, request by request.

Where a server does something else, the row of the kit's table says so, and the check has to fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from services.s3_server import REGION, S3Server
from siltstone.testing.deviations import Deviation, expect_deviation
from siltstone.testing.known_deviations import MINIO_REQUESTS, VERSITYGW_REQUESTS

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

STALE = '"00000000000000000000000000000000"'


def client(server: S3Server, key_id: str | None = None) -> S3Client:
    made: S3Client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=REGION,
        aws_access_key_id=key_id or server.key_id,
        aws_secret_access_key=server.secret,
        config=Config(
            retries={"total_max_attempts": 1},
            request_checksum_calculation="when_required",
            s3={"addressing_style": "path"},
        ),
    )
    return made


def refused(status: int, code: str, call: Callable[[], object]) -> None:
    """``call`` is refused, and with this answer."""
    with pytest.raises(ClientError) as caught:
        call()
    answer: Any = caught.value.response
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]) == (status, code)


class Requests:
    deviations: ClassVar[Sequence[Deviation]] = ()

    @pytest.fixture(autouse=True)
    def _deviation(self, request: pytest.FixtureRequest) -> None:
        expect_deviation(request, self.deviations)

    @pytest.fixture
    def server(self) -> S3Server:
        raise NotImplementedError

    @pytest.fixture
    def s3(self, server: S3Server) -> S3Client:
        return client(server)

    @pytest.fixture
    def bucket(self, s3: S3Client) -> str:
        name = f"b-{os.urandom(6).hex()}"
        s3.create_bucket(Bucket=name)
        return name

    @pytest.fixture
    def object_there(self, s3: S3Client, bucket: str) -> str:
        s3.put_object(Bucket=bucket, Key="there", Body=b"there")
        return "there"

    def test_put_if_none_match(self, s3: S3Client, bucket: str, object_there: str) -> None:
        refused(
            412,
            "PreconditionFailed",
            lambda: s3.put_object(Bucket=bucket, Key=object_there, Body=b"x", IfNoneMatch="*"),
        )

    def test_complete_if_none_match(self, s3: S3Client, bucket: str, object_there: str) -> None:
        upload = s3.create_multipart_upload(Bucket=bucket, Key=object_there)["UploadId"]
        etag = s3.upload_part(
            Bucket=bucket, Key=object_there, UploadId=upload, PartNumber=1, Body=b"x"
        )["ETag"]
        refused(
            412,
            "PreconditionFailed",
            lambda: s3.complete_multipart_upload(
                Bucket=bucket,
                Key=object_there,
                UploadId=upload,
                MultipartUpload={"Parts": [{"ETag": etag, "PartNumber": 1}]},
                IfNoneMatch="*",
            ),
        )

    def test_complete_of_a_wrong_size(self, s3: S3Client, bucket: str) -> None:
        upload = s3.create_multipart_upload(Bucket=bucket, Key="new")["UploadId"]
        etag = s3.upload_part(Bucket=bucket, Key="new", UploadId=upload, PartNumber=1, Body=b"x")
        with pytest.raises(ClientError):
            s3.complete_multipart_upload(
                Bucket=bucket,
                Key="new",
                UploadId=upload,
                MultipartUpload={"Parts": [{"ETag": etag["ETag"], "PartNumber": 1}]},
                MpuObjectSize=2,
            )

    def test_complete_of_no_upload(self, s3: S3Client, bucket: str) -> None:
        upload = s3.create_multipart_upload(Bucket=bucket, Key="new")["UploadId"]
        s3.abort_multipart_upload(Bucket=bucket, Key="new", UploadId=upload)
        refused(
            404,
            "NoSuchUpload",
            lambda: s3.complete_multipart_upload(
                Bucket=bucket,
                Key="new",
                UploadId=upload,
                MultipartUpload={"Parts": [{"ETag": STALE, "PartNumber": 1}]},
            ),
        )

    def test_copy_if_none_match(self, s3: S3Client, bucket: str, object_there: str) -> None:
        s3.put_object(Bucket=bucket, Key="source", Body=b"source")
        arguments: dict[str, Any] = {
            "Bucket": bucket,
            "Key": object_there,
            "CopySource": {"Bucket": bucket, "Key": "source"},
            "IfNoneMatch": "*",
        }
        refused(412, "PreconditionFailed", lambda: s3.copy_object(**arguments))

    def test_delete_if_match(self, s3: S3Client, bucket: str, object_there: str) -> None:
        refused(
            412,
            "PreconditionFailed",
            lambda: s3.delete_object(Bucket=bucket, Key=object_there, IfMatch=STALE),
        )

    def test_wrong_checksum(self, s3: S3Client, bucket: str) -> None:
        refused(
            400,
            "BadDigest",
            lambda: s3.put_object(Bucket=bucket, Key="new", Body=b"x", ChecksumCRC32C="AAAAAA=="),
        )

    def test_append_to_a_plain_bucket(self, s3: S3Client, bucket: str, object_there: str) -> None:
        with pytest.raises(ClientError):
            s3.put_object(Bucket=bucket, Key=object_there, Body=b"x", WriteOffsetBytes=5)
        assert s3.get_object(Bucket=bucket, Key=object_there)["Body"].read() == b"there"

    def test_rename_in_a_plain_bucket(self, s3: S3Client, bucket: str, object_there: str) -> None:
        with pytest.raises(ClientError):
            s3.rename_object(Bucket=bucket, Key="new", RenameSource=f"{bucket}/{object_there}")

    def test_unknown_key_id(self, server: S3Server, bucket: str) -> None:
        other = client(server, "nobody")
        refused(403, "InvalidAccessKeyId", lambda: other.list_objects_v2(Bucket=bucket))

    @pytest.mark.parametrize("key", ["dbl//x", "a/../b", "./z"], ids=["empty", "up", "here"])
    def test_key_is_exact(self, s3: S3Client, bucket: str, key: str) -> None:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
        listed = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]]
        assert listed == [key]

    def test_key_that_ends_in_a_slash(self, s3: S3Client, bucket: str) -> None:
        s3.put_object(Bucket=bucket, Key="tr/", Body=b"data")
        assert s3.get_object(Bucket=bucket, Key="tr/")["Body"].read() == b"data"

    def test_key_below_a_key(self, s3: S3Client, bucket: str) -> None:
        s3.put_object(Bucket=bucket, Key="k", Body=b"x")
        s3.put_object(Bucket=bucket, Key="k/child", Body=b"x")

    def test_key_with_a_long_part(self, s3: S3Client, bucket: str) -> None:
        s3.put_object(Bucket=bucket, Key="p" * 300, Body=b"x")

    def test_key_of_1025_bytes(self, s3: S3Client, bucket: str) -> None:
        refused(
            400,
            "KeyTooLongError",
            lambda: s3.put_object(Bucket=bucket, Key="/".join(["p" * 40] * 25) + "p", Body=b"x"),
        )


class TestVersitygw(Requests):
    deviations = VERSITYGW_REQUESTS

    @pytest.fixture
    def server(self, versitygw: S3Server) -> S3Server:
        return versitygw


class TestMinio(Requests):
    deviations = MINIO_REQUESTS

    @pytest.fixture
    def server(self, minio: S3Server) -> S3Server:
        return minio


@pytest.mark.parametrize("table", [VERSITYGW_REQUESTS, MINIO_REQUESTS])
def test_every_row_names_a_check(table: Sequence[Deviation]) -> None:
    assert [one.check for one in table if not hasattr(Requests, one.check.partition("[")[0])] == []
