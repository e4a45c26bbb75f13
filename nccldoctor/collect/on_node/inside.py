"""Opens files as a process of the job sees them, and only those that it may open itself.

A process may live in a container, and its variables may name any path. Root could read everything by such a path: the links on the way
are followed inside the root of the process, and the rights of its user count at each step.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import deque

from nccldoctor.collect.on_node.proc_files import proc_text

READ, WRITE, SEARCH = 4, 2, 1
"""Bits of a mode."""


class NotItsOwn(PermissionError):
    """The user of the process itself may not open it."""


def open_inside(pid: int, path: str, flags: int) -> int:
    """A descriptor for an absolute path of a process; its last part must be no link.

    Raises :class:`OSError` where it does not exist, or the user of the process may not open it.
    """
    user, groups = _rights_of(pid)
    open_folders = [os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY)]
    parts, links = deque(part for part in path.split("/") if part not in ("", ".")), 0
    try:
        while True:
            part = parts.popleft() if parts else "."
            here = open_folders[-1]
            if part == "..":
                os.close(open_folders.pop()) if len(open_folders) > 1 else None
            elif not parts:
                return _open_below(part, flags, here, user, groups)
            elif (link := _link_at(part, here)) is None:
                open_folders.append(_open_below(part, os.O_PATH | os.O_DIRECTORY, here, user, groups))
            else:
                links += 1
                if links > 40:  # as the kernel has it
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                while link.startswith("/") and len(open_folders) > 1:
                    os.close(open_folders.pop())
                parts.extendleft(part for part in reversed(link.split("/")) if part not in ("", "."))
    finally:
        for descriptor in open_folders:
            os.close(descriptor)


def _open_below(part: str, flags: int, folder: int, user: int, groups: set[int]) -> int:
    """A file, pipe or folder in an open folder.

    It is looked at before it is opened: opening a device may start it.

    Raises :class:`OSError` for anything else, and where the user may not open it.
    """
    place = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    try:
        found = os.fstat(place)
        if stat.S_IFMT(found.st_mode) not in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFDIR):
            raise OSError(errno.ELOOP, "it is a link or a device")
        wanted = SEARCH if flags & os.O_PATH else WRITE if flags & os.O_WRONLY else READ
        shift = 6 if found.st_uid == user else 3 if found.st_gid in groups else 0
        is_checked_by_kernel = user in (0, os.geteuid())  # with access lists, too
        if not is_checked_by_kernel and not found.st_mode >> shift & wanted:
            raise NotItsOwn(errno.EACCES, os.strerror(errno.EACCES))
        return os.open(f"/proc/self/fd/{place}", flags)
    finally:
        os.close(place)


def _link_at(part: str, folder: int) -> str | None:
    try:
        return os.readlink(part, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:  # it is no link
            return None
        raise


def _rights_of(pid: int) -> tuple[int, set[int]]:
    """The user and the groups by which the kernel lets a process open files."""
    status = proc_text(f"/proc/{pid}/status")
    numbers = {
        name: [int(n) for n in row.split()]
        for name, row in re.findall(r"^(Uid|Gid|Groups):(.*)$", status, re.MULTILINE)
    }
    if len(numbers.get("Uid", ())) != 4 or len(numbers.get("Gid", ())) != 4:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return numbers["Uid"][3], {numbers["Gid"][3], *numbers.get("Groups", ())}
