"""A value of ``--option KEY=VALUE`` arrives as it was typed."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import yaml

from siltstone.bindings.hdfs.settings import HdfsSettings
from siltstone.bindings.s3.settings import S3Settings
from siltstone.cli.option_text import options_of
from siltstone.store.settings.effective import load_settings
from siltstone.tier1.kafka.settings import KafkaLogSettings
from tests.support.command import Command

ODD = ("a b", "run #7", ">", "|", "trail ", "007", "- x", "a: b", "'q'", "null", "yes", "1e3", "é")


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_chunks_lie_where_the_option_says(command: Command, tmp_path: Path, name: str) -> None:
    place = tmp_path / "new"
    ran = command("init", str(place), "--option", f"path={tmp_path / name}")
    assert (ran.code, ran.err) == (0, "")
    assert (tmp_path / name / "system" / "store").is_file()
    assert load_settings(place).binding_options == {"path": str(tmp_path / name)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_a_relative_path_is_taken_as_it_is(command: Command, tmp_path: Path, name: str) -> None:
    place = tmp_path / "new"
    assert command("init", str(place), "--log-option", f"path={name}").code == 0
    assert load_settings(place).log_options == {"path": str(place / name)}
    assert (place / name).is_dir()


@pytest.mark.slow
def test_a_restore_takes_options_as_they_are(command: Command, tmp_path: Path) -> None:
    assert command("backup", "create", str(tmp_path / "backups")).code == 0
    option = f"path={tmp_path / 'run #7'}"
    place = tmp_path / "new"
    ran = command("backup", "restore", str(tmp_path / "backups"), str(place), "--option", option)
    assert (ran.code, ran.err) == (0, "")
    assert (tmp_path / "run #7" / "system" / "store").is_file()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("bucket=123456", "123456"),
        ("prefix=007", "007"),
        ("secret_access_key=1=2#3", "1=2#3"),
        ("path_style=true", True),
        ("insecure=no", False),
        ("connections=64", 64),
        ("deadline_s=2.5", 2.5),
        ("part_bytes=16MiB", "16MiB"),
        ("checksums=none", "none"),
        ("connections=${COUNT}", "${COUNT}"),
        ("profile=null", "null"),
    ],
)
def test_a_value_has_the_type_of_its_setting(text: str, value: object) -> None:
    (found,) = options_of([text], S3Settings).values()
    assert found == value
    assert type(found) is type(value)


def test_what_is_written_is_what_the_plugin_reads() -> None:
    options = options_of(["servers=a:1,b:2", "topic=7", "single_broker=yes"], KafkaLogSettings)
    read = KafkaLogSettings.model_validate(yaml.safe_load(yaml.safe_dump(options)))
    assert (read.servers, read.topic, read.single_broker) == (["a:1", "b:2"], "7", True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("buckt=x", "there is no setting 'buckt'; did you mean 'bucket'?"),
        ("zzzzzz=x", "there is no setting 'zzzzzz'"),
        ("connections=7x", "connections: input should be a valid integer"),
        ("insecure=maybe", "insecure: input should be a valid boolean"),
        ("bucket", "write KEY=VALUE"),
        ("=x", "write KEY=VALUE"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, reason: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        options_of([text], S3Settings)
    assert caught.value.message.startswith(reason)


def test_a_plugin_without_a_model_gets_text() -> None:
    assert options_of(["count=7", "path=a=b"], None) == {"count": "7", "path": "a=b"}


def test_no_setting_stands_there_twice() -> None:
    with pytest.raises(click.BadParameter, match="stands there twice"):
        options_of(["path=a", "path=b"], HdfsSettings)
