"""The power is cut while a boot writes its first checkpoint.

What may fail: the power, before the sync of that file. Its name, its length and any of its bytes
may be on the disk, page by page.
What must hold after: the next owner opens, and what was acknowledged before is there.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from siltstone.container.container import Container
from siltstone.core.chunk_names import journal_file
from siltstone.core.constants import KIB
from siltstone.core.errors import SiltstoneError
from siltstone.testing.faults.file_layer import Call
from siltstone.testing.faults.power_cut import PowerCut
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.faults.place import STILL, Place

SEEDS = 16
DATA = b"acknowledged"


class World:
    """A container on a disk of the model, on virtual time: a boot is patient with its storage."""

    def __init__(self, folder: Path) -> None:
        self.disk = PowerCut(folder)
        self._folder = folder
        self._place = Place(folder, file_bytes=16 * KIB)
        self.environment = VirtualEnvironment(1)

    async def own(self) -> Container:
        return await self._place.own(self.environment, STILL, calls=self.disk)

    def cut_in_boot(self, epoch: int, seed: int) -> None:
        """Cut the power when the first checkpoint of that epoch is about to be synced."""
        file = self.checkpoint(epoch)

        def before(call: Call) -> None:
            if "sync" in call.kind and file.exists() and file.stat().st_size:
                self.disk.before = lambda _: None
                self.disk.cut(keep=0.5, seed=seed)
                raise OSError(errno.EIO, "the power was cut")

        self.disk.before = before

    def checkpoint(self, epoch: int) -> Path:
        return self._folder / "chunks" / journal_file(0, epoch, 1)


async def story(world: World, seed: int, *, epoch: int) -> bytes | None:
    """Cut the power in the boot of that epoch; return what was left of its first checkpoint."""
    if epoch > 1:
        container = await world.own()
        await container.create("a")
        await container.append("a", DATA)
        await container.close()
    world.cut_in_boot(epoch, seed)
    with pytest.raises((SiltstoneError, OSError)):
        await world.own()
    file = world.checkpoint(epoch)
    left = file.read_bytes() if file.exists() else None
    world.disk.restart()
    container = await world.own()
    assert container.epoch > epoch
    if epoch > 1:
        assert await container.read("a", 0, len(DATA)) == DATA
    else:
        assert await container.list_segments() == []
    await container.close()
    return left


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_power_cut_in_the_first_checkpoint_of_a_boot(memory_path: Path, epoch: int) -> None:
    found = []
    for seed in range(SEEDS):
        folder = memory_path / str(seed)
        folder.mkdir()
        world = World(folder)
        try:
            with world.environment.runner() as runner:
                found.append(runner.run(story(world, seed, epoch=epoch)))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        finally:
            world.disk.release()
    # Gone, empty, of its length without its bytes, and whole: else this would test too little.
    assert None in found
    assert b"" in found
    assert any(left and not left.strip(b"\0") for left in found)
    assert any(left and left.strip(b"\0") for left in found)
