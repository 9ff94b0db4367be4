"""Read checkpoints that torch pickled, without running what is in them.

A pickle names functions and classes and has them called. Here every name is one of three: needed to build tensors and
plain containers, and then it is ours or torch's own; of a package that writes checkpoints of reaction models, and then
an empty class takes its place, which keeps what it is given and does nothing; or anything else, and then the file is
refused before a single name of it is called. Sizes are bounded before anything is built, see `pickle_bounds`.
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
from types import SimpleNamespace
from typing import Any, NoReturn

import torch
from torch import Tensor

from chemspec.importers import pickle_bounds
from chemspec.model.checkpoint import CheckpointError

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin")
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # how torch before 1.6 begins a file
ZIP = b"PK\x03\x04"
LONGEST_LIST = 5_000_000  # bytes of the names and places of an archive's parts, some 80 a tensor

# Packages whose classes are named by checkpoints of reaction models; none of them need be installed.
WRITERS = frozenset(
    {
        "argparse",
        "chemformer",
        "datetime",
        "deepspeed",
        "jsonargparse",
        "lightning",
        "lightning_fabric",
        "lightning_lite",
        "lightning_utilities",
        "molbart",
        "numpy",
        "omegaconf",
        "onmt",
        "pathlib",
        "pysmilesutils",
        "pytorch_lightning",
        "torchmetrics",
        "torchtext",
        "typing",
    }
)
TYPES = "object type set frozenset slice range complex bytearray bytes str list tuple dict int float bool"
# Of other modules, what does nothing but hold values.
HARMLESS = {
    "collections": {"Counter", "defaultdict", "deque", "namedtuple"},
    "functools": {"partial"},
    "re": {"_compile", "Pattern"},
    "copyreg": {"_reconstructor"},
    "builtins": set(TYPES.split()),
    "__builtin__": set(TYPES.split()),  # as Python 2 wrote it
    "enum": {"Enum", "IntEnum"},
    "torch": {"Size", "device", "Generator"},
    "_codecs": {"encode"},
}


class Inert(dict[Any, Any]):
    """Stands in for an object of a class that is not wanted: keeps items, arguments and state, and does nothing."""

    arguments: tuple[Any, ...]

    def __new__(cls, *arguments: Any, **_: Any) -> Inert:
        """Keep the arguments."""
        made = super().__new__(cls)
        made.arguments = arguments
        return made

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)

    def extend(self, items: Any) -> None:
        """Forget items of what was a list."""

    append = add = extend

    __hash__ = object.__hash__  # type: ignore[assignment]


class _Rebuild:
    """One of torch's functions that build tensors; cannot be changed by what a pickle says."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __call__(self, *arguments: Any) -> Any:
        return REBUILD[self.name](*arguments)

    def __setattr__(self, *_: Any) -> NoReturn:
        raise pickle.UnpicklingError("it changes a function")

    def __setstate__(self, _: Any) -> NoReturn:
        raise pickle.UnpicklingError("it changes a function")


