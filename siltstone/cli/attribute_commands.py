"""Verbs for what users note about segments: their attributes, and their names."""

from __future__ import annotations

import click

from siltstone.cli.attribute_text import ATTRIBUTE, attributes_of
from siltstone.cli.output import print_json, say
from siltstone.cli.session import Session, json_option, pass_session, takeover_option


@click.command()
@click.argument("segment")
@click.argument("changes", nargs=-1, type=ATTRIBUTE, metavar="[KEY=VALUE]...")
@click.option("--rm", "removed", multiple=True, metavar="KEY", help="Remove this attribute.")
@click.option("--expect", type=ATTRIBUTE, multiple=True, help="Only if it has this value now.")
@click.option("--absent", multiple=True, metavar="KEY", help="Only if there is no such attribute.")
@takeover_option
@json_option
@pass_session
def attributes(
    session: Session,
    segment: str,
    changes: tuple[tuple[str, str], ...],
    removed: tuple[str, ...],
    expect: tuple[tuple[str, str], ...],
    absent: tuple[str, ...],
    *,
    takeover: bool,
    as_json: bool,
) -> None:
    """Show the attributes of SEGMENT, or change several of them, all or none."""
    wanted: dict[str, str | None] = {**attributes_of(changes)}
    expected: dict[str, str | None] = {**attributes_of(expect)}
    for key in removed:
        if key in wanted:
            raise click.UsageError(f"an attribute is set and removed: {key}")
        wanted[key] = None
    for key in absent:
        if key in expected:
            raise click.UsageError(f"an attribute cannot have a value and be absent: {key}")
        expected[key] = None
    if wanted:
        with session.open_owner(takeover=takeover) as store:
            target = store.segment(segment)
            target.set_attributes(wanted, expected=expected)
            info = target.info()
    else:
        if expected or takeover:
            raise click.UsageError("nothing to change: give KEY=VALUE or --rm KEY")
        with session.open_reader() as store:
            info = store.segment(segment).info()
    if as_json:
        print_json({"segment": segment, "attributes": dict(info.attributes)})
    else:
        for key, value in sorted(info.attributes.items()):
            say(f"{key}={value}")


@click.command()
@click.argument("segment")
@click.argument("new_name")
@takeover_option
@json_option
@pass_session
def rename(session: Session, segment: str, new_name: str, *, takeover: bool, as_json: bool) -> None:
    """Give SEGMENT the name NEW_NAME. Both must belong to one container."""
    with session.open_owner(takeover=takeover) as store:
        info = store.segment(segment).rename(new_name).info()
    if as_json:
        print_json(info)
