"""Registries of drafters, decoders and model formats, built-in and from other packages.

A registry is filled on first use, so that settings can check names without importing drafters and decoders: by the
module that registers the built-in specs (set in `chemspec/__init__.py`), then by the entry points of installed packages
(groups `chemspec.drafters`, `chemspec.decoders` and `chemspec.importers`).
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pkgutil import resolve_name
from threading import RLock
from types import ModuleType
from typing import Any, Literal, Protocol, TypeVar

Guarantee = Literal["exact", "exact in distribution", "relaxed"]  # guarantee of a decoder, for any drafts


class Named(Protocol):
    """A spec with a name."""

    @property
    def name(self) -> str:
        """Name in options and menus."""


S = TypeVar("S", bound=Named)
BUILT_IN: dict[str, str] = {}  # kind of a registry -> module that registers its built-in specs on import


class Registry(Mapping[str, S]):
    """Specs by name, in the order of menus."""

    def __init__(self, kind: str) -> None:
        """Start an empty registry; the kind is the singular of its group of entry points, `chemspec.<kind>s`."""
        self.kind = kind
        self.make_spec: Callable[[str, Any], S] | None = None  # turns functions into specs; None: specs only
        self._specs: dict[str, S] = {}
        self._loaded: dict[tuple[str, str], str] = {}  # names of specs by the module and the name there
        self._filled = False
        self._filling = RLock()

    def register(self, spec: S) -> None:
        """Add a spec, whose name can then be used in settings, commands, menus and benchmarks.

        One of the same name is replaced, with a warning. Raises TypeError for a spec of another registry.
        """
        self._import_built_in()
        if self._specs and not isinstance(spec, kind := type(next(iter(self._specs.values())))):
            raise TypeError(f"a {self.kind} is registered as a {kind.__name__}, not a {type(spec).__name__}")
        if self._specs.setdefault(spec.name, spec) is not spec:
            warnings.warn(f"the {self.kind} {spec.name!r} is replaced", RuntimeWarning, stacklevel=2)
            self._specs[spec.name] = spec

    def load(self, path: str) -> str:
        """Register the spec or plain function that "module:NAME" or "file.py:NAME" names; returns its name.

        Other names are returned as they are. Loading runs the module, so never pass a name that came over a network.
        Raises ValueError if there is no such module or name, or it is no spec.
        """
        source, _, name = path.rpartition(":")
        if not source or (path in self and not source.endswith(".py")):
            return path
        try:
            module = _import_source(source)
            if (loaded := self._loaded.get((module.__name__, name))) in self._specs:
                return loaded
            if not hasattr(module, name):
                names = ", ".join(each for each in vars(module) if not each.startswith("_"))
                raise ValueError(f"{source} has no {name!r}; it defines {names}")
            spec = self._as_spec(path, getattr(module, name))
        except Exception as error:  # any module may raise anything
            hint = f"; for a file write {source}.py:{name}" if isinstance(error, ModuleNotFoundError) else ""
            raise ValueError(f"the {self.kind} {path!r} cannot be loaded: {_describe(error)}{hint}") from error
        if self._specs.get(spec.name) is not spec:
            self.register(spec)
        self._loaded[module.__name__, name] = spec.name
        return spec.name

    def _as_spec(self, name: str, value: Any) -> S:
        """Return a spec, the one of a decorated function, or one with this name for a plain function."""
        self._import_built_in()
        kind, spec = type(next(iter(self._specs.values()))), getattr(value, "spec", value)
        if type(spec) is kind:
            return spec
        if self.make_spec is None:
            raise TypeError(f"it is no {kind.__name__} but a {type(spec).__name__}")
        return self.make_spec(name, spec)

    def lookup(self, name: str) -> S:
        """Return the spec with a name; ValueError if there is none."""
        if name not in self._specs:
            self._import_built_in()
        if name not in self._specs:  # plug-ins are loaded only if needed
            self._load_plugins()
        if name not in self._specs:
            hint = f"; of a file give {name}:NAME" if str(name).endswith(".py") else ""
            raise ValueError(f"no {self.kind} {name!r}; there are {', '.join(self)}{hint}")
        return self._specs[name]

    def __getitem__(self, name: str) -> S:
        self._load_plugins()
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(self._specs)

    def __len__(self) -> int:
        self._load_plugins()
        return len(self._specs)

    def _load_plugins(self) -> None:
        with self._filling:
            if self._filled:
                return
            from importlib.metadata import entry_points  # slow to import

            self._import_built_in()
            for entry in entry_points(group=f"chemspec.{self.kind}s"):
                try:
                    self.register(self._as_spec(entry.name, entry.load()))
                except Exception as error:  # a faulty plug-in must not break chemspec
                    what = f"the {self.kind} {entry.name!r} of {entry.value} cannot be used: {_describe(error)}"
                    warnings.warn(what, RuntimeWarning, stacklevel=3)
            self._filled = True

    def _import_built_in(self) -> None:
        if self.kind in BUILT_IN:
            import_module(BUILT_IN[self.kind])


def _describe(error: Exception) -> str:
    """Return an error of loading a plug-in as part of a sentence."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no file {error.filename}"
    readable = isinstance(error, ValueError | TypeError | ImportError)
    return str(error) if readable else f"its code raises {type(error).__name__}: {error}".rstrip(": ")


def _import_source(source: str) -> ModuleType:
    """Import a module by name, or run a file, again only after it has changed."""
    if not source.endswith(".py"):
        return import_module(source)
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    file = Path(source).resolve()
    name = f"chemspec plug-in {file} {file.stat().st_mtime_ns}"  # hides no other module
    if name not in sys.modules:
        spec = spec_from_file_location(name, source)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = module_from_spec(spec)  # dataclasses look their module up
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def lazy_import(path: str) -> Callable[..., Any]:
    """Return a function that imports and calls another one ("package.module:name")."""
    return lambda *given, **options: resolve_name(path)(*given, **options)


DRAFTERS: Registry[Any] = Registry("drafter")
DECODERS: Registry[Any] = Registry("decoder")
