"""Recovery of a store whose tier 1 is lost: only on request, container by container."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from siltstone.container.models.recovery_report import RecoveryReport, RecoveryState
from siltstone.container.recovery.lossy_recovery import recover_container
from siltstone.core.environment import SystemEnvironment
from siltstone.core.text import counted
from siltstone.store.local_index import lost_by_index
from siltstone.store.lost_manifest import check_count, write_anew
from siltstone.store.store_assembly import Assembly, assembled


def recover_store(
    path: Path | str,
    containers: Iterable[int] | None = None,
    *,
    accept_loss: bool = False,
    takeover: bool = False,
    deep: bool = False,
    tell: Callable[[RecoveryReport], None] = lambda _: None,
) -> list[RecoveryReport]:
    """Say what would be lost if a store continued without its tier-1 logs, or let it continue.

    A container whose log is whole is left as it is, unless its metadata on long-term storage is
    damaged: that is written again then, with all that the log holds. What was acknowledged after
    the last flush of the table log and is only in a lost log is gone; frames of an older log that
    continue the state on long-term storage are kept. The older log is set aside, never deleted.
    Bytes of segments that long-term storage lacks are named, and stay lost. Where the object
    ``system/store`` is missing or damaged, it is written again, from the uuid of the settings and
    the containers that there are.

    Args:
        path: a settings file, or the folder that holds ``siltstone.yaml``.
        containers: which ones; ``None`` means all.
        accept_loss: write. Otherwise nothing is written and the reports tell what would happen.
        takeover: continue although a live owner of an older log is known; it is fenced.
        deep: read every byte of segments to tell what is lost; else presence and lengths.
        tell: called with each report as soon as its container is done. No other call tells again
            what a container lost that was let continue.

    Returns:
        One report for each container, in the order asked for.

    Raises:
        StoreInUseError: a live owner is known and ``takeover`` is false, or it changed long-term
            storage during each of several looks.
        CorruptDataError: long-term storage itself is damaged, so that no state of a container can
            be built from it, or nothing tells how many containers there were.
        ChunkError: long-term storage failed; the call may be repeated.
        ValueError: there is no such container.
    """
    environment = SystemEnvironment()
    try:
        assembly = assembled(path, environment, without_manifest=True)
        count = assembly.manifest.container_count
        chosen = list(range(count) if containers is None else dict.fromkeys(containers))
        for index in chosen:
            if not 0 <= index < count:
                there = counted(count, "container")
                raise ValueError(f"no container {index}: the store has {there}, from 0 on")
        try:
            recover_all = partial(_all, assembly, chosen, takeover=takeover, deep=deep)
            if assembly.manifest_lost:
                # Looked at first: names of segments show whether no container is missing.
                look = partial(_all, assembly, range(count), takeover=False, deep=False)
                dry = asyncio.run(look(accept_loss=False, tell=lambda _: None))
                check_count(dry, count)
                if accept_loss:
                    with closing(assembly.new_storage()) as storage:
                        write_anew(storage, assembly.manifest)
            return asyncio.run(recover_all(accept_loss=accept_loss, tell=tell))
        finally:
            assembly.close()
    finally:
        environment.close()


async def _all(
    assembly: Assembly,
    chosen: Sequence[int],
    *,
    accept_loss: bool,
    takeover: bool,
    deep: bool,
    tell: Callable[[RecoveryReport], None],
) -> list[RecoveryReport]:
    # One after the other: if one fails, those before it are recovered, and were reported.
    reports = []
    for index in chosen:
        made = await _one(assembly, index, accept_loss=accept_loss, takeover=takeover, deep=deep)
        reports.append(replace(made, store=assembly.manifest_lost))
        tell(reports[-1])
    return reports


async def _one(
    assembly: Assembly, index: int, *, accept_loss: bool, takeover: bool, deep: bool
) -> RecoveryReport:
    report = await recover_container(
        container=index,
        new_log=lambda: assembly.new_log(index),
        storage=assembly.new_storage(),
        environment=assembly.environment,
        settings=assembly.settings.container,
        owner=assembly.owner,
        accept_loss=accept_loss,
        takeover=takeover,
        deep=deep,
        lost=await lost_by_index(assembly, index),
    )
    if report.state is not RecoveryState.LOST or report.damage:
        return report
    return replace(report, reason=f"{report.reason} settings={assembly.settings.log_place}")
