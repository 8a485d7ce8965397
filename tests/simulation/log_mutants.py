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
        "a file log does not look at the marker behind its sync",
        "tier1/file/writer.py",
        "if count != MARKER_BYTES or self._marker_now != self._marker_data:",
        "if count != MARKER_BYTES:",
    ),
    Mutant(
        "a file log has files whose names are not durable",
        "tier1/file/folder.py",
        """            self.calls.fsync(fd)
            self.sync()
""",
        "            self.calls.fsync(fd)\n",
    ),
    Mutant(
        "the header of a log file is not durable ahead of its frames",
        "tier1/file/writer.py",
        "    folder.calls.fdatasync(file.fd)\n",
        "",
    ),
    Mutant(
        "a claim leaves out the copy of the last frame",
        "tier1/file/claim.py",
        "copy = last_frame(folder, view)",
        "copy = None",
    ),
    Mutant(
        "a claim does not sync its marker",
        "tier1/file/marker.py",
        """[encode_marker_slot(slot)], offset)
        self._calls.fdatasync(self.fd)
""",
        "[encode_marker_slot(slot)], offset)\n",
    ),
    Mutant(
        "a log that failed goes on",
        "tier1/file/fenced_log.py",
        """        except OSError as error:
            self._state = HandleState.POISONED
            raise log_error("append\"""",
        """        except OSError as error:
            raise log_error("append\"""",
    ),
    Mutant(
        "a reader shows a frame that is not durable",
        "tier1/file/reader.py",
        "is_sure = self._is_durable(view)",
        "is_sure = True",
    ),
    Mutant(
        "a reader does not look at the marker",
        "tier1/file/reader.py",
        "if not is_sure or marker_epoch(self._folder) > view.epoch:",
        "if not is_sure:",
    ),
    Mutant(
        "files go that are in the middle of the log",
        "tier1/file/fenced_log.py",
        "ranges[kept].end_index <= before_index:",
        "ranges[kept].header.first_index < before_index:",
    ),
    Mutant(
        "containers stay open when another one can not be opened",
        "store/assemble.py",
        "            await slot.container.close()\n",
        "            pass\n",
    ),
    Mutant(
        "a listing takes one container after the other",
        "store/merged_listing.py",
        "heapq.heappop(waiting)",
        "waiting.pop()",
    ),
)
