"""What all tests share: which run by default, hypothesis profiles, one thread for torch, a cache folder of their own.

`pytest` alone runs what protects the core, in minutes. Whole files that need something heavy (training, a browser,
transformers, hundreds of queries on the shipped models) form groups, which `-m` names or a path selects; one smoke test
of each group runs by default too (`test_smoke.py`). A test that needs more than `MAX_SECONDS` of processor time
without being marked fails.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import Config
from _pytest.mark.expression import Expression
from helpers.groups import DEFAULT, GROUPS, group_of
from helpers.paths import ROOT
from helpers.slowness import slowness

# Or every process that a test starts would compile every module anew, and each of pytest's workers every test.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

gc.set_threshold(50_000, 20, 50)  # at 700 a twentieth of all processor time goes into collections

os.environ["CHEMSPEC_WARM_UP"] = "0"  # no thread that outlives a test
os.environ["CHEMSPEC_NO_OPSIN"] = "1"  # where Java is there, a name that nobody knows would take seconds

MAX_SECONDS = float(os.environ.get("CHEMSPEC_TEST_SECONDS", "5"))
QUICK = 10  # examples of a property test, which that is for
FREE = ("smoke", "slow", "gpu", *GROUPS)  # marks that say why a test takes long

_spent: dict[str, float] = {}


def pytest_configure(config: Config) -> None:
    """Without a path and without `-m`, only the default tests run."""
    if not config.option.markexpr and config.args_source is not Config.ArgsSource.ARGS:
        config.option.markexpr = DEFAULT
    if not getattr(config.option, "numprocesses", None):  # the process that only hands tests out imports neither
        _set_up_libraries()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process more than there are cores: servers, browsers and their tests wait for each other."""
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 4) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Config, log: Any) -> Any:
    """With `--dist loadfile` files that share what takes long to start run in one process: Ray, and the browser."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class LoadGroups(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            group = group_of(ROOT / file)
            return group if group in ("ray", "browser") else file

    return LoadGroups(config, log)


def _set_up_libraries() -> None:
    """Choose the profile of hypothesis, and one thread for torch."""
    import torch
    from hypothesis import Phase, settings

    torch.set_num_threads(1)
    settings.register_profile("quick", max_examples=QUICK, deadline=None)
    settings.register_profile("seeded", settings.get_profile("quick"), phases=[Phase.explicit, Phase.generate])
    settings.register_profile("push", max_examples=50, deadline=None, derandomize=True)
    settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True)
    settings.register_profile("nightly", max_examples=5000, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_ignore_collect(collection_path: Path, config: Config) -> bool | None:
    """Do not import files of which no test can be wanted: their imports take longer than many tests."""
    group, wanted = group_of(collection_path), config.option.markexpr
    if not group or not wanted:
        return None
    expression = Expression.compile(wanted)
    sets = [{group, *further} for further in ((), ("slow",), ("nightly",))]
    return None if any(expression.evaluate(lambda name, marks=marks: name in marks) for marks in sets) else True


def pytest_collection_modifyitems(config: Config, items: list[pytest.Item]) -> None:
    """Give every test the mark of its group; with `-m`, those of slow files come first."""
    slow: Counter[Path] = Counter()
    for item in items:
        if group := group_of(item.path):
            item.add_marker(group)
        slow[item.path] += any(map(item.get_closest_marker, ("hypothesis", *FREE)))
    if config.option.markexpr not in ("", DEFAULT):  # a browser's tests are the slowest
        items.sort(key=lambda item: (group_of(item.path) != "browser", -slow[item.path]))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Installed packages do not change, and what was imported stays: let no garbage collection walk through it."""
    if "streamlit.testing.v1" in sys.modules:
        from streamlit.components.v2 import manifest_scanner

        # Every `AppTest` reads the metadata of every package again, which takes longer than most pages.
        manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
    gc.collect()
    gc.freeze()


