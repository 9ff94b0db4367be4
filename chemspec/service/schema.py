"""Request and response models of the HTTP interface; all bounds are here or in `limits`."""

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import RULES, DecodeSettings, Task
from chemspec.types import Merged, Within

DEFAULT = DecodeSettings()
MAX_TEXT = 100_000  # characters of a query; up to here, too long queries get a status

Text = Annotated[str, Field(max_length=MAX_TEXT)]


class DecodeOptions(BaseModel):
    """Model and decoding settings; see `chemspec.DecodeSettings`."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    task: Task | None = Field(None, description="forward (products), retro (precursors) or reagents")
    model: str | None = Field(None, max_length=200, description="a name from /v1/models; by default that of the task")
    n: int = Field(DEFAULT.n, ge=1, le=1000, description="number of predictions per query")
    decoder: str = Field("auto", json_schema_extra={"enum": ["auto", *DECODERS]})
    drafter: str = Field(DEFAULT.drafter, json_schema_extra={"enum": [*DRAFTERS]})
    exact: bool = Field(True, description="false: allow decoders that may differ from standard decoding")
    max_len: int = Field(DEFAULT.max_len, ge=1, le=1000, description="maximum number of tokens of a prediction")
    draft_length: int = Field(DEFAULT.draft_length, ge=0, le=1000)
    draft_count: int = Field(DEFAULT.draft_count, ge=0, le=1000)
    dilation: int = Field(DEFAULT.dilation, ge=0, le=1000)
    node_budget: int = Field(DEFAULT.node_budget, ge=0, le=4096)
    drafting: Literal["planned", "fixed"] = Field(
        DEFAULT.drafting, description="planned by cost, or fixed by the budget"
    )
    length_penalty: float = Field(DEFAULT.length_penalty, ge=0, le=100, allow_inf_nan=False)
    rules: str = Field(DEFAULT.rules, json_schema_extra={"enum": [*RULES]}, description="beam search rules")
    beta: int = Field(DEFAULT.beta, ge=1, le=1000)
    tau: float = Field(DEFAULT.tau, ge=0, le=1e6, allow_inf_nan=False)
    temperature: float = Field(DEFAULT.temperature, gt=0, le=1e6, allow_inf_nan=False)
    top_p: float = Field(DEFAULT.top_p, gt=0, le=1)
    seed: int = Field(DEFAULT.seed, ge=0, lt=2**63)
    augment: int = Field(
        DEFAULT.augment, ge=1, le=100, description="number of SMILES variants of a query, whose predictions are merged"
    )
    distinct: bool = Field(DEFAULT.distinct, description="distinct valid molecules other than the query only")
    guide: str = Field(
        DEFAULT.guide, max_length=2000, description='such as "break C1-N3; keep C5-C6; only amide"; retro only'
    )
    timeout: float | None = Field(None, gt=0, le=1e6, allow_inf_nan=False, description="seconds; limited by the server")

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of `DecodeSettings` that are passed on unchanged."""
        return self.model_dump(include=_SETTINGS - {"n", "decoder"})


_SETTINGS = {field.name for field in fields(DecodeSettings)}


class ReviewQuestion(DecodeOptions):
    """One query or many."""

    queries: Text | list[Text] = Field(description="SMILES or reaction SMILES, one or several")


class Question(ReviewQuestion):
    """One query or many, perhaps with a deadline."""

    within: float | None = Field(
        None,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="seconds from the arrival of the request: the greedy answer, then the widest exact beam up to n "
        "that fits; each result states its width",
    )


class Answer(BaseModel):
    """A prediction; votes, best_rank and score with augmentation, confidence if calibrated."""

    smiles: str
    canonical: str = Field(description="canonical SMILES; empty if the prediction is invalid")
    valid: bool
    log_prob: float
    probability: float
    confidence: float | None
    votes: int | None
    best_rank: int | None
    score: float | None


class Result(BaseModel):
    """Result of a query; a failed query has a status and a message."""

    query: str
    status: Literal["ok", "invalid", "too_long", "failed"]
    message: str
    hypotheses: list[Answer]
    merged: Merged | None
    passes: int
    tokens: int
    seconds: float
    within: Within | None = Field(
        None,
        description="only with a deadline: width of the list (1: greedy answer; 0: nothing was complete), of the "
        "abandoned search (0: none), and forward passes of all searches",
    )


class _ModelAnswer(BaseModel):
    model_config = ConfigDict(protected_namespaces=())

    model: str
    task: Task
    digest: str = Field(description="digest of the weights")
    settings: dict[str, Any]


class Prediction(_ModelAnswer):
    """Results in the order of the queries."""

    results: list[Result]


class ReviewedResult(Result):
    """Result of a query with its review."""

    review: dict[str, Any] = Field(
        description="smiles, warning, recorded, selectivity and suggestions: fields in assets/docs/service.md"
    )


class ReviewAnswer(_ModelAnswer):
    """Reviewed results in the order of the queries."""

    results: list[ReviewedResult]


class ModelInfo(BaseModel):
    """A model of the service."""

    name: str
    task: Task
    digest: str
    dtype: str
    runtime: str
    devices: list[str]
    exactness: str = Field(description="precision up to which predictions are independent of drafts and batches")
    longest_query: int = Field(description="in tokens")
    drafters: list[str]


class Models(BaseModel):
    """All models, and the limits of requests."""

    models: list[ModelInfo]
    version: str
    limits: dict[str, float]


class Problem(BaseModel):
    """Error message with a remedy."""

    detail: str
    code: str = ""


class PredictionsQuestion(BaseModel):
    """Request of the ASKCOS v2 gateway to a backend."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str = ""
    smiles: list[Text]


class PredictionsAnswer(BaseModel):
    """Predictions for one SMILES, best first, and their probabilities."""

    products: list[str]
    scores: list[float]
