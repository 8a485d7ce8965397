"""What the names of system files tell of the epochs of a container, before any is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from siltstone.core.chunk_names import claim_file
from siltstone.journal.retention import file_epoch, journal_number


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEpochs:
    """What names alone tell of the epochs of a container.

    Attributes:
        files: names of the journal files of each epoch that has any, in order.
        highest: of all names; 0 without any.
        owners: epochs with a claim or a journal.
    """

    files: dict[int, list[str]]
    highest: int
    owners: int


def listed_epochs(container: int, listing: Iterable[str]) -> ListedEpochs:
    """Sort the names of ``journal_state.list_files``."""
    numbers: dict[int, dict[int, str]] = {}
    owners: set[int] = set()
    highest = 0
    for name in listing:
        epoch = file_epoch(name, container)
        assert epoch is not None, "the listing holds names of ours"
        highest = max(highest, epoch)
        number = journal_number(name)
        if number is not None:
            numbers.setdefault(epoch, {})[number] = name
        if number is not None or name == claim_file(container, epoch):
            owners.add(epoch)
    files = {epoch: [name for _, name in sorted(of.items())] for epoch, of in numbers.items()}
    return ListedEpochs(files=files, highest=highest, owners=len(owners))
