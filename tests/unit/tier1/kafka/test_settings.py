"""Settings of the log ``kafka``: what is refused, and what a client is configured with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from siltstone.core.errors import SettingsError
from siltstone.tier1.kafka.plugin import siltstone_fenced_log
from siltstone.tier1.kafka.settings import KafkaLogSettings

GOOD: dict[str, Any] = {"servers": ["a:1", "b.example:9092"], "topic": "store.1"}
SECRET = "canary-51ab"


def test_tls_is_the_default() -> None:
    options = KafkaLogSettings.model_validate(GOOD).client_options()
    assert options == {
        "bootstrap_servers": ["a:1", "b.example:9092"],
        "security_protocol": "SSL",
    }


def test_servers_may_be_one_text() -> None:
    assert KafkaLogSettings.model_validate(GOOD | {"servers": "a:1, b:2"}).servers == ["a:1", "b:2"]


def test_credentials_go_with_or_without_tls() -> None:
    more = {"username": "user", "password": SECRET, "mechanism": "plain"}
    settings = KafkaLogSettings.model_validate(GOOD | more)
    options = settings.client_options()
    assert (options["security_protocol"], options["sasl_mechanism"]) == ("SASL_SSL", "PLAIN")
    assert options["sasl_plain_password"] == SECRET
    assert SECRET not in repr(settings) + str(settings)
    bare = KafkaLogSettings.model_validate(GOOD | more | {"insecure": True}).client_options()
    assert bare["security_protocol"] == "SASL_PLAINTEXT"


def test_certificates_are_files(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("ca_bundle", "certificate", "certificate_key")}
    for path in files.values():
        path.touch()
    options = KafkaLogSettings.model_validate(GOOD | files).client_options()
    assert options["ssl_cafile"] == str(files["ca_bundle"])
    assert options["ssl_certfile"] == str(files["certificate"])
    assert options["ssl_keyfile"] == str(files["certificate_key"])


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"servers": []}, "servers"),
        ({"servers": ["host"]}, "must be host:port"),
        ({"servers": ["host:0"]}, "must be host:port"),
        ({"servers": ["https://host:1"]}, "must be host:port"),
        ({"topic": "a b"}, "topic"),
        ({"topic": ""}, "topic"),
        ({"topic": "x" * 201}, "topic"),
        ({"username": "user"}, "go together"),
        ({"password": SECRET}, "go together"),
        ({"certificate_key": "/nowhere"}, "absolute path of a file"),
        ({"certificate_password": SECRET}, "goes with certificate"),
        ({"ca_bundle": "relative.pem"}, "absolute path of a file"),
        ({"insecure": True, "ca_bundle": __file__}, "exclude each other"),
        ({"mechanism": "none"}, "mechanism"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"create_topics": True, "replication": 1}, "at least 3"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_wrong_settings_are_named_and_not_repeated(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as caught:
        siltstone_fenced_log(
            "kafka",
            GOOD | {"password": SECRET, "username": "u"} | wrong
            if "password" not in wrong and "username" not in wrong
            else GOOD | wrong,
            0,
        )
    assert SECRET not in str(caught.value)


def test_another_log_is_not_this_one() -> None:
    assert siltstone_fenced_log("file", {}, 0) is None


@pytest.mark.parametrize(
    ("given", "makes", "copies"),
    [
        pytest.param({}, False, 3, id="many brokers"),
        pytest.param({"single_broker": True}, True, 1, id="one broker"),
        pytest.param({"single_broker": True, "create_topics": False}, False, 1, id="not made"),
        pytest.param({"single_broker": True, "replication": 2}, True, 2, id="two copies"),
    ],
)
def test_a_single_broker_makes_topics_of_one_copy(
    given: dict[str, Any], makes: bool, copies: int
) -> None:
    settings = KafkaLogSettings.model_validate(GOOD | given)
    assert (settings.create_topics, settings.replication) == (makes, copies)
