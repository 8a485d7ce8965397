"""The settings file of a store that a URL names."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import click
import yaml

from siltstone.cli.option_text import options_of
from siltstone.cli.output import say
from siltstone.core.errors import StoreNotFoundError
from siltstone.core.hooks import BINDINGS_GROUP, plugin_settings
from siltstone.store.settings.file import FILE_NAME
from siltstone.store.settings.store_url import StoreUrl, parse_store_url

_BORROWED: Final = "siltstone.borrowed"


def home_settings(text: str) -> Path:
    """Return the settings file in the home of a URL.

    Raises:
        StoreNotFoundError: there is none on this machine.
        SettingsError: this is no URL of a store.
        click.UsageError: the URL has settings, which the file has already.
    """
    url = parse_store_url(text)
    found = url.home / FILE_NAME
    if not found.is_file():
        raise StoreNotFoundError(
            "this machine has no settings and no tier-1 log of this store; siltstone init makes "
            "one there, --store names the settings file of one that is elsewhere, and verbs that "
            "read show what long-term storage alone holds",
            url=url.place,
            missing=found,
        )
    if url.more:
        raise click.UsageError(f"this store has settings; change {', '.join(url.more)} in {found}")
    return found


def borrowed_settings(text: str, *, quiet: bool) -> Path | None:
    """Return settings with which long-term storage alone can be read, until the verb ends.

    ``None`` where the URL has a home on this machine. Says so once, unless ``quiet``. Raises like
    ``home_settings``.
    """
    url = parse_store_url(text)
    if (url.home / FILE_NAME).is_file():
        return None
    context = click.get_current_context()
    if _BORROWED not in context.meta:
        folder = context.with_resource(tempfile.TemporaryDirectory(prefix="siltstone-"))
        file = Path(folder) / FILE_NAME
        file.write_text(_text(url), encoding="utf-8")
        context.meta[_BORROWED] = file
        if not quiet:
            say(
                f"siltstone: {url.place}: this machine has no tier-1 log of this store; shown is "
                "what long-term storage alone holds",
                err=True,
            )
    found: Path = context.meta[_BORROWED]
    return found


def _text(url: StoreUrl) -> str:
    options = options_of(url.option_texts, plugin_settings(BINDINGS_GROUP, url.binding), "--store")
    settings = {
        "long_term_storage": {"binding": url.binding, url.binding: options},
        "tier1": {"log": "file", "file": {"path": "./tier1"}},
    }
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=1_000_000)
