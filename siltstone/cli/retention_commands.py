"""The verbs of ``retention``: rules by which old bytes of segments go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.session import (
    Session,
    dry_run_option,
    json_option,
    pass_session,
    takeover_option,
)
from siltstone.core.text import counted
from siltstone.store.settings.units import format_size, format_time, parse_size, parse_time

if TYPE_CHECKING:
    from siltstone.container.models.segments import RetentionRule

F = TypeVar("F", bound=Callable[..., Any])

prefix_option: Final[Callable[[F], F]] = click.option(
    "--prefix", is_flag=True, help="NAME is the beginning of names, and may be empty."
)


class _Unit(click.ParamType[Any]):
    def __init__(self, name: str, parse: Callable[[object], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(cls=ListedVerbs)
def retention() -> None:
    """Rules by which the oldest bytes of segments are truncated in the background."""


@retention.command("set")
@click.argument("name")
@prefix_option
@click.option(
    "--bytes", "bytes_max", type=_Unit("size", parse_size), help="Keep this many bytes: 10GiB."
)
@click.option("--age", "age_max", type=_Unit("time", parse_time), help="Keep for this time: 7d.")
@click.option("--keep-all", is_flag=True, help="Keep everything, whatever a shorter prefix says.")
@json_option
@takeover_option
@pass_session
def set_rule(
    session: Session,
    name: str,
    bytes_max: int | None,
    age_max: float | None,
    *,
    prefix: bool,
    keep_all: bool,
    as_json: bool,
    takeover: bool,
) -> None:
    """Set how much of the segment NAME is kept. Its own rule counts, else the longest prefix."""
    if keep_all == (bytes_max is not None or age_max is not None):
        raise click.UsageError("give --bytes or --age or both, or else --keep-all")
    with session.open_owner(takeover=takeover) as store:
        store.set_retention(name, prefix=prefix, bytes_max=bytes_max, age_max=age_max)
        found = [rule for rule in store.retention() if (rule.name, rule.prefix) == (name, prefix)]
    for rule in found:
        _print(rule, as_json=as_json)


@retention.command()
@click.argument("segment", required=False)
@json_option
@pass_session
def show(session: Session, segment: str | None, *, as_json: bool) -> None:
    """Show all rules, or the one that is in force for SEGMENT."""
    with session.open_reader() as store:
        if segment is None:
            rules = list(store.retention())
        else:
            own = store.segment(segment).info().retention
            rules = [] if own is None else [own]
    if as_json:
        for rule in rules:
            print_json(rule)
        return
    print_table(
        ("SCOPE", "NAME", "BYTES", "AGE"),
        (
            (
                "prefix" if rule.prefix else "segment",
                rule.name,
                "-" if rule.bytes_max is None else format_size(rule.bytes_max),
                "-" if rule.age_max_s is None else format_time(rule.age_max_s),
            )
            for rule in rules
        ),
    )


@retention.command()
@click.argument("name")
@prefix_option
@dry_run_option
@json_option
@takeover_option
@pass_session
def remove(
    session: Session, name: str, *, prefix: bool, dry_run: bool, as_json: bool, takeover: bool
) -> None:
    """Remove a rule. What it cut is gone; from now on nothing more goes by it."""
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        if dry_run:
            found = [one for one in store.retention() if (one.name, one.prefix) == (name, prefix)]
            removed = bool(found)
        else:
            removed = store.remove_retention(name, prefix=prefix)
    if as_json:
        print_json({"would_remove" if dry_run else "removed": removed})
    elif dry_run:
        for rule in found:
            say(f"would remove: keeps {rule_text(rule)}")
    if not removed:
        session.note("there is no such rule")
        raise click.exceptions.Exit(ExitCode.NOT_FOUND)


@retention.command()
@dry_run_option
@json_option
@takeover_option
@pass_session
def run(session: Session, *, dry_run: bool, as_json: bool, takeover: bool) -> None:
    """Truncate now what the rules say, without waiting for the background."""
    total = 0
    with session.open_changing(takeover=takeover, dry_run=dry_run) as store:
        for cut in store.retain(dry_run=dry_run):
            size = cut.cut_offset - cut.start_offset
            total += size
            if as_json:
                print_json(cut)
            else:
                say(f"{cut.segment}: {counted(size, 'byte')}, from {cut.start_offset} on")
    session.note(f"{counted(total, 'byte')} {'would go' if dry_run else 'went'}")


def rule_text(rule: RetentionRule) -> str:
    """A rule in words."""
    kept = []
    if rule.bytes_max is not None:
        size = format_size(rule.bytes_max)
        kept.append(counted(rule.bytes_max, "byte") if size.isdigit() else size)
    if rule.age_max_s is not None:
        kept.append(format_time(rule.age_max_s))
    of = f"prefix {rule.name!r}" if rule.prefix else f"segment {rule.name!r}"
    return f"{' and '.join(kept) if kept else 'everything'} by the rule of {of}"


def _print(rule: RetentionRule, *, as_json: bool) -> None:
    if as_json:
        print_json(rule)
    else:
        say(f"keeps {rule_text(rule)}")
