"""One process at a time writes a file: the system's locks, by every name of a file, until their process ends."""

from __future__ import annotations

import errno
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from chemspec.system import locks
from chemspec.system.locks import LockedError, lock_file, lock_folder

HOLD = """
import sys
from pathlib import Path
from chemspec.system.locks import lock_file
with lock_file(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("end", ["kill", "terminate", "close"])
def test_a_lock_lasts_as_long_as_its_process(end: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdout.readline() == b"locked\n"
        with pytest.raises(LockedError, match=r"another process writes to .*a\.csv; wait"), lock_file(path):
            pass
        process.stdin.close() if end == "close" else getattr(process, end)()  # type: ignore[union-attr]
    with lock_file(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


def test_a_lock_holds_for_other_names_and_threads_of_the_process(tmp_path: Path) -> None:
    path, link, hard = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"
    path.write_text("1\n")
    link.symlink_to(path)
    os.link(path, hard)
    with lock_file(path) as file:
        file.write(b"2\n")
        for other in (path, link, hard, tmp_path / ".." / tmp_path.name / "a.csv"):
            with pytest.raises(LockedError, match=other.name), lock_file(other):
                pass
    with lock_file(link) as file:
        assert file.tell() == 4, "what is there stays"


def test_a_lock_ends_with_its_block_though_a_forked_process_has_the_file_open(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with lock_file(tmp_path / "a"):
        if not (child := os.fork()):
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        os.close(reading)
    with lock_file(tmp_path / "a"):
        os.close(writing)
    os.waitpid(child, 0)


def test_a_file_that_is_replaced_while_it_is_opened_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ways = tmp_path / "a", iter([lambda: path.unlink(), lambda: (path.unlink(), path.write_text("new"))])
    lock = locks._lock

    def lock_late(descriptor: int) -> None:
        next(ways, lambda: None)()
        lock(descriptor)

    monkeypatch.setattr(locks, "_lock", lock_late)
    with lock_file(path) as file:
        file.write(b"er")
    assert path.read_text() == "newer"


def test_folders_and_what_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lock_folder(tmp_path), pytest.raises(LockedError, match=f"writes to {tmp_path};"), lock_folder(tmp_path):
        pass
    with pytest.raises(FileNotFoundError), lock_folder(tmp_path / "missing"):
        pass
    for code, locked in ((errno.ENOLCK, True), (errno.ENOTSUP, True), (errno.EIO, False)):
        monkeypatch.setattr(locks, "fcntl", FakeFcntl(code))
        if locked:  # a disk without locks
            with lock_file(tmp_path / "b") as file:
                file.write(b"x")
        else:
            with pytest.raises(OSError, match="fails"), lock_file(tmp_path / "b"):
                pass
    assert (tmp_path / "b").read_bytes() == b"xx"


class FakeFcntl:
    LOCK_EX, LOCK_NB, LOCK_UN = 1, 2, 4

    def __init__(self, code: int) -> None:
        self.code = code

    def flock(self, descriptor: int, how: int) -> None:
        if how != self.LOCK_UN:
            raise OSError(self.code, "fails")


def test_on_windows_a_byte_behind_the_end_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[tuple[int, int], int] = {}  # by file and position

    def locking(descriptor: int, mode: int, size: int) -> None:
        place = (os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR))
        assert size == 1
        if mode == 0:
            assert held.pop(place) == descriptor
        elif held.setdefault(place, descriptor) != descriptor:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2, LK_UNLCK=0))  # type: ignore[misc]
    monkeypatch.setattr(sys, "platform", "win32")
    module = runpy.run_path(locks.__file__)
    path = tmp_path / "a.csv"
    path.write_text("1\n")
    with module["lock_file"](path) as file:
        assert [place == 2**40 for _, place in held] == [True]
        with pytest.raises(module["LockedError"]), module["lock_file"](path):
            pass
        file.seek(0, os.SEEK_END)
        assert file.tell() == 2
        file.write(b"2\n")
    assert not held and path.read_text() == "1\n2\n"
