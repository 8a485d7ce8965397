"""What the page on mounts says of the client and its options, one claim each."""

from __future__ import annotations

import pytest

from services.kernel_nfs import KernelNfs
from tests.contract.nfs_mount import MOUNTS

SUITE = "tests/contract/nfs_mount.py"
TIER_1 = """
import sys
import siltstone
from siltstone.core.errors import SiltstoneError
try:
    siltstone.init(sys.argv[1], binding="nfs", options={"path": sys.argv[1] + "-chunks"})
    siltstone.open(sys.argv[1]).close()
except SiltstoneError as error:
    print("refused", error)
else:
    sys.exit("a log on a network file system was taken")
"""


def test_a_chunk_that_is_open_when_it_is_deleted(kernel_nfs: KernelNfs) -> None:
    mount = kernel_nfs.mount("open-files", "vers=4.2,hard")
    kernel_nfs.run(kernel_nfs.python("-m", "tests.faults.nfs.open_files", str(mount / "open")))
    kernel_nfs.unmount(mount)


def test_tier_1_on_a_mount_is_refused(kernel_nfs: KernelNfs) -> None:
    mount = kernel_nfs.mount("tier-1", "vers=4.2,hard")
    told = kernel_nfs.run(kernel_nfs.python("-c", TIER_1, str(mount / "store")))
    assert told.startswith("refused"), told
    kernel_nfs.unmount(mount)


def test_without_close_to_open_other_clients_are_not_seen(kernel_nfs: KernelNfs) -> None:
    """With the option ``nocto`` an open asks nobody, so nothing in the binding can help."""
    check = "test_read_sees_what_another_client_appended"
    options = "vers=4.2,hard,nosharecache"
    mounts = [
        kernel_nfs.mount("nocto-1", f"{options},nocto"),
        kernel_nfs.mount("nocto-2", f"{options},nocto"),
        kernel_nfs.mount("nocto-outside", f"{options},actimeo=0,lookupcache=none"),
    ]
    variable = f"{MOUNTS}={':'.join(map(str, mounts))}"
    suite = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", SUITE, "-k"]
    command = [
        "env",
        variable,
        *kernel_nfs.python(*suite, f"{check} or list_shows_a_chunk_at_once"),
    ]
    with pytest.raises(AssertionError, match=r"FAILED .*list_shows_a_chunk_at_once"):
        kernel_nfs.run(command)
    for mount in mounts:
        kernel_nfs.unmount(mount)
