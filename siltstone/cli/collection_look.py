"""What ``health`` and ``doctor`` find in the collections of a store."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from siltstone.cli.session import Session
from siltstone.core.errors import SiltstoneError

if TYPE_CHECKING:
    from siltstone.collections.state.state_warnings import CollectionWarning
    from siltstone.container.models.segments import Finding


def collection_warnings(session: Session) -> list[CollectionWarning] | str | None:
    """Return what is to be looked at; or why that is not known; ``None`` without collections.

    A store without collections costs one request, and no listing.
    """
    try:
        if not _has_any(session):
            return None
        with session.open_collections(reads=True) as collections:
            return list(collections.warnings())
    except (SiltstoneError, OSError) as error:
        return str(error)
    except click.ClickException as error:
        return error.message


def collection_damage(session: Session) -> list[Finding]:
    """Return what collections name and long-term storage lacks: a listing, and no reads of rows.

    Raises:
        SiltstoneError, OSError: it could not be looked at.
    """
    with session.open_collections(reads=True) as collections:
        return [one for one in collections.check() if one.severity == "damage"]


def _has_any(session: Session) -> bool:
    """Whether a collection was ever made: then the store says which consensus they use."""
    from siltstone.collections.consensus.object_names import CHOICE_NAME
    from siltstone.core.storage.optional_verbs import is_there
    from siltstone.store.store_assembly import storage_of

    with closing(storage_of(session.for_reading()[0])) as storage:
        return is_there(storage, CHOICE_NAME)
