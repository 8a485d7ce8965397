"""No secret is shown: not in files, logs, errors, texts of objects, metrics or printed output.

The key of the server is made for this run and occurs nowhere else, so it is enough to look for it
and for the signature that is made with it. Logs are read with everything that the SDK tells.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas

from services.azurite import Azurite
from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.bindings.azure.plugin import siltstone_chunk_storage
from siltstone.bindings.azure.settings import AzureSettings
from siltstone.testing.faults.fault_proxy import FaultProxy
from siltstone.testing.faults.http_faults import Answer, Fault, HalfAnswer, Hang, Reset, Rule
from tests.support.faults.canary import VARIABLE, Show, failure, files_with
from tests.support.services.azure_services import new_container, options_of, settings_of

FAULTS: tuple[Fault, ...] = (
    Reset(after_effect=True),
    HalfAnswer(),
    Hang(after_effect=False),
    Answer(status=500),
    Answer(status=403),
    Answer(status=200, body=b"<html>"),
)


@pytest.mark.usefixtures("azure_plugin")
def test_of_a_whole_store(azurite: Azurite, show: Show) -> None:
    options = options_of(azurite, new_container(azurite)[0], account_key=VARIABLE)
    shown = show.whole_store(azurite.secret, "azure", options)
    assert any("x-ms-version" in text for text in shown), "the SDK's own log was not seen"
    assert [text for text in shown if azurite.secret in text] == []
    assert files_with(azurite.secret, show.folder) == []


def signed(azurite: Azurite, container: str) -> str:
    return generate_container_sas(
        azurite.key_id,
        container,
        account_key=azurite.secret,
        permission=ContainerSasPermissions.from_string("racwdl"),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )


@pytest.mark.parametrize("way", ["key", "signature"])
def test_of_errors_and_logs(azurite: Azurite, caplog: pytest.LogCaptureFixture, way: str) -> None:
    caplog.set_level(logging.DEBUG)
    container, raw = new_container(azurite)
    raw.write("b", b"abc")
    more: dict[str, Any] = {}
    secret = azurite.secret
    if way == "signature":
        token = signed(azurite, container)
        secret = token.rpartition("sig=")[2].partition("&")[0]
        more = {"account_key": None, "sas_token": token}
    with FaultProxy(("127.0.0.1", azurite.port)) as proxy:
        near = options_of(
            azurite, container, endpoint=f"{proxy.endpoint}/{azurite.key_id}", blobs="block",
            **more,
        )  # fmt: skip
        patient = AzureChunkStorage(AzureSettings.model_validate(near))
        # Where a request hangs, one deadline has to end it; no other one ends on a slow machine.
        impatient = AzureChunkStorage(AzureSettings.model_validate(near | {"read_timeout_s": 0.5}))
        shown = [repr(patient)]
        patient.create("a", [b"abc"])
        patient.concat("t", [("a", 3), ("b", 3)])
        for fault in FAULTS:
            storage = impatient if isinstance(fault, Hang) else patient
            proxy.plan(Rule(fault=fault))
            shown.append(failure(partial(storage.read_into, "a", 0, bytearray(3))))
            proxy.plan(Rule(fault=fault, method="PUT", target="comp=block&"))
            # Where the status came, the rest of an answer may not matter.
            if not isinstance(fault, HalfAnswer):
                shown.append(failure(partial(storage.concat, "u", [("a", 3), ("b", 3)])))
        shown.append(failure(lambda: patient.stat("none")))
        for each in (patient, impatient):
            each.close()
            shown.append(failure(partial(each.stat, "a")))
        wrong = near | {"container": "no-such-container"}
        shown.append(failure(lambda: siltstone_chunk_storage("azure", wrong)))
    shown.append(failure(lambda: siltstone_chunk_storage("azure", near)))
    assert [text for text in [*shown, caplog.text] if secret in text] == []


def test_of_settings_objects(azurite: Azurite) -> None:
    settings = settings_of(azurite, "container")
    shown = f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert "account_key" in shown
    assert azurite.secret not in shown
