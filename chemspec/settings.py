"""Settings of models, training and decoding, with defaults and validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import inf
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec

from chemspec.plugins import DECODERS, DRAFTERS, Guarantee
from chemspec.tokenizer import BOS, EOS

Task = Literal["forward", "retro", "reagents"]
NetworkKind = Literal["spec_drafter", "blockwise", "medusa"]  # drafters with their own network
ReactionFolder = Annotated[Path | None, "CHEMSPEC_DATA"]  # its environment variable, for the command line

_OTHER_RULES = ("onmt", "onmt-3", "onmt-3-defaults", "translation-transformer", "chemformer", "transformers")
RULES = ("chemspec", *_OTHER_RULES)  # bookkeeping of a beam search

# Upper limits of a plausible architecture, checked before tensors are allocated.
MAX_LAYERS, MAX_WIDTH, MAX_POSITIONS = 256, 2**20, 2**14
MAX_THREADS = 1024  # OpenMP ends the process with far more


class StoredConfig:
    """A config that is stored as JSON."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Parse the output of `to_json`; raises ValueError for unknown or missing keys and wrong types."""
        if unknown := sorted(set(values) - {field.name for field in fields(cls)}):  # type: ignore[arg-type]
            raise ValueError(f"the model config has keys this version does not know: {', '.join(unknown)}")
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise ValueError(str(error).replace("$.", "")) from error

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