def _parameter(data: Any, *_: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise pickle.UnpicklingError("a parameter is no tensor")
    return data


def _within(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function of torch that refuses a tensor beyond its storage, for which torch would enlarge it."""

    def built(storage: Any, offset: int, size: Sequence[int], stride: Sequence[int], *rest: Any) -> Tensor:
        last = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
        if all(size) and last >= storage._size():  # `size` warns that its class is deprecated
            raise pickle.UnpicklingError("a tensor is larger than what is kept of it")
        return build(storage, offset, size, stride, *rest)

    return built


REBUILD: dict[str, Callable[..., Any]] = {
    "_rebuild_tensor": _within(torch._utils._rebuild_tensor),  # type: ignore[attr-defined]
    "_rebuild_tensor_v2": _within(torch._utils._rebuild_tensor_v2),  # type: ignore[attr-defined]
    "_rebuild_parameter": _parameter,
}
KINDS = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
STORAGES = frozenset(f"{kind}Storage" for kind in KINDS)
DTYPES = frozenset(name for name, kind in vars(torch).items() if isinstance(kind, torch.dtype))


class _Ordered(OrderedDict[Any, Any]):
    """With the items that Python 2 gave when it was made, checked as `pickle_bounds` checks others."""

    def __init__(self, items: Any = ()) -> None:
        pairs = list(items) if isinstance(items, list | tuple) else None
        if pairs is None or not all(len(pair) == 2 and isinstance(pair[0], str | int) for pair in pairs):
            raise pickle.UnpicklingError("an ordered dictionary has no names")
        super().__init__(pairs)


class RefusedError(pickle.UnpicklingError):
    """A name that no checkpoint needs."""


class Unpickler(pickle.Unpickler):
    """Finds what `find_class` allows, and nothing else; builds nothing before `pickle_bounds` has seen it."""

    def __init__(self, file: Any, **options: Any) -> None:
        super().__init__(file, **options)
        self._file = file

    def load(self) -> Any:
        """Build what the pickle says.

        Raises:
            TooLargeError: if that may take long, or much memory.
            Exception: of any kind, if it is damaged.
        """
        pickle_bounds.check(self._file)
        return super().load()

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name of a pickle.

        Raises:
            RefusedError: for one that is not known to be needed.
        """
        root = module.partition(".")[0]
        if (module, name) == ("collections", "OrderedDict"):
            return type("OrderedDict", (_Ordered,), {"__module__": "inert"})
        if module == "torch._utils" and name in REBUILD:
            return _Rebuild(name)
        if module in ("torch", "torch.cuda") and name in STORAGES:
            return torch.serialization.StorageType(name)  # type: ignore[no-untyped-call]
        if module == "torch" and name in DTYPES:
            return getattr(torch, name)
        trainers = module.startswith(("torch.optim.", "torch.nn."))
        if root in WRITERS or trainers or name in HARMLESS.get(module, ()):
            return type(name.rpartition(".")[2] or "unnamed", (Inert,), {"__module__": "inert"})
        raise RefusedError(f"it names {module}.{name}, which no checkpoint needs")


def _load(file: Any, **options: Any) -> Any:
    return Unpickler(file, **options).load()


# What torch.load takes for the module pickle.
SAFE_PICKLE: Any = SimpleNamespace(Unpickler=Unpickler, load=_load, __name__="inert")


class _Outline(Unpickler):
    """As above, but the data of tensors are left in the file."""

    def __init__(self, file: Any, size: int, **options: Any) -> None:
        super().__init__(file, **options)
        self._left = size  # bytes that tensors can have
        self._keys: set[str] = set()

    def persistent_load(self, saved: Any) -> Any:
        if saved[0] != "storage":
            return Inert()
        _, kind, key, place, count, *_ = saved
        if not isinstance(key, str) or not isinstance(place, str) or not isinstance(count, int) or count < 0:
            raise pickle.UnpicklingError("a tensor has no name, or no length")
        if key not in self._keys:
            self._keys.add(key)
            self._left -= count * getattr(getattr(kind, "dtype", None), "itemsize", 1)
        if self._left < 0:
            raise pickle.UnpicklingError("its tensors are longer than the file")
        return Inert()

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return Inert if isinstance(found, (_Rebuild, torch.dtype)) else found


def checkpoint_at(path: Path) -> Path | None:
    """Return the pickled checkpoint that a path means: the file, or the only one in a folder; None if there is none."""
    if path.is_file():
        return path if _head(path)[:4] == ZIP or _head(path) == LEGACY else None
    if not path.is_dir() or (path / "config.json").exists():
        return None
    found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and checkpoint_at(file))
    return found[0] if len(found) == 1 else None


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(LEGACY))
    except OSError:
        return b""


