"""A log that wants to be tended is tended for as long as its container lives."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from siltstone.container.commit.pipeline import LogCare, Pipeline
from siltstone.container.owner_boot import open_container
from siltstone.core.constants import KIB
from siltstone.core.errors import LogError, SiltstoneError
from siltstone.testing.virtual_time import VirtualEnvironment
from siltstone.tier1.file.fenced_log import FileFencedLog
from siltstone.tier1.file.network import FileSystem
from tests.support.container.container_world import world

pytestmark = pytest.mark.virtual_time

EXT4 = FileSystem(number=0xEF53, name="ext4")


class Log:
    """Says when to come again, and fails in the end."""

    def __init__(self, environment: VirtualEnvironment) -> None:
        self._environment = environment
        self.at: list[float] = []
        self.pauses = [0.25, 5.0]

    def tend(self) -> float:
        self.at.append(self._environment.monotonic())
        if not self.pauses:
            raise LogError("no more")
        return self.pauses.pop(0)


class Counted(FileFencedLog):
    tended = 0

    def tend(self) -> float:
        self.tended += 1
        return super().tend()


class Ended:
    def __init__(self) -> None:
        self.error: SiltstoneError | None = None

    async def end(self, error: SiltstoneError) -> None:
        self.error = error


def test_it_comes_again_when_the_log_says_so_and_a_failure_ends_the_owner() -> None:
    environment = VirtualEnvironment()
    log, ended = Log(environment), Ended()
    with environment.runner() as runner:
        runner.run(LogCare(log, cast(Pipeline, ended), environment).run())
    assert log.at == [0.0, 0.25, 5.25]
    assert isinstance(ended.error, LogError)


@pytest.mark.slow
async def test_a_container_tends_its_log_until_it_is_closed(tmp_path: Path) -> None:
    log = Counted(str(tmp_path), 0, file_bytes=64 * KIB, file_system=lambda path: EXT4)
    async with world() as made:
        container = await open_container(
            container=0,
            log=log,
            storage=made.new_storage(),
            environment=made.environment,
            settings=made.settings,
            index_folder=made.folder / "index",
            owner="one",
            takeover=False,
        )
        await container.create("a")
        for _ in range(60):
            await container.append("a", bytes(16 * KIB))
            await made.environment.sleep(0.2)
            await container.flush()
        assert log.tended > 10
        assert log.first() > 0
        await container.close()
        tended = log.tended
        await made.environment.sleep(60)
        assert log.tended == tended
