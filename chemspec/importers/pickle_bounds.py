"""Bound what a pickle builds before anything of it is built: bytes, operations, names, and the keys of dictionaries."""

from __future__ import annotations

import pickle
import pickletools
from typing import IO, Any

MOST_BYTES = 100_000_000  # of a pickle
MOST_OPERATIONS = 300_000  # some forty a tensor; a check of so many takes a second
MOST_NAMES = 10_000  # of classes and functions
LONGEST_LINE = 1_000_000  # bytes
LARGEST_KEY = 2**63  # whole numbers beyond it can be chosen so that all have one hash
POPPED = {
    "APPEND": 1,
    "BUILD": 1,
    "REDUCE": 2,
    "NEWOBJ": 2,
    "NEWOBJ_EX": 3,
    "STACK_GLOBAL": 2,
    "BINPERSID": 1,
    "SETITEM": 2,
    "TUPLE1": 1,
    "TUPLE2": 2,
    "TUPLE3": 3,
    "POP": 1,
}
TO_MARK = frozenset(
    ("APPENDS", "LIST", "DICT", "TUPLE", "SETITEMS", "ADDITEMS", "FROZENSET", "INST", "OBJ", "POP_MARK")
)
PUSH_NOTHING = frozenset(
    ("APPEND", "APPENDS", "BUILD", "SETITEM", "SETITEMS", "ADDITEMS", "POP", "POP_MARK", "PROTO", "FRAME", "STOP")
)
NO_KEYS = frozenset(("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE", "FROZENSET"))
TAKE_KEYS = {"DICT": 2, "SETITEMS": 2, "SETITEM": 2, "ADDITEMS": 1, "FROZENSET": 1}  # the step from key to key
NAMES = frozenset(("GLOBAL", "STACK_GLOBAL", "INST"))
UNKNOWN = frozenset(("EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"))


class TooLargeError(pickle.UnpicklingError):
    """A pickle that no checkpoint needs to be."""


class _Bounded:
    """A file of which nothing large is read at once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._begin = file, file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int) -> bytes:
        if self._file.tell() - self._begin + size > MOST_BYTES:
            raise TooLargeError(f"its pickle has more than {MOST_BYTES // 1_000_000} MB")
        return self._file.read(size)

    def readline(self) -> bytes:
        return self._file.readline(LONGEST_LINE)


class _Machine:
    """A pickle's stack and memo, in which a value is nothing but whether it can be the key of a dictionary.

    Tuples cannot: the hash of a tuple of tuples is computed anew for each of its parts, which doubles with every level.
    """

    def __init__(self) -> None:
        self.stack: list[bool] = []
        self.marks: list[int] = []
        self.memo: dict[int, bool] = {}
        self.names = 0

    def run(self, name: str, value: Any) -> None:
        """Do one operation.

        Raises:
            TooLargeError: if it makes a key that takes long, or is one of too many names.
            LookupError: if the pickle is none.
        """
        if name == "MARK":
            self.marks.append(len(self.stack))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            number = len(self.memo) if value is None else value
            if number > MOST_OPERATIONS:
                raise TooLargeError("it numbers more objects than a checkpoint has")
            self.memo[number] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[value])
        elif name == "DUP":
            self.stack.append(self.stack[-1])
        elif name in UNKNOWN:
            raise TooLargeError(f"it holds {name}, which no checkpoint needs")
        else:
            self._change(name, value)

    def _change(self, name: str, value: Any) -> None:
        if name == "POP" and self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
            return
        begin = self.marks.pop() if name in TO_MARK else len(self.stack) - POPPED.get(name, 0)
        if begin < 0:
            raise LookupError("it takes more than there is")
        if name in TAKE_KEYS and not all(self.stack[begin :: TAKE_KEYS[name]]):
            raise TooLargeError("it has a tuple or a huge number as a key, which no checkpoint needs")
        del self.stack[begin:]
        if name in NAMES:
            self.names += 1
            if self.names > MOST_NAMES:
                raise TooLargeError(f"it names more than {MOST_NAMES:,} classes")
        if name not in PUSH_NOTHING:
            number = isinstance(value, int) and not -LARGEST_KEY <= value < LARGEST_KEY
            self.stack.append(name not in NO_KEYS and not number)


def check(file: IO[bytes]) -> None:
    """Read the pickle at a file's position and go back there.

    Raises:
        TooLargeError: if building it may take long, or much memory.
        ValueError, LookupError: if it is damaged.
    """
    begin, machine = file.tell(), _Machine()
    for count, (operation, value, _) in enumerate(pickletools.genops(_Bounded(file))):  # type: ignore[arg-type]
        if count > MOST_OPERATIONS:
            raise TooLargeError(f"it has more than {MOST_OPERATIONS:,} operations")
        machine.run(operation.name, value)
    file.seek(begin)