def outline(path: Path) -> dict[Any, Any]:
    """Return what a checkpoint holds, without its tensors: quick, whatever its size.

    Raises:
        CheckpointError: for a file that is damaged, unsafe, too large or none.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    return _outline(path, stat.st_mtime_ns, stat.st_size)


class _Archive(io.FileIO):
    """A file whose list of parts is not read if it is long."""

    def read(self, size: int | None = -1) -> bytes:  # type: ignore[override]
        if size is not None and size > LONGEST_LIST:
            raise pickle_bounds.TooLargeError("it lists more parts than a checkpoint has")
        return super().read(-1 if size is None else size) or b""


def _zipped(path: Path) -> bytes:
    """Return the pickle of a zip archive."""
    with _Archive(path) as raw, zipfile.ZipFile(raw) as archive:
        names = archive.namelist()
        if any(name.endswith("constants.pkl") for name in names):
            raise CheckpointError(f"{path} is a TorchScript program, which is not run here")
        pickles = [part for part in archive.infolist() if part.filename.rpartition("/")[2] == "data.pkl"]
        if len(pickles) != 1:
            raise CheckpointError(f"{path} is a zip archive without the data.pkl of a checkpoint")
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            raise pickle_bounds.TooLargeError("its parts are compressed, which torch does not do")
        if max(pickles[0].file_size, pickles[0].compress_size) > pickle_bounds.MOST_BYTES:
            raise pickle_bounds.TooLargeError(f"its pickle has more than {pickle_bounds.MOST_BYTES // 1_000_000} MB")
    with zipfile.ZipFile(path) as archive:
        return archive.read(pickles[0])


@lru_cache(maxsize=4)
def _outline(path: Path, _time: int, size: int) -> dict[Any, Any]:
    try:
        if _head(path)[:4] == ZIP:
            values = _Outline(io.BytesIO(_zipped(path)), size, encoding="utf-8").load()
        else:
            if tarfile.is_tarfile(path):
                raise CheckpointError(f"{path} is an archive of a kind that is not opened")
            with path.open("rb") as file:
                for _ in range(3):  # magic number, version, byte order
                    _Outline(file, size, encoding="utf-8").load()
                values = _Outline(file, size, encoding="utf-8").load()
                keys = _Outline(file, size, encoding="utf-8").load()
                if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
                    raise ValueError("its tensors have no names")
    except (RefusedError, pickle_bounds.TooLargeError) as error:
        raise CheckpointError(f"{path} is refused, and nothing in it was run: {error}") from error
    except CheckpointError:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise CheckpointError(f"{path} cannot be read, it is damaged or cut off: {_first(error)}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} holds a {type(values).__name__}, not the parts of a checkpoint")
    return values


def read(path: Path) -> dict[Any, Any]:
    """Read a checkpoint, tensors included; those of a zip archive stay on the disk until they are used.

    Raises:
        CheckpointError: for a file that is damaged, unsafe or none.
    """
    outline(path)  # refuses
    zipped = _head(path)[:4] == ZIP
    try:
        values: dict[Any, Any] = torch.load(
            path, map_location="cpu", pickle_module=SAFE_PICKLE, weights_only=False, mmap=zipped
        )
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read, it is damaged or cut off: {_first(error)}") from error
    return values


def holds(path: Path, part: str, test: Callable[[Sequence[str]], bool]) -> bool:
    """Return whether a path is a checkpoint with a part whose names pass a test; never raises."""
    try:
        file = checkpoint_at(path)
        return file is not None and test([name for name in outline(file).get(part) or () if isinstance(name, str)])
    except Exception:  # said when it is loaded
        return False


def vocabulary(file: Path, given: Path | None, names: Sequence[str], what: str) -> Path:
    """Return the file of the vocabulary: the one given, or one beside the checkpoint.

    Raises:
        CheckpointError: if there is none.
    """
    beside = (file.parent / name for name in names)
    found = given or next((one for one in beside if one.is_file()), None)
    if found is None or not found.is_file():
        where = f"{found} is missing" if found else f"none of {', '.join(names)} lies beside it"
        raise CheckpointError(f"{file} does not hold its vocabulary, and {where}; give --vocab FILE: {what}")
    return found


def looks_like_one(path: Path) -> bool:
    """Return whether a path that no importer recognises is a file, or a folder of pickles and no other model."""
    if not path.is_dir():
        return path.is_file()
    return not (path / "config.json").exists() and any(file.suffix in SUFFIXES for file in path.iterdir())


def explain(path: Path) -> NoReturn:
    """Say why a file that no importer recognises is of no use.

    Raises:
        CheckpointError: always.
    """
    file = checkpoint_at(path)
    if file is None and path.is_dir():
        found = sorted(one.name for one in path.iterdir() if one.suffix in SUFFIXES)
        raise CheckpointError(f"{path} holds several checkpoints, {', '.join(found[:5])}; name one of them")
    if file is None:
        raise CheckpointError(f"{path} is neither a model folder nor a checkpoint that torch wrote")
    parts = ", ".join([name[:80] for name in outline(file) if isinstance(name, str)][:8])
    raise CheckpointError(f"{file} is of no known family; its parts are {parts or 'none'}")


def _first(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def entries(value: Any) -> dict[str, Any]:
    """Return the named values of a dictionary or of what stands in for an object."""
    named = dict(value) if isinstance(value, dict) else {}
    return {**named, **getattr(value, "__dict__", {})}
