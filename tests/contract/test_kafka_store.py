"""A whole store whose tier 1 is in Kafka: made, used, left by a crash, opened again, recovered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import siltstone
from services.kafka import Kafka
from siltstone.core.errors import LogLostError, StoreInUseError
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.store.admin.inspection import open_inspection
from siltstone.store.site import site_of
from tests.support.services.kafka_services import Outside, new_topic, options_of

CHILD = """
import os, sys, siltstone
store = siltstone.open(sys.argv[1])
store.segment("a").append(b"unflushed")
print("done", flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def place(kafka: Kafka, kafka_plugin: None, tmp_path: Path) -> tuple[Path, str]:
    topic = new_topic()
    options = options_of(kafka.endpoint, topic, servers=kafka.endpoint)
    file = siltstone.init(tmp_path / "store", log="kafka", log_options=options)
    return file, topic


def test_a_store_lives_on_a_log_in_kafka(kafka: Kafka, place: tuple[Path, str]) -> None:
    file, topic = place
    assert not (file.parent / "tier1").exists()
    with siltstone.open(file) as store:
        for name in ("a", "b", "c"):
            store.create(name).append(name.encode() * 100_000)
        store.flush()
        store.segment("a").append(b"more")
        with pytest.raises(StoreInUseError, match=f"pid={os.getpid()}"):
            siltstone.open(file)
        with siltstone.open(file, read_only=True) as reader:
            assert reader.segment("a").read(100_000, 10) == b"more"
        with open_inspection(file) as looked:
            assert [looked.log_head(index).alive for index in looked.containers] == [True]
    with siltstone.open(file) as store:
        assert store.segment("a").read(99_999, 10) == b"amore"
        assert [segment.name for segment in store.list()] == ["a", "b", "c"]
    assert Outside(kafka.endpoint, topic, 0).bounds()[1] > 0


def test_what_a_killed_owner_was_told_is_there_at_once(place: tuple[Path, str]) -> None:
    file, _ = place
    with siltstone.open(file) as store:
        store.create("a")
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, str(file)], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )  # fmt: skip
    assert ran.stdout == "done\n", ran.stderr
    with siltstone.open(file) as store:
        assert store.segment("a").read(0, 100) == b"unflushed"


def test_a_store_whose_topic_was_emptied_is_recovered_to_what_was_flushed(
    kafka: Kafka, place: tuple[Path, str]
) -> None:
    file, topic = place
    with siltstone.open(file) as store:
        segment = store.create("a")
        segment.append(b"flushed")
        store.flush()
        segment.append(b"lost")
    outside = Outside(kafka.endpoint, topic, 0)
    with outside.admin() as admin:
        admin.delete_records({outside.part: -1})
    with pytest.raises(LogLostError):
        siltstone.open(file)
    siltstone.recover(file, accept_loss=True)
    with siltstone.open(file) as store:
        assert store.segment("a").read(0, 100) == b"flushed"
        store.segment("a").append(b" and more")
        assert store.segment("a").read(0, 100) == b"flushed and more"


def test_a_backup_takes_the_tail_from_kafka_and_is_restored_to_topics_of_its_own(
    kafka: Kafka, place: tuple[Path, str], tmp_path: Path
) -> None:
    file, topic = place
    with siltstone.open(file) as store:
        store.create("a").append(b"flushed")
        store.flush()
        store.segment("a").append(b" and not")
        create_backup(file, tmp_path / "backups")
        ours = options_of(kafka.endpoint, topic, servers=kafka.endpoint)
        taken = site_of(tmp_path / "wrong", log="kafka", log_options=ours)
        with pytest.raises(LogLostError, match="in use by another container"):
            restore_backup(tmp_path / "backups", taken)
        store.segment("a").append(b", beside it")
    other = options_of(kafka.endpoint, new_topic(), servers=kafka.endpoint)
    new = site_of(tmp_path / "new", log="kafka", log_options=other)
    settings = restore_backup(tmp_path / "backups", new).settings
    for found, data in ((settings, b"flushed and not"), (file, b"flushed and not, beside it")):
        with siltstone.open(found) as store:
            assert store.segment("a").read(0, 100) == data