def check_range(name: str, value: Any, low: float, high: float = inf) -> None:
    """Raise ValueError for anything but a finite number from `low` to `high`, a whole one if `low` is an int."""
    kind: Any = Integral if isinstance(low, int) else Real
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {value!r}; it must be a {'whole ' * (kind is Integral)}number")
    if not low <= value <= high or value == inf:
        least = f"at least {low}" if kind is Integral else f"at least {low:g} and finite"
        limits = least if high == inf else f"between {low:.7g} and {high:.7g}"
        raise ValueError(f"{name} is {value}; it must be {limits}")


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError for anything but a finite number above 0."""
    if not isinstance(value, Real) or not 0 < float(value) < inf:
        raise ValueError(f"{name} is {value!r}; it must be above 0 and finite")


def _check_kind(settings: object, name: str, kind: type) -> None:
    if not isinstance(getattr(settings, name), kind):
        raise ValueError(f"{name} is {getattr(settings, name)!r}; it must be a {kind.__name__}")


@dataclass(frozen=True, kw_only=True)
class ModelConfig(StoredConfig):
    """Architecture of an encoder-decoder transformer; nothing is inferred from tensor shapes or file names.

    The options cover published checkpoints: Molecular Transformer (pre-norm, scaled embedding), the models of Andronov
    et al. (post-norm with final norms, unscaled embedding, bos and eos in the source), Chemformer (GELU), BART (a norm
    after the embedding, two position tables), T5 (biases by distance, gated GELU), OpenNMT-py with relative positions
    (vectors by distance), and, without an encoder, GPT-2 and LLaMA (rotated positions): their decoder reads the source
    as the beginning of its own text.
    """

    vocab_size: int
    d_model: int = 256
    heads: int = 8
    feedforward: int = 2048
    encoder_layers: int = 4  # 0: a decoder alone, which reads the source before the answer
    decoder_layers: int = 4
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    gated: bool = False  # the activation is multiplied by a second projection, whose rows follow in linear1
    head_width: int = 0  # features of a head; 0: d_model / heads
    norm_first: bool = True
    final_norms: bool = True
    layer_norm_eps: float = 1e-5
    rms_norm: bool = False  # norms divide by the root of the mean square; they neither centre nor shift
    embedding_norm: bool = False  # each stack begins with a norm
    scale_embedding: bool = True
    shared_embedding: bool = True
    tied_output: bool = True
    output_bias: bool = True
    source_specials: bool = False  # the source reads <bos> ... <eos>, as in Andronov et al.
    source_first: int = -1  # the id that a source begins with, where it is another than bos; -1: none
    source_last: int = -1  # the id that it ends with where it does not begin with bos; -1: none
    forced_first: int = -1  # the id that every answer begins with, at no cost; -1: none
    stored_positions: bool = False  # the table of positions is a weight: learned, or of another formula than ours
    shared_positions: bool = True  # one table for source and target; else the target's is stored, too
    relative_positions: int = 0  # if above 0, no table but biases of attention by distance, up to this one (T5)
    relative_vectors: int = 0  # if above 0, vectors added to keys and values by distance, up to this one (OpenNMT-py)
    rotary_base: float = 0.0  # if above 0, no table but queries and keys rotated by position (LLaMA)
    max_positions: int = 1024  # tokens of a source, and of an answer

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "heads", "feedforward", "encoder_layers", "decoder_layers"):
            most = MAX_LAYERS if name.endswith("layers") else MAX_WIDTH
            check_range(name, getattr(self, name), 0 if name == "encoder_layers" else 1, most)
        if self.d_model % self.heads and not self.head_width:
            raise ValueError(f"d_model {self.d_model} does not divide into {self.heads} heads")
        for name in ("head_width", "relative_positions", "relative_vectors"):
            check_range(name, getattr(self, name), 0, MAX_POSITIONS)
        for name in ("source_first", "source_last", "forced_first"):
            check_range(name, getattr(self, name), -1, self.vocab_size - 1)
        if self.source_specials and (self.source_first >= 0 or self.source_last >= 0):
            raise ValueError("source_specials are bos and eos; source_first and source_last are for others")
        if self.relative_positions and (self.stored_positions or not self.shared_positions):
            raise ValueError("relative_positions take the place of a table; stored_positions says that there is one")
        self._check_positions()
        if not (self.shared_positions or self.stored_positions):
            raise ValueError("two tables of positions must be stored_positions")
        if not 0 < self.layer_norm_eps <= 1:
            raise ValueError(f"layer_norm_eps is {self.layer_norm_eps}; it must be above 0 and at most 1")
        check_range("max_positions", self.max_positions, 3, MAX_POSITIONS)  # in no tensor, but a table of them is made

    def _check_positions(self) -> None:
        if self.decoder_only and not (self.shared_embedding and self.shared_positions):
            raise ValueError("without an encoder there is one embedding and one table of positions")
        if self.decoder_only and (self.relative_positions or self.relative_vectors or self.forced_first >= 0):
            raise ValueError("relative positions and forced_first are for models with an encoder")
        if self.rotary_base and not (
            self.decoder_only and self.rotary_base >= 1 and self.inner_width // self.heads % 2 == 0
        ):
            raise ValueError("rotary_base is at least 1, for models without an encoder and heads of an even width")
        if self.rotary_base and self.stored_positions:
            raise ValueError("rotary_base takes the place of a table; stored_positions says that there is one")
        if self.relative_positions and self.relative_vectors:
            raise ValueError("a model has relative_positions or relative_vectors, not both")

    @property
    def decoder_only(self) -> bool:
        """Whether there is no encoder: the decoder reads the source, then the answer, as one text."""
        return self.encoder_layers == 0

    @property
    def table_positions(self) -> int:
        """Rows of the table of positions."""
        return self.max_positions * (2 if self.decoder_only else 1)

    @property
    def inner_width(self) -> int:
        """Number of features of all attention heads together."""
        return self.heads * (self.head_width or self.d_model // self.heads)

    def encoder_ids(self, source: Sequence[int]) -> tuple[int, ...]:
        """Return the encoder's input for a query: its ids with the special ones before and after."""
        before, after = (BOS, EOS) if self.source_specials else (self.source_first, self.source_last)
        return (*((before,) if before >= 0 else ()), *source, *((after,) if after >= 0 else ()))


@dataclass(frozen=True)
class ModelDims:
    """Model dimensions needed by the engine; `max_positions` limits source and output."""

    vocab_size: int
    max_positions: int


# Architectures without a vocabulary size. mt-* are those of Andronov et al. (2024).
PRESETS: dict[str, dict[str, Any]] = {
    "mt-4x4": {"feedforward": 2048, "encoder_layers": 4, "decoder_layers": 4},
    "mt-6x6": {"feedforward": 2048, "encoder_layers": 6, "decoder_layers": 6},
    "small": {"feedforward": 1024, "encoder_layers": 3, "decoder_layers": 3},
    "small-5x3": {"feedforward": 1024, "encoder_layers": 5, "decoder_layers": 3},
    "small-8x3": {"feedforward": 1024, "encoder_layers": 8, "decoder_layers": 3},
    "tiny": {"d_model": 64, "heads": 4, "feedforward": 128, "encoder_layers": 1, "decoder_layers": 1},
    # Drafters: ar writes many tokens for one pass of the target; medium stands between it and the target.
    "ar": {"d_model": 128, "heads": 4, "feedforward": 512, "encoder_layers": 3, "decoder_layers": 2},
    "medium": {"feedforward": 1024, "encoder_layers": 3, "decoder_layers": 1},
}


