"""What is found wrong at open, at the first change, and after changes by other programs."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

import pytest

from siltstone.bindings.azure import appends
from siltstone.bindings.azure.plugin import siltstone_chunk_storage
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkError,
    ChunkOffsetError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
    SettingsError,
)
from siltstone.testing.faults.http_faults import Answer, Rule
from tests.support.services.azure_services import new_container, options_of
from tests.unit.bindings.azure.conftest import NewCounted

OTHER_KEY = "b3RoZXIga2V5"
SIGNATURE = "sv=2024-01-01&se=2020-01-01T00:00:00Z&sr=c&sp=rl&sig=Y2FuYXJ5"


@pytest.mark.slow
def test_a_container_that_is_not_there(counted: NewCounted) -> None:
    here = counted()
    with pytest.raises(SettingsError, match="there is no container 'elsewhere'"):
        siltstone_chunk_storage("azure", here.options | {"container": "elsewhere"})


def test_an_endpoint_without_the_account(counted: NewCounted) -> None:
    here = counted()
    endpoint = here.options["endpoint"].rpartition("/")[0]
    with pytest.raises(SettingsError, match="is no account"):
        siltstone_chunk_storage("azure", here.options | {"endpoint": endpoint})


def test_a_wrong_key(counted: NewCounted) -> None:
    here = counted()
    with pytest.raises(ChunkAccessDeniedError) as caught:
        siltstone_chunk_storage("azure", here.options | {"account_key": OTHER_KEY})
    assert OTHER_KEY not in str(caught.value)


def test_a_signature_that_has_expired(counted: NewCounted) -> None:
    options = {**counted().options, "sas_token": SIGNATURE}
    del options["account_key"]
    with pytest.raises(ChunkAccessDeniedError) as caught:
        siltstone_chunk_storage("azure", options)
    assert "Y2FuYXJ5" not in str(caught.value)


def test_no_server_there(counted: NewCounted) -> None:
    options = counted().options | {"endpoint": "http://127.0.0.1:9/x"}
    with pytest.raises(ChunkUnavailableError, match="could not be reached"):
        siltstone_chunk_storage("azure", options)


def test_an_account_with_folders_is_refused(counted: NewCounted) -> None:
    here = counted()
    headers = {"x-ms-is-hns-enabled": "true", "x-ms-account-kind": "StorageV2"}
    here.proxy.plan(Rule(fault=Answer(status=200, headers=headers), target="comp=properties"))
    with pytest.raises(SettingsError, match="hierarchical namespace"):
        siltstone_chunk_storage("azure", here.options)


def test_a_user_who_may_not_ask_about_the_account_continues(counted: NewCounted) -> None:
    here = counted()
    here.proxy.plan(Rule(fault=Answer(status=403), target="comp=properties"))
    opened = siltstone_chunk_storage("azure", here.options)
    assert opened is not None
    opened.close()


@pytest.mark.parametrize("blobs", ["append", "block"])
def test_a_service_that_overwrites_is_refused(counted: NewCounted, blobs: str) -> None:
    here = counted(is_proven=False, blobs=blobs)
    made = {"ETag": '"0x1"', "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT"}
    here.proxy.plan(Rule(fault=Answer(status=201, headers=made), method="PUT", times=9))
    with pytest.raises(CapabilityError, match="ignores"):
        here.storage.create("a", [b"x"])


def test_an_account_without_append_blobs(counted: NewCounted) -> None:
    here = counted(is_proven=False)
    refusal = Answer(status=409, headers={"x-ms-error-code": "FeatureNotSupported"})
    here.proxy.plan(Rule(fault=refusal, method="PUT"))
    with pytest.raises(CapabilityError, match="blobs: block"):
        here.storage.create("a", [b"x"])


def test_too_many_blocks(counted: NewCounted) -> None:
    here = counted()
    refusal = Answer(status=409, headers={"x-ms-error-code": "BlockCountExceedsLimit"})
    here.storage.create("a", [b"x"])
    here.proxy.plan(Rule(fault=refusal, method="PUT", target="appendblock", times=2))
    with pytest.raises(ValueError, match="too many writes"):
        here.storage.write("a", 1, [b"y"])
    with pytest.raises(ChunkUnavailableError) as caught:
        here.storage.create("b", [b"y"])
    assert caught.value.outcome is Outcome.UNKNOWN


def test_writes_that_are_allowed_never_make_too_many_blocks(counted: NewCounted) -> None:
    """Each write of n bytes makes n / block_bytes full blocks and one other, at most."""
    capabilities = counted().storage.capabilities
    full = capabilities.chunk_bytes_max // (100 * 2**20)
    assert full + capabilities.appends_max <= appends.BLOCKS_MAX


def test_a_blob_that_is_leased_or_of_another_kind(counted: NewCounted) -> None:
    here = counted()
    here.storage.create("a", [b"x"])
    here.raw.lease("a")
    with pytest.raises(ChunkAccessDeniedError) as written:
        here.storage.write("a", 1, [b"y"])
    assert written.value.outcome is Outcome.NOT_APPLIED
    with pytest.raises(ChunkAccessDeniedError) as deleted:
        here.storage.delete("a")
    assert deleted.value.outcome is Outcome.NOT_APPLIED
    here.raw.write("b", b"x")
    with pytest.raises(ChunkError) as found:
        here.storage.write("b", 1, [b"y"])
    assert found.value.outcome is Outcome.NOT_APPLIED
    assert here.raw.read("b") == b"x"


def test_a_blob_that_was_shortened(counted: NewCounted) -> None:
    here = counted()
    here.storage.create("a", [b"abcdef"])
    here.raw.write("a", b"ab")
    with pytest.raises(ChunkOffsetError):
        here.storage.read_into("a", 4, bytearray(2))


def _use(storage: Any, results: Any) -> None:
    try:
        storage.stat("a")
    except ClosedError as error:
        results.put(str(error))
    storage.close()


def test_a_fork_and_a_pickle_are_told(counted: NewCounted) -> None:
    storage = counted().storage
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(storage)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_use, args=(storage, results))
    child.start()
    assert "belongs to the process" in results.get(timeout=120)
    child.join(120)


def test_a_shared_access_signature_is_enough(counted: NewCounted) -> None:
    from datetime import UTC, datetime, timedelta

    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    here = counted(blobs="block")
    signature = generate_container_sas(
        here.options["account"],
        here.options["container"],
        account_key=here.options["account_key"],
        permission=ContainerSasPermissions.from_string("racwdl"),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    options = {**here.options, "sas_token": signature}
    del options["account_key"]
    opened = siltstone_chunk_storage("azure", options)
    assert opened is not None
    opened.create("a", [b"one"])
    opened.create("b", [b"two"])
    opened.concat("t", [("a", 3), ("b", 2)])
    assert here.raw.read("t") == b"onetw"
    assert opened.delete_many(["a", "b", "none"]) == {}  # type: ignore[attr-defined]
    assert here.raw.names() == ["t"]
    opened.close()


def test_a_connection_string_is_enough(azurite: Any) -> None:
    container, raw = new_container(azurite)
    text = (
        f"DefaultEndpointsProtocol=http;AccountName={azurite.key_id};"
        f"AccountKey={azurite.secret};BlobEndpoint={azurite.endpoint};"
    )
    options = options_of(azurite, container, account=None, account_key=None, endpoint=None)
    opened = siltstone_chunk_storage("azure", options | {"connection_string": text})
    assert opened is not None
    opened.create("a", [b"one"])
    assert raw.read("a") == b"one"
    opened.close()
