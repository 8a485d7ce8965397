"""Two machines that share a store and no disk: tier 1 in Kafka, chunks in S3."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import siltstone
from services.kafka import Kafka
from services.s3_server import S3Server
from siltstone.core.constants import container_of
from siltstone.core.errors import StoreInUseError
from siltstone.store.admin.inspection import open_inspection
from tests.support.services.kafka_services import new_topic
from tests.support.services.kafka_services import options_of as log_options_of
from tests.support.services.s3_services import new_bucket, options_of

CONTAINERS = 3

# A process that thinks that it is on another machine, and has containers 1 and 2.
CHILD = """
import dataclasses, sys
import siltstone.tier1.kafka.fenced_log as fenced_log
here = fenced_log.this_process()
fenced_log.this_process = lambda: dataclasses.replace(here, host=b"another machine!")
import siltstone
store = siltstone.open(sys.argv[1], containers=[1, 2])
for name in sys.argv[2:]:
    store.create(name).append(b"flushed, ")
store.flush()
for name in sys.argv[2:]:
    store.segment(name).append(b"unflushed")
print("done", flush=True)
sys.stdin.read()
"""


def name_in(container: int) -> str:
    names = (f"s{number}" for number in range(1000))
    return next(name for name in names if container_of(name, CONTAINERS) == container)


@pytest.fixture
def machines(
    kafka: Kafka, versitygw: S3Server, kafka_plugin: None, s3_plugin: None, tmp_path: Path
) -> tuple[Path, Path]:
    """The settings file on each of two machines, of which only the first made the store."""
    bucket, _ = new_bucket(versitygw)
    mine = siltstone.init(
        tmp_path / "mine",
        containers=CONTAINERS,
        binding="s3",
        options=options_of(versitygw, bucket),
        log="kafka",
        log_options=log_options_of(kafka.endpoint, new_topic(), servers=kafka.endpoint),
    )
    theirs = tmp_path / "theirs" / mine.name
    theirs.parent.mkdir()
    shutil.copy(mine, theirs)
    return mine, theirs


def test_one_machine_takes_over_what_another_one_had(machines: tuple[Path, Path]) -> None:
    mine, theirs = machines
    assert str(mine.parent) not in theirs.read_text(encoding="utf-8"), "nothing is shared"
    names = [name_in(container) for container in range(CONTAINERS)]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(theirs), *names[1:]],
        cwd=theirs.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child, siltstone.open(mine, containers=[0]) as store:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        store.create(names[0]).append(b"mine")
        with pytest.raises(StoreInUseError, match=f"pid={child.pid}"):
            siltstone.open(mine, containers=[2])
        child.send_signal(signal.SIGKILL)
        child.wait(120)
        shutil.rmtree(theirs.parent)
        with open_inspection(mine) as inspection:
            alive = [head.alive for head in inspection.log_heads()]
        assert alive == [True, False, False]
        with siltstone.open(mine, containers=[1, 2]) as taken:
            for name in names[1:]:
                assert taken.segment(name).read(0, 100) == b"flushed, unflushed"
                taken.segment(name).append(b" and more")
        assert store.segment(names[0]).read(0, 100) == b"mine"
    with siltstone.open(mine, read_only=True) as reader:
        found = [bytes(reader.segment(name).read(0, 100)) for name in names]
    assert found == [b"mine", *[b"flushed, unflushed and more"] * 2]
