"""Check the size of a pickle before unpickling it: bytes, operations, names, and the keys of dictionaries."""

import pickle
import pickletools
from typing import IO, Any

MOST_BYTES = 100_000_000  # size of a pickle
MOST_OPERATIONS = 300_000  # some forty per tensor; checking this many takes a second
MOST_NAMES = 10_000  # classes and functions
LONGEST_LINE = 1_000_000  # bytes
LARGEST_KEY = 2**63  # larger integers can be chosen so that all have the same hash
POPPED = {  # number of values that an operation takes from the stack
    **dict.fromkeys(("APPEND", "BUILD", "BINPERSID", "TUPLE1", "POP"), 1),
    **dict.fromkeys(("REDUCE", "NEWOBJ", "STACK_GLOBAL", "SETITEM", "TUPLE2"), 2),
    **dict.fromkeys(("NEWOBJ_EX", "TUPLE3"), 3),
}
TO_MARK = frozenset(
    ("APPENDS", "LIST", "DICT", "TUPLE", "SETITEMS", "ADDITEMS", "FROZENSET", "INST", "OBJ", "POP_MARK")
)
PUSH_NOTHING = frozenset(
    ("APPEND", "APPENDS", "BUILD", "SETITEM", "SETITEMS", "ADDITEMS", "POP", "POP_MARK", "PROTO", "FRAME", "STOP")
)
NO_KEYS = frozenset(("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE", "FROZENSET"))
# Distance between keys on the stack.
TAKE_KEYS = {"DICT": 2, "SETITEMS": 2, "SETITEM": 2, "ADDITEMS": 1, "FROZENSET": 1}
NAMES = frozenset(("GLOBAL", "STACK_GLOBAL", "INST"))
UNKNOWN = frozenset(("EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER"))


class TooLargeError(pickle.UnpicklingError):
    """A pickle larger or stranger than any checkpoint."""


class _Bounded:
    """A file with limits on the size of reads."""

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
    """A pickle's stack and memo, where each value is reduced to whether it may be a dictionary key.

    Tuples may not: the hash of nested tuples is not cached, so its cost doubles with every level.
    """

    def __init__(self) -> None:
        self.stack: list[bool] = []
        self.marks: list[int] = []
        self.memo: dict[int, bool] = {}
        self.names = 0

    def simulate(self, name: str, value: Any) -> None:
        """Simulate one operation; raises TooLargeError for slow keys or many names, LookupError if it is invalid."""
        if name == "MARK":
            self.marks.append(len(self.stack))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            number = len(self.memo) if value is None else value
            if number > MOST_OPERATIONS:
                raise TooLargeError("it has more memo entries than a checkpoint needs")
            self.memo[number] = self.stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[value])
        elif name == "DUP":
            self.stack.append(self.stack[-1])
        elif name in UNKNOWN:
            raise TooLargeError(f"it holds {name}, which no checkpoint needs")
        else:
            self._simulate_stack(name, value)

    def _simulate_stack(self, name: str, value: Any) -> None:
        if name == "POP" and self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
            return
        begin = self.marks.pop() if name in TO_MARK else len(self.stack) - POPPED.get(name, 0)
        if begin < 0:
            raise LookupError("it pops from an empty stack")
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


def check_bounds(file: IO[bytes]) -> None:
    """Check the pickle at a file's position, which is restored.

    Raises TooLargeError if unpickling may take long or much memory, ValueError or LookupError if it is damaged.
    """
    begin, machine = file.tell(), _Machine()
    for count, (operation, value, _) in enumerate(pickletools.genops(_Bounded(file))):  # type: ignore[arg-type]
        if count > MOST_OPERATIONS:
            raise TooLargeError(f"it has more than {MOST_OPERATIONS:,} operations")
        machine.simulate(operation.name, value)
    file.seek(begin)
