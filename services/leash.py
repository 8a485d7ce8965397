"""Becomes the program that it is given, and makes sure that this ends with the parent.

Run as a script: PARENT FOLDER COMMAND... A watcher next to the program waits for both processes,
each by a handle that cannot refer to another one. When the parent ends, however it ends, the
watcher kills the program and removes the folder. It ends itself when the folder is gone.
"""

from __future__ import annotations

import os
import select
import signal
import sys


def main(parent: int, folder: str, command: list[str]) -> None:
    """Start the watcher, then become the command."""
    owner = os.pidfd_open(parent)
    if os.getppid() != parent:
        sys.exit("the parent has ended already")
    program = os.pidfd_open(os.getpid())
    child = os.fork()
    if child == 0:
        # The watcher is the child of neither the program nor its parent, so neither notices it.
        if os.fork() == 0:
            _watch(owner, program, folder)
        os._exit(0)
    os.waitpid(child, 0)
    # Python ignores it, and the program would continue to do so.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(command[0], command)


def _watch(owner: int, program: int, folder: str) -> None:
    os.setsid()
    poll = select.poll()
    for handle in (owner, program):
        poll.register(handle, select.POLLIN)
    ended = {handle for handle, _ in poll.poll()}
    if program in ended:
        # It may be started again in its folder, which must be removed in the end.
        poll.unregister(program)
        while not poll.poll(1000):
            if not os.path.isdir(folder):
                return
    else:
        signal.pidfd_send_signal(program, signal.SIGKILL)
        poll.unregister(owner)
        poll.poll()
    import shutil  # only used by a watcher at its very end

    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
