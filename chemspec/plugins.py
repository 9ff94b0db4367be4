"""Registries of drafters, decoders, tasks and model formats, built-in and from other packages.

A registry is filled on first use: by the module that registers the built-in specs, then by the entry points of
installed packages (groups `chemspec.drafters`, `chemspec.decoders` and `chemspec.importers`). So settings can check
names without importing drafters and decoders. The modules of the built-in specs are set in `chemspec/__init__.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pkgutil import resolve_name
from threading import RLock
from typing import Any, Literal, Protocol, TypeVar

Guarantee = Literal["exact", "exact in distribution", "relaxed"]  # of a decoder, for any drafts


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
        """Start an empty registry.

        Args:
            kind: singular noun of the specs; the group of entry points is `chemspec.<kind>s`.
        """
        self.kind = kind
        self._specs: dict[str, S] = {}
        self._filled = False
        self._filling = RLock()

    def register(self, spec: S) -> None:
        """Add a spec, whose name can then be used in settings, commands, menus and benchmarks.

        Raises:
            ValueError: if the name is taken.
        """
        if self._specs.setdefault(spec.name, spec) is not spec:
            raise ValueError(f"there is a {self.kind} {spec.name!r} already; choose another name")

    def lookup(self, name: str) -> S:
        """Return the spec with a name.

        Raises:
            ValueError: if there is none; the message lists the available names.
        """
        if name not in self._specs:
            self._import_built_in()
        if name not in self._specs:  # plug-ins are loaded only if needed
            self._load_plugins()
        if name not in self._specs:
            raise ValueError(f"no {self.kind} {name!r}; there are {', '.join(self)}")
        return self._specs[name]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Load plug-ins again in this context and undo registrations at its end, for tests."""
        self._load_plugins()
        before = dict(self._specs)
        self._filled = False
        try:
            yield
        finally:
            self._specs, self._filled = before, True

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
        if self._filled:
            return
        with self._filling:
            if self._filled:
                return
            from importlib.metadata import entry_points  # slow to import

            self._import_built_in()
            kind = type(next(iter(self._specs.values())))
            for entry in entry_points(group=f"chemspec.{self.kind}s"):
                try:
                    spec = entry.load()
                    if type(spec) is not kind:
                        raise TypeError(f"it is no {kind.__name__}")
                    self.register(spec)
                except Exception as error:  # a faulty plug-in must not break chemspec
                    what = f"the {self.kind} {entry.name!r} of {entry.value} cannot be used: {error!r}"
                    warnings.warn(what, RuntimeWarning, stacklevel=3)
            self._filled = True

    def _import_built_in(self) -> None:
        if self.kind in BUILT_IN:
            import_module(BUILT_IN[self.kind])


def lazy_import(path: str) -> Callable[..., Any]:
    """Return a function that imports and calls another one ("package.module:name")."""
    return lambda *given: resolve_name(path)(*given)


DRAFTERS: Registry[Any] = Registry("drafter")
DECODERS: Registry[Any] = Registry("decoder")
