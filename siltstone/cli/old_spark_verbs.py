"""Verbs that take ``--on spark`` now, under their old names below ``spark``: for this version."""

from __future__ import annotations

from typing import Any, Final

import click

from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.moving_options import executor_option
from siltstone.cli.output import say
from siltstone.cli.session import Session, pass_session

OLD_NAMES: Final[dict[str, str]] = {
    "backup": "backup create",
    "copy": "copy",
    "import": "import",
    "migrate-legacy": "migrate legacy",
    "restore": "backup restore",
    "verify-backup": "backup verify",
    "verify-migration": "migrate verify",
}
"""What each is called now."""


class SparkVerbs(ListedVerbs):
    """The verbs of ``spark``. Old names work, and are in no list of them."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb, or the one that no longer has this name."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in OLD_NAMES:
            return _old_verb(ctx, cmd_name)
        return found


def _old_verb(context: click.Context, name: str) -> click.Command:
    """The verb of now, on Spark unless ``--executor`` says otherwise; it tells its new name."""
    verb = context.find_root().command
    for word in OLD_NAMES[name].split():
        assert isinstance(verb, click.Group), "what has verbs is a group"
        found = verb.get_command(context, word)
        assert found is not None, "a new name is that of a verb"
        verb = found
    run = verb.callback
    assert run is not None, "a verb does something"
    new = f"siltstone {OLD_NAMES[name]}"
    if name == "copy":
        new += " SOURCE TARGET"  # The old one copies from the store of the command.

    @executor_option
    @pass_session
    def old(session: Session, /, on: str, **given: Any) -> None:
        told = f"'siltstone spark {name}' is the old name of '{new} --on {on}'"
        say(f"siltstone: {told}, and goes with the next version", err=True)
        if name == "copy":
            given["source"] = session.store_path()
        run(on=on, **given)

    about = f"The old name of '{new} --on spark', which goes with the next version."
    command = click.command(name, help=about)(old)
    command.params += [one for one in verb.params if one.name not in ("on", "source")]
    return command