def preset_config(name: str, *, vocab_size: int) -> ModelConfig:
    """Return the config of a named architecture."""
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    return ModelConfig(vocab_size=vocab_size, **PRESETS[name])


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of a training run."""

    tokens: int = 4000  # padded source and target tokens per batch
    # "adamw", or "muon": orthogonalised momentum for the matrices of the layers, AdamW for the rest.
    optimizer: Literal["adamw", "muon"] = "muon"
    lr: float = 1.2e-3  # peak learning rate, reached after `warmup` steps
    warmup: int = 500
    # "cosine" falls to zero at the end of the run; "inverse-sqrt" never ends.
    schedule: Literal["cosine", "inverse-sqrt"] = "cosine"
    hold: float = 0.0  # share of the run at the peak, before the cosine falls
    steps: int = 20_000  # total number of optimiser steps
    # If above 0, maximum duration, at which the cosine schedule reaches zero; the result then depends on the machine's
    # speed and cannot be reproduced.
    minutes: float = 0.0
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    ema: float = 0.0  # packed training: decay of a running mean of the weights, which is the result; 0: none
    seed: int = 0
    threads: int = 0  # 0: all cores
    holdout: int = 1000  # number of pairs at the end of `train.npz` used for validation if there is no `val.npz`
    # Steps between validations (loss, and exact match by greedy decoding of `validate_pairs`).
    validate_every: int = 1000
    validate_pairs: int = 200
    keep: int = 5  # number of last checkpoints that are kept, of which a recipe's `average_last` are averaged

    def __post_init__(self) -> None:
        for name in ("tokens", "steps", "validate_every", "validate_pairs", "keep"):
            check_range(name, getattr(self, name), 1)
        for name in ("warmup", "seed", "holdout"):
            check_range(name, getattr(self, name), 0)
        for name in ("lr", "minutes", "weight_decay"):
            check_range(name, getattr(self, name), 0.0)
        for name in ("dropout", "label_smoothing"):
            check_range(name, getattr(self, name), 0.0, 1.0)
        for name in ("hold", "ema"):
            check_range(name, getattr(self, name), 0.0, 0.99999)
        check_positive("clip", self.clip)
        check_range("threads", self.threads, 0, MAX_THREADS)


# Smallest and largest values of decoding settings.
RANGES: dict[str, tuple[float, float]] = {
    "n": (1, 1000),
    "max_len": (1, 1000),
    "batch_size": (1, 4096),
    "node_budget": (0, 4096),
    "augment": (1, 100),
    "beta": (1, 1000),
    "draft_length": (0, 1000),
    "draft_count": (0, 1000),
    "draft_nodes": (0, 4096),
    "dilation": (0, 1000),
    "seed": (-(2**53), 2**53),  # what JSON keeps
    "tau": (0.0, 1e6),
    "temperature": (1e-6, 1e6),
    "top_p": (1e-6, 1.0),
    "length_penalty": (0.0, 100.0),  # 1000 ** 100 is still a number
}


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The part of `DecodeSettings` that decoders are given: the search, which no draft can change."""

    decoder: str = "beam"
    n: int = 5
    max_len: int = 200
    length_penalty: float = 0.0
    rules: str = "chemspec"
    beta: int = 1
    tau: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    prefix: str = ""

    def __post_init__(self) -> None:
        decoder = DECODERS.lookup(self.decoder)
        if self.temperature == 0:
            raise ValueError("temperature is 0; it must be above 0 (for the best answer use greedy)")
        for name, (low, high) in RANGES.items():
            if hasattr(self, name):
                check_range(name, getattr(self, name), low, high)
        _check_kind(self, "prefix", str)
        if self.prefix and (self.rules != RULES[0] or self.length_penalty or decoder.sees_drafts or self.beta > 1):
            raise ValueError("a prefix goes with greedy, beam or sample, and not with other rules or a length penalty")
        if self.beta > 1 and decoder.relaxed is None:
            raise ValueError(
                f"beta is {self.beta}; only greedy decoding can be relaxed so, not {self.decoder}: use greedy, n=1"
            )
        if self.rules not in RULES:
            raise ValueError(f"no rules {self.rules!r}; there are {', '.join(RULES)}")
        if self.rules != RULES[0] and self.decoder not in ("beam", "greedy"):  # all are the same for greedy decoding
            raise ValueError(f"the rules of {self.rules} are those of a beam, not of {self.decoder}")
        if self.length_penalty and self.rules in ("translation-transformer", "chemformer"):
            raise ValueError(f"{self.rules} ranks by log-prob alone; leave length_penalty 0")
        if self.length_penalty and self.rules == "onmt-3-defaults":
            raise ValueError("onmt-3-defaults has a length penalty of its own; leave length_penalty 0, or take onmt-3")

    @property
    def exact(self) -> bool:
        """Whether the output is that of standard decoding for any drafter, see `guarantee`.

        `exactness` adds the effect of precision and runtime.
        """
        return self.guarantee != "relaxed"

    def exactness(self, arithmetic: str) -> str:
        """Return the guarantee together with that of the arithmetic, see `RuntimeConfig.exactness`."""
        return f"{self.guarantee} {arithmetic}" if self.exact else "relaxed"

    @property
    def guarantee(self) -> Guarantee:
        """What drafts do not change: the output, the probability of every output, or neither."""
        return DECODERS.lookup(self.decoder).guarantee if self.beta == 1 else "relaxed"


