"""Work beside the appends that makes them quicker, for a log that has such work."""

from __future__ import annotations

from typing import Final

from siltstone.container.pipeline import Pipeline
from siltstone.core.environment import Environment, Pool
from siltstone.core.errors import LogError
from siltstone.core.fenced_log import TendedLog

LOG_CARE_POOL: Final = Pool(name="log-care", threads=2)
"""Never the thread of the appends, which must not wait for it."""


class LogCare:
    """Tends the log of one owned container."""

    def __init__(self, log: TendedLog, pipeline: Pipeline, environment: Environment) -> None:
        self._log = log
        self._pipeline = pipeline
        self._environment = environment

    async def run(self) -> None:
        """Tend the log until cancelled, or until it failed, which ends this owner."""
        environment = self._environment
        while True:
            try:
                pause_s = await environment.run_blocking(LOG_CARE_POOL, self._log.tend)
            except LogError as error:
                await self._pipeline.end(error)
                return
            await environment.sleep(pause_s)
