"""Read pickled torch checkpoints without executing code in them.

A pickle can name any function or class and have it called. Here a name is of one of three kinds. Names needed to build
tensors and plain containers map to chemspec's or torch's functions. Names of packages that write checkpoints of
reaction models map to an inert class, which stores its arguments and does nothing. Any other name makes the file an
error before a single call. The sizes, the number of operations and the keys of dictionaries are limited as well.
"""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import IO, Any

import torch
from torch import Tensor

from chemspec.importers.unread import FAIRSEQ, READ, unread_format_error
from chemspec.model.checkpoint import CheckpointError

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin")
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # first bytes of files of torch before 1.6
ZIP = b"PK\x03\x04"
MAX_LIST = 5_000_000  # bytes of a zip archive's directory, some 80 per tensor
MAX_BYTES = 100_000_000  # size of a pickle
MAX_OPERATIONS = 300_000  # some forty per tensor; this many take a third of a second
MAX_NAMES = 10_000  # classes and functions
MAX_LINE = 1_000_000  # bytes
MAX_KEY = 2**63  # larger integers can be chosen so that all have the same hash
# Operations that no checkpoint needs: extensions, outside buffers, memory reserved in advance, and those besides
# SETITEM(S) that take keys; PUT takes any number as one.
REFUSED_OPERATIONS = (
    *(pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER, pickle.BYTEARRAY8),
    *(pickle.DICT, pickle.FROZENSET, pickle.ADDITEMS, pickle.PUT),
)

# Packages whose classes are named in checkpoints of reaction models; none of them needs to be installed.
CHECKPOINT_PACKAGES = frozenset(
    (
        *(
            "argparse",
            "chemformer",
            "datetime",
            "deepspeed",
            "fairseq",
            "jsonargparse",
            "lightning",
            "lightning_fabric",
        ),
        *("lightning_lite", "lightning_utilities", "molbart", "numpy", "omegaconf", "onmt", "pathlib", "pysmilesutils"),
        *("pytorch_lightning", "torchmetrics", "torchtext", "typing"),
    )
)
TYPES = "object type set frozenset slice range complex bytearray bytes str list tuple dict int float bool"
# Names of other modules that only hold values.
HARMLESS = {
    "collections": {"Counter", "defaultdict", "deque", "namedtuple"},
    "functools": {"partial"},
    "re": {"_compile", "Pattern"},
    "copyreg": {"_reconstructor"},
    "builtins": set(TYPES.split()),
    "__builtin__": set(TYPES.split()),  # as written by Python 2
    "enum": {"Enum", "IntEnum"},
    "torch": {"Size", "device", "Generator"},
    "_codecs": {"encode"},
}


class Inert(dict[Any, Any]):
    """Placeholder for objects of other classes: stores items, arguments and state, and does nothing."""

    arguments: tuple[Any, ...]

    def __new__(cls, *arguments: Any, **_: Any) -> Inert:
        """Store the arguments."""
        placeholder = super().__new__(cls)
        placeholder.arguments = arguments
        return placeholder

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)

    def extend(self, items: Any) -> None:
        """Discard the items of a list-like object."""

    append = add = extend

    __hash__ = object.__hash__  # type: ignore[assignment]


