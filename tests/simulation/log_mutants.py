"""Rules of the file log, and of what a store is made of, each left out."""

from __future__ import annotations

from tests.simulation.mutant import Mutant

LOG_MUTANTS = (
    Mutant(
        "a file log acknowledges without a sync",
        "tier1/file/writer.py",
        "        self._fdatasync(self._fd)\n",
        "",
    ),
    Mutant(
        "a file log does not look at the marker after its sync",
        "tier1/file/writer.py",
        "if count != MARKER_BYTES or self._marker_now != self._marker_data:",
        "if count != MARKER_BYTES:",
    ),
    Mutant(
        "a file log has files whose names are not durable",
        "tier1/file/folder.py",
        """            yield
            self.calls.fsync(fd)
""",
        "            yield\n",
    ),
    Mutant(
        "a claim leaves out the copy of the last frame",
        "tier1/file/claim.py",
        "return view, last_frame(folder, view)",
        "return view, None",
    ),
    Mutant(
        "files go that are in the middle of the log",
        "tier1/file/fenced_log.py",
        "ranges[kept].end_index <= before_index:",
        "ranges[kept].header.first_index < before_index:",
    ),
    Mutant(
        "containers stay open when another one cannot be opened",
        "store/opening.py",
        "            await slot.container.close()\n",
        "            pass\n",
    ),
    Mutant(
        "a listing takes one container after the other",
        "store/handles/merged_list.py",
        "heapq.heappop(waiting)",
        "waiting.pop()",
    ),
)
