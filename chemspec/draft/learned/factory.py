"""Build the drafters that have their own models, from the settings and the engine's resources."""

from chemspec.draft.base import Drafter
from chemspec.draft.inputs import DrafterInputs, tree_sizes
from chemspec.draft.learned.ar import Autoregressive, GreedyDraftGenerator
from chemspec.draft.learned.gamma import AdaptiveGamma, FixedGamma, draft_cost_ratio
from chemspec.draft.learned.network import Blockwise, Medusa, SpecDrafter
from chemspec.draft.learned.sampled import Sampled, SamplingDraftGenerator
from chemspec.draft.learned.small import DraftModel, DraftModelSession
from chemspec.draft.rejection import Nucleus
from chemspec.settings import DraftSettings

FLOOR = 0.2  # a draft ends when the draft model's probability of it falls below this


def build_network(settings: DraftSettings, inputs: DrafterInputs) -> Drafter:
    """Return `spec_drafter` (Xia et al. 2023), `blockwise` (Stern et al. 2018) or `medusa` (Cai et al. 2024)."""
    network, length = inputs.companion(settings.drafts_by), settings.draft_length
    if settings.drafts_by == "spec_drafter":
        from chemspec.model.spec_drafter import MaskFiller  # imports torch, which the drafters `ar` may not need

        filler = MaskFiller(network.model, network.length, network.backend)
        return SpecDrafter(filler.fill, masks=network.length, length=length)
    if settings.drafts_by == "blockwise":
        return Blockwise(network.model.best, heads=network.length, length=length)
    return Medusa(network.model.best, heads=network.length, **{"length": length, **tree_sizes(settings)})


def _small_models(settings: DraftSettings, inputs: DrafterInputs) -> list[DraftModel]:
    """Return the models that draft, of which each helps the next one."""
    kinds = ("ar", "medium") if settings.drafts_by == "hierarchy" else (settings.drafts_by,)
    return [inputs.companion(kind) for kind in kinds]


def build_autoregressive(settings: DraftSettings, inputs: DrafterInputs) -> Drafter:
    """Return `ar`, `medium` or `hierarchy`: greedy decoding with a small or a medium model, or with both."""
    length = settings.draft_length
    writer = None
    for model in _small_models(settings, inputs):
        writer = GreedyDraftGenerator(DraftModelSession(model, top_k=1), helper=writer, floor=FLOOR)
    assert writer is not None
    if length:
        return Autoregressive(writer, FixedGamma(length), name=settings.drafts_by, cost=lambda _: 1.0)
    gamma = AdaptiveGamma(1.0)  # the cost ratio is set before every forward pass
    return Autoregressive(writer, gamma, name=settings.drafts_by, cost=inputs.cost())


def build_sampling(settings: DraftSettings, inputs: DrafterInputs) -> Drafter:
    """Return `ar`, `medium` or `hierarchy` with sampled drafts, for decoders with rejection sampling."""
    nucleus = Nucleus(settings.temperature, settings.top_p)
    generator = None
    for last in _small_models(settings, inputs):  # the target verifies the samples of the last
        generator = SamplingDraftGenerator(DraftModelSession(last, top_k=last.vocab_size), nucleus, helper=generator)
    assert generator is not None
    if settings.draft_length:
        fixed = FixedGamma(settings.draft_length)
        return Sampled(generator, lambda: fixed, name=settings.drafts_by)
    # An upper bound for `hierarchy`: the medium model without the small one.
    c = draft_cost_ratio(last.cost()(settings.n), inputs.cost(), settings.n)
    # One gamma per query, so that its samples do not depend on the batch.
    return Sampled(generator, lambda: AdaptiveGamma(c), name=settings.drafts_by)
