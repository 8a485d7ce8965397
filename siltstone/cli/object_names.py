"""Names of objects at a shell: text, or with ``--base64`` any bytes; and how they are written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from siltstone.cli.byte_text import raw_bytes
from siltstone.cli.output import bytes_fields
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.objects import ObjectHead

base64_option = click.option(
    "--base64",
    "as_base64",
    is_flag=True,
    help="Buckets, keys, fields and terms on the command line are base64.",
)

tag_option = click.option(
    "--tag", default="o", show_default=True, help="Kind of object; one that the keyspace has."
)

ABSENT: Final = -1
"""What ``--expect`` says of an object that must be absent."""

expect_option = click.option(
    "--expect",
    type=click.IntRange(min=ABSENT),
    help="Only if the object has this SQN now; -1 means only if it is absent.",
)


def raw_or_none(text: str | None, *, as_base64: bool) -> bytes | None:
    """``raw_bytes`` of what may be left out."""
    return None if text is None else raw_bytes(text, as_base64=as_base64)


def given_bytes(name: str) -> bytes:
    """Return the bytes of a name that a keyspace gave as text."""
    return name.encode("utf-8", "surrogateescape")


def expected_sqn(expect: int | None) -> dict[str, Any]:
    """What ``--expect`` means to a change: nothing, an SQN, or that the object is absent."""
    return {} if expect is None else {"expected": None if expect == ABSENT else expect}


def name_fields(bucket: str, key: str, subkey: str = "") -> dict[str, str]:
    """Bucket and key for JSON, and the subkey unless it is empty."""
    below = bytes_fields("subkey", given_bytes(subkey)) if subkey else {}
    names = bytes_fields("bucket", given_bytes(bucket)) | bytes_fields("key", given_bytes(key))
    return names | below


def head_fields(head: ObjectHead) -> dict[str, Any]:
    """What is known of an object without its value, for JSON."""
    return {
        **name_fields(head.bucket, head.key, head.subkey),
        "tag": head.tag,
        "sqn": head.sqn,
        "size": head.size,
        **bytes_fields("metadata", head.metadata),
        "index": [
            {**bytes_fields("field", given_bytes(field)), **bytes_fields("term", given_bytes(term))}
            for field, terms in head.index.items()
            for term in terms
        ],
        "modified": head.modified,
        "expires": head.expires,
        "value_hash": head.value_hash.hex(),
    }


def head_lines(head: ObjectHead) -> Iterator[tuple[str, object]]:
    """The same for people."""
    yield "bucket", head.bucket
    yield "key", head.key
    if head.subkey:
        yield "subkey", head.subkey
    yield "tag", head.tag
    yield "sqn", head.sqn
    yield "size", counted(head.size, "byte")
    yield "metadata", head.metadata.decode("utf-8", "backslashreplace")
    for field, terms in head.index.items():
        for term in terms:
            yield "index", f"{field} {term}"
    yield "modified", datetime.fromtimestamp(head.modified, UTC).isoformat(" ", "milliseconds")
    if head.expires is not None:
        yield "expires", datetime.fromtimestamp(head.expires, UTC).isoformat(" ")
