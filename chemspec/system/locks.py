"""Locks on files that one process may write at a time; the system releases them however their process ends."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

FOLDER_LOCK = ".lock"  # the file that is locked for a whole folder


class LockedError(ValueError):
    """A file that another process, or another thread of this one, writes."""


@contextmanager
def lock_file(path: Path, name: Path | None = None) -> Iterator[IO[bytes]]:
    """Open a file for appending and lock it until the end of the block; it is created if it is missing.

    The file itself is locked, so its other names and links are, too. On a disk without locks it is opened all the same.
    LockedError, with `name` or else the path in its message, if it is locked already; OSError if it cannot be written.
    """
    file = _open_locked(path, name or path)
    try:
        yield file
    finally:
        try:
            file.flush()
            _unlock(file.fileno())  # closing would not do it while a forked process has the file open
        finally:
            file.close()


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder that exists, by a file in it; raises LockedError and OSError as `lock_file`."""
    with lock_file(folder / FOLDER_LOCK, folder):
        yield


def _open_locked(path: Path, name: Path) -> IO[bytes]:
    while True:
        file = path.open("ab")
        try:
            _lock(file.fileno())
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass  # removed or renamed before it was locked, as a file may be that is not the same: open it again
        except (BlockingIOError, PermissionError) as error:
            file.close()
            raise LockedError(f"another process writes to {name}; wait for its end or choose another name") from error
        except BaseException:
            file.close()
            raise
        file.close()


if sys.platform == "win32":
    import msvcrt

    LOCKED_BYTE = 2**40  # no output is as long, and a byte that is locked cannot be read

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)  # what is written goes to the end all the same
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):  # as on network disks
                raise

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
