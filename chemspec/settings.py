"""Define every setting and its default, validated where it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from numbers import Integral
from typing import Any, Literal, get_type_hints

from chemspec.plugins import DECODERS, DRAFTERS, Guarantee
from chemspec.tokenizer import BOS, EOS

Task = Literal["forward", "retro", "reagents"]
NetworkKind = Literal["spec_drafter", "blockwise", "medusa"]  # those with weights of their own


RULES = ("chemspec", "onmt", "translation-transformer", "chemformer", "transformers")  # of a beam search

# Of an architecture that is worth planning: which tensors it has is then compared with those there are.
MOST_LAYERS, MOST_WIDTH, MOST_POSITIONS = 256, 2**20, 2**14


def check_config_keys(config: type[Any], values: Mapping[str, Any]) -> None:
    """Refuse keys that are no fields of a config, with ValueError: guessing would compute something else."""
    if unknown := sorted(set(values) - {field.name for field in fields(config)}):
        raise ValueError(f"the model config has keys this version does not know: {', '.join(unknown)}")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The architecture of an encoder-decoder, in full: nothing is inferred from tensor shapes or file names.

    The options cover the checkpoints in circulation: Molecular Transformer (pre-norm, scaled embedding), the models of
    Andronov et al. (post-norm with final norms, unscaled embedding, bos and eos in the source), Chemformer (GELU),
    BART (a norm after the embedding, two tables of positions) and T5 (distances instead of positions, gated GELU).
    """

    vocab_size: int
    d_model: int = 256
    heads: int = 8
    feedforward: int = 2048
    encoder_layers: int = 4
    decoder_layers: int = 4
    activation: Literal["relu", "gelu", "gelu_tanh"] = "relu"
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
    max_positions: int = 1024

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "heads", "feedforward", "encoder_layers", "decoder_layers"):
            most = MOST_LAYERS if name.endswith("layers") else MOST_WIDTH
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1 and at most {most}")
        if self.d_model % self.heads and not self.head_width:
            raise ValueError(f"d_model {self.d_model} does not divide into {self.heads} heads")
        if self.activation not in ("relu", "gelu", "gelu_tanh"):
            raise ValueError(f"activation {self.activation!r} is not relu, gelu or gelu_tanh")
        for name in ("head_width", "relative_positions"):
            if not 0 <= getattr(self, name) <= MOST_POSITIONS:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be between 0 and {MOST_POSITIONS}")
        for name in ("source_first", "source_last", "forced_first"):
            if not -1 <= getattr(self, name) < self.vocab_size:
                raise ValueError(f"{name} is {getattr(self, name)}, no token among {self.vocab_size}")
        if self.source_specials and (self.source_first >= 0 or self.source_last >= 0):
            raise ValueError("source_specials are bos and eos; source_first and source_last are for others")
        if self.relative_positions and (self.stored_positions or not self.shared_positions):
            raise ValueError("relative_positions take the place of a table; stored_positions says that there is one")
        if not (self.shared_positions or self.stored_positions):
            raise ValueError("two tables of positions must be stored_positions")
        if not 0 < self.layer_norm_eps <= 1:
            raise ValueError(f"layer_norm_eps is {self.layer_norm_eps}; it must be above 0 and at most 1")
        if not 3 <= self.max_positions <= MOST_POSITIONS:  # in no tensor, but a table of them is made
            raise ValueError(f"max_positions is {self.max_positions}; it must be between 3 and {MOST_POSITIONS}")

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ModelConfig:
        """Read what `to_json` wrote; an unknown or missing key, and a value of another type, raise ValueError."""
        check_config_keys(cls, values)
        kinds = get_type_hints(cls)
        for field in fields(cls):
            if field.default is MISSING and field.name not in values:
                raise ValueError(f"{field.name} is missing")
        for name, value in values.items():
            kind = kinds[name]
            if kind is float and type(value) is int:
                continue
            if kind in (int, float, bool) and type(value) is not kind:
                raise ValueError(f"{name} is {value!r}, not of type {kind.__name__}")
            if name == "activation" and not isinstance(value, str):
                raise ValueError(f"{name} is {value!r}, not a name")
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    @property
    def inner_width(self) -> int:
        """Features of all heads together."""
        return self.heads * (self.head_width or self.d_model // self.heads)

    @property
    def source_prefix_ids(self) -> tuple[int, ...]:
        """The ids that the encoder reads before those of a query."""
        return (BOS,) if self.source_specials else tuple(id for id in (self.source_first,) if id >= 0)

    def encoder_ids(self, source: Sequence[int]) -> tuple[int, ...]:
        """Return what the encoder reads of a query's ids: with those before and after it."""
        after = (EOS,) if self.source_specials else tuple(id for id in (self.source_last,) if id >= 0)
        return (*self.source_prefix_ids, *source, *after)

    @property
    def unsupported_options(self) -> tuple[str, ...]:
        """The options of this architecture that Triton's kernels in int8 and CTranslate2 do not compute, by name."""
        unsupported = [name for name in BEYOND if getattr(self, name) != type(self).__dataclass_fields__[name].default]
        return (*unsupported, *(["gelu_tanh"] if self.activation == "gelu_tanh" else []))


# Options of `ModelConfig` that the kernels of Triton in int8 and our files for CTranslate2 were not written for.
BEYOND = ("gated", "head_width", "rms_norm", "embedding_norm", "forced_first", "shared_positions", "relative_positions")


@dataclass(frozen=True)
class ModelDims:
    """Sizes that the engine needs; `max_positions` bounds source and answer."""

    vocab_size: int
    max_positions: int
    decoder_layers: int
    heads: int


# Widths and depths; the vocabulary comes from the data. mt-* are the sizes of Andronov et al. (2024).
PRESETS: dict[str, dict[str, Any]] = {
    "mt-4x4": {"feedforward": 2048, "encoder_layers": 4, "decoder_layers": 4},
    "mt-6x6": {"feedforward": 2048, "encoder_layers": 6, "decoder_layers": 6},
    "small": {"feedforward": 1024, "encoder_layers": 3, "decoder_layers": 3},
    "tiny": {"d_model": 64, "heads": 4, "feedforward": 128, "encoder_layers": 1, "decoder_layers": 1},
    # Drafters: ar writes many tokens for one pass of the target; medium stands between it and the target.
    "ar": {"d_model": 128, "heads": 4, "feedforward": 512, "encoder_layers": 3, "decoder_layers": 2},
    "medium": {"feedforward": 1024, "encoder_layers": 3, "decoder_layers": 1},
}


def preset_config(name: str, *, vocab_size: int) -> ModelConfig:
    """A named architecture for a vocabulary."""
    if name not in PRESETS:
        raise ValueError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
    return ModelConfig(vocab_size=vocab_size, **PRESETS[name])


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """One training run.

    Attributes:
        tokens: padded source and target tokens of a batch.
        optimizer: "adamw", or "muon": orthogonalised momentum for the matrices of the layers, AdamW for the rest.
        lr: peak learning rate, reached after `warmup` steps.
        schedule: "cosine" falls to zero at the end of the run; "inverse-sqrt" never ends.
        steps: optimiser steps in all.
        minutes: if above 0, the run ends after this time at the latest and the cosine falls to zero by then, which
            makes the result depend on the machine's speed; leave it 0 to be able to repeat a run.
        holdout: pairs at the end of `train.npz` kept for validation where the data has no `val.npz`.
        validate_every: steps between validations (loss, and exact match by greedy decoding of `validate_pairs`).
        keep: how many of the last checkpoints are kept and averaged into the shipped weights.
        compile: on a CUDA device, let torch.compile fuse the model's steps; elsewhere nothing is compiled.
    """

    tokens: int = 4000
    optimizer: Literal["adamw", "muon"] = "muon"
    lr: float = 1.2e-3
    warmup: int = 500
    schedule: Literal["cosine", "inverse-sqrt"] = "cosine"
    steps: int = 20_000
    minutes: float = 0.0
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.0
    label_smoothing: float = 0.0
    seed: int = 0
    threads: int = 0  # 0: all cores
    holdout: int = 1000
    validate_every: int = 1000
    validate_pairs: int = 200
    keep: int = 5
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("tokens", "steps", "validate_every", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.optimizer not in ("adamw", "muon"):
            raise ValueError(f"optimizer {self.optimizer!r} is not adamw or muon")
        if self.schedule not in ("cosine", "inverse-sqrt"):
            raise ValueError(f"schedule {self.schedule!r} is not cosine or inverse-sqrt")


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, Integral):
        raise ValueError(f"{name} is {value!r}; it must be a whole number")
    if not low <= int(value) <= high:
        raise ValueError(f"{name} is {value}; it must be between {low} and {high}")


@dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """How to answer queries.

    Attributes:
        decoder: greedy (one answer), beam (the n best that beam search of width n finds), sample (n random draws),
            speculative-sample (n random draws, drafted by a small model: each answer as probable as under sample,
            but not the same draws), sbs (speculative beam search of Andronov et al.) or sampled-beam (Algorithm 2
            of Tulsian et al.); the last two are relaxed: the drafts can change their answers. `chemspec.DECODERS` has
            all, those of plug-ins included.
        n: answers wanted, and the width of the beam.
        drafter: a name of `chemspec.DRAFTERS`; it never changes an exact decoder's answers.
        max_len: most tokens of an answer; longer ones are cut and say so.
        batch_size: queries per model call.
        draft_length, draft_count: tokens of a draft and drafts of a pass; 0 leaves them to the drafter (the gamma of
            ar and hierarchy then adapts to how their drafts fare).
        dilation: tokens that the drafter `windows` leaves out between two of a window.
        node_budget: most drafted nodes a query may add to a pass.
        drafting: "planned" adds as many of the drafted nodes as pay on this machine, by the cost of a pass and the
            acceptance so far (`chemspec.decode.planner`); "fixed" adds all that the budget allows, for tables that
            compare drafters. The drafter "auto" is always planned.
        length_penalty: beam answers are ranked by log-prob / length ** length_penalty; 0 is plain log-prob.
        rules: by whose bookkeeping a beam is searched, of `RULES`: ours, or that of another program, whose lists then
            come out the same (`chemspec.decode.peer_rules`).
        beta, tau: with beta above 1, greedy takes a drafted token that is among the model's best beta and whose
            log-prob (in nats) is at most tau below the best one's (Spec-Verification of Xia et al.: relaxed, the drafts
            can change its answers).
        temperature, top_p, seed: of sampling; the seed makes it repeatable, and the spellings of `augment`.
        augment: spellings of the query, the canonical one among them, that are decoded each for itself; their answers
            are merged (`chemspec.engine.augment`). 1 is off.
        distinct: only answers that are different molecules, valid and not the query; a beam is searched wider until
            there are `n` of them, as far as a limit (`chemspec.engine.distinct`), and goes on from the KV cache of the
            narrower one.
        guide: what the steps have to do, such as "break C1-N3; only amide" (`chemspec.chem.guide`); other answers are
            left out. For retro, with `distinct`.
        record: keep every computed prefix in the trace, to look at; answers stay the same.
    """

    decoder: str = "beam"
    n: int = 5
    drafter: str = "auto"
    draft_length: int = 0
    draft_count: int = 0
    dilation: int = 0
    max_len: int = 200
    batch_size: int = 16
    node_budget: int = 256
    drafting: Literal["planned", "fixed"] = "planned"
    length_penalty: float = 0.0
    rules: str = "chemspec"
    beta: int = 1
    tau: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    augment: int = 1
    distinct: bool = False
    guide: str = ""
    record: bool = False

    def __post_init__(self) -> None:
        decoder, drafter = DECODERS.lookup(self.decoder), DRAFTERS.lookup(self.drafter)
        for name, low, high in (
            ("n", 1, 1000),
            ("max_len", 1, 1000),
            ("batch_size", 1, 4096),
            ("node_budget", 0, 4096),
            ("augment", 1, 100),
        ):
            _check_integer(name, getattr(self, name), low, high)
        if decoder.drafts == "sampled" and DRAFTERS.lookup(self.drafts_by).build_sampled is None:
            able = ["auto", *(name for name, spec in DRAFTERS.items() if spec.build_sampled is not None)]
            raise ValueError(
                f"the decoder {self.decoder} draws its drafts from a small model, which the drafter {drafter.name} "
                f"does not have; choose {', '.join(able)}"
            )
        if self.guide and not self.distinct:
            raise ValueError("a guide chooses among different answers; set distinct too")
        for name in ("draft_length", "draft_count", "dilation"):
            _check_integer(name, getattr(self, name), 0, 1000)
        if self.drafting not in ("planned", "fixed"):
            raise ValueError(f"drafting {self.drafting!r} is not planned or fixed")
        if not 1 <= self.beta <= 1000:
            raise ValueError(f"beta is {self.beta}; it must be between 1 (exact) and 1000")
        if self.beta > 1 and decoder.relaxed is None:
            raise ValueError(f"beta is {self.beta}; only greedy decoding can be relaxed so, not {self.decoder}")
        if not 0 <= self.tau < float("inf"):
            raise ValueError(f"tau is {self.tau}; it must not be negative")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature is {self.temperature}; it must be above 0 (for the best answer use greedy)")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        if self.rules not in RULES:
            raise ValueError(f"no rules {self.rules!r}; there are {', '.join(RULES)}")
        if self.rules != RULES[0] and self.decoder not in ("beam", "greedy"):  # greedily all are one
            raise ValueError(f"the rules of {self.rules} are those of a beam, not of {self.decoder}")
        if self.length_penalty and self.rules in ("translation-transformer", "chemformer"):
            raise ValueError(f"{self.rules} ranks by log-prob alone; leave length_penalty 0")
        if not 0 <= self.length_penalty < float("inf"):
            raise ValueError(f"length_penalty is {self.length_penalty}; it must not be negative")

    @property
    def drafts_by(self) -> str:
        """The drafter that is used; "auto" stands for the decoder's own default."""
        return DECODERS.lookup(self.decoder).default_drafter if self.drafter == "auto" else self.drafter

    @property
    def exact(self) -> bool:
        """Whether the answers are those of the standard algorithm, whatever the drafter; see `guarantee`.

        How far arithmetic lets this be true, precision and runtime decide: `exactness`.
        """
        return self.guarantee != "relaxed"

    def exactness(self, arithmetic: str) -> str:
        """Return the guarantee with how far it holds where passes are computed, see `RuntimeConfig.exactness`."""
        return f"{self.guarantee} {arithmetic}" if self.exact else "relaxed"

    @property
    def guarantee(self) -> Guarantee:
        """What drafts leave as it is: the answers, the probability of every answer, or neither."""
        return DECODERS.lookup(self.decoder).guarantee if self.beta == 1 else "relaxed"


def decode_settings(decoder: str, n: int, *, exact: bool, remedy: str, **others: Any) -> DecodeSettings:
    """Return settings for somebody who may leave the decoder open, and who must ask for a relaxed one.

    Args:
        decoder: a name, or "auto": greedy for one answer, beam search for several.
        n: answers wanted.
        exact: whether the answers must be those of the standard algorithm.
        remedy: what to do to get others, for the message.
        others: fields of `DecodeSettings`.

    Raises:
        ValueError: for values out of range, or a relaxed decoder where `exact` was asked for.
    """
    if decoder == "auto":
        decoder = "greedy" if n == 1 else "beam"
    settings = DecodeSettings(decoder=decoder, n=n, **others)
    if exact and not settings.exact:
        what = f"greedy with beta {settings.beta}" if decoder == "greedy" else f"decoder {decoder!r}"
        raise ValueError(f"{what} is relaxed: its answers may differ from the standard ones; {remedy}")
    return replace(settings, n=1) if decoder == "greedy" else settings
