"""Binding and collections keep their contracts on NFS, between clients that do not see each other.

The mounts have the usual options, so names and attributes are cached.
"""

from __future__ import annotations

import re

import pytest

from services.kernel_nfs import KernelNfs
from tests.support.services.nfs_mount import MOUNTS

SUITE = "tests/support/services/nfs_mount.py"
BETWEEN_CLIENTS = (
    "TestNfsMount and (shows_at_once or another or won_once or at_once or beside or side_by_side"
    " or grew or seal or reopened or together or meanwhile or model or wholly_or_not_at_all)"
)
"""The checks of what several clients do and see; the others hardly depend on a network."""

OF_COLLECTIONS = "one_caller_begins or every_line_is_there or a_collection_lives"
"""Who wins, which a server decides, and a whole life."""


def test_what_clients_see_of_one_another(kernel_nfs: KernelNfs) -> None:
    assert passed(kernel_nfs, "between", "-k", BETWEEN_CLIENTS) >= 40


def test_collections_live_on_two_mounts(kernel_nfs: KernelNfs) -> None:
    assert passed(kernel_nfs, "collections", "-k", OF_COLLECTIONS) == 4


@pytest.mark.soak
@pytest.mark.parametrize("version", ["4.1", "4.2"])
def test_the_whole_contract(kernel_nfs: KernelNfs, version: str) -> None:
    assert passed(kernel_nfs, f"whole-{version}", "-k", "TestNfsMount", version=version) >= 400


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_whole_contract_of_consensus(kernel_nfs: KernelNfs) -> None:
    chosen = ("-k", "TestConsensusOnMounts")
    assert passed(kernel_nfs, "consensus", *chosen, patience_s=800.0) >= 50


def passed(
    nfs: KernelNfs, name: str, *chosen: str, version: str = "4.2", patience_s: float = 240.0
) -> int:
    """Run the suite in the guest; return how many checks passed, if none failed."""
    options = f"vers={version},hard,nosharecache"
    mounts = [
        nfs.mount(f"{name}-1", options),
        nfs.mount(f"{name}-2", options),
        nfs.mount(f"{name}-outside", f"{options},actimeo=0,lookupcache=none"),
    ]
    variable = f"{MOUNTS}={':'.join(map(str, mounts))}"
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", SUITE, *chosen]
    told = nfs.run(["env", variable, *nfs.python(*suite)], patience_s)
    for mount in mounts:
        nfs.unmount(mount)
    found = re.search(r"(\d+) passed", told)
    assert found is not None, told
    return int(found[1])