@dataclass(frozen=True, kw_only=True)
class DraftSettings(SearchSettings):
    """The part of `DecodeSettings` that drafters are given: a search, and what is drafted for it."""

    drafter: str = "auto"
    draft_length: int = 0
    draft_count: int = 0
    draft_nodes: int = 0
    dilation: int = 0
    node_budget: int = 256
    drafting: Literal["planned", "fixed"] = "planned"

    def __post_init__(self) -> None:
        decoder, drafter = DECODERS.lookup(self.decoder), DRAFTERS.lookup(self.drafter)
        super().__post_init__()
        if decoder.drafts == "sampled" and DRAFTERS.lookup(self.drafts_by).build_sampled is None:
            able = ["auto", *(name for name, spec in DRAFTERS.items() if spec.build_sampled is not None)]
            raise ValueError(
                f"the decoder {self.decoder} draws its drafts from a small model, which the drafter {drafter.name} "
                f"does not have; choose {', '.join(able)}"
            )
        if self.drafting not in ("planned", "fixed"):
            raise ValueError(f"drafting {self.drafting!r} is not planned or fixed")

    @property
    def drafts_by(self) -> str:
        """Name of the drafter; "auto" is replaced by the decoder's default."""
        return DECODERS.lookup(self.decoder).default_drafter if self.drafter == "auto" else self.drafter


