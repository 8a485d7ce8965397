"""The verb ``volume`` with its own verbs: volumes of a client's folder, made, seen and synced."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.confirm import ask
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.moving_options import SizeOption
from siltstone.cli.output import print_json, print_table, printable, progress_bar, say
from siltstone.cli.session import Session, json_option, pass_session
from siltstone.core.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from siltstone.volumes import Volume, VolumeClient, VolumeInfo

client_option = click.option(
    "--client",
    "folder",
    envvar="SILTSTONE_CLIENT",
    default=".",
    show_default="this folder",
    metavar="FOLDER",
    help="Folder of the client, or $SILTSTONE_CLIENT.",
)
place_option = click.option(
    "--place",
    metavar="PLACE",
    help="What the volumes are synced with: a folder, or a settings file with long_term_storage. "
    "A new client needs it, and remembers it.",
)
sync_option = click.option(
    "--sync",
    "direction",
    type=click.Choice(["disabled", "push", "pull", "both"]),
    help="Which way sync moves commits; by default as volumes.yaml says.",
)


@contextmanager
def opened(folder: str, place: str | None = None) -> Iterator[VolumeClient]:
    """The client of a folder."""
    try:
        from siltstone import volumes
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    with volumes.open(folder, place=place) as client:
        yield client


@contextmanager
def opened_volume(folder: str, name: str) -> Iterator[Volume]:
    """A volume of a client that is there."""
    with opened(folder) as client:
        yield client.volume(name)


@click.group(cls=ListedVerbs)
def volume() -> None:
    """Pages that are committed in a folder, and synced with any bucket or share."""


@volume.command("create")
@click.argument("name")
@client_option
@place_option
@sync_option
@json_option
@pass_session
def create_volume(
    session: Session,
    name: str,
    folder: str,
    place: str | None,
    direction: str | None,
    *,
    as_json: bool,
) -> None:
    """Make the empty volume NAME, and print the id of its log."""
    with opened(folder, place) as client:
        _tell_log(client.create(name, sync=direction), as_json=as_json)


@volume.command("clone")
@click.argument("name")
@click.argument("log")
@client_option
@place_option
@sync_option
@json_option
@pass_session
def clone_volume(
    session: Session,
    name: str,
    log: str,
    folder: str,
    place: str | None,
    direction: str | None,
    *,
    as_json: bool,
) -> None:
    """Make the volume NAME, which follows the log LOG of the place; no page is fetched."""
    with opened(folder, place) as client:
        _tell_log(client.clone(name, log, sync=direction), as_json=as_json)


@volume.command("ls")
@client_option
@json_option
@pass_session
def list_volumes(session: Session, folder: str, *, as_json: bool) -> None:
    """List the volumes of the client, and how they stand."""
    with opened(folder) as client:
        found = [client.volume(name).info() for name in client.names()]
    if as_json:
        for info in found:
            print_json(_fields(info))
        return
    rows = [(info.name, info.line, info.sync.value, _state(info), info.log) for info in found]
    print_table(("NAME", "COMMITS", "SYNC", "STATE", "LOG"), rows)


@volume.command("status")
@click.argument("name")
@client_option
@json_option
@pass_session
def status(session: Session, name: str, folder: str, *, as_json: bool) -> None:
    """Show how NAME stands, without asking the place.

    12 +2 r7 +3 is local commit 12, the last two not pushed, commit 7 of the place, three after it
    known and not pulled; _ means none.
    """
    with opened_volume(folder, name) as found:
        info = found.info()
    if as_json:
        print_json(_fields(info))
    else:
        say(info.line if _state(info) == "ok" else f"{info.line} {_state(info)}")


@volume.command("push")
@click.argument("name")
@client_option
@json_option
@pass_session
def push(session: Session, name: str, folder: str, *, as_json: bool) -> None:
    """Publish the commits of NAME that the place has not, as one."""
    with opened_volume(folder, name) as found:
        _tell_done(found, "pushed", done=found.push(), as_json=as_json)


@volume.command("pull")
@click.argument("name")
@client_option
@json_option
@pass_session
def pull(session: Session, name: str, folder: str, *, as_json: bool) -> None:
    """Take over the commits of the place; pages are fetched when they are read."""
    with opened_volume(folder, name) as found:
        _tell_done(found, "pulled", done=found.pull(), as_json=as_json)


@volume.command("fetch")
@click.argument("name")
@client_option
@json_option
@pass_session
def fetch(session: Session, name: str, folder: str, *, as_json: bool) -> None:
    """Learn which commits the place has, and print how many are not pulled."""
    with opened_volume(folder, name) as found:
        count = found.fetch()
    if as_json:
        print_json({"volume": name, "to_pull": count})
    else:
        say(str(count))


@volume.command("recover")
@click.argument("name")
@client_option
@json_option
@pass_session
def recover(session: Session, name: str, folder: str, *, as_json: bool) -> None:
    """End a push of NAME that was interrupted, as push, pull, sync and reset do first."""
    with opened_volume(folder, name) as found:
        _tell_done(found, "recovered", done=found.recover(), as_json=as_json)


@volume.command("sync")
@client_option
@json_option
@pass_session
def sync(session: Session, folder: str, *, as_json: bool) -> None:
    """Push or pull each volume, whichever is due in its direction; exits with 1 if one failed."""
    with opened(folder) as client:
        done = client.sync()
    for each in done:
        told = f"failed: {each.error}" if each.action is None else each.action.value
        if as_json:
            error = None if each.error is None else str(each.error)
            action = None if each.action is None else each.action.value
            print_json({"volume": each.name, "action": action, "error": error})
        else:
            say(f"{printable(each.name)}: {printable(told)}")
    if any(each.error is not None for each in done):
        raise click.exceptions.Exit(1)


@volume.command("direction")
@click.argument("name")
@click.argument("direction", type=click.Choice(["disabled", "push", "pull", "both"]))
@client_option
@json_option
@pass_session
def set_direction(
    session: Session, name: str, direction: str, folder: str, *, as_json: bool
) -> None:
    """Change which way sync moves the commits of NAME."""
    with opened_volume(folder, name) as found:
        found.set_sync(direction)
    if as_json:
        print_json({"volume": name, "sync": direction})


@volume.command("hydrate")
@click.argument("name")
@client_option
@json_option
@pass_session
def hydrate(session: Session, name: str, folder: str, *, as_json: bool) -> None:
    """Fetch every page of NAME that is only in the place."""
    with (
        opened_volume(folder, name) as found,
        progress_bar("fetching", None, shown=not (session.quiet or as_json)) as advance,
    ):
        slabs = found.hydrate(progress=advance)
    if as_json:
        print_json({"volume": name, "slabs": slabs})
    else:
        session.note(f"fetched {counted(slabs, 'slab')}")


@volume.command("evict")
@click.argument("name")
@click.option("--keep", type=SizeOption(), help="So much of them stays here; else nothing.")
@client_option
@json_option
@pass_session
def evict(session: Session, name: str, keep: int | None, folder: str, *, as_json: bool) -> None:
    """Let go of pages of NAME that the place has; they are fetched again when they are read."""
    with opened_volume(folder, name) as found:
        pages = found.evict(keep or 0)
    if as_json:
        print_json({"volume": name, "pages": pages})
    else:
        session.note(f"let go of {counted(pages, 'page')}")


@volume.command("reset")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_option
@json_option
@pass_session
def reset(session: Session, name: str, folder: str, *, yes: bool, as_json: bool) -> None:
    """Give up the commits of NAME that the place has not. Asks first, if there are some."""
    with opened_volume(folder, name) as found:
        lost = found.info().unpushed
        if lost and not yes:
            ask(
                f"give up {counted(lost, 'commit')} of {printable(name)} for ever?",
                refused="nothing was given up",
            )
        found.reset()
        _tell_done(found, "reset", done=True, as_json=as_json)


@volume.command("drop")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_option
@json_option
@pass_session
def drop(session: Session, name: str, folder: str, *, yes: bool, as_json: bool) -> None:
    """Remove NAME from this client; the place keeps what was pushed. Asks first."""
    with opened(folder) as client:
        lost = client.volume(name).info().unpushed
        if not yes:
            ask(
                f"drop {printable(name)}, with {counted(lost, 'commit')} that no place has?",
                refused="nothing was dropped",
            )
        client.drop(name)
    if as_json:
        print_json({"dropped": name, "unpushed": lost})


@volume.command("sql")
@click.argument("name")
@click.argument("statements", nargs=-1)
@client_option
@json_option
@pass_session
def sql(
    session: Session, name: str, statements: tuple[str, ...], folder: str, *, as_json: bool
) -> None:
    """Run STATEMENTS of SQLite on the database in NAME; without any, apsw's shell reads them.

    What a statement gives is written as the shell does, with --json as a line of JSON a row.
    """
    try:
        import apsw.shell

        from siltstone.volumes import sqlite
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    with opened_volume(folder, name) as found:
        connection = sqlite.connect(found)
        try:
            shell: Any = apsw.shell.Shell(db=connection)  # whose verbs have no types
            if as_json:
                shell.process_command(".mode jsonl")
            if not statements:
                shell.cmdloop()
            for statement in statements:
                shell.process_complete_line(statement)
        finally:
            connection.close()


def _tell_log(made: Volume, *, as_json: bool) -> None:
    if as_json:
        print_json({"volume": made.name, "log": made.log})
    else:
        say(made.log)


def _tell_done(found: Volume, what: str, *, done: bool, as_json: bool) -> None:
    info = found.info()
    if as_json:
        print_json({"volume": info.name, what: done, "line": info.line})
    else:
        say(info.line)


def _fields(info: VolumeInfo) -> dict[str, object]:
    return asdict(info) | {"sync": info.sync.value, "status": _state(info), "line": info.line}


def _state(info: VolumeInfo) -> str:
    if info.is_pending:
        return "a push was interrupted"
    return info.status.name.lower().replace("_", " ")