def _parameter(data: Any, *_: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise pickle.UnpicklingError("a parameter is not a tensor")
    return data


def _check_storage(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap a function of torch to refuse tensors beyond their storage, which torch would enlarge."""

    def checked_build(storage: Any, offset: int, size: Sequence[int], stride: Sequence[int], *rest: Any) -> Tensor:
        last = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
        if all(size) and last >= storage._size():  # `size` emits a deprecation warning
            raise pickle.UnpicklingError("a tensor is larger than its storage")
        return build(storage, offset, size, stride, *rest)

    return checked_build


REBUILD: dict[str, Callable[..., Any]] = {
    "_rebuild_tensor": _check_storage(torch._utils._rebuild_tensor),  # type: ignore[attr-defined]
    "_rebuild_tensor_v2": _check_storage(torch._utils._rebuild_tensor_v2),  # type: ignore[attr-defined]
    "_rebuild_parameter": _parameter,
}
KINDS = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
STORAGES = frozenset(f"{kind}Storage" for kind in KINDS)
DTYPES = frozenset(name for name, kind in vars(torch).items() if isinstance(kind, torch.dtype))


class _Ordered(OrderedDict[Any, Any]):
    """OrderedDict with the constructor items of Python 2, whose keys are names."""

    def __init__(self, items: Any = ()) -> None:
        pairs = list(items) if isinstance(items, list | tuple) else None
        if pairs is None or not all(len(pair) == 2 and isinstance(_checked_key(pair[0]), str | int) for pair in pairs):
            raise pickle.UnpicklingError("an ordered dictionary has no names")
        super().__init__(pairs)


class RefusedError(pickle.UnpicklingError):
    """A name that is not on the allow-list."""


class TooLargeError(pickle.UnpicklingError):
    """A pickle larger or stranger than any checkpoint."""


class _BoundedFile:
    """A file with limits on the bytes that are read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._left = file, MAX_BYTES

    def read(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            raise TooLargeError(f"its pickle has more than {MAX_BYTES // 1_000_000} MB")
        return self._file.read(size)

    def readline(self) -> bytes:
        line = self._file.readline(MAX_LINE)
        self._left -= len(line)
        if len(line) == MAX_LINE:
            raise TooLargeError("it has a line longer than any name")
        return line


class _BoundedOperations(dict[int, Any]):
    """Functions of a pickle's operations by code, with a limit on how often one is looked up."""

    left = MAX_OPERATIONS

    def __getitem__(self, code: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise TooLargeError(f"it has more than {MAX_OPERATIONS:,} operations")
        if code not in self:
            raise TooLargeError(f"it holds the operation {chr(code)!r}, which no checkpoint needs")
        return super().__getitem__(code)


_PYTHON_UNPICKLER: Any = pickle._Unpickler  # the one in C cannot be limited


class Unpickler(_PYTHON_UNPICKLER):  # type: ignore[misc]
    """Unpickler restricted to the names that `find_class` allows, to some sizes, and to keys with a quick hash.

    A tuple is no such key: the hash of nested tuples is not cached, so its cost doubles with every level.
    """

    def __init__(self, file: IO[bytes], **options: Any) -> None:
        super().__init__(_BoundedFile(file), **options)
        self.dispatch = _BoundedOperations(OPERATIONS)
        self._names = 0

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][_checked_key(key)] = value

    def _set_items(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.stack[-1][_checked_key(key)] = value

    def find_class(self, module: str, name: str) -> Any:
        """Return the function or class for a name; raises RefusedError if it is not on the allow-list."""
        self._names += 1
        if self._names > MAX_NAMES:
            raise TooLargeError(f"it names more than {MAX_NAMES:,} classes")
        root = module.partition(".")[0]
        if (module, name) == ("collections", "OrderedDict"):
            return type("OrderedDict", (_Ordered,), {"__module__": "inert"})
        if module == "torch._utils" and name in REBUILD:
            return lambda *arguments: REBUILD[name](*arguments)  # a new function, since a pickle may modify it
        if module in ("torch", "torch.cuda") and name in STORAGES:
            return torch.serialization.StorageType(name)  # type: ignore[no-untyped-call]
        if module == "torch" and name in DTYPES:
            return getattr(torch, name)
        trainers = module.startswith(("torch.optim.", "torch.nn."))
        if root in CHECKPOINT_PACKAGES or trainers or name in HARMLESS.get(module, ()):
            return type(name.rpartition(".")[2] or "unnamed", (Inert,), {"__module__": "inert"})
        raise RefusedError(f"it names {module}.{name}, which no checkpoint needs")


OPERATIONS = {code: run for code, run in _PYTHON_UNPICKLER.dispatch.items() if bytes([code]) not in REFUSED_OPERATIONS}
OPERATIONS |= {pickle.SETITEM[0]: Unpickler._set_item, pickle.SETITEMS[0]: Unpickler._set_items}


def _checked_key(key: Any) -> Any:
    if isinstance(key, tuple) or (isinstance(key, int) and not -MAX_KEY <= key < MAX_KEY):
        raise TooLargeError("it has a tuple or a huge number as a key, which no checkpoint needs")
    return key


# Replaces the module `pickle` in `torch.load`.
SAFE_PICKLE: Any = SimpleNamespace(
    Unpickler=Unpickler, load=lambda file, **options: Unpickler(file, **options).load(), __name__="inert"
)


class _Outline(Unpickler):
    """Unpickler that leaves the data of tensors in the file."""

    def __init__(self, file: Any, size: int, **options: Any) -> None:
        super().__init__(file, **options)
        self._left = size  # remaining bytes that tensors can have
        self._keys: set[str] = set()

    def persistent_load(self, saved: Any) -> Any:
        if saved[0] != "storage":
            return Inert()
        _, kind, key, location, count, *_ = saved
        if not isinstance(key, str) or not isinstance(location, str) or not isinstance(count, int) or count < 0:
            raise pickle.UnpicklingError("a tensor has no name, or no length")
        if key not in self._keys:
            self._keys.add(key)
            self._left -= count * getattr(getattr(kind, "dtype", None), "itemsize", 1)
        if self._left < 0:
            raise pickle.UnpicklingError("its tensors are longer than the file")
        return Inert()

    def find_class(self, module: str, name: str) -> Any:
        allowed = super().find_class(module, name)
        return Inert if isinstance(allowed, (FunctionType, torch.dtype)) else allowed


def find_checkpoint(path: Path) -> Path | None:
    """Return the pickled checkpoint at a path: the file, or the only one in a folder; None if there is none."""
    if path.is_file():
        return path if _read_magic(path)[:4] == ZIP or _read_magic(path) == LEGACY else None
    if not path.is_dir() or (path / "config.json").exists():
        return None
    checkpoints = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and find_checkpoint(file))
    return checkpoints[0] if len(checkpoints) == 1 else None


def _read_magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(LEGACY))
    except OSError:
        return b""


def read_outline(path: Path) -> dict[Any, Any]:
    """Return a checkpoint without the tensors' data; raises CheckpointError if it is damaged, unsafe or too large."""
    try:
        stat = path.stat()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    return _read_outline(path, stat.st_mtime_ns, stat.st_size)


class _Archive(io.FileIO):
    """A file that refuses to read an oversized zip directory."""

    def read(self, size: int | None = -1) -> bytes:  # type: ignore[override]
        if size is not None and size > MAX_LIST:
            raise TooLargeError("it lists more parts than a checkpoint has")
        return super().read(-1 if size is None else size) or b""


def _read_zip_pickle(path: Path) -> bytes:
    with _Archive(path) as raw, zipfile.ZipFile(raw) as archive:
        names = archive.namelist()
        if any(name.endswith("constants.pkl") for name in names):
            raise CheckpointError(f"{path} is a TorchScript program, which is not run here")
        pickles = [part for part in archive.infolist() if part.filename.rpartition("/")[2] == "data.pkl"]
        if len(pickles) != 1:
            raise CheckpointError(f"{path} is a zip archive without the data.pkl of a checkpoint")
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            raise TooLargeError("its parts are compressed, unlike those that torch writes")
        if max(pickles[0].file_size, pickles[0].compress_size) > MAX_BYTES:
            raise TooLargeError(f"its pickle has more than {MAX_BYTES // 1_000_000} MB")
    with zipfile.ZipFile(path) as archive:
        return archive.read(pickles[0])


@lru_cache(maxsize=4)
def _read_outline(path: Path, _time: int, size: int) -> dict[Any, Any]:
    try:
        if _read_magic(path)[:4] == ZIP:
            values = _Outline(io.BytesIO(_read_zip_pickle(path)), size, encoding="utf-8").load()
        else:
            if tarfile.is_tarfile(path):
                raise CheckpointError(f"{path} is a tar archive, which is not supported")
            with path.open("rb") as file:
                for _ in range(3):  # magic number, version, byte order
                    _Outline(file, size, encoding="utf-8").load()
                values = _Outline(file, size, encoding="utf-8").load()
                keys = _Outline(file, size, encoding="utf-8").load()
                if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
                    raise ValueError("its tensors have no names")
    except (RefusedError, TooLargeError) as error:
        raise CheckpointError(f"{path} is refused, and nothing in it was run: {error}") from error
    except CheckpointError:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise CheckpointError(f"{path} cannot be read, it is damaged or cut off: {_first_line(error)}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} holds a {type(values).__name__}, not the parts of a checkpoint")
    return values


def read_checkpoint(path: Path) -> dict[Any, Any]:
    """Read a checkpoint, its tensors memory-mapped; raises CheckpointError for a damaged or unsafe file."""
    read_outline(path)  # raises for an unsafe file
    zipped = _read_magic(path)[:4] == ZIP
    try:
        values: dict[Any, Any] = torch.load(
            path, map_location="cpu", pickle_module=SAFE_PICKLE, weights_only=False, mmap=zipped
        )
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read, it is damaged or cut off: {_first_line(error)}") from error
    return values


def matches(path: Path, test: Callable[[dict[Any, Any]], bool]) -> bool:
    """Return whether a path is a checkpoint whose outline passes a test; never raises."""
    try:
        file = find_checkpoint(path)
        return file is not None and test(read_outline(file))
    except Exception:  # reported when it is loaded
        return False


def find_vocabulary(file: Path, requested: Path | None, names: Sequence[str], what: str) -> Path:
    """Return the vocabulary file: `requested`, or one in the checkpoint's folder; else raise CheckpointError."""
    candidates = (file.parent / name for name in names)
    vocab = requested or next((candidate for candidate in candidates if candidate.is_file()), None)
    if vocab is None or not vocab.is_file():
        reason = f"{vocab} is missing" if vocab else f"none of {', '.join(names)} is in its folder"
        raise CheckpointError(f"{file} does not hold its vocabulary, and {reason}; give --vocab FILE: {what}")
    return vocab


def explain_unrecognised(path: Path) -> None:
    """Raise CheckpointError for an unrecognised file, or folder of pickles without another model, saying why."""
    checkpoints = sorted(file.name for file in path.iterdir() if file.suffix in SUFFIXES) if path.is_dir() else []
    if not path.is_file() and (not checkpoints or (path / "config.json").exists()):
        return
    file = find_checkpoint(path)
    if file is None and len(checkpoints) > 1:
        raise CheckpointError(f"{path} holds several checkpoints, {', '.join(checkpoints[:5])}; name one of them")
    if file is None:
        path = path / checkpoints[0] if checkpoints else path
        if _read_magic(path).lstrip().startswith(b"{"):
            raise CheckpointError(f"{path} is JSON, not a model; name the folder that holds it")
        raise CheckpointError(f"{path} is neither a model folder nor a torch checkpoint")
    if "extra_state" in read_outline(file) and {"args", "cfg"} & set(read_outline(file)):
        raise unread_format_error(file, *FAIRSEQ)
    parts = ", ".join([name[:80] for name in read_outline(file) if isinstance(name, str)][:8])
    raise CheckpointError(f"{file} is not of a known format; its parts are {parts or 'none'}. {READ}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def named_values(value: Any) -> dict[str, Any]:
    """Return the named values of a dictionary or of a placeholder object."""
    named = dict(value) if isinstance(value, dict) else {}
    return {**named, **getattr(value, "__dict__", {})}
