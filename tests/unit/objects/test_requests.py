"""What a put may ask for: names, limits, hashes, index and specs, and what is told of all else."""

from __future__ import annotations

from array import array
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.checksums import crc32c
from siltstone.objects.changes import (
    TTL_S_MAX,
    DeleteRequest,
    PutRequest,
    Spec,
    Unset,
    check_expected,
    index_entries,
    name_bytes,
    name_text,
    object_key,
    put_request,
    spec_entries,
)
from siltstone.objects.errors import ObjectError, ObjectLimitError
from siltstone.objects.records.keys import IndexEntry, ObjectKey, index_keys
from siltstone.objects.records.limits import (
    FIELD_BYTES_MAX,
    INDEX_BYTES_MAX,
    METADATA_BYTES_MAX,
    NAME_BYTES_MAX,
    VALUE_BYTES_MAX,
)

KEY = ObjectKey(b"o", b"bucket", b"key")


class Place(StrEnum):
    """A name that is text, and shows as something else."""

    OSLO = "oslo"

    def __str__(self) -> str:
        return "Place.OSLO"


def put(value: Any = b"", **options: Any) -> PutRequest:
    return put_request(KEY, value, **options)


@given(st.binary(min_size=1, max_size=20))
def test_a_name_of_any_bytes_is_told_as_text_and_taken_back(raw: bytes) -> None:
    assert name_bytes(raw, what="key") == raw
    assert name_bytes(name_text(raw), what="key") == raw


@given(st.text(min_size=1, max_size=20))
def test_text_is_its_utf8(text: str) -> None:
    raw = name_bytes(text, what="key")
    assert raw == text.encode()
    assert name_text(raw) == text


def test_a_name_that_shows_as_another_text_is_what_it_is() -> None:
    assert name_bytes(Place.OSLO, what="key") == b"oslo"


@pytest.mark.parametrize("name", ["\ud800", "a\udfff"])
def test_a_surrogate_that_stands_for_no_byte_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a bucket has a surrogate that stands for no byte"):
        object_key("o", name, "key")


@pytest.mark.parametrize("name", [None, 7, ["a"], ("a",), 1.5])
def test_a_name_is_bytes_or_text(name: Any) -> None:
    with pytest.raises(TypeError, match="key is bytes"):
        object_key("o", "bucket", name)


