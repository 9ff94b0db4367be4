"""Registry of the drafters. A new one needs an entry here, or an entry point `chemspec.drafters` in another package."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import chemspec.plugins as plugins
from chemspec.draft.base import Drafter, FunctionDrafter, NoDrafts
from chemspec.draft.copy import Copy
from chemspec.draft.inputs import DrafterInputs, draft_sizes, tree_sizes
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.draft.windows import Smart, Windows
from chemspec.plugins import DECODERS, lazy_import
from chemspec.settings import DraftSettings

F = TypeVar("F")
TREES = ("draft_length", "draft_count", "draft_nodes")  # what drafters of trees read
BuildDrafter = Callable[[DraftSettings, DrafterInputs], Drafter]


@dataclass(frozen=True)
class DrafterSpec:
    """Description of a drafter.

    Attributes:
        name: value of `--drafter` and `DecodeSettings.drafter`.
        label: short description for menus.
        reference: the paper it comes from, or "ours".
        build: creates the drafter of one run.
        build_sampled: creates a drafter that samples its drafts, for decoders with rejection sampling; None if it has
            no distribution.
        reads: fields of `DecodeSettings` that it depends on, of `draft_length`, `draft_count`, `draft_nodes` and
            `dilation`.
        companions: kinds of learned models that it needs in the subfolder `drafters` of the target's folder.
    """

    name: str
    label: str
    reference: str
    build: BuildDrafter
    build_sampled: BuildDrafter | None = None
    reads: tuple[str, ...] = ("draft_length", "draft_count")
    companions: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and label in one line."""
        return f"{self.name}: {self.label}"


def spec_of_function(name: str, propose: Any, *, label: str = "", reference: str = "ours") -> DrafterSpec:
    """Return a spec for a function `propose`."""
    if not callable(propose):
        raise TypeError(f"it is no DrafterSpec or function but {propose!r:.60}")
    _check_signature(propose)
    first_line = (propose.__doc__ or propose.__name__).strip().partition("\n")[0].rstrip(".")
    return DrafterSpec(name, label or first_line, reference, lambda *_: FunctionDrafter(name, propose), reads=())


def _check_signature(propose: Any) -> None:
    """Raise TypeError for anything but a function that takes source, prefix and max_new_tokens."""
    if isinstance(propose, type):
        raise TypeError(f"{propose.__name__} is a class; give a DrafterSpec whose `build` returns an object of it")
    try:
        inspect.signature(propose).bind(*[None] * 3)
    except TypeError as error:
        raise TypeError(
            f"{propose.__name__} is no drafter ({error}); give `propose(source, prefix, max_new_tokens)` or a "
            "DrafterSpec"
        ) from error
    except ValueError:  # a built-in function without a signature
        return


def drafter(name: str, *, label: str = "", reference: str = "ours") -> Callable[[F], F]:
    """Decorate a function `propose(source, prefix, max_new_tokens)` to register it as a drafter.

    The function returns lists of token ids, or drafts, best first.

    Args:
        name: value of `--drafter` and `DecodeSettings.drafter`.
        label: short description for menus; by default the first line of the docstring.
        reference: the paper it comes from, or "ours".
    """
    if callable(name):
        raise TypeError('a drafter needs a name: write @chemspec.drafter("a-name")')

    def register_function(propose: F) -> F:
        spec = spec_of_function(name, propose, label=label, reference=reference)
        DRAFTERS.register(spec)
        propose.spec = spec  # type: ignore[attr-defined]
        return propose

    return register_function


DRAFTERS: plugins.Registry[DrafterSpec] = plugins.DRAFTERS
DRAFTERS.make_spec = spec_of_function


def _build_mixed(settings: DraftSettings, inputs: DrafterInputs, **options: int) -> Drafter:
    calibration = inputs.calibration()
    return Mixed(
        calibration.edit_table or COPY_ONLY,
        token_classes=inputs.token_classes,
        accept_rates=calibration.accept_rates,
        **(options | tree_sizes(settings)),
    )


def _build_windows(settings: DraftSettings, inputs: DrafterInputs, *, first: bool = False) -> Drafter:
    classes = inputs.token_classes
    return Windows(dilation=settings.dilation, token_classes=classes, first=first, **draft_sizes(settings))


def _learned(
    name: str, label: str, reference: str, *small_models: str, reads: tuple[str, ...] = ("draft_length",)
) -> DrafterSpec:
    """Return the spec of a drafter with networks of its own, for which listing the names imports nothing."""
    factory = "chemspec.draft.learned.factory:build_"
    sampled = lazy_import(f"{factory}sampling") if small_models else None
    build = lazy_import(f"{factory}{'autoregressive' if small_models else 'network'}")
    return DrafterSpec(name, label, reference, build, sampled, reads, small_models or (name,))


for _spec in (  # order of menus, the default first
    DrafterSpec(
        "auto", "as many drafts as pay off on this machine", "ours", partial(_build_mixed, length=24), reads=TREES
    ),
    DrafterSpec("mixed", "copying and learned edits in one tree", "ours", _build_mixed, reads=TREES),
    DrafterSpec(
        "copy",
        "the text after the best match in the query",
        "ours",
        lambda settings, inputs: Copy(token_classes=inputs.token_classes, **draft_sizes(settings)),
    ),
    DrafterSpec(
        "smart",
        "several matches in the query at once",
        "Andronov et al. 2025",
        lambda settings, inputs: Smart(token_classes=inputs.token_classes, **draft_sizes(settings)),
    ),
    DrafterSpec(
        "windows",
        "evenly spaced pieces of the query",
        "Andronov et al. 2024",
        _build_windows,
        reads=("draft_length", "draft_count", "dilation"),
    ),
    DrafterSpec(
        "first_windows",
        "the first pieces of the query",
        "Andronov et al. 2024",
        partial(_build_windows, first=True),
        reads=("draft_length", "draft_count", "dilation"),
    ),
    _learned("ar", "what a small model writes", "Leviathan et al. 2023", "ar"),
    _learned("medium", "what a medium model writes", "Tulsian et al.", "medium"),
    _learned("hierarchy", "a medium model, helped by a small one", "Tulsian et al.", "ar", "medium"),
    _learned("spec_drafter", "a model that fills many tokens at once", "Xia et al. 2023"),
    _learned("blockwise", "extra heads on the model", "Stern et al. 2018"),
    _learned("medusa", "extra heads, checked as a tree", "Cai et al. 2024", reads=TREES),
    DrafterSpec("none", "standard decoding", "textbook", lambda *_: NoDrafts(), lambda *_: NoDrafts(), reads=()),
):
    DRAFTERS.register(_spec)


def build_drafter(settings: DraftSettings, inputs: DrafterInputs) -> Drafter:
    """Return the drafter of the settings for one run; ValueError for a bad option or a model without what it needs."""
    spec = DRAFTERS.lookup(settings.drafts_by)
    if spec.build_sampled is not None and DECODERS.lookup(settings.decoder).drafts == "sampled":
        return spec.build_sampled(settings, inputs)
    return spec.build(settings, inputs)
