"""Know drafters, decoders and model formats by name: the built-in ones, and those of other packages.

A registry is filled at the first look into it: by the module that lists the built-in specs, then by the entry points of
installed packages (groups `chemspec.drafters`, `chemspec.decoders` and `chemspec.importers`). So settings, which lie
below drafters and decoders, can check a name without importing any of them here. Which modules list the built-in specs
is said at the top, in `chemspec/__init__.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pkgutil import resolve_name
from threading import RLock
from typing import Any, Literal, Protocol, TypeVar

Guarantee = Literal["exact", "exact in distribution", "relaxed"]  # of a decoder, whatever is drafted for it


class Named(Protocol):
    """A spec: a value that goes by a name."""

    @property
    def name(self) -> str:
        """What options and menus call it."""


S = TypeVar("S", bound=Named)
BUILT_IN: dict[str, str] = {}  # by what is registered, the module that registers the built-in specs when it is imported


class Registry(Mapping[str, S]):
    """Specs by name, in the order in which menus show them."""

    def __init__(self, kind: str) -> None:
        """Start an empty registry.

        Args:
            kind: what is registered, in the singular; the entry points' group is `chemspec.<kind>s`.
        """
        self.kind = kind
        self._specs: dict[str, S] = {}
        self._filled = False
        self._filling = RLock()

    def register(self, spec: S) -> None:
        """Add a spec; from then on, settings, commands, menus and benchmarks know its name.

        Raises:
            ValueError: if the name is taken.
        """
        if self._specs.setdefault(spec.name, spec) is not spec:
            raise ValueError(f"there is a {self.kind} {spec.name!r} already; choose another name")

    def lookup(self, name: str) -> S:
        """Return the spec of a name.

        Raises:
            ValueError: if there is none, naming those that there are.
        """
        if name not in self._specs:
            self._import_built_in()
        if name not in self._specs:  # plug-ins are looked for only where they are needed
            self._load_plugins()
        if name not in self._specs:
            raise ValueError(f"no {self.kind} {name!r}; there are {', '.join(self)}")
        return self._specs[name]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Look for plug-ins anew inside, and undo at the end what was registered: for tests."""
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
            from importlib.metadata import entry_points  # sixty modules that `import chemspec` does without

            self._import_built_in()
            kind = type(next(iter(self._specs.values())))
            for entry in entry_points(group=f"chemspec.{self.kind}s"):
                try:
                    spec = entry.load()
                    if type(spec) is not kind:
                        raise TypeError(f"it is no {kind.__name__}")
                    self.register(spec)
                except Exception as error:  # whatever somebody else's package does wrong
                    what = f"the {self.kind} {entry.name!r} of {entry.value} cannot be used: {error!r}"
                    warnings.warn(what, RuntimeWarning, stacklevel=3)
            self._filled = True

    def _import_built_in(self) -> None:
        if self.kind in BUILT_IN:
            import_module(BUILT_IN[self.kind])


def lazy_import(path: str) -> Callable[..., Any]:
    """Return a function that imports another ("package.module:name") when it is first called, and calls it."""
    return lambda *given: resolve_name(path)(*given)


DRAFTERS: Registry[Any] = Registry("drafter")
DECODERS: Registry[Any] = Registry("decoder")