@pytest.mark.parametrize(
    "name",
    ["", b"", bytes(NAME_BYTES_MAX + 1), "é" * (NAME_BYTES_MAX // 2) + "x"],
    ids=["no text", "no bytes", "long bytes", "long text"],
)
def test_buckets_and_keys_have_a_length(name: str | bytes) -> None:
    length = len(name.encode() if isinstance(name, str) else name)
    for parts, what in (((name, "k"), "bucket"), (("b", name), "key")):
        with pytest.raises(
            ObjectLimitError, match=f"a {what} has 1 to 8192 bytes length={length}"
        ) as caught:
            object_key("o", *parts)
        assert isinstance(caught.value, ObjectError)
        assert isinstance(caught.value, ValueError)


def test_the_longest_and_strangest_names_are_taken() -> None:
    for name in (bytes(NAME_BYTES_MAX), b"\xff" * NAME_BYTES_MAX, b"\0", b"\0\1", b"/"):
        assert object_key("o", name, name) == ObjectKey(b"o", name, name, b"")


def test_a_value_has_any_buffer() -> None:
    assert put(bytearray(b"ab")).value == b"ab"
    assert put(memoryview(b"abcd")[::2]).value == b"ac"
    assert put(array("H", [1, 2])).value == array("H", [1, 2]).tobytes()
    whole = bytes(VALUE_BYTES_MAX)
    assert put(whole).value is whole
    for wrong in ("text", None, 5, [1]):
        with pytest.raises(TypeError, match="value is bytes"):
            put(wrong)


def test_a_value_over_4_mib_is_looked_at_later() -> None:
    whole = bytes(VALUE_BYTES_MAX + 1)
    large = put(whole)
    assert large.value is whole
    assert (large.value_crc, large.value_hash) == (b"", b"")
    assert put(whole, value_hash=b"12345678").value_hash == b"12345678"


def test_what_a_caller_changes_later_is_not_what_was_put() -> None:
    value, note = bytearray(b"before"), bytearray(b"note")
    request = put(value, metadata=note)
    value[:] = note[:] = b"after!"
    assert (request.value, request.metadata) == (b"before", b"note")


def test_metadata_has_at_most_64_kib() -> None:
    assert len(put(metadata=bytes(METADATA_BYTES_MAX)).metadata) == METADATA_BYTES_MAX
    with pytest.raises(ObjectLimitError, match="metadata has at most 65536 bytes length=65537"):
        put(metadata=bytes(METADATA_BYTES_MAX + 1))
    with pytest.raises(TypeError, match="metadata is bytes, not str"):
        put(metadata="{}")


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_the_hash_and_the_sum_are_of_the_bytes(value: bytes, metadata: bytes) -> None:
    request = put(value, metadata=metadata)
    told = len(metadata).to_bytes(4, "little") + metadata + value
    assert request.value_hash == blake2b(told, digest_size=8).digest()
    assert request.value_crc == crc32c(value).to_bytes(4, "little")


def test_a_hash_that_is_given_has_8_bytes() -> None:
    assert put(b"v", value_hash=b"12345678").value_hash == b"12345678"
    for wrong in (b"", b"1234567", b"123456789"):
        with pytest.raises(ValueError, match="a value hash has 8 bytes"):
            put(value_hash=wrong)
    with pytest.raises(TypeError, match="value_hash is bytes"):
        put(value_hash="12345678")


@pytest.mark.parametrize("ttl_s", [0, -1, TTL_S_MAX + 1])
def test_a_ttl_has_a_range(ttl_s: int) -> None:
    with pytest.raises(ValueError, match=f"ttl_s is 1 to 2147483648 seconds, not {ttl_s}"):
        put(ttl_s=ttl_s)


def test_a_ttl_is_a_whole_number() -> None:
    assert (put().ttl_s, put(ttl_s=1).ttl_s, put(ttl_s=TTL_S_MAX).ttl_s) == (None, 1, TTL_S_MAX)
    for wrong in (1.5, "1", True):
        with pytest.raises(TypeError, match="ttl_s is an int"):
            put(ttl_s=wrong)


def test_what_is_expected_is_an_sqn_or_none() -> None:
    assert put().expected is Unset.ANY
    assert (put(expected=None).expected, put(expected=5).expected) == (None, 5)
    for wrong in ("5", 5.0, False):
        with pytest.raises(TypeError, match="expected is an int"):
            put(expected=wrong)
    with pytest.raises(TypeError, match="expected is an int"):
        DeleteRequest(key=KEY, expected=check_expected(True))


TERMS = st.lists(st.text("ab", max_size=2), max_size=4)


@given(st.dictionaries(st.text("fg", min_size=1, max_size=2), TERMS, max_size=3))
def test_an_index_is_the_set_of_its_terms_in_order(index: dict[str, list[str]]) -> None:
    pairs = {(field.encode(), term.encode()) for field in index for term in index[field]}
    assert index_entries(index) == tuple(sorted(pairs))
    assert put(index=index).entries == tuple(sorted(pairs))


def test_no_index_is_an_empty_one_and_specs_are_none() -> None:
    assert put().entries == put(index={}).entries == put(index={"f": []}).entries == ()
    assert put(specs=[]).entries is None
    for index in ({"f": ["t"]}, {}):
        with pytest.raises(ValueError, match="as a whole or by specs, not both"):
            put(index=index, specs=[])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([("f", ["t"])], "an index has terms by field, which list has not"),
        ("f", "an index has terms by field, which str has not"),
        (0, "an index has terms by field, which int has not"),
        ({"f": "term"}, "terms of 'f' are a list of them, not one"),
        ({"f": b"term"}, "terms of 'f' are a list of them, not one"),
        ({"f": bytearray(b"term")}, "term is bytes"),
        ({"f": [None]}, "term is bytes"),
        ({5: ["t"]}, "field is bytes"),
        ({"f": None}, "not iterable"),
    ],
)
def test_what_is_no_index_is_refused(index: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        put(index=index)


def test_fields_and_terms_have_a_length() -> None:
    assert put(index={"f" * FIELD_BYTES_MAX: ["", b"t" * NAME_BYTES_MAX]}).entries is not None
    for field, length in (("", 0), ("f" * (FIELD_BYTES_MAX + 1), FIELD_BYTES_MAX + 1)):
        with pytest.raises(ObjectLimitError, match=f"a field has 1 to 255 bytes length={length}"):
            put(index={field: ["t"]})
    with pytest.raises(ObjectLimitError, match="a term has 0 to 8192 bytes length=8193"):
        put(specs=[("add", "f", b"t" * (NAME_BYTES_MAX + 1))])


def test_an_index_has_at_most_64_kib_of_rows() -> None:
    terms = [b"%04d" % number for number in range(10_000)]
    one = len(index_keys(KEY, [IndexEntry(b"f", terms[0])])[0])
    most = INDEX_BYTES_MAX // one
    request = put(index={"f": terms[:most]})
    assert request.entries is not None
    assert len(request.entries) == most
    message = f"at most {INDEX_BYTES_MAX} bytes length={one * (most + 1)}"
    with pytest.raises(ObjectLimitError, match=message):
        put(index={"f": terms[: most + 1]})


def test_the_last_spec_of_an_entry_counts() -> None:
    specs: list[Spec] = [
        ("add", "f", "a"),
        ("remove", "f", "b"),
        ("remove", b"f", b"a"),
        ("add", "f", "b"),
    ]
    added, removed = spec_entries(specs)
    assert (sorted(added), sorted(removed)) == ([(b"f", b"b")], [(b"f", b"a")])


@pytest.mark.parametrize(
    "spec", [("drop", "f", "t"), ("add", "f"), ("add", "f", "t", "x"), (), None, "add", 5]
)
def test_what_is_no_spec_is_refused(spec: Any) -> None:
    with pytest.raises(ValueError, match="a spec is 'add' or 'remove'"):
        put(specs=[spec])
