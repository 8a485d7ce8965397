"""What the page on mounts says of the client and its options, one claim each."""

from __future__ import annotations

import json

import pytest

from services.kernel_nfs import KernelNfs
from tests.faults.nfs.requests import CHUNKS
from tests.support.services.nfs_mount import MOUNTS

SUITE = "tests/support/services/nfs_mount.py"
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


OPENED = {"OPEN_NOATTR": 1, "CLOSE": 1}
REQUESTS = {
    "create": {"OPEN": 1, "WRITE": 1, "CLOSE": 1},
    "write": OPENED | {"WRITE": 1},
    "stat": OPENED,
    "read_into": OPENED,  # The bytes are in the memory of the client that wrote them.
    "seal": OPENED | {"SETATTR": 1},
    "delete": {"REMOVE": 2},  # The second one is for the folder, if it is empty.
    "list": {"OPEN_NOATTR": CHUNKS, "CLOSE": CHUNKS, "READDIR": 2},
}
"""What each verb has to ask. It also looks at the way: folders, rights and attributes."""
ON_THE_WAY = {"ACCESS", "GETATTR", "LOOKUP", "SETATTR"}
ON_THE_WAY_MAX = 4


def test_what_each_verb_asks(kernel_nfs: KernelNfs) -> None:
    mount = kernel_nfs.mount("requests", "vers=4.2,hard,nosharecache")
    script = kernel_nfs.python("-m", "tests.faults.nfs.requests", str(mount))
    found: dict[str, dict[str, int]] = json.loads(kernel_nfs.run(script))
    assert list(found) == list(REQUESTS)
    for verb, wanted in REQUESTS.items():
        asked = found[verb]
        assert {name: asked.get(name) for name in wanted} == wanted, verb
        others = {name: count for name, count in asked.items() if name not in wanted}
        assert set(others) <= ON_THE_WAY, verb
        assert sum(others.values()) <= ON_THE_WAY_MAX, verb
    kernel_nfs.unmount(mount)


@pytest.mark.soak
def test_without_close_to_open_other_clients_are_not_seen(kernel_nfs: KernelNfs) -> None:
    """With the option ``nocto`` an open does not ask the server, so the binding cannot help."""
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