def processor_seconds() -> float:
    """Seconds of this process and its finished children: what else the machine does changes nothing."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Measure a test, refuse one that takes long without saying why, and skip one whose extra is not installed."""
    from hypothesis import settings

    from chemspec.system.extras import MissingExtraError

    began = processor_seconds()
    try:
        yield
    except MissingExtraError as error:
        pytest.skip(str(error))
    _spent[item.nodeid] = spent = processor_seconds() - began
    marked = any(item.get_closest_marker(mark) for mark in FREE)
    limit = MAX_SECONDS * (settings.default.max_examples / QUICK if item.get_closest_marker("hypothesis") else 1)
    if not marked and spent > limit and spent > limit * slowness():
        pytest.fail(f"{spent:.1f} s of processor time; more than {limit:g} need a mark: {', '.join(FREE)}")


def pytest_sessionfinish() -> None:
    """Keep the durations where CHEMSPEC_TEST_TIMES names a folder."""
    if folder := os.environ.get("CHEMSPEC_TEST_TIMES"):
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        longest = dict(sorted(_spent.items(), key=lambda pair: -pair[1]))
        Path(folder, f"{worker}.json").write_text(json.dumps(longest, indent=1))


# What a developer has set for work must not reach the tests: another server, another home, keys.
for _name in ("SERVER", "API_KEY", "API_KEYS", "LOGIN", "MODELS", "PRECEDENTS"):
    os.environ.pop(f"CHEMSPEC_{_name}", None)


@pytest.fixture(autouse=True)
def _own_main() -> Iterator[None]:
    """A page under test makes itself the main module, which a process that a later test starts would run again."""
    main = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = main


@pytest.fixture(autouse=True)
def _restored_loggers() -> Iterator[None]:
    """A service that a test starts sets loggers up for good; the next test must not get its lines twice."""
    loggers = [logging.getLogger(name) for name in ("chemspec.service", "uvicorn", "uvicorn.access", "asyncio")]
    before = [(one, one.handlers, one.propagate, one.level, one.disabled) for one in loggers]
    yield
    for one, handlers, propagate, level, disabled in before:
        one.handlers, one.propagate, one.disabled = handlers, propagate, disabled
        one.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def _fixed_cost_curve() -> Iterator[None]:
    """How much is drafted depends on what passes cost; tests must not depend on the machine. Here nodes are cheap."""
    from chemspec.model import runtime
    from chemspec.model.cost import CostCurve

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "measure_cost_curve", lambda *_, **__: CostCurve((1, 16, 128), (1e-3, 1.1e-3, 2e-3)))
        # Stored for the processes that tests start, but never read: such a process may have stored its own before.
        cached = runtime.cached_curve
        patch.setattr(runtime, "cached_curve", lambda key, measure: (cached(key, measure), measure())[1])
        yield


@pytest.fixture(scope="session")
def tiny_retro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small retro model with random weights, which nothing changes."""
    from helpers.small import tiny_folder

    return tiny_folder(tmp_path_factory.mktemp("models") / "retro")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Graphs and measurements go to a folder that is thrown away; compiled code, keyed by its source, stays."""
    from chemspec.chem.reactions import compiled_maps
    from chemspec.decode.compiled import build as loop
    from chemspec.model.runners.native import build
    from chemspec.system import cache, compiled, prebuilt

    lasting = cache.cache_dir() / "compiled"
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("CHEMSPEC_CACHE", str(folder))
        for library in lasting.glob("*.so"):
            shutil.copy2(library, compiled.library_folder())
        with suppress(compiled.NoKernelError):
            if build.load_prebuilt_kernel() is None:
                build.compile_kernel()
            if prebuilt.load(loop.SOURCE, loop.FLAGS, suits=lambda _: True) is None:
                loop.compile_loop()
            if prebuilt.load(compiled_maps.SOURCE, (), suits=lambda _: True) is None:
                compiled.load_library(compiled_maps.SOURCE)
            lasting.mkdir(parents=True, exist_ok=True, mode=0o700)
            for library in compiled.library_folder().glob("*.so"):
                if not (lasting / library.name).exists():
                    shutil.copy2(library, lasting)
        yield folder
