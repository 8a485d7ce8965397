"""The verb ``recover``: the only one that may lose something, so it says what before it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json, say
from siltstone.cli.session import Session, json_option, pass_session, takeover_option
from siltstone.core.errors import CorruptDataError
from siltstone.core.text import counted

if TYPE_CHECKING:
    from siltstone.container.models.recovery_report import RecoveryReport, SegmentRecovery


@click.command()
@click.argument("containers", nargs=-1, type=click.IntRange(min=0))
@click.option("--accept-loss", is_flag=True, help="Do it; without this nothing is written.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done and lost.")
@click.option("--deep", is_flag=True, help="Read every byte of segments to tell what is lost.")
@takeover_option
@json_option
@pass_session
def recover(
    session: Session,
    containers: tuple[int, ...],
    *,
    accept_loss: bool,
    dry_run: bool,
    deep: bool,
    takeover: bool,
    as_json: bool,
) -> None:
    """Continue without a lost tier 1: from long-term storage, as of its last table-log flush.

    Containers whose log is whole are left as they are, unless their metadata on long-term storage
    is damaged: then that is written again, with all that the log holds. What is lost is reported
    for each segment. Without --accept-loss nothing is written, and it exits with 6 if a container
    needs recovery; with --dry-run it exits with 0.
    """
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.store.admin.recovery import recover_store

    try:
        reports = recover_store(
            session.store_path(),
            containers or None,
            accept_loss=accept_loss and not dry_run,
            takeover=takeover,
            deep=deep,
            tell=print_json if as_json else _tell,
        )
    except CorruptDataError:
        session.note("siltstone: siltstone salvage tells what chunks alone give back")
        raise
    open_ones = [report.container for report in reports if report.needs_recovery]
    if open_ones and not accept_loss and not dry_run:
        names = ", ".join(map(str, open_ones))
        say(
            f"siltstone: nothing was written: with --accept-loss, container {names} continues as "
            "shown above, and what is not there is lost for good. If the real tier 1 can still be "
            "brought back, do that instead",
            err=True,
        )
        raise click.exceptions.Exit(ExitCode.DAMAGE)


def _tell(report: RecoveryReport) -> None:
    head = f"container {report.container}: {report.state}"
    say(f"{head}: {report.reason}" if report.reason else head)
    if report.damage:
        say(f"  long-term storage is damaged, an older state serves: {report.damage}")
        if not report.done:
            click.echo("  siltstone salvage tells what lies beyond it; look before --accept-loss")
    for harm in report.harm:
        say(f"  damaged: {harm}")
    if report.store:
        say(f"  system/store is written again: {report.store}")
    for warning in report.warnings:
        say(f"  warning: {warning}")
    if report.state in ("lost", "damaged"):
        _tell_loss(report, to_end=report.state == "damaged" and not report.damage)
    if report.set_aside:
        say(f"  the older log is now in {report.set_aside}")
    if report.done:
        say(f"  done: lineage {report.new_lineage}, epoch {report.epoch}")


def _tell_loss(report: RecoveryReport, *, to_end: bool) -> None:
    """Say what there is; ``to_end`` when no segment lacks anything that was appended last."""
    say(f"  tables: up to version {report.cut_version}")
    if report.lost_version is not None:
        say(f"  tables: updates up to version {report.lost_version} are lost")
    say(
        f"  frames of {'the' if report.state == 'damaged' else 'an older'} log: "
        f"{report.frames_replayed} replayed, {report.frames_left} left out"
    )
    if report.left_because:
        say(f"  left out because: {report.left_because}")
    for segment in report.segments:
        if segment.lost or segment.kept or not to_end:
            say(f"  {_line(segment, to_end=to_end)}")
        for lost in segment.lost:
            end = lost.offset + lost.length
            say(f"    bytes {lost.offset} to {end} are lost: {lost.chunk} is {lost.reason}")
        kept_as = "put back from" if report.done else "kept in"
        for kept in segment.kept:
            end = kept.offset + kept.length
            what = f"bytes {kept.offset} to {end} are {kept_as} tier 1"
            say(f"    {what}: {kept.chunk} is {kept.reason}")
    if to_end and not any(segment.lost for segment in report.segments):
        click.echo("  nothing is lost")


def _line(segment: SegmentRecovery, *, to_end: bool) -> str:
    text = f"segment {segment.name}: bytes {segment.start_offset} to {segment.length}"
    if segment.replayed:
        text += f", {segment.replayed} of them from the older log"
    if segment.missing:
        return f"{text}; lost: {counted(segment.missing, 'byte')} up to its seal"
    return text if segment.sealed or to_end else f"{text}; what was appended after it is unknown"