@dataclass(frozen=True, kw_only=True)
class DecodeSettings(DraftSettings):
    """Decoding settings.

    What decoders are given is `SearchSettings`, what drafters are given `DraftSettings`; the rest is the engine's.
    More on `drafting` in `chemspec.decode.draft_planner`, on `rules` in `chemspec.decode.peer_rules`, on `augment` in
    `chemspec.engine.augment`, and on `guide` in `chemspec.chem.reactions.guide`.

    Attributes:
        decoder: greedy (one prediction), beam (beam search of width n), sample (n samples, equal ones listed once),
            speculative-sample (likewise, drafted by a small model: same distribution, but other samples for a seed),
            sbs (speculative beam search of Andronov et al.) or sampled-beam (Algorithm 2 of Tulsian et al.); in the
            last two, which are relaxed, drafts can change the output. `chemspec.DECODERS` has all, including plug-ins.
        n: number of predictions, and beam width.
        drafter: a name in `chemspec.DRAFTERS`; does not change the output of exact decoders.
        max_len: maximum length of a prediction in tokens; longer ones are cut and marked. The default grows with
            queries of more than 133 tokens, to one and a half times theirs.
        batch_size: queries per forward pass.
        draft_length: maximum tokens per draft; 0: the drafter decides (ar, medium, hierarchy by the acceptance rate).
        draft_count: maximum drafts per prefix; 0: the drafter decides; with a network, only medusa makes several.
        draft_nodes: maximum nodes of the tree that mixed or medusa drafts after a prefix; 0: 20 and 24.
        dilation: query tokens that the drafter windows skips between two tokens of a draft.
        node_budget: maximum drafted nodes per query in a forward pass.
        drafting: number of drafted nodes: planned, as many as pay off on this machine, given the cost of a forward pass
            and the acceptance so far, or fixed, up to the node budget, to compare drafters. The drafter auto is always
            planned.
        length_penalty: rank beam answers by log-prob / length ** penalty; 0: by the plain log-prob.
        rules: beam search with ranking and stopping rules of another program, to get the same lists: onmt, onmt-3,
            onmt-3-defaults, translation-transformer, chemformer or transformers.
        beta: relaxed greedy decoding: accept a drafted token among the model's beta best ones (1: exact), the
            Spec-Verification of Xia et al.; drafts can change the output.
        tau: with beta: maximum log-probability gap, in nats, between an accepted token and the best one.
        temperature: sampling temperature of the decoders that draw samples.
        top_p: nucleus probability (top-p) of the decoders that draw samples.
        seed: random seed of samples and of the SMILES variants of a query.
        augment: test-time augmentation: SMILES variants per query, the canonical one included, whose predictions are
            merged; 1: off.
        distinct: return different valid molecules other than the query; the beam is widened up to a limit until there
            are `n` of them (`chemspec.engine.distinct`), reusing the KV cache.
        guide: constraints on a retro step, such as "break C1-N3; keep C5-C6; only amide", atoms numbered from 0 in the
            canonical SMILES; a wrong name lists the valid ones. Requires distinct, which chemspec predict turns on.
        prefix: beginning that every prediction has, as SMILES tokens, such as "CC(=O)Cl."; the continuations and their
            order are exact, and probabilities are those of the model.
        record: record every computed prefix in the trace; does not change the output.
    """

    batch_size: int = 16
    augment: int = 1
    distinct: bool = False
    guide: str = ""
    record: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in (("distinct", bool), ("record", bool), ("guide", str)):
            _check_kind(self, name, kind)
        if self.guide and not self.distinct:
            raise ValueError("a guide chooses among different answers; set distinct too")


def decode_settings(decoder: str, n: int, *, exact: bool, remedy: str, **others: Any) -> DecodeSettings:
    """Return settings with a default decoder: with "auto", greedy for one prediction, beam search for several.

    Raises ValueError for invalid settings, or, ending with the remedy, for a relaxed decoder if `exact` is set.
    """
    if decoder == "auto":
        decoder = "greedy" if n == 1 else "beam"
    settings = DecodeSettings(decoder=decoder, n=n, **others)
    if exact and not settings.exact:
        what = f"greedy with beta {settings.beta}" if decoder == "greedy" else f"decoder {decoder!r}"
        raise ValueError(f"{what} is relaxed: its answers may differ from the standard ones; {remedy}")
    return replace(settings, n=1) if decoder == "greedy" else settings


def lists_distinct(options: Mapping[str, Any]) -> bool:
    """Return whether a list is of distinct molecules if options, fields of `DecodeSettings`, do not say: the default.

    It is for constraints, and for a beam of several whose ranking by other rules the merging of SMILES would not undo.
    """
    given = {
        name: options.get(name, getattr(DecodeSettings, name)) for name in ("decoder", "n", "rules", "length_penalty")
    }
    beam = given["decoder"] in ("beam", "auto") and given["n"] > 1
    ranked = given["rules"] != DecodeSettings.rules or given["length_penalty"] != 0
    return bool(options.get("guide")) or (beam and not ranked)


def ineffective_fields(settings: DecodeSettings) -> dict[str, str]:
    """Return which fields differ from their defaults without any effect, and with what they have none."""
    decoder, reads = DECODERS.lookup(settings.decoder), DRAFTERS.lookup(settings.drafts_by).reads
    sizes = (name for name in ("draft_length", "draft_count", "draft_nodes", "dilation") if name not in reads)
    unread = dict.fromkeys(sizes, f"the drafter {settings.drafts_by}")
    if not decoder.random:
        unread |= dict.fromkeys(("temperature", "top_p"), f"the decoder {decoder.name}")
        unread |= {"seed": f"the decoder {decoder.name} and augment 1"} if settings.augment == 1 else {}
    if decoder.random or decoder.name in ("greedy", "sbs"):
        unread["length_penalty"] = f"the decoder {decoder.name}"
    unread |= {"tau": "beta 1"} if settings.beta == 1 else {}
    default = DecodeSettings()
    return {name: cause for name, cause in unread.items() if getattr(settings, name) != getattr(default, name)}
