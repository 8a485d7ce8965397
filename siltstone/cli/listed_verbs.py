"""The list of verbs in a help."""

from __future__ import annotations

import click


class ListedVerbs(click.Group):
    """Verbs whose help is a whole sentence each; click itself cuts it at the end of the line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.summary(ctx, name)) for name in self.list_commands(ctx)]
            )

    def summary(self, ctx: click.Context, name: str) -> str:
        """The first sentence of the help of a verb."""
        verb = self.get_command(ctx, name)
        return "" if verb is None else verb.get_short_help_str(limit=1_000)
